// Threads of a GPU as fibers, for the tests of kernels; for C and C++. Every thread of every block is a fiber of its
// own; a barrier lets others run. `backward` runs them in the other order: what depends on it lacks a barrier.

// Fortified, as some distributions compile by default, jumps between fibers abort.
#undef _FORTIFY_SOURCE
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

typedef struct {
  int count, generation;
} Barrier;

typedef struct {
  Barrier meet;
  float slots[2][32];
} Warp;

typedef struct Fiber {
  ucontext_t first;
  jmp_buf again;
  int started, done, thread, block, turn, generation;
  Warp *warp;
  Barrier *before;  // that it waits at
} Fiber;

static Fiber *fibers, *now;
static Warp *warps;
static Barrier *block_meet, grid_meet;
static jmp_buf scheduler;
static int block_threads, all_threads;
static int passes = 1;  // over a block's fibers before the next block's: with many, a block runs ahead if it can

static void yield_now(void) {
  if (!_setjmp(now->again)) _longjmp(scheduler, 1);
}

static void wait_for(Barrier *barrier, int number) {
  const int generation = barrier->generation;
  if (++barrier->count == number) {
    barrier->count = 0;
    ++barrier->generation;
  } else {
    now->before = barrier;
    now->generation = generation;
    yield_now();
    now->before = NULL;
  }
}

static float lane_xor(float v, int mask) {
  float *slots = now->warp->slots[now->turn ^= 1];
  const int lane = now->thread % 32;
  slots[lane] = v;
  wait_for(&now->warp->meet, 32);
  return slots[lane ^ mask];
}

static void (*body)(int thread, int block);

static void begin(void) {
  body(now->thread, now->block);
  now->done = 1;
  _longjmp(scheduler, 1);
}

static void run_grid(int blocks, int threads, int backward, void (*of)(int thread, int block)) {
  const size_t stack = 1 << 15;
  const int total = blocks * threads;
  char *stacks = (char *)mmap(NULL, stack * total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fibers = (Fiber *)calloc(total, sizeof *fibers);
  warps = (Warp *)calloc(total / 32, sizeof *warps);
  block_meet = (Barrier *)calloc(blocks, sizeof *block_meet);
  memset(&grid_meet, 0, sizeof grid_meet);
  block_threads = threads;
  all_threads = total;
  body = of;
  for (int i = 0; i < total; ++i) {
    Fiber *fiber = fibers + i;
    fiber->block = i / threads;
    fiber->thread = i % threads;
    fiber->warp = warps + i / 32;
    getcontext(&fiber->first);
    fiber->first.uc_stack.ss_sp = stacks + stack * i;
    fiber->first.uc_stack.ss_size = stack;
    makecontext(&fiber->first, begin, 0);
  }
  for (volatile int left = 1; left;) {
    left = 0;
    for (volatile int i = 0; i < total * passes; ++i) {
      const int nth = i / (threads * passes) * threads + i % threads;
      now = fibers + (backward ? total - 1 - nth : nth);
      if (now->done) continue;
      left = 1;
      if (now->before && now->before->generation == now->generation) continue;
      if (_setjmp(scheduler)) continue;
      if (now->started) _longjmp(now->again, 1);
      now->started = 1;
      setcontext(&now->first);
    }
  }
  munmap(stacks, stack * total);
  free(fibers);
  free(warps);
  free(block_meet);
}
