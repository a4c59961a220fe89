// A GPU for the tests: what the kernels' sources ask for, in C++. Every thread of a block is a fiber; a barrier lets the
// others run. Blocks run one after the other. `backward` runs threads in the other order: what that changes lacks a
// barrier.
#include <csetjmp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>

#define __device__
#define __shared__ static

struct Dim {
  int x, y, z;
};
static Dim threadIdx, blockIdx, gridDim, blockDim;

struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  explicit bfloat16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    bits = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  }
  operator float() const {
    uint32_t u = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
  }
};

struct Fiber {
  ucontext_t first;
  jmp_buf again;
  bool started, done;
  int turn, index;
};
struct Barrier {
  int count, generation;
};
static Fiber *fibers, *now;
static Barrier block_meet, warp_meet[32];
static float slots[32][2][32];
static jmp_buf scheduler;

static void wait_for(Barrier &barrier, int number) {
  const int generation = barrier.generation;
  if (++barrier.count == number) {
    barrier.count = 0;
    ++barrier.generation;
  } else {
    while (barrier.generation == generation)
      if (!_setjmp(now->again)) _longjmp(scheduler, 1);
  }
}
static void __syncthreads() { wait_for(block_meet, blockDim.x); }
static float exchange(float v, int mask) {
  const int warp = now->index / 32, lane = now->index % 32;
  float *slot = slots[warp][now->turn ^= 1];
  slot[lane] = v;
  wait_for(warp_meet[warp], 32);
  return slot[lane ^ mask];
}
static float __shfl_xor_sync(unsigned, float v, int mask) { return exchange(v, mask); }
static int __shfl_xor_sync(unsigned, int v, int mask) {
  float f;
  memcpy(&f, &v, 4);
  f = exchange(f, mask);
  memcpy(&v, &f, 4);
  return v;
}
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static float __int_as_float(int bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static void (*body)();
static void begin() {
  body();
  now->done = true;
  _longjmp(scheduler, 1);
}

static void run(int x, int y, int z, int threads, bool backward, void (*of)()) {
  const size_t stack = 1 << 15;
  char *stacks = (char *)mmap(nullptr, stack * threads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fibers = (Fiber *)calloc(threads, sizeof *fibers);
  body = of;
  gridDim = {x, y, z};
  blockDim = {threads, 1, 1};
  for (volatile int block = 0; block < x * y * z; block = block + 1) {
    for (int i = 0; i < threads; ++i) {
      Fiber *fiber = fibers + i;
      fiber->started = fiber->done = false;
      fiber->turn = 0;
      fiber->index = i;
      getcontext(&fiber->first);
      fiber->first.uc_stack.ss_sp = stacks + stack * i;
      fiber->first.uc_stack.ss_size = stack;
      makecontext(&fiber->first, begin, 0);
    }
    block_meet = {};
    memset(warp_meet, 0, sizeof warp_meet);
    for (volatile bool left = true; left;) {
      left = false;
      for (volatile int i = 0; i < threads; i = i + 1) {
        now = fibers + (backward ? threads - 1 - i : i);
        if (now->done) continue;
        left = true;
        threadIdx = {now->index, 0, 0};
        blockIdx = {block % x, block / x % y, block / (x * y)};
        if (_setjmp(scheduler)) continue;
        if (now->started) _longjmp(now->again, 1);
        now->started = true;
        setcontext(&now->first);
      }
    }
  }
  munmap(stacks, stack * threads);
  free(fibers);
}
