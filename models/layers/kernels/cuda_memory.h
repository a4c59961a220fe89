// CUDA's words for memory that blocks exchange, for weights that are read once, and for a barrier of blocks. In PTX: the
// tests' emulation has its own. Blocks exchange through L2 (.cg), which all of them see.
//   WEIGHTS WEIGHTS_OF_8 SCALE         read once: eight bfloat16, eight bytes, two bfloat16
//   FETCH FETCH4 FETCH8 POST POST_HALF  exchange, past any cache of one block: a float, four, eight bfloat16; a float, a
//                                      bfloat16
//   POST_TURN FETCH_TURN               a float with the turn in which it was made, and the wait for it
//   PACKED MULTIPLY                    two bfloat16; a product of tiles by a warp's tensor cores
//   PACKED_HALF MULTIPLY_HALF          the same of float16
//   ARRIVE WAIT ANY PART LAST          the barrier, and the block that comes last: Metal has none

// Volatile: these stay where they are written, before the barrier that they are to be ahead of.
INLINE uint4 WEIGHTS(const ushort *from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

INLINE uint4 WEIGHTS_OF_8(const uint *from) {
  uint4 v = {0, 0, 0, 0};
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
  return v;
}

INLINE uint SCALE(const uint *from) {
  uint v;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
}

INLINE float FETCH(const float *from) {
  float v;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(from) : "memory");
  return v;
}

INLINE float4 FETCH4(const float *from) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

INLINE uint4 FETCH8(const ushort *from) {
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

INLINE void POST(float *to, float value) {
  asm volatile("st.global.cg.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}

INLINE void POST_HALF(ushort *to, ushort value) {
  asm volatile("st.global.cg.u16 [%0], %1;" ::"l"(to), "h"(value) : "memory");
}

// Two floats as bfloat16, the first in the lower half.
INLINE uint PACKED(float low, float high) {
  uint both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// c [16, 8] += a [16, 16] b [16, 8], spread over a warp's registers as PTX's mma.m16n8k16 has them.
INLINE void MULTIPLY(float (&c)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The same of float16. What is too great becomes its greatest number, and no number stays none.
INLINE uint PACKED_HALF(float low, float high) {
  uint both;
  asm("{.reg .b32 all; cvt.rn.f16x2.f32 all, %1, %2; min.NaN.f16x2 all, all, %3; max.NaN.f16x2 %0, all, %4;}"
      : "=r"(both)
      : "f"(high), "f"(low), "r"(0x7bff7bffu), "r"(0xfbfffbffu));
  return both;
}

INLINE void MULTIPLY_HALF(float (&c)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

#define ANY(v) __syncthreads_or(v)

// A barrier of `blocks` blocks that are all resident. counters, [32] ints, are all 0 before a kernel and after it; `met`
// and `failed` are a thread's own, 0 at the kernel's start.
#define ARRIVALS 0
#define DEPARTURES 1
#define FAILED 2

// All blocks arrive, then all go on; the count only grows within a kernel. Only a block's first thread knows of failure.
// Two seconds without the others mean that something else holds a processor: the kernel is given up, and no block waits
// again.
INLINE void ARRIVE(const int thread, int *counters, int *met, int *failed) {
  __syncthreads();
  ++*met;
  if (thread == 0 && !*failed)
    asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(counters + ARRIVALS) : "memory");
}

INLINE void WAIT(const int thread, const int blocks, int *counters, int *met, int *failed) {
  if (thread == 0 && !*failed) {
    const int wanted = *met * blocks;
    int seen;
    long long since = 0;
    for (int turn = 1;; ++turn) {
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(counters + ARRIVALS) : "memory");
      if (seen >= wanted) break;
      if (turn % 1024) continue;
      long long now;
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
      if (since == 0) since = now;
      *failed = *((volatile int *)counters + FAILED);
      if (now - since > 2000000000LL) *failed = *((volatile int *)counters + FAILED) = 1;
      if (*failed) break;
    }
  }
  __syncthreads();
}

// Eight bytes that are written and read at once: who reads a number of this turn needs no barrier before it. All blocks
// have met in this kernel, so that the one that writes it runs; none waits after a barrier that was given up.
INLINE void POST_TURN(float *to, float value, int turn) {
  asm volatile("{.reg .b64 both; mov.b64 both, {%1, %2}; st.relaxed.gpu.global.b64 [%0], both;}" ::"l"(to), "f"(value),
               "r"(turn)
               : "memory");
}

INLINE float FETCH_TURN(const float *from, int turn, const int *counters, int failed) {
  float value;
  for (int tries = 1;; ++tries) {
    int made;
    asm volatile("{.reg .b64 both; ld.relaxed.gpu.global.b64 both, [%2]; mov.b64 {%0, %1}, both;}"
                 : "=f"(value), "=r"(made)
                 : "l"(from)
                 : "memory");
    if (made == turn || failed) return value;
    if (tries % 1024 == 0) failed = *((volatile const int *)counters + FAILED);
  }
}

// The last block to leave clears the counters: nobody looks at them any more.
INLINE void PART(const int thread, const int blocks, int *counters) {
  __syncthreads();
  if (thread) return;
  __threadfence();
  if (atomicAdd(counters + DEPARTURES, 1) == blocks - 1) {
    __threadfence();
    for (int i = 0; i < 3; ++i) *((volatile int *)counters + i) = 0;
  }
}

// True in the last of `blocks` blocks to come here, which then sees what all of them wrote. The counter, 0 before, is 0
// again after it. All threads take part.
INLINE bool LAST(const int thread, int *counter, const int blocks) {
  __threadfence();
  __syncthreads();
  int last = 0;
  if (thread == 0) {
    last = atomicAdd(counter, 1) == blocks - 1;
    if (last) *(volatile int *)counter = 0;
  }
  last = __syncthreads_or(last);
  if (last) __threadfence();
  return last;
}
