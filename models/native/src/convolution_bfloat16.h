// Convolution along time in bfloat16 with sums in float32, on AMX tiles (Sapphire Rapids and later) or by arm64's
// products of two by four numbers with four by two (Neoverse V1 and later, Apple M2).
//
// The rows of a tile of outputs are activated in float32 and rounded once, on the way into the scratch. One step takes
// 32 inputs of one tap.
#pragma once

#if defined(__AMX_BF16__)
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

#include "convolution.h"

namespace nightingale {
namespace {

#if defined(__AMX_BF16__)
constexpr int kTogether = 2;  // inputs of one output that lie side by side
#else
constexpr int kTogether = 4;
#endif
constexpr int kDepth = 32;  // inputs of a step
constexpr int kSide = 16;   // rows of a tile, and outputs
constexpr int kSides = 3;   // of outputs, that are computed at once
constexpr int kBlockRows = 2 * kSide;
constexpr int kLongTile = 128;
constexpr size_t kTileNumbers = kSide * kDepth;  // bfloat16 numbers of a tile of weights

int steps_of(int inputs) { return (inputs + kDepth - 1) / kDepth; }
int sides_of(int outputs) { return (outputs + kSide - 1) / kSide; }

// In floats, as the arrays of packed weights are.
size_t bfloat16_packed_size(int outputs, int kernel, int inputs) {
  return static_cast<size_t>(sides_of(outputs)) * kernel * steps_of(inputs) * kTileNumbers / 2;
}

// Order: blocks of up to three sides of outputs, taps, steps, sides of the block, groups of inputs, outputs, the group.
void bfloat16_pack(const float* weights, float* packed, int outputs, int kernel, int inputs) {
  auto* to = reinterpret_cast<uint16_t*>(packed);
  const int sides = sides_of(outputs);
  for (int first = 0; first < sides; first += kSides) {
    const int block = std::min(kSides, sides - first);
    for (int k = 0; k < kernel; ++k)
      for (int step = 0; step < steps_of(inputs); ++step)
        for (int v = 0; v < block; ++v)
          for (int group = 0; group < kDepth / kTogether; ++group)
            for (int n = 0; n < kSide; ++n)
              for (int part = 0; part < kTogether; ++part) {
                const int o = (first + v) * kSide + n, c = step * kDepth + kTogether * group + part;
                const bool live = o < outputs && c < inputs;
                *to++ = live ? to_bfloat16(weights[(static_cast<size_t>(o) * kernel + k) * inputs + c]) : 0;
              }
  }
}

#if defined(__AMX_BF16__)

struct alignas(64) TileConfig {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};

void configure_tiles() {
  static thread_local bool done = false;
  if (done) return;
  TileConfig config;
  for (int k = 0; k < 8; ++k) {
    config.bytes[k] = 64;
    config.rows[k] = kSide;
  }
  _tile_loadconfig(&config);
  done = true;
}

// Round 16 numbers.
inline void round_side(const float* from, uint16_t* to) {
  const __m256bh half = _mm512_cvtneps_pbh(_mm512_loadu_ps(from));
  std::memcpy(to, &half, sizeof half);
}

// kBlockRows rows at x times SIDES sides of outputs: the sums stay in tiles over all inputs and taps.
template <int SIDES>
void multiply_block(const uint16_t* x, size_t stride, size_t step_of_tap, const uint16_t* w, int taps, int steps, float* sums,
                  size_t sums_stride) {
  asm volatile("" ::: "memory");  // loads of tiles do not tell the compiler that they read
  _tile_zero(0);
  _tile_zero(1);
  if (SIDES > 1) { _tile_zero(2); _tile_zero(3); }
  if (SIDES > 2) { _tile_zero(4); _tile_zero(5); }
  for (int k = 0; k < taps; ++k) {
    const uint16_t* row = x + k * step_of_tap;
    for (int step = 0; step < steps; ++step, w += SIDES * kTileNumbers) {
      // Two halves of the rows, one after the other: tile 6 holds rows, tile 7 weights.
      _tile_loadd(6, row + step * kDepth, stride * 2);
      _tile_loadd(7, w, 64);
      _tile_dpbf16ps(0, 6, 7);
      if (SIDES > 1) { _tile_loadd(7, w + kTileNumbers, 64); _tile_dpbf16ps(2, 6, 7); }
      if (SIDES > 2) { _tile_loadd(7, w + 2 * kTileNumbers, 64); _tile_dpbf16ps(4, 6, 7); }
      _tile_loadd(6, row + kSide * stride + step * kDepth, stride * 2);
      if (SIDES > 2) { _tile_dpbf16ps(5, 6, 7); _tile_loadd(7, w + kTileNumbers, 64); }
      if (SIDES > 1) { _tile_dpbf16ps(3, 6, 7); _tile_loadd(7, w, 64); }
      _tile_dpbf16ps(1, 6, 7);
    }
  }
  _tile_stored(0, sums, sums_stride * 4);
  _tile_stored(1, sums + kSide * sums_stride, sums_stride * 4);
  if (SIDES > 1) {
    _tile_stored(2, sums + kSide, sums_stride * 4);
    _tile_stored(3, sums + kSide * sums_stride + kSide, sums_stride * 4);
  }
  if (SIDES > 2) {
    _tile_stored(4, sums + 2 * kSide, sums_stride * 4);
    _tile_stored(5, sums + kSide * sums_stride + 2 * kSide, sums_stride * 4);
  }
}

#else

// Round 16 numbers.
inline void round_side(const float* from, uint16_t* to) {
  for (int k = 0; k < kSide; ++k) to[k] = to_bfloat16(from[k]);
}

// The same for 8 rows and 8 outputs at a time. A sum holds two rows times two outputs.
template <int SIDES>
void multiply_block(const uint16_t* x, size_t stride, size_t step_of_tap, const uint16_t* w, int taps, int steps,
                    float* sums, size_t sums_stride) {
  constexpr int kPairs = 4;
  for (int first = 0; first < kBlockRows; first += 2 * kPairs)
    for (int o = 0; o < SIDES * kSide; o += 2 * kPairs) {
      float32x4_t sum[kPairs][kPairs] = {};
      const uint16_t* weights = w + o / kSide * kTileNumbers + o % kSide * kTogether;
      for (int k = 0; k < taps; ++k)
        for (int step = 0; step < steps; ++step, weights += SIDES * kTileNumbers)
          for (int group = 0; group < kDepth / kTogether; ++group) {
            const uint16_t* row = x + first * stride + k * step_of_tap + step * kDepth + group * kTogether;
            bfloat16x8_t rows[kPairs], outputs[kPairs];
#pragma GCC unroll 4
            for (int p = 0; p < kPairs; ++p) {
              const uint16_t* two = row + 2 * p * stride;
              rows[p] = vreinterpretq_bf16_u16(vcombine_u16(vld1_u16(two), vld1_u16(two + stride)));
              outputs[p] = vreinterpretq_bf16_u16(vld1q_u16(weights + (group * kSide + 2 * p) * kTogether));
            }
#pragma GCC unroll 4
            for (int r = 0; r < kPairs; ++r)
#pragma GCC unroll 4
              for (int p = 0; p < kPairs; ++p) sum[r][p] = vbfmmlaq_f32(sum[r][p], rows[r], outputs[p]);
          }
      for (int r = 0; r < kPairs; ++r)
        for (int p = 0; p < kPairs; ++p) {
          float* to = sums + (first + 2 * r) * sums_stride + o + 2 * p;
          vst1_f32(to, vget_low_f32(sum[r][p]));
          vst1_f32(to + sums_stride, vget_high_f32(sum[r][p]));
        }
    }
}

#endif

Plan bfloat16_plan(int rows, int kernel, int dilation, int inputs, int outputs) {
  const size_t weights = bfloat16_packed_size(outputs, kernel, inputs) * sizeof(float);
  int tile = kLongTile;
  while (tile > kBlockRows && rows < 8 * tile && weights <= kManyWeights) tile /= 2;
  const int tiles = (rows + tile - 1) / tile, blocks = (sides_of(outputs) + kSides - 1) / kSides;
  const int parts = weights <= kManyWeights ? 1 : std::min(blocks, (kPieces + tiles - 1) / tiles);
  return {tile, (blocks + parts - 1) / parts * kSides * kSide};
}

void bfloat16_convolve(const Conv& conv, int piece) {
#if defined(__AMX_BF16__)
  configure_tiles();
#endif
  const int parts = (conv.outputs + conv.plan.width - 1) / conv.plan.width, tile = piece / parts, part = piece % parts;
  const int first = tile * conv.plan.tile, last = std::min(conv.rows, first + conv.plan.tile), rows = last - first;
  const int begin = part * conv.plan.width, end = std::min(conv.outputs, begin + conv.plan.width), outputs = end - begin;
  const int C = conv.inputs, steps = steps_of(C), reach = (conv.kernel - 1) * conv.dilation;
  const size_t stride = static_cast<size_t>(steps) * kDepth, width = static_cast<size_t>(sides_of(outputs)) * kSide;
  const int padded = (rows + kBlockRows - 1) / kBlockRows * kBlockRows, in_rows = padded + reach;
  float* sums = scratch(padded * width + C + kLanes + in_rows * stride / 2 + 64);
  float* row_of = sums + padded * width;
  auto* in = reinterpret_cast<uint16_t*>(row_of + (C + kLanes + 15) / 16 * 16);
  for (int r = 0; r < in_rows; ++r) {
    uint16_t* to = in + r * stride;
    if (r >= rows + reach) {
      std::memset(to, 0, stride * 2);
      continue;
    }
    gather_row(conv, first - conv.left + r, row_of);
    int c = 0;
    for (; c + kSide <= C; c += kSide) round_side(row_of + c, to + c);
    for (; c < C; ++c) to[c] = to_bfloat16(row_of[c]);
    std::memset(to + C, 0, (stride - C) * 2);
  }
  const int sides = sides_of(outputs);
  const auto* w = reinterpret_cast<const uint16_t*>(conv.weights) + static_cast<size_t>(begin / kSide) * conv.kernel * steps * kTileNumbers;
  for (int side = 0; side < sides; side += kSides) {
    const int block = std::min(kSides, sides - side);
    for (int r = 0; r < rows; r += kBlockRows) {
      const auto run = block == 3 ? multiply_block<3> : block == 2 ? multiply_block<2> : multiply_block<1>;
      run(in + r * stride, stride, conv.dilation * stride, w, conv.kernel, steps, sums + r * width + side * kSide, width);
    }
    w += static_cast<size_t>(block) * conv.kernel * steps * kTileNumbers;
  }
  for (int r = 0; r < rows; ++r) {
    const size_t at_row = static_cast<size_t>(first + r) * conv.outputs + begin;
    if (first + r >= conv.out_valid) {
      std::fill_n(conv.y + at_row, outputs, 0.0f);
      continue;
    }
    const float* sum = sums + r * width;
    for_vectors(outputs, [&](auto at, auto put) {
      Vec v = at(sum);
      if (conv.bias) v += at(conv.bias + begin);
      if (conv.residual) v += at(conv.residual + at_row);
      put(conv.y + at_row, v * conv.gain);
    });
  }
  if (conv.moments)
    find_moments(conv.y + begin, conv.outputs, outputs, first, std::max(first, std::min(last, conv.out_valid)),
                 conv.moments + static_cast<size_t>(tile) * 2 * conv.outputs + begin);
}

}  // namespace
}  // namespace nightingale
