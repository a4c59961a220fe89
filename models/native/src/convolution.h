// Convolution along time.
//
// A tile of output rows is computed from a copy of its input rows that is scaled, shifted and activated on the way in.
// Kernels of three taps and more take the products of a transform (Winograd 1980; Lavin and Gray 2015,
// arXiv:1509.09308): F(4, 3) makes four outputs of three taps from six products instead of twelve, F(4, 4) those of four
// taps from seven instead of sixteen. Longer kernels are groups of four taps, added before the transform back. The
// groups share the transforms, as outputs and taps both advance by four. Rows of a dilated kernel are taken in phases,
// in which it has no gaps.
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
constexpr int kOutputs = 4;
constexpr int kMostStreams = 7;

// Taps of a group, and the products (streams) of four outputs of one.
int taps_of(int kernel) { return kernel == 3 ? 3 : 4; }
int streams_of(int kernel) { return taps_of(kernel) + kOutputs - 1; }

int vectors_of(int outputs) { return (outputs + kLanes - 1) / kLanes; }
bool transformed(int kernel) { return kernel > 2; }
int groups_of(int kernel) { return (kernel + taps_of(kernel) - 1) / taps_of(kernel); }

// Vectors in a block of outputs with `left` ones to go.
int block_of(int left) { return std::min(left, kMostVectors); }

size_t packed_size(int outputs, int kernel, int inputs) {
  const size_t taps = transformed(kernel) ? streams_of(kernel) * groups_of(kernel) : kernel;
  return vectors_of(outputs) * kLanes * taps * inputs;
}

// Product number `stream` of three taps g.
float transform_three(int stream, const double* g) {
  switch (stream) {
    case 0: return g[0] / 4;
    case 1: return -(g[0] + g[1] + g[2]) / 6;
    case 2: return -(g[0] - g[1] + g[2]) / 6;
    case 3: return g[0] / 24 + g[1] / 12 + g[2] / 6;
    case 4: return g[0] / 24 - g[1] / 12 + g[2] / 6;
    default: return g[2];
  }
}

// The same of four taps: the values of their polynomial at 0, 1, -1, 1/2, -1/2 and 2, scaled, and its first coefficient.
float transform_four(int stream, const double* g) {
  const auto at = [g](double x) { return g[0] + x * (g[1] + x * (g[2] + x * g[3])); };
  switch (stream) {
    case 0: return -2 * g[0];
    case 1: return -2.0 / 3 * at(1);
    case 2: return -2.0 / 9 * at(-1);
    case 3: return 16.0 / 9 * at(0.5);
    case 4: return 16.0 / 15 * at(-0.5);
    case 5: return 2.0 / 45 * at(2);
    default: return g[3];
  }
}

// Order: blocks of outputs, streams, groups of taps, inputs, outputs of the block. Of a short kernel: blocks, taps, ...
void pack(const float* weights, float* packed, int outputs, int kernel, int inputs) {
  const bool direct = !transformed(kernel);
  const int total = vectors_of(outputs), streams = direct ? 1 : streams_of(kernel);
  const int taps = direct ? 1 : taps_of(kernel), groups = direct ? kernel : groups_of(kernel);
  const auto weight = [&](int o, int k, int c) {
    return o < outputs && k < kernel ? weights[(static_cast<size_t>(o) * kernel + k) * inputs + c] : 0.0f;
  };
  for (int first = 0; first < total;) {
    const int width = block_of(total - first) * kLanes;
    for (int s = 0; s < streams; ++s) {
      for (int g = 0; g < groups; ++g) {
        for (int c = 0; c < inputs; ++c) {
          for (int n = 0; n < width; ++n) {
            double of[4] = {};
            for (int k = 0; k < taps; ++k) of[k] = weight(first * kLanes + n, taps * g + k, c);
            *packed++ = direct ? of[0] : taps == 3 ? transform_three(s, of) : transform_four(s, of);
          }
        }
      }
    }
    first += width / kLanes;
  }
}

// Rows of a product: `groups` runs of `depth` numbers each, `segment` apart; rows lie `stride` apart.
struct Rows {
  const float* from;
  size_t stride, segment;
  int groups, depth;
};

// Inputs by which the weights are fetched ahead: the processor alone fetches them too late from the second cache.
constexpr int kAhead = 16;

// x [ROWS, groups * depth] times w [groups * depth, VECTORS * kLanes]: put(row, vector, sum) gets the sums.
template <int VECTORS, int ROWS, typename Put>
inline void multiply(const Rows& x, const float* from, const float* w, const Put& put) {
  Vec sum[ROWS][VECTORS] = {};
  for (int g = 0; g < x.groups; ++g, from += x.segment) {
    for (int c = 0; c < x.depth; ++c, w += VECTORS * kLanes) {
      Vec weight[VECTORS];
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) {
        weight[v] = load(w + v * kLanes);
        __builtin_prefetch(w + (kAhead * VECTORS + v) * kLanes);
      }
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const Vec value = splat(from[r * x.stride + c]);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; ++v) sum[r][v] += value * weight[v];
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) put(r, v, sum[r][v]);
}

// sums [rows, VECTORS * kLanes] of any number of rows. Up to kMostRows - 1 rows beyond are read and written, too.
template <int VECTORS>
void multiply_rows(const Rows& x, const float* w, float* sums, size_t sums_stride, int rows) {
  constexpr int most = kRows[VECTORS];
  for (int r = 0; r < rows; r += most) {
    float* to = sums + r * sums_stride;
    multiply<VECTORS, most>(x, x.from + r * x.stride, w, [=](int row, int v, Vec sum) { store(to + row * sums_stride + v * kLanes, sum); });
  }
}

// Rows [first, first + rows) of a convolution without a transform, outputs from `begin` on; returns how many rows are
// done: the last ones are not where fewer are left than are computed at once.
template <int VECTORS>
int multiply_out(const Conv& conv, const Rows& x, const float* w, int first, int begin, int rows) {
  constexpr int most = kRows[VECTORS];
  int r = 0;
  for (; r + most <= rows; r += most) {
    const size_t start = static_cast<size_t>(first + r) * conv.outputs + begin;
    multiply<VECTORS, most>(x, x.from + r * x.stride, w, [&](int row, int v, Vec sum) {
      const size_t at = start + static_cast<size_t>(row) * conv.outputs + v * kLanes;
      if (conv.bias) sum += load(conv.bias + begin + v * kLanes);
      if (conv.residual) sum += load(conv.residual + at);
      store(conv.y + at, sum * conv.gain);
    });
  }
  return r;
}

int multiply_block_out(int vectors, const Conv& conv, const Rows& x, const float* w, int first, int begin, int rows) {
  switch (vectors) {
    case 1: return multiply_out<1>(conv, x, w, first, begin, rows);
    case 2: return multiply_out<2>(conv, x, w, first, begin, rows);
    default: return multiply_out<3>(conv, x, w, first, begin, rows);
  }
}

void multiply_block(int vectors, const Rows& x, const float* w, float* sums, size_t sums_stride, int rows) {
  switch (vectors) {
    case 1: return multiply_rows<1>(x, w, sums, sums_stride, rows);
    case 2: return multiply_rows<2>(x, w, sums, sums_stride, rows);
    default: return multiply_rows<3>(x, w, sums, sums_stride, rows);
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

// Products of the rows x + k * step, k in [0, TAPS + 3): number s goes to to + s * plane.
template <int TAPS>
void transform_rows(const float* x, size_t step, int C, float* to, size_t plane) {
  for_vectors(C, [&](auto at, auto put) {
    const Vec d0 = at(x), d1 = at(x + step), d2 = at(x + 2 * step), d3 = at(x + 3 * step), d4 = at(x + 4 * step), d5 = at(x + 5 * step);
    if constexpr (TAPS == 3) {
      const Vec a = d4 - 4.0f * d2, b = d3 - 4.0f * d1, c = d4 - d2, d = 2.0f * (d3 - d1);
      put(to, 4.0f * d0 - 5.0f * d2 + d4);
      put(to + plane, a + b);
      put(to + 2 * plane, a - b);
      put(to + 3 * plane, c + d);
      put(to + 4 * plane, c - d);
      put(to + 5 * plane, 4.0f * d1 - 5.0f * d3 + d5);
    } else {
      const Vec d6 = at(x + 6 * step);
      // Polynomials without the factors of one pair of points, at this row and the next.
      const Vec u0 = d4 - 2.0f * d3 + (0.5f * d1 - 0.25f * d2), u1 = d5 - 2.0f * d4 + (0.5f * d2 - 0.25f * d3);
      const Vec v0 = d4 - 2.0f * d3 + (2.0f * d1 - d2), v1 = d5 - 2.0f * d4 + (2.0f * d2 - d3);
      const Vec w = d5 - 1.25f * d3 + 0.25f * d1;
      put(to, w - 2.0f * d4 + 2.5f * d2 - 0.5f * d0);
      put(to + plane, u1 + u0);
      put(to + 2 * plane, u1 - u0);
      put(to + 3 * plane, v1 + 0.5f * v0);
      put(to + 4 * plane, v1 - 0.5f * v0);
      put(to + 5 * plane, w);
      put(to + 6 * plane, d6 - 1.25f * d4 + 0.25f * d2 - 2.0f * w);
    }
  });
}

// Four output rows of the products m, which lie `step` floats apart: y[e] = those of output e, or null.
template <int TAPS>
void transform_back(const float* m, size_t step, int outputs, const float* bias, float gain, float* const y[kOutputs],
                    const float* const residual[kOutputs]) {
  for_vectors(outputs, [&](auto at, auto put) {
    const Vec m0 = at(m), m1 = at(m + step), m2 = at(m + 2 * step), m3 = at(m + 3 * step), m4 = at(m + 4 * step), m5 = at(m + 5 * step);
    const Vec s = m1 + m2, d = m1 - m2, s2 = m3 + m4, d2 = m3 - m4;
    Vec out[kOutputs];
    if constexpr (TAPS == 3) {
      out[0] = m0 + s + s2;
      out[1] = d + 2.0f * d2;
      out[2] = s + 4.0f * s2;
      out[3] = d + 8.0f * d2 + m5;
    } else {
      out[0] = m0 + s + s2 + m5;
      out[1] = d + 0.5f * d2 + 2.0f * m5;
      out[2] = s + 0.25f * s2 + 4.0f * m5;
      out[3] = d + 0.125f * d2 + 8.0f * m5 + at(m + 6 * step);
    }
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
  const size_t weights = packed_size(outputs, kernel, inputs) * sizeof(float);
  const int streams = transformed(kernel) ? streams_of(kernel) : 0, reach = (kernel - 1) * dilation;
  const auto bytes = [&](int tile) {
    const int quads = (tile + reach) / kOutputs;
    return sizeof(float) * (static_cast<size_t>(tile + reach) * inputs + static_cast<size_t>(streams) * quads * (inputs + kMostVectors * kLanes));
  };
  int tile = 8 * kTileUnit;
  const size_t most = weights <= 8 * kManyWeights ? kScratchBytes : 2 * kScratchBytes;
  while (tile > kTileUnit && (bytes(tile) > most || (weights <= kManyWeights && rows < kPieces * tile))) tile /= 2;
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
  const int C = conv.inputs, total = vectors_of(range.last - range.first), rows = last - first, K = conv.kernel;
  const int in_rows = rows + (K - 1) * conv.dilation;
  float* in = scratch((in_rows + kMostRows) * C + (rows + kMostRows) * kMostVectors * kLanes);
  float* sums = in + (in_rows + kMostRows) * C;
  // Rows that nothing changes are read where they lie, unless products would read rows beyond them.
  const bool plain = !conv.scale && conv.activation == Activation::kNone && first >= conv.left && first - conv.left + in_rows <= conv.valid &&
                     rows % kMostRows == 0 && kMostRows % kRows[2] == 0;
  if (!plain) {
    for (int r = 0; r < in_rows; ++r) gather_row(conv, first - conv.left + r, in + r * C);
    std::fill_n(in + in_rows * C, kMostRows * C, 0.0f);
  }
  const float* from = plain ? conv.x + static_cast<size_t>(first - conv.left) * C : in;
  const Rows x{from, static_cast<size_t>(C), static_cast<size_t>(conv.dilation) * C, K, C};
  const float* w = conv.weights + static_cast<size_t>(range.first) * K * C;
  for (int block = 0; block < total;) {
    const int vectors = block_of(total - block), begin = range.first + block * kLanes, width = vectors * kLanes;
    const int done = begin + width <= range.last ? multiply_block_out(vectors, conv, x, w, first, begin, rows) : 0;
    Rows rest = x;
    rest.from += done * x.stride;
    multiply_block(vectors, rest, w, sums, width, rows - done);
    for (int r = done; r < rows; ++r) {
      const size_t at_row = static_cast<size_t>(first + r) * conv.outputs + begin;
      const float* sum = sums + (r - done) * width;
      for_vectors(std::min(width, range.last - begin), [&](auto at, auto put) {
        Vec v = at(sum);
        if (conv.bias) v += at(conv.bias + begin);
        if (conv.residual) v += at(conv.residual + at_row);
        put(conv.y + at_row, v * conv.gain);
      });
    }
    w += static_cast<size_t>(K) * C * width;
    block += vectors;
  }
}

template <int TAPS>
void convolve_transformed(const Conv& conv, int first, int last, Range range) {
  constexpr int streams = TAPS + kOutputs - 1;
  const int C = conv.inputs, total = vectors_of(range.last - range.first), d = conv.dilation, groups = groups_of(conv.kernel);
  // Quad i of phase p, number i * d + p, is outputs p + (4 * i + e) * d; group g of its taps reads transform i + g.
  const int quads = (last - first + kOutputs * d - 1) / (kOutputs * d) * d, transforms = quads + (groups - 1) * d;
  const int in_rows = kOutputs * transforms + (TAPS - 1) * d;
  const size_t plane = static_cast<size_t>(transforms + kMostRows) * C;
  constexpr size_t most_width = kMostVectors * kLanes;
  const size_t sums_plane = (quads + kMostRows) * most_width;
  float* in = scratch(static_cast<size_t>(in_rows) * C + streams * (plane + sums_plane));
  float* products = in + static_cast<size_t>(in_rows) * C;
  float* sums = products + streams * plane;
  for (int r = 0; r < in_rows; ++r) gather_row(conv, first - conv.left + r, in + static_cast<size_t>(r) * C);
  for (int k = 0; k < transforms; ++k)
    transform_rows<TAPS>(in + static_cast<size_t>(kOutputs * (k - k % d) + k % d) * C, static_cast<size_t>(d) * C, C, products + static_cast<size_t>(k) * C, plane);
  for (int s = 0; s < streams; ++s) std::fill_n(products + s * plane + static_cast<size_t>(transforms) * C, kMostRows * C, 0.0f);
  const float* w = conv.weights + static_cast<size_t>(range.first) * streams * groups * C;
  for (int block = 0; block < total;) {
    const int vectors = block_of(total - block), begin = range.first + block * kLanes, width = vectors * kLanes;
    for (int s = 0; s < streams; ++s) {
      const Rows x{products + s * plane, static_cast<size_t>(C), static_cast<size_t>(d) * C, groups, C};
      multiply_block(vectors, x, w, sums + s * sums_plane, width, quads);
      w += static_cast<size_t>(groups) * C * width;
    }
    for (int k = 0; k < quads; ++k) {
      float* y[kOutputs];
      const float* residual[kOutputs];
      for (int e = 0; e < kOutputs; ++e) {
        const int row = first + kOutputs * (k - k % d) + k % d + e * d;
        const size_t at_row = static_cast<size_t>(row) * conv.outputs + begin;
        y[e] = row < last ? conv.y + at_row : nullptr;
        residual[e] = conv.residual && row < last ? conv.residual + at_row : nullptr;
      }
      transform_back<TAPS>(sums + static_cast<size_t>(k) * width, sums_plane, std::min(width, range.last - begin), conv.bias ? conv.bias + begin : nullptr,
                           conv.gain, y, residual);
    }
    block += vectors;
  }
}

void convolve(const Conv& conv, int piece) {
  const int parts = (conv.outputs + conv.plan.width - 1) / conv.plan.width, tile = piece / parts, part = piece % parts;
  const int first = tile * conv.plan.tile, last = std::min(conv.rows, first + conv.plan.tile);
  const Range range{part * conv.plan.width, std::min(conv.outputs, (part + 1) * conv.plan.width)};
  if (!transformed(conv.kernel)) convolve_direct(conv, first, last, range);
  else if (taps_of(conv.kernel) == 3) convolve_transformed<3>(conv, first, last, range);
  else convolve_transformed<4>(conv, first, last, range);
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
