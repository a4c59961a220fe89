// A GPU for the tests: what the kernels' sources ask for, in C++, on the fibers of tests/models/fibers.h.
#include <cmath>
#include <cstdint>

#define __device__
#define __shared__ static

struct Dim {
  int x, y, z;
};
static Dim blockIdx, gridDim, blockDim;
#define threadIdx (Dim{now->thread, 0, 0})

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

static void __syncthreads() { wait_for(&block_meet[now->block], block_threads); }
static float __shfl_xor_sync(unsigned, float v, int mask) { return lane_xor(v, mask); }
static int __shfl_xor_sync(unsigned, int v, int mask) {
  float f;
  memcpy(&f, &v, 4);
  f = lane_xor(f, mask);
  memcpy(&v, &f, 4);
  return v;
}
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static float __int_as_float(int bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static void (*kernel_body)();
static void one(int, int) { kernel_body(); }

// Blocks run one after the other: what they share is static.
static void run(int x, int y, int z, int threads, bool backward, void (*of)()) {
  kernel_body = of;
  gridDim = {x, y, z};
  blockDim = {threads, 1, 1};
  for (int block = 0; block < x * y * z; ++block) {
    blockIdx = {block % x, block / x % y, block / (x * y)};
    run_grid(1, threads, backward, one);
  }
}
