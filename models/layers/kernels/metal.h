// Metal's words for the kernels: see cuda.h. A threadgroup is a block, and a simdgroup of 32 is a warp.
// No `double`. Threadgroups cannot meet: what needs all of them is split into kernels, between which MLX puts barriers.
// MLX compiles in safe mode: sums are not reordered. A product may still be contracted with a sum.

#define INLINE static inline __attribute__((always_inline))
#define INLINE_MEMBER inline __attribute__((always_inline))
#define GLOBAL device
#define SHARED threadgroup
#define LOCAL thread
#define UNROLL _Pragma("clang loop unroll(full)")

#define SHARED_ARRAY(type, name, count) threadgroup type name[count]

// MLX passes these where the body names them: device.py names them in a comment.
#define THREAD ((int)thread_index_in_threadgroup)
#define BLOCK_X ((int)threadgroup_position_in_grid.x)
#define BLOCK_Y ((int)threadgroup_position_in_grid.y)
#define BLOCK_Z ((int)threadgroup_position_in_grid.z)
#define BLOCKS_X ((int)threadgroups_per_grid.x)
#define BLOCKS_Y ((int)threadgroups_per_grid.y)
#define BLOCKS_Z ((int)threadgroups_per_grid.z)

#define SYNC() threadgroup_barrier(metal::mem_flags::mem_threadgroup)
#define LANE_XOR(v, mask) metal::simd_shuffle_xor(v, (ushort)(mask))

#define BITS_FLOAT(bits) as_type<float>(bits)
#define FLOAT_BITS(value) as_type<uint>(value)
#define EXP(x) metal::exp(x)
#define RSQRT(x) metal::rsqrt(x)

#define expf(x) metal::precise::exp(x)
#define tanhf(x) metal::precise::tanh(x)
#define sinf(x) metal::precise::sin(x)
#define sqrtf(x) metal::precise::sqrt(x)
#define floorf(x) metal::floor(x)
#define fmaf(a, b, c) metal::fma(a, b, c)
#define fmaxf(a, b) metal::fmax(a, b)
#define fminf(a, b) metal::fmin(a, b)
using metal::max;
using metal::min;

#define GRID_BARRIER 0

// What other blocks have written is seen by the next kernel. Reads that CUDA sends past a cache are reads.
#define FETCH(from) (*(from))
#define FETCH4(from) (*(GLOBAL const float4 *)(from))
#define FETCH8(from) (*(GLOBAL const uint4 *)(from))
#define POST(to, value) (*(to) = (value))
#define POST_HALF(to, value) (*(to) = (value))
#define WEIGHTS(from) (*(GLOBAL const uint4 *)(from))
#define WEIGHTS_OF_8(from) uint4((from)[0], (from)[1], 0, 0)
#define SCALE(from) (*(from))
