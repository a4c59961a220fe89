// Attention of many queries with products in bfloat16 on AMX tiles; the softmax is in float32.
#pragma once

#include "convolution_bfloat16.h"
#include "rows.h"

namespace nightingale {
namespace {

typedef uint32_t BitsVec __attribute__((vector_size(kLanes * 4)));

// The nearest bfloat16 numbers, in the upper halves.
inline BitsVec rounded_bits(Vec x) {
  const BitsVec bits = (BitsVec)x;
  return (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
}

// Round x [count] to y, and fill y up to `padded` with zeros.
void to_bfloat16_row(const float* x, float scale, int count, uint16_t* y, int padded) {
  int c = 0;
  for (; c + kLanes <= count; c += kLanes) {
    typedef uint16_t Half __attribute__((vector_size(kLanes * 2)));
    const Half half = __builtin_convertvector(rounded_bits(load(x + c) * scale) >> 16, Half);
    std::memcpy(y + c, &half, sizeof half);
  }
  for (; c < count; ++c) y[c] = to_bfloat16(x[c] * scale);
  std::fill(y + c, y + padded, 0);
}

// Keys [count, size] as the weights of `bfloat16_pack`: outputs are keys, inputs their numbers. `row` has room for one key.
void pack_keys(const HeadAttention& a, uint16_t* to, uint16_t* row) {
  const int steps = steps_of(a.size), sides = sides_of(a.count), pairs = kDepth / 2;
  for (int first = 0; first < sides; first += kSides) {
    const int block = std::min(kSides, sides - first);
    for (int n = 0; n < block * kSide; ++n) {
      const int key = first * kSide + n;
      if (key < a.count) to_bfloat16_row(a.keys + static_cast<size_t>(key) * a.stride, 1.0f, a.size, row, steps * kDepth);
      else std::fill_n(row, steps * kDepth, 0);
      for (int step = 0; step < steps; ++step) {
        uint16_t* tile = to + (static_cast<size_t>(step) * block + n / kSide) * kTileNumbers + n % kSide * 2;
        for (int pair = 0; pair < pairs; ++pair) std::memcpy(tile + pair * 2 * kSide, row + step * kDepth + 2 * pair, 4);
      }
    }
    to += static_cast<size_t>(block) * steps * kTileNumbers;
  }
}

// Values [count, size] as the weights of `bfloat16_pack`: outputs are their numbers, inputs the keys.
void pack_values(const HeadAttention& a, uint16_t* to) {
  const int steps = steps_of(a.count), sides = sides_of(a.size);
  const auto value = [&](int key, int from) {
    float row[kSide] = {};
    if (key < a.count) std::copy_n(a.values + static_cast<size_t>(key) * a.stride + from, std::min(kSide, a.size - from), row);
    return load(row);
  };
  for (int first = 0; first < sides; first += kSides) {
    const int block = std::min(kSides, sides - first);
    for (int step = 0; step < steps; ++step)
      for (int v = 0; v < block; ++v)
        for (int pair = 0; pair < kDepth / 2; ++pair, to += 2 * kSide) {
          const int key = step * kDepth + 2 * pair, from = (first + v) * kSide;
          const BitsVec both = rounded_bits(value(key, from)) >> 16 | rounded_bits(value(key + 1, from));
          std::memcpy(to, &both, sizeof both);
        }
  }
}

// sums [rows, outputs, padded to sides] = x [rows, steps * kDepth] times packed weights; in runs of 32 rows.
void amx_panels(const uint16_t* x, int steps, const uint16_t* w, int outputs, float* sums, size_t sums_stride, int rows) {
  const int sides = sides_of(outputs);
  for (int side = 0; side < sides; side += kSides) {
    const int block = std::min(kSides, sides - side);
    const auto run = block == 3 ? multiply_block<3> : block == 2 ? multiply_block<2> : multiply_block<1>;
    for (int r = 0; r < rows; r += 2 * kSide)
      run(x + static_cast<size_t>(r) * steps * kDepth, steps * kDepth, 0, w, 1, steps, sums + r * sums_stride + side * kSide, sums_stride);
    w += static_cast<size_t>(block) * steps * kTileNumbers;
  }
}

void amx_attend_rows(const HeadAttention& a, int first, int last) {
  static_assert(kQueries % (2 * kSide) == 0 && kLanes == kSide);
  configure_tiles();
  const int D = a.size, S = a.count, columns = sides_of(S) * kSide, width = sides_of(D) * kSide;
  const int deep = steps_of(D) * kDepth, long_row = steps_of(S) * kDepth;
  const size_t key_size = static_cast<size_t>(columns) * deep, value_size = static_cast<size_t>(width) * long_row;
  const size_t halves = key_size + value_size + static_cast<size_t>(kQueries) * (deep + long_row) + deep;
  float* logits = scratch(static_cast<size_t>(kQueries) * (columns + width) + halves / 2 + 16);
  float* sums = logits + static_cast<size_t>(kQueries) * columns;
  auto* keys = reinterpret_cast<uint16_t*>(sums + kQueries * width);
  uint16_t *values = keys + key_size, *queries = values + value_size, *shares = queries + kQueries * deep;
  pack_keys(a, keys, shares + static_cast<size_t>(kQueries) * long_row);
  pack_values(a, values);
  for (int begin = first; begin < last; begin += kQueries) {
    const int rows = std::min(kQueries, last - begin);
    for (int r = 0; r < rows; ++r) to_bfloat16_row(a.q + static_cast<size_t>(begin + r) * a.q_stride, a.scale, D, queries + r * deep, deep);
    amx_panels(queries, steps_of(D), keys, S, logits, columns, rows);
    float rates[kQueries];
    for (int r = 0; r < rows; ++r) {
      float* row = logits + static_cast<size_t>(r) * columns;
      if (a.bias) for_vectors(S, [&](auto at, auto put) { put(row, at(row) + at(a.bias)); });
      rates[r] = 1.0f / exponentials(row, seen_by(a, begin + r), columns);
      to_bfloat16_row(row, 1.0f, S, shares + static_cast<size_t>(r) * long_row, long_row);
    }
    amx_panels(shares, steps_of(S), values, D, sums, width, rows);
    for (int r = 0; r < rows; ++r) {
      float* y = a.y + static_cast<size_t>(begin + r) * a.y_stride;
      for_vectors(D, [&](auto at, auto put) { put(y, at(sums + r * width) * rates[r]); });
    }
  }
}

}  // namespace
}  // namespace nightingale
