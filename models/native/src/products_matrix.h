// Parts of products of bytes by instructions that multiply matrices: AMX tiles, or arm64's products of two rows by eight
// inputs with two outputs by eight (Neoverse V1 and later, Apple M2).
#pragma once

#if defined(__AMX_INT8__)
#include "convolution_bfloat16.h"
#endif
#include "int8_simd.h"
#include "kernels.h"

namespace nightingale {
namespace {
namespace int8 {

// Part of a product: fours [start, start + count) of rows at x, `stride` apart, and of the panels at w, of `depth` fours
// each. `pairs` are the same rows and fours of Int8Product::pairs, or null. Sums go to t [rows, kTile * kPanel], or to [rows, kPanel] for one panel; those of later fours are added. The cache
// gets `count` cells from `ahead` on.
struct Part {
  const Coarse *x, *pairs;
  const uint8_t *w, *ahead;
  int32_t* t;
  size_t stride;
  int depth, start, count;
};

constexpr int kTile = kTileCells * kCell / kPanel;  // panels of a tile

#if defined(__AMX_INT8__)

constexpr int kLeastRows = 16;  // of a product by this set of instructions
constexpr bool kPairs = false;  // whether it reads Int8Product::pairs
constexpr int kMatrixRows = 16, kMatrixFours = 16;  // of one product of matrices

// The part for kMatrixRows rows and a whole tile of panels, in the processor's matrix tiles: sums, rows, weights.
inline void matrix_dots(const Part& part) {
  static_assert(kTile == 4 && kOffset == 128);
  constexpr int kLine = kTile * kPanel;
  const size_t panel = static_cast<size_t>(part.depth) * kPanel * 4;
  const uint8_t *w = part.w + static_cast<size_t>(part.start) * kPanel * 4, *ahead = part.ahead;
  const Coarse* x = part.x + part.start * 4;
  asm volatile("" ::: "memory");  // loads of tiles do not tell the compiler that they read
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (part.start) {
    _tile_loadd(0, part.t, kLine * 4);
    _tile_loadd(1, part.t + kPanel, kLine * 4);
    _tile_loadd(2, part.t + 2 * kPanel, kLine * 4);
    _tile_loadd(3, part.t + 3 * kPanel, kLine * 4);
  }
  for (int k = 0; k < part.count; k += kMatrixFours, x += kMatrixFours * 4, w += kMatrixFours * kPanel * 4) {
    for (int i = 0; i < kMatrixFours; ++i, ahead += kPanel * 4) __builtin_prefetch(ahead);
    _tile_loadd(4, x, part.stride);
    _tile_loadd(5, w, kPanel * 4);
    _tile_dpbsud(0, 4, 5);
    _tile_loadd(6, w + panel, kPanel * 4);
    _tile_dpbsud(1, 4, 6);
    _tile_loadd(5, w + 2 * panel, kPanel * 4);
    _tile_dpbsud(2, 4, 5);
    _tile_loadd(6, w + 3 * panel, kPanel * 4);
    _tile_dpbsud(3, 4, 6);
  }
  _tile_stored(0, part.t, kLine * 4);
  _tile_stored(1, part.t + kPanel, kLine * 4);
  _tile_stored(2, part.t + 2 * kPanel, kLine * 4);
  _tile_stored(3, part.t + 3 * kPanel, kLine * 4);
}

// As much of the part by matrices as `rows` rows allow. Returns the number of rows done.
inline int matrix_rows(int rows, const Part& part) {
  if (rows < kMatrixRows || part.count % kMatrixFours) return 0;
  matrix_dots(part);
  return kMatrixRows;
}

#elif defined(__ARM_FEATURE_MATMUL_INT8)

constexpr int kLeastRows = 2;
constexpr bool kPairs = true;
constexpr int kMostPairs = 3;

// The part for PAIRS pairs of rows and one panel. A sum holds two rows times two outputs.
template <int PAIRS>
__attribute__((noinline)) void matrix_dots(const Part& part) {
  static_assert(kTile == 1 && kOffset == 0);
  constexpr int kFours = kPanel / 4;
  const Coarse* x = part.pairs;
  const uint8_t *w = part.w + static_cast<size_t>(part.start) * kPanel * 4, *ahead = part.ahead;
  int32x4_t sums[PAIRS][2 * kFours] = {};
  for (int k = 0; k < part.count; k += 2, x += 16, w += 2 * kPanel * 4, ahead += 2 * kPanel * 4) {
    __builtin_prefetch(ahead);
    __builtin_prefetch(ahead + kPanel * 4);
    int8x16_t rows[PAIRS];
#pragma GCC unroll 4
    for (int p = 0; p < PAIRS; ++p) rows[p] = vld1q_s8(x + 2 * p * part.stride);
#pragma GCC unroll 4
    for (int f = 0; f < kFours; ++f) {
      // Four outputs by two fours of inputs: two times two outputs by eight.
      const int32x4_t first = vreinterpretq_s32_u8(vld1q_u8(w + 16 * f)), second = vreinterpretq_s32_u8(vld1q_u8(w + kPanel * 4 + 16 * f));
      const int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(first, second)), high = vreinterpretq_s8_s32(vzip2q_s32(first, second));
#pragma GCC unroll 4
      for (int p = 0; p < PAIRS; ++p) {
        sums[p][2 * f] = vmmlaq_s32(sums[p][2 * f], rows[p], low);
        sums[p][2 * f + 1] = vmmlaq_s32(sums[p][2 * f + 1], rows[p], high);
        if (PAIRS == kMostPairs) asm volatile("" : "+w"(sums[p][2 * f + 1]));  // in this order: the compiler's own spills sums
      }
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < PAIRS; ++p)
#pragma GCC unroll 8
    for (int n = 0; n < 2 * kFours; ++n) {
      int32_t *one = part.t + 2 * p * kPanel + 2 * n, *two = one + kPanel;
      const int32x4_t before = part.start ? vcombine_s32(vld1_s32(one), vld1_s32(two)) : vdupq_n_s32(0), all = sums[p][n] + before;
      vst1_s32(one, vget_low_s32(all));
      vst1_s32(two, vget_high_s32(all));
    }
}

inline int matrix_rows(int rows, const Part& part) {
  if (rows < 2 || part.count % 2 || !part.pairs) return 0;
  const int pairs = rows == 8 ? 2 : rows / 2 < kMostPairs ? rows / 2 : kMostPairs;
  (pairs == 3 ? matrix_dots<3> : pairs == 2 ? matrix_dots<2> : matrix_dots<1>)(part);
  return 2 * pairs;
}

#else

constexpr int kLeastRows = 1;
constexpr bool kPairs = false;
inline int matrix_rows(int, const Part&) { return 0; }

#endif

}  // namespace int8
}  // namespace
}  // namespace nightingale
