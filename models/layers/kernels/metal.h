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
#define WARP_SYNC() simdgroup_barrier(metal::mem_flags::mem_threadgroup)
#define LANE_XOR(v, mask) metal::simd_shuffle_xor(v, (ushort)(mask))

#define BITS_FLOAT(bits) as_type<float>(bits)
#define FLOAT_BITS(value) as_type<uint>(value)
#define EXP(x) metal::exp(x)
#define SINE(x) metal::sin(x)
#define RSQRT(x) metal::rsqrt(x)
#define DIVIDE(x, y) ((x) / (y))

#define expf(x) metal::precise::exp(x)
#define tanhf(x) metal::precise::tanh(x)
#define sinf(x) metal::precise::sin(x)
#define cosf(x) metal::precise::cos(x)
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
#define POST_TURN(to, value, turn) ((void)(turn), *(to) = (value))
#define FETCH_TURN(from, turn, counters, failed) ((void)(turn), (void)(counters), (void)(failed), *(from))
#define WEIGHTS(from) (*(GLOBAL const uint4 *)(from))
#define SCALE(from) (*(from))

INLINE uint4 WEIGHTS_OF_8(GLOBAL const uint *from) {
  uint4 v;
  v.x = from[0];
  v.y = from[1];
  v.z = v.w = 0;
  return v;
}

// Two floats as bfloat16, to the nearest, ties to even; the first in the lower half.
INLINE uint PACKED(float low, float high) {
  const uint a = FLOAT_BITS(low), b = FLOAT_BITS(high);
  return (a + 0x7fffu + ((a >> 16) & 1u)) >> 16 | ((b + 0x7fffu + ((b >> 16) & 1u)) & 0xffff0000u);
}

// c [16, 8] += a [16, 16] b [16, 8] in the order of CUDA's tensor cores (cuda_memory.h): lane 4 g + t has rows g and
// g + 8 of the output and columns 2 t and 2 t + 1. The caller's `at.lane` is the lane.
#define MULTIPLY(c, a0, a1, a2, a3, b0, b1) multiply_tiles(at.lane, c, a0, a1, a2, a3, b0, b1)

INLINE void multiply_tiles(int lane, LOCAL float *c, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  const int column = lane % 4 * 8;
  UNROLL
  for (int k = 0; k < 4; ++k) {  // the quad's lanes in turn: each has four terms
    const ushort row = (ushort)(lane / 4 * 4 + k);
    const uint upper[2] = {metal::simd_shuffle(a0, row), metal::simd_shuffle(a2, row)};
    const uint lower[2] = {metal::simd_shuffle(a1, row), metal::simd_shuffle(a3, row)};
    UNROLL
    for (int n = 0; n < 2; ++n) {
      const ushort from = (ushort)(column + 4 * n + k);
      const uint x[2] = {metal::simd_shuffle(b0, from), metal::simd_shuffle(b1, from)};
      UNROLL
      for (int h = 0; h < 2; ++h) {
        const float first = BITS_FLOAT(x[h] << 16), second = BITS_FLOAT(x[h] & 0xffff0000u);
        c[n] += BITS_FLOAT(upper[h] << 16) * first + BITS_FLOAT(upper[h] & 0xffff0000u) * second;
        c[2 + n] += BITS_FLOAT(lower[h] << 16) * first + BITS_FLOAT(lower[h] & 0xffff0000u) * second;
      }
    }
  }
}
