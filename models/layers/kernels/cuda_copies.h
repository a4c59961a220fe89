// CUDA: copies on their way and clusters of blocks, what tensor_product.h and the flow's tiles.h ask for beside the
// words of cuda.h and cuda_memory.h. The tests have a CPU's version.

// Loops that stay loops: unrolled, the code passes a multiprocessor's instruction cache, and is no faster.
#define ROLLED _Pragma("unroll 1")
#define PAIRED _Pragma("unroll 2")

// Sixteen bytes from global to shared memory, on their way until WAIT_COPIES: all but the last `count` COMMITs' are there then.
#define COPY(to, from)                                                                                   \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint)__cvta_generic_to_shared(to)), \
               "l"(from)                                                                                 \
               : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_COPIES(count) asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory")

// A lane's share of a tile [16, 16] of half precision in shared memory, as a tensor core takes it: rows lane / 4 and eight
// more, each terms lane % 4 * 2 and the next, then eight more. Rows are `stride` apart, each at a multiple of 16 bytes.
INLINE void READ_TILE(const int lane, uint (&to)[4], const ushort *tile, const int stride) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((uint)__cvta_generic_to_shared(tile + lane % 16 * stride + lane / 16 * 8)));
}

// The same place in the shared memory of block `rank` of the cluster.
template <typename Value>
INLINE Value *PEER(Value *here, const int rank) {
  Value *there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(rank));
  return there;
}

// The barrier of the cluster's blocks: what was written before ARRIVE is there after WAIT, but not before ENTER, which
// costs less. All threads take part.
#define CLUSTER_ENTER() asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory")
#define CLUSTER_ARRIVE() asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory")
