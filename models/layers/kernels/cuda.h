// CUDA's words for the kernels. metal.h has the same for Metal, and both list all of them in the same order.
// Arithmetic has C's names: expf, tanhf, sinf, cosf, sqrtf, floorf, fmaf, fmaxf, fminf, min, max. EXP, SINE, RSQRT and
// DIVIDE are faster and less exact. `long` has 64 bits. A cast converts between float and a template's type, such as
// bfloat16.

// Qualifiers, and the hint to unroll the next loop.
#define INLINE static __forceinline__ __device__
#define INLINE_MEMBER __forceinline__ __device__
#define GLOBAL
#define SHARED
#define LOCAL
#define UNROLL _Pragma("unroll")

// An array that a block shares.
#define SHARED_ARRAY(type, name, count) __shared__ __align__(16) type name[count]

// Indices, in a kernel's body only: the thread in its block, the block in the grid, the blocks of the grid.
#define THREAD ((int)threadIdx.x)
#define BLOCK_X ((int)blockIdx.x)
#define BLOCK_Y ((int)blockIdx.y)
#define BLOCK_Z ((int)blockIdx.z)
#define BLOCKS_X ((int)gridDim.x)
#define BLOCKS_Y ((int)gridDim.y)
#define BLOCKS_Z ((int)gridDim.z)

// Barriers of a block and of a warp; shuffle among the 32 lanes of a warp.
#define SYNC() __syncthreads()
#define WARP_SYNC() __syncwarp()
#define LANE_XOR(v, mask) __shfl_xor_sync(0xffffffffu, v, mask)

#define BITS_FLOAT(bits) __uint_as_float(bits)
#define FLOAT_BITS(value) __float_as_uint(value)
#define EXP(x) __expf(x)
#define SINE(x) __sinf(x)
#define RSQRT(x) rsqrtf(x)
#define DIVIDE(x, y) __fdividef(x, y)

typedef unsigned int uint;
typedef unsigned short ushort;

// All blocks of a grid can meet (cuda_memory.h).
#define GRID_BARRIER 1
