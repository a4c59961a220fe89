// Functions of rows: LayerNorm with Mish, GELU, and attention of many queries.
#pragma once

#include <cmath>

#include "convolution.h"
#include "kernels.h"
#include "simd.h"

namespace nightingale {
namespace {

// x Phi(x) by erf(x / sqrt(2)) / x as a rational function of x^2 on [-5.25, 5.25], absolute error of erf 2e-7.
inline Vec gelu(Vec x) {
  const Vec u = min(max(x, splat(-5.25f)), splat(5.25f)), z = u * u;
  Vec above = splat(-3.36570908e-08f);
  above = above * z + 1.13502649e-05f;
  above = above * z + 0.000873695945f;
  above = above * z + 0.0124873849f;
  above = above * z + 0.12526663f;
  above = above * z + 0.797883352f;
  Vec below = splat(0.000146851582f);
  below = below * z + 0.00339941531f;
  below = below * z + 0.0446117073f;
  below = below * z + 0.323655146f;
  below = below * z + 1.0f;
  return 0.5f * x * (1.0f + u * above / below);
}

// x tanh(log(1 + exp(x))). From 20 on it is x.
inline Vec mish(Vec x) {
  const Vec w = exp(min(x, splat(20.0f))), n = w * (w + 2.0f);
  return x * (n / (n + 2.0f));
}

// Numbers that one run of vectors takes.
constexpr size_t kPart = 1 << 20;

void gelu_rows(float* x, size_t count) {
  for (size_t done = 0; done < count; done += kPart) {
    const int part = static_cast<int>(std::min<size_t>(kPart, count - done));
    for_vectors(part, [&](auto at, auto put) { put(x + done, gelu(at(x + done))); });
  }
}

// LayerNorm of rows [first, last), then Mish and an addition where they are asked for.
void normalize(const Norm& n, int first, int last) {
  const float share = 1.0f / static_cast<float>(n.width);
  for (int row = first; row < last; ++row) {
    const float* x = n.x + static_cast<size_t>(row) * n.width;
    float* y = n.y + static_cast<size_t>(row) * n.width;
    Vec sums{}, squares{};
    float rest = 0;
    int c = 0;
    for (; c + kLanes <= n.width; c += kLanes) sums += load(x + c);
    for (; c < n.width; ++c) rest += x[c];
    const float mean = (total(sums) + rest) * share;
    rest = 0;
    for (c = 0; c + kLanes <= n.width; c += kLanes) {
      const Vec d = load(x + c) - mean;
      squares += d * d;
    }
    for (; c < n.width; ++c) rest += (x[c] - mean) * (x[c] - mean);
    const float rate = 1.0f / std::sqrt((total(squares) + rest) * share + n.eps);
    for_vectors(n.width, [&](auto at, auto put) {
      Vec v = (at(x) - mean) * rate * at(n.gain) + at(n.shift);
      if (n.mish) v = mish(v);
      if (n.add) v += at(n.add);
      put(y, v);
    });
  }
}

// Rows of queries whose logits are in the second cache at once.
constexpr int kQueries = 64;

// Packed as the weights of a product: blocks of outputs, depth, outputs of the block. `at(n, c)` is output n, number c.
template <typename Number>
void pack_panels(float* to, int outputs, int depth, const Number& at) {
  for (int first = 0; first < outputs;) {
    const int width = block_of(vectors_of(outputs - first)) * kLanes, live = std::min(width, outputs - first);
    for (int c = 0; c < depth; ++c, to += width) {
      for (int n = 0; n < live; ++n) to[n] = at(first + n, c);
      std::fill(to + live, to + width, 0.0f);
    }
    first += width;
  }
}

// sums [rows, vectors * kLanes] = x [rows, depth] times panels. Up to kMostRows - 1 rows beyond are read and written.
void multiply_panels(const float* x, size_t stride, int depth, const float* panels, int outputs, float* sums, size_t sums_stride, int rows) {
  for (int block = 0, all = vectors_of(outputs); block < all;) {
    const int vectors = block_of(all - block);
    multiply_block(vectors, Rows{x, stride, 0, 1, depth}, panels, sums + block * kLanes, sums_stride, rows);
    panels += static_cast<size_t>(depth) * vectors * kLanes;
    block += vectors;
  }
}

// exp(x - the largest of x) for x [count], in place, then zeros up to `padded`, whole vectors; returns the sum.
float exponentials(float* x, int count, int padded) {
  const int whole = vectors_of(count) * kLanes;
  std::fill(x + count, x + whole, -1e30f);
  std::fill(x + whole, x + padded, 0.0f);
  Vec most = load(x), sums{};
  for (int k = kLanes; k < count; k += kLanes) most = max(most, load(x + k));
  const float largest = greatest(most);
  for (int k = 0; k < count; k += kLanes) {
    const Vec v = exp(load(x + k) - largest);
    store(x + k, v);
    sums += v;
  }
  return total(sums);
}

// Attention of the queries [first, last) of one head to all its keys.
void attend_rows(const HeadAttention& a, int first, int last) {
  const int D = a.size, S = a.count, columns = vectors_of(S) * kLanes, width = vectors_of(D) * kLanes;
  constexpr int most = kQueries + kMostRows;
  float* keys = scratch(static_cast<size_t>(D) * columns + static_cast<size_t>(S) * width + static_cast<size_t>(most) * (D + columns + width));
  float* values = keys + static_cast<size_t>(D) * columns;
  float* queries = values + static_cast<size_t>(S) * width;
  float* logits = queries + most * D;
  float* sums = logits + static_cast<size_t>(most) * columns;
  pack_panels(keys, S, D, [&](int n, int c) { return a.keys[static_cast<size_t>(n) * a.stride + c]; });
  pack_panels(values, D, S, [&](int n, int c) { return a.values[static_cast<size_t>(c) * a.stride + n]; });
  for (int begin = first; begin < last; begin += kQueries) {
    const int rows = std::min(kQueries, last - begin);
    for (int r = 0; r < rows; ++r) {
      const float* q = a.q + static_cast<size_t>(begin + r) * a.q_stride;
      for_vectors(D, [&](auto at, auto put) { put(queries + r * D, at(q) * a.scale); });
    }
    multiply_panels(queries, D, D, keys, S, logits, columns, rows);
    float rates[kQueries];
    for (int r = 0; r < rows; ++r) {
      float* row = logits + static_cast<size_t>(r) * columns;
      if (a.bias) for_vectors(S, [&](auto at, auto put) { put(row, at(row) + at(a.bias)); });
      rates[r] = 1.0f / exponentials(row, seen_by(a, begin + r), columns);
    }
    multiply_panels(logits, columns, S, values, D, sums, width, rows);
    for (int r = 0; r < rows; ++r) {
      float* y = a.y + static_cast<size_t>(begin + r) * a.y_stride;
      for_vectors(D, [&](auto at, auto put) { put(y, at(sums + r * width) * rates[r]); });
    }
  }
}

}  // namespace
}  // namespace nightingale
