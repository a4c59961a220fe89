// CUDA: tensor cores and copies on their way, what tiles.h asks for beside models/layers/kernels/cuda.h. The tests have a
// CPU's version.

// Sixteen bytes from global to shared memory, on their way until WAIT_COPIES: all but the last `count` COMMITs' are there then.
#define COPY(to, from)                                                                                   \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint)__cvta_generic_to_shared(to)), \
               "l"(from)                                                                                 \
               : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_COPIES(count) asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory")

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
