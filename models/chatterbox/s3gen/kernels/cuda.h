// CUDA: copies on their way, what tiles.h asks for beside models/layers/kernels/cuda.h. The tests have a
// CPU's version.

// Sixteen bytes from global to shared memory, on their way until WAIT_COPIES: all but the last `count` COMMITs' are there then.
#define COPY(to, from)                                                                                   \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint)__cvta_generic_to_shared(to)), \
               "l"(from)                                                                                 \
               : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_COPIES(count) asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory")
