// CUDA's builtins for the tests, in C++, on the fibers of fibers.h, and the words of models/layers/kernels/cuda_memory.h.
// What cuda.h makes of them is run as it stands.

#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __align__(bytes) alignas(bytes)

#define threadIdx (Dim{now->thread, 0, 0})
#define blockIdx block_at()
#define gridDim grid_size
#define blockDim (Dim{block_threads, 1, 1})

static void __syncthreads() { wait_for(&block_meet[now->block], block_threads); }
static void __syncwarp() { wait_for(&now->warp->meet, 32); }
static float __shfl_xor_sync(unsigned, float v, int mask) { return lane_xor(v, mask); }
static int __shfl_xor_sync(unsigned, int v, int mask) { return bits_as<int>(lane_xor(bits_as<float>(v), mask)); }
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
#define __expf(x) expf(x)  // glibc has one of this name
#define __sinf(x) sinf(x)
#define __fdividef(x, y) ((x) / (y))
static float __int_as_float(int bits) { return bits_as<float>(bits); }
static float __uint_as_float(unsigned bits) { return bits_as<float>(bits); }
static unsigned __float_as_uint(float value) { return bits_as<unsigned>(value); }
using std::max;
using std::min;
