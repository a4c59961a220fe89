// Convolution along time.
//
// A tile of output rows is computed from a copy of its input rows that is scaled, shifted and activated on the way in.
// Kernels of three taps and more use F(4, 3): four outputs of three taps from six products instead of twelve (Winograd
// 1980; Lavin and Gray 2015, arXiv:1509.09308). More taps are the sum of groups of three, added before the transform
// back. Rows of a dilated kernel are taken in phases, in which it has no gaps.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels.h"
#include "simd.h"

namespace nightingale {
namespace {

// Divisible by 4 times a dilation of 1, 3 and 5.
constexpr int kTileUnit = 60;
// Vectors of outputs whose sums share the registers, and the rows for each number of them.
constexpr int kMostVectors = 3;
#if defined(__AVX512F__)
constexpr int kRows[] = {0, 16, 8, 8};
#elif defined(__AVX2__)
constexpr int kRows[] = {0, 8, 6, 4};
#else
constexpr int kRows[] = {0, 16, 8, 8};
#endif
constexpr int kMostRows = 16;
constexpr int kStreams = 6;  // products of F(4, 3)
constexpr int kOutputs = 4;
constexpr int kTaps = 3;

int vectors_of(int outputs) { return (outputs + kLanes - 1) / kLanes; }
int groups_of(int kernel) { return (kernel + kTaps - 1) / kTaps; }

// Vectors in a block of outputs with `left` ones to go.
int block_of(int left) { return std::min(left, kMostVectors); }

size_t packed_size(int outputs, int kernel, int inputs) {
  const size_t taps = kernel < kTaps ? kernel : kStreams * groups_of(kernel);
  return vectors_of(outputs) * kLanes * taps * inputs;
}

// Product number `stream` of taps g.
float transform_taps(int stream, const float* g) {
  switch (stream) {
    case 0: return g[0] / 4;
    case 1: return -(g[0] + g[1] + g[2]) / 6;
    case 2: return -(g[0] - g[1] + g[2]) / 6;
    case 3: return g[0] / 24 + g[1] / 12 + g[2] / 6;
    case 4: return g[0] / 24 - g[1] / 12 + g[2] / 6;
    default: return g[2];
  }
}

// Order: blocks of outputs, streams, groups of taps, inputs, outputs of the block. Of a short kernel: blocks, taps, ...
void pack(const float* weights, float* packed, int outputs, int kernel, int inputs) {
  const bool direct = kernel < kTaps;
  const int total = vectors_of(outputs), streams = direct ? 1 : kStreams, groups = direct ? kernel : groups_of(kernel);
  const auto weight = [&](int o, int k, int c) {
    return o < outputs && k < kernel ? weights[(static_cast<size_t>(o) * kernel + k) * inputs + c] : 0.0f;
  };
  for (int first = 0; first < total;) {
    const int width = block_of(total - first) * kLanes;
    for (int s = 0; s < streams; ++s) {
      for (int g = 0; g < groups; ++g) {
        for (int c = 0; c < inputs; ++c) {
          for (int n = 0; n < width; ++n) {
            const int o = first * kLanes + n;
            const float taps[] = {weight(o, kTaps * g, c), weight(o, kTaps * g + 1, c), weight(o, kTaps * g + 2, c)};
            *packed++ = direct ? weight(o, g, c) : transform_taps(s, taps);
          }
        }
      }
    }
    first += width / kLanes;
  }
}

// sums [ROWS, VECTORS * kLanes] = x [ROWS, depth] times w [depth, VECTORS * kLanes].
template <int VECTORS, int ROWS>
void multiply(const float* x, size_t x_stride, const float* w, int depth, float* sums, size_t sums_stride) {
  Vec sum[ROWS][VECTORS] = {};
  for (int c = 0; c < depth; ++c, w += VECTORS * kLanes) {
    Vec weight[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) weight[v] = load(w + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      const Vec value = splat(x[r * x_stride + c]);
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) sum[r][v] += value * weight[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) store(sums + r * sums_stride + v * kLanes, sum[r][v]);
}

// The same for any number of rows. Up to kMostRows - 1 rows beyond are read and written, too.
template <int VECTORS>
void multiply_rows(const float* x, size_t x_stride, const float* w, int depth, float* sums, size_t sums_stride, int rows) {
  constexpr int most = kRows[VECTORS];
  for (int r = 0; r < rows; r += most)
    multiply<VECTORS, most>(x + r * x_stride, x_stride, w, depth, sums + r * sums_stride, sums_stride);
}

void multiply_block(int vectors, const float* x, size_t x_stride, const float* w, int depth, float* sums,
                    size_t sums_stride, int rows) {
  switch (vectors) {
    case 1: return multiply_rows<1>(x, x_stride, w, depth, sums, sums_stride, rows);
    case 2: return multiply_rows<2>(x, x_stride, w, depth, sums, sums_stride, rows);
    default: return multiply_rows<3>(x, x_stride, w, depth, sums, sums_stride, rows);
  }
}

template <Activation ACTIVATION>
void activate_row(const Conv& conv, const float* from, float* to) {
  const auto activate = [&](auto v, auto at) {
    if (conv.scale) v = v * at(conv.scale) + at(conv.shift);
    if constexpr (ACTIVATION == Activation::kLeaky) v = max(v, v * conv.slope);
    if constexpr (ACTIVATION == Activation::kSnake) v = snake(v, v * at(conv.rate), at(conv.inverse));
    return v;
  };
  const int C = conv.inputs;
  int c = 0;
  for (; c + kLanes <= C; c += kLanes) store(to + c, activate(load(from + c), [c](const float* p) { return load(p + c); }));
  if (c < C) {
    const auto part = [n = C - c](const float* p) { Vec v{}; std::memcpy(&v, p, n * sizeof(float)); return v; };
    const Vec v = activate(part(from + c), [c, part](const float* p) { return part(p + c); });
    std::memcpy(to + c, &v, (C - c) * sizeof(float));
  }
}

// Write input row `row`, activated, to `to` [inputs]; zeros for a row outside [0, valid).
void gather_row(const Conv& conv, int row, float* to) {
  if (row < 0 || row >= conv.valid) {
    std::fill(to, to + conv.inputs, 0.0f);
    return;
  }
  const float* from = conv.x + static_cast<size_t>(row) * conv.inputs;
  switch (conv.activation) {
    case Activation::kNone: return activate_row<Activation::kNone>(conv, from, to);
    case Activation::kLeaky: return activate_row<Activation::kLeaky>(conv, from, to);
    case Activation::kSnake: return activate_row<Activation::kSnake>(conv, from, to);
  }
}

// Call compute(part, at) for vectors and then for a last, shorter run of [0, count): part(p) loads from p + at.
template <class Compute>
inline void for_vectors(int count, Compute compute) {
  int at = 0;
  for (; at + kLanes <= count; at += kLanes)
    compute([at](const float* p) { return load(p + at); }, [at](float* p, Vec v) { store(p + at, v); });
  if (const int n = count - at) {
    compute([at, n](const float* p) { Vec v{}; std::memcpy(&v, p + at, n * sizeof(float)); return v; },
            [at, n](float* p, Vec v) { std::memcpy(p + at, &v, n * sizeof(float)); });
  }
}

// Product number `stream` of the six rows from x on: to [C].
void transform_rows(int stream, const float* x, int C, float* to) {
  const float *d0 = x, *d1 = x + C, *d2 = x + 2 * C, *d3 = x + 3 * C, *d4 = x + 4 * C, *d5 = x + 5 * C;
  switch (stream) {
    case 0: return for_vectors(C, [&](auto at, auto put) { put(to, 4.0f * at(d0) - 5.0f * at(d2) + at(d4)); });
    case 1: return for_vectors(C, [&](auto at, auto put) { put(to, at(d3) + at(d4) - 4.0f * (at(d1) + at(d2))); });
    case 2: return for_vectors(C, [&](auto at, auto put) { put(to, at(d4) - at(d3) + 4.0f * (at(d1) - at(d2))); });
    case 3: return for_vectors(C, [&](auto at, auto put) { put(to, at(d4) - at(d2) + 2.0f * (at(d3) - at(d1))); });
    case 4: return for_vectors(C, [&](auto at, auto put) { put(to, at(d4) - at(d2) + 2.0f * (at(d1) - at(d3))); });
    default: return for_vectors(C, [&](auto at, auto put) { put(to, 4.0f * at(d1) - 5.0f * at(d3) + at(d5)); });
  }
}

// Four output rows of the six products m, which lie `step` floats apart: y[e] = those of output e, or null.
void transform_back(const float* m, size_t step, int outputs, const float* bias, float gain, float* const y[kOutputs],
                    const float* const residual[kOutputs]) {
  for_vectors(outputs, [&](auto at, auto put) {
    const Vec m0 = at(m), m1 = at(m + step), m2 = at(m + 2 * step), m3 = at(m + 3 * step), m4 = at(m + 4 * step);
    const Vec s = m1 + m2, d = m1 - m2, s2 = m3 + m4, d2 = m3 - m4;
    Vec out[kOutputs] = {m0 + s + s2, d + 2.0f * d2, s + 4.0f * s2, d + 8.0f * d2 + at(m + 5 * step)};
    for (int e = 0; e < kOutputs; ++e) {
      if (!y[e]) continue;
      if (bias) out[e] += at(bias);
      if (residual[e]) out[e] += at(residual[e]);
      put(y[e], out[e] * gain);
    }
  });
}

void find_moments(const float* x, int stride, int channels, int first, int last, float* out) {
  const int rows = last - first;
  float *mean = out, *deviation = out + stride;
  if (rows <= 0) {
    std::fill(mean, mean + channels, 0.0f);
    std::fill(deviation, deviation + channels, 0.0f);
    return;
  }
  const float* from = x + static_cast<size_t>(first) * stride;
  for_vectors(channels, [&](auto at, auto put) {
    Vec sum{}, squares{};
    for (int r = 0; r < rows; ++r) sum += at(from + static_cast<size_t>(r) * stride);
    sum = sum * (1.0f / static_cast<float>(rows));
    for (int r = 0; r < rows; ++r) {
      const Vec d = at(from + static_cast<size_t>(r) * stride) - sum;
      squares += d * d;
    }
    put(mean, sum);
    put(deviation, squares);
  });
}

// Bytes of scratch that the second cache holds beside the weights that stream through it.
constexpr size_t kScratchBytes = 768 << 10;
// Weights of more bytes are read from memory or the last cache: as few tiles as possible read them.
constexpr size_t kManyWeights = 1 << 20;
// Pieces of work that divide well among the threads.
constexpr int kPieces = 12;

Plan plan(int rows, int kernel, int dilation, int inputs, int outputs) {
  const size_t weights = packed_size(outputs, kernel, inputs) * sizeof(float), deep = static_cast<size_t>(groups_of(kernel)) * inputs;
  const size_t width = static_cast<size_t>(vectors_of(outputs)) * kLanes;
  const auto bytes = [&](int tile) {
    return sizeof(float) * ((tile + (kernel - 1) * dilation) * inputs + (tile / kOutputs) * (deep + kStreams * width));
  };
  int tile = 8 * kTileUnit;
  while (tile > kTileUnit && (bytes(tile) > kScratchBytes || (weights <= kManyWeights && rows < kPieces * tile))) tile /= 2;
  const int tiles = (rows + tile - 1) / tile, blocks = (vectors_of(outputs) + kMostVectors - 1) / kMostVectors;
  const int parts = weights <= kManyWeights ? 1 : std::min(blocks, (kPieces + tiles - 1) / tiles);
  return {tile, (blocks + parts - 1) / parts * kMostVectors * kLanes};
}

float* scratch(size_t floats) {
  static thread_local std::vector<float> kept;
  if (kept.size() < floats) kept.resize(floats);
  return kept.data();
}

// Outputs of one piece of work, [first, last) of all: `first` begins a block.
struct Range {
  int first, last;
};

// Rows of one and two taps: the products as they stand.
void convolve_direct(const Conv& conv, int first, int last, Range range) {
  const int C = conv.inputs, outputs = range.last - range.first, total = vectors_of(outputs), rows = last - first, K = conv.kernel;
  const size_t width = static_cast<size_t>(total) * kLanes, deep = static_cast<size_t>(K) * C;
  float* in = scratch((rows + kMostRows) * (deep + width));
  float* sums = in + (rows + kMostRows) * deep;
  for (int r = 0; r < rows; ++r)
    for (int k = 0; k < K; ++k) gather_row(conv, first + r - conv.left + k * conv.dilation, in + r * deep + k * C);
  std::fill(in + rows * deep, in + (rows + kMostRows) * deep, 0.0f);
  const float* w = conv.weights + range.first * deep;
  for (int block = 0; block < total;) {
    const int vectors = block_of(total - block);
    multiply_block(vectors, in, deep, w, static_cast<int>(deep), sums + block * kLanes, width, rows);
    w += deep * vectors * kLanes;
    block += vectors;
  }
  for (int r = 0; r < rows; ++r) {
    const size_t at_row = static_cast<size_t>(first + r) * conv.outputs + range.first;
    const float* sum = sums + r * width;
    for_vectors(outputs, [&](auto at, auto put) {
      Vec v = at(sum);
      if (conv.bias) v += at(conv.bias + range.first);
      if (conv.residual) v += at(conv.residual + at_row);
      put(conv.y + at_row, v * conv.gain);
    });
  }
}

void convolve_transformed(const Conv& conv, int first, int last, Range range) {
  const int C = conv.inputs, O = conv.outputs, total = vectors_of(range.last - range.first), d = conv.dilation, groups = groups_of(conv.kernel);
  const int quads = (last - first + kOutputs * d - 1) / (kOutputs * d);  // of each phase
  const int in_rows = kOutputs * quads + kTaps * groups - 1, m = d * quads;
  const size_t width = static_cast<size_t>(total) * kLanes, deep = static_cast<size_t>(groups) * C;
  const size_t plane = (m + kMostRows) * width;
  float* in = scratch(static_cast<size_t>(d) * in_rows * C + (m + kMostRows) * deep + kStreams * plane);
  float* products = in + static_cast<size_t>(d) * in_rows * C;
  float* sums = products + (m + kMostRows) * deep;
  for (int phase = 0; phase < d; ++phase)
    for (int j = 0; j < in_rows; ++j)
      gather_row(conv, first - conv.left + phase + j * d, in + (static_cast<size_t>(phase) * in_rows + j) * C);
  std::fill(products + m * deep, products + (m + kMostRows) * deep, 0.0f);
  for (int stream = 0; stream < kStreams; ++stream) {
    for (int phase = 0; phase < d; ++phase)
      for (int i = 0; i < quads; ++i)
        for (int g = 0; g < groups; ++g)
          transform_rows(stream, in + (static_cast<size_t>(phase) * in_rows + kOutputs * i + kTaps * g) * C, C,
                         products + (phase * quads + i) * deep + g * C);
    size_t before = 0;
    for (int block = 0; block < total;) {
      const int vectors = block_of(total - block);
      const size_t size = deep * vectors * kLanes;
      multiply_block(vectors, products, deep, conv.weights + kStreams * deep * range.first + before + stream * size, static_cast<int>(deep),
                     sums + stream * plane + block * kLanes, width, m);
      before += kStreams * size;
      block += vectors;
    }
  }
  for (int phase = 0; phase < d; ++phase) {
    for (int i = 0; i < quads; ++i) {
      float* y[kOutputs];
      const float* residual[kOutputs];
      for (int e = 0; e < kOutputs; ++e) {
        const int row = first + phase + (kOutputs * i + e) * d;
        const size_t at_row = static_cast<size_t>(row) * O + range.first;
        y[e] = row < last ? conv.y + at_row : nullptr;
        residual[e] = conv.residual && row < last ? conv.residual + at_row : nullptr;
      }
      transform_back(sums + (phase * quads + i) * width, plane, range.last - range.first, conv.bias ? conv.bias + range.first : nullptr, conv.gain, y, residual);
    }
  }
}

void convolve(const Conv& conv, int piece) {
  const int parts = (conv.outputs + conv.plan.width - 1) / conv.plan.width, tile = piece / parts, part = piece % parts;
  const int first = tile * conv.plan.tile, last = std::min(conv.rows, first + conv.plan.tile);
  const Range range{part * conv.plan.width, std::min(conv.outputs, (part + 1) * conv.plan.width)};
  if (conv.kernel < kTaps) convolve_direct(conv, first, last, range);
  else convolve_transformed(conv, first, last, range);
  const int live = std::max(first, std::min(last, conv.out_valid)), outputs = range.last - range.first;
  for (int row = live; row < last; ++row) std::fill_n(conv.y + static_cast<size_t>(row) * conv.outputs + range.first, outputs, 0.0f);
  if (conv.moments)
    find_moments(conv.y + range.first, conv.outputs, outputs, first, live,
                 conv.moments + static_cast<size_t>(tile) * 2 * conv.outputs + range.first);
}

int pieces(const Conv& conv) {
  return ((conv.rows + conv.plan.tile - 1) / conv.plan.tile) * ((conv.outputs + conv.plan.width - 1) / conv.plan.width);
}

}  // namespace

}  // namespace nightingale
