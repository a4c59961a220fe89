// Metal's builtins for the tests, in C++, on the fibers of fibers.h. What metal.h makes of them is run as it stands.
static unsigned thread_of_block() { return now->thread; }
#define thread_index_in_threadgroup thread_of_block()
#define threadgroup_position_in_grid block_at()
#define threadgroups_per_grid grid_size

namespace metal {
enum class mem_flags { mem_none, mem_device, mem_threadgroup };
using std::fmax;
using std::fmin;
using std::max;
using std::min;
static float exp(float x) { return expf(x); }
static float rsqrt(float x) { return 1.0f / sqrtf(x); }
static float floor(float x) { return floorf(x); }
static float fma(float a, float b, float c) { return fmaf(a, b, c); }
static float simd_shuffle_xor(float v, ushort mask) { return lane_xor(v, mask); }
static uint simd_shuffle(uint v, ushort lane) {
  return bits_as<uint>(lane_xor(bits_as<float>(v), now->thread % 32 ^ lane));
}
static int simd_shuffle_xor(int v, ushort mask) { return bits_as<int>(lane_xor(bits_as<float>(v), mask)); }
namespace precise {
static float exp(float x) { return expf(x); }
static float tanh(float x) { return tanhf(x); }
static float sin(float x) { return sinf(x); }
static float cos(float x) { return cosf(x); }
static float sqrt(float x) { return sqrtf(x); }
}  // namespace precise
}  // namespace metal

template <typename To, typename From>
static To as_type(From value) {
  return bits_as<To>(value);
}
// A barrier that has no memory to order is none for what the tests look at.
static void threadgroup_barrier(metal::mem_flags flags) {
  if (flags == metal::mem_flags::mem_threadgroup) wait_for(&block_meet[now->block], block_threads);
}
static void simdgroup_barrier(metal::mem_flags flags) {
  if (flags == metal::mem_flags::mem_threadgroup) wait_for(&now->warp->meet, 32);
}

#define device
#define threadgroup
#define thread
#define constant
