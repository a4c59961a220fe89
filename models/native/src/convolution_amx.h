// Convolution along time in bfloat16 with sums in float32, on AMX tiles (Sapphire Rapids and later).
//
// The rows of a tile of outputs are activated in float32 and rounded once, on the way into the scratch. One step takes
// 32 inputs of one tap: 32 rows times 48 outputs stay in six tiles over all inputs and taps.
#pragma once

#include <immintrin.h>

#include "convolution.h"

namespace nightingale {
namespace {

constexpr int kDepth = 32;  // inputs of a step
constexpr int kSide = 16;   // rows of a tile, and outputs
constexpr int kAmxVectors = 3;
constexpr int kAmxTile = 128;
constexpr size_t kTileNumbers = kSide * kDepth;  // bfloat16 numbers of a tile of weights

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

uint16_t to_bfloat16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

int steps_of(int inputs) { return (inputs + kDepth - 1) / kDepth; }
int sides_of(int outputs) { return (outputs + kSide - 1) / kSide; }

// In floats, as the arrays of packed weights are.
size_t amx_packed_size(int outputs, int kernel, int inputs) {
  return static_cast<size_t>(sides_of(outputs)) * kernel * steps_of(inputs) * kTileNumbers / 2;
}

// Order: blocks of up to three vectors of outputs, taps, steps, vectors of the block, pairs of inputs, outputs, pair.
void amx_pack(const float* weights, float* packed, int outputs, int kernel, int inputs) {
  auto* to = reinterpret_cast<uint16_t*>(packed);
  const int sides = sides_of(outputs);
  for (int first = 0; first < sides; first += kAmxVectors) {
    const int block = std::min(kAmxVectors, sides - first);
    for (int k = 0; k < kernel; ++k)
      for (int step = 0; step < steps_of(inputs); ++step)
        for (int v = 0; v < block; ++v)
          for (int pair = 0; pair < kDepth / 2; ++pair)
            for (int n = 0; n < kSide; ++n)
              for (int half = 0; half < 2; ++half) {
                const int o = (first + v) * kSide + n, c = step * kDepth + 2 * pair + half;
                const bool live = o < outputs && c < inputs;
                *to++ = live ? to_bfloat16(weights[(static_cast<size_t>(o) * kernel + k) * inputs + c]) : 0;
              }
  }
}

template <int VECTORS>
void amx_multiply(const uint16_t* x, size_t stride, size_t step_of_tap, const uint16_t* w, int taps, int steps, float* sums,
                  size_t sums_stride) {
  _tile_zero(0);
  _tile_zero(1);
  if (VECTORS > 1) { _tile_zero(2); _tile_zero(3); }
  if (VECTORS > 2) { _tile_zero(4); _tile_zero(5); }
  for (int k = 0; k < taps; ++k) {
    const uint16_t* row = x + k * step_of_tap;
    for (int step = 0; step < steps; ++step, w += VECTORS * kTileNumbers) {
      // Two halves of the rows, one after the other: tile 6 holds rows, tile 7 weights.
      _tile_loadd(6, row + step * kDepth, stride * 2);
      _tile_loadd(7, w, 64);
      _tile_dpbf16ps(0, 6, 7);
      if (VECTORS > 1) { _tile_loadd(7, w + kTileNumbers, 64); _tile_dpbf16ps(2, 6, 7); }
      if (VECTORS > 2) { _tile_loadd(7, w + 2 * kTileNumbers, 64); _tile_dpbf16ps(4, 6, 7); }
      _tile_loadd(6, row + kSide * stride + step * kDepth, stride * 2);
      if (VECTORS > 2) { _tile_dpbf16ps(5, 6, 7); _tile_loadd(7, w + kTileNumbers, 64); }
      if (VECTORS > 1) { _tile_dpbf16ps(3, 6, 7); _tile_loadd(7, w, 64); }
      _tile_dpbf16ps(1, 6, 7);
    }
  }
  _tile_stored(0, sums, sums_stride * 4);
  _tile_stored(1, sums + kSide * sums_stride, sums_stride * 4);
  if (VECTORS > 1) {
    _tile_stored(2, sums + kSide, sums_stride * 4);
    _tile_stored(3, sums + kSide * sums_stride + kSide, sums_stride * 4);
  }
  if (VECTORS > 2) {
    _tile_stored(4, sums + 2 * kSide, sums_stride * 4);
    _tile_stored(5, sums + kSide * sums_stride + 2 * kSide, sums_stride * 4);
  }
}

Plan amx_plan(int rows, int kernel, int dilation, int inputs, int outputs) {
  const size_t weights = amx_packed_size(outputs, kernel, inputs) * sizeof(float);
  int tile = kAmxTile;
  while (tile > 32 && rows < 8 * tile && weights <= kManyWeights) tile /= 2;
  const int tiles = (rows + tile - 1) / tile, blocks = (sides_of(outputs) + kAmxVectors - 1) / kAmxVectors;
  const int parts = weights <= kManyWeights ? 1 : std::min(blocks, (kPieces + tiles - 1) / tiles);
  return {tile, (blocks + parts - 1) / parts * kAmxVectors * kSide};
}

void amx_convolve(const Conv& conv, int piece) {
  configure_tiles();
  const int parts = (conv.outputs + conv.plan.width - 1) / conv.plan.width, tile = piece / parts, part = piece % parts;
  const int first = tile * conv.plan.tile, last = std::min(conv.rows, first + conv.plan.tile), rows = last - first;
  const int begin = part * conv.plan.width, end = std::min(conv.outputs, begin + conv.plan.width), outputs = end - begin;
  const int C = conv.inputs, steps = steps_of(C), reach = (conv.kernel - 1) * conv.dilation;
  const size_t stride = static_cast<size_t>(steps) * kDepth, width = static_cast<size_t>(sides_of(outputs)) * kSide;
  const int padded = (rows + 31) / 32 * 32, in_rows = padded + reach;
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
    for (; c + 16 <= C; c += 16) {
      const __m256bh half = _mm512_cvtneps_pbh(_mm512_loadu_ps(row_of + c));
      std::memcpy(to + c, &half, sizeof half);
    }
    for (; c < C; ++c) to[c] = to_bfloat16(row_of[c]);
    std::memset(to + C, 0, (stride - C) * 2);
  }
  const int sides = sides_of(outputs);
  const auto* w = reinterpret_cast<const uint16_t*>(conv.weights) + static_cast<size_t>(begin / kSide) * conv.kernel * steps * kTileNumbers;
  for (int side = 0; side < sides; side += kAmxVectors) {
    const int block = std::min(kAmxVectors, sides - side);
    for (int r = 0; r < rows; r += 32) {
      const auto run = block == 3 ? amx_multiply<3> : block == 2 ? amx_multiply<2> : amx_multiply<1>;
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
