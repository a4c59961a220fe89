// Products of float32 rows with weights of 8 bits.
//
// A weight is scale * q with |q| <= 127 and one scale an output. The call rounds each row of inputs, x ~ step * p, and
// sums p * q in exact integers: a row of the result does not depend on the other rows of the call.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "int8_simd.h"
#include "kernels.h"
#include "simd.h"

namespace nightingale {
namespace {
namespace int8 {

typedef Coarse CoarseVec __attribute__((vector_size(kLanes * sizeof(Coarse))));
typedef int32_t CellVec __attribute__((vector_size(kCell * sizeof(int32_t)), may_alias));
constexpr int kTile = kTileCells * kCell / kPanel;  // panels of a tile
constexpr int kPanelCells = kPanel / kCell;
constexpr int kFours = 16384 / (kTileCells * kCell * 4);  // of a tile, that fit the first cache
constexpr int kShared = 48;                               // rows, at most, that share them

inline int fours(int inputs) { return (inputs + 3) / 4; }

// Order: panels of kPanel outputs, fours of inputs, outputs of the panel, inputs of the four.
size_t size(int outputs, int inputs) {
  return static_cast<size_t>((outputs + kPanel - 1) / kPanel) * fours(inputs) * kPanel * 4;
}

// The largest absolute value of x [n], and at least 1e-30.
inline float largest(const float* x, int n) {
  Vec most = splat(1e-30f);
  int k = 0;
  for (; k + kLanes <= n; k += kLanes) most = max(most, max(load(x + k), -load(x + k)));
  float found = 1e-30f;
  for (int i = 0; i < kLanes; ++i) found = std::max(found, most[i]);
  for (; k < n; ++k) found = std::max(found, std::fabs(x[k]));
  return found;
}

// Round rows [first, last) of weights to the panels that hold them; `first` is a multiple of kPanel. The scales of a
// panel's missing outputs are zero.
void pack(const float* weights, uint8_t* packed, float* scales, int outputs, int inputs, int first, int last) {
  const int depth = fours(inputs);
  for (int start = first; start < last; start += kPanel) {
    uint8_t* panel = packed + static_cast<size_t>(start) * depth * 4;
    std::memset(panel, kOffset, static_cast<size_t>(depth) * kPanel * 4);
    for (int lane = 0; lane < kPanel; ++lane) {
      const int row = start + lane;
      scales[row] = 0;
      if (row >= outputs) continue;
      const float* w = weights + static_cast<size_t>(row) * inputs;
      const float scale = scales[row] = largest(w, inputs) / 127;
      for (int k = 0; k < inputs; ++k)
        panel[k / 4 * kPanel * 4 + lane * 4 + k % 4] =
            static_cast<uint8_t>(static_cast<int>(std::nearbyint(w[k] / scale)) + kOffset);
    }
  }
}

inline int value_of(uint8_t w) { return kOffset ? w - kOffset : static_cast<int8_t>(w); }

// The weights of one output, as q.
template <typename Use>
inline void for_weights(const uint8_t* packed, int output, int inputs, const Use& use) {
  const uint8_t* w = packed + static_cast<size_t>(output / kPanel) * fours(inputs) * kPanel * 4 + output % kPanel * 4;
  for (int k = 0; k < inputs; ++k) use(k, value_of(w[k / 4 * kPanel * 4 + k % 4]));
}

void unpack(const uint8_t* packed, const float* scales, int output, int inputs, float* y) {
  for_weights(packed, output, inputs, [&](int k, int q) { y[k] = scales[output] * q; });
}

// Apply f to vectors of x [n] and of y, z, ... at the same places; the last vector may be short.
template <typename Function>
inline void map(int n, float* y, const Function& f, const float* a, const float* b = nullptr, const float* c = nullptr) {
  int k = 0;
  for (; k + kLanes <= n; k += kLanes) store(y + k, f(load(a + k), b ? load(b + k) : Vec{}, c ? load(c + k) : Vec{}));
  if (k == n) return;
  float last[3][kLanes] = {};
  for (int i = k; i < n; ++i) {
    last[0][i - k] = a[i];
    if (b) last[1][i - k] = b[i];
    if (c) last[2][i - k] = c[i];
  }
  store(last[0], f(load(last[0]), load(last[1]), load(last[2])));
  std::copy(last[0], last[0] + (n - k), y + k);
}

inline float sum_of_products(const float* x, const float* y, int n) {
  Vec sum{};
  int k = 0;
  for (; k + kLanes <= n; k += kLanes) sum += load(x + k) * load(y + k);
  float rest = total(sum);
  for (; k < n; ++k) rest += x[k] * y[k];
  return rest;
}

inline float sum_of_values(const float* x, int n) {
  Vec sum{};
  int k = 0;
  for (; k + kLanes <= n; k += kLanes) sum += load(x + k);
  float rest = total(sum);
  for (; k < n; ++k) rest += x[k];
  return rest;
}

// What comes before the product, of one row x into y [inputs].
void prepare(const Before& before, const float* x, float* y, int n) {
  switch (before.kind) {
    case BeforeKind::kNone:
      std::copy(x, x + n, y);
      return;
    case BeforeKind::kRelu:
      return map(n, y, [](Vec a, Vec, Vec) { return max(a, Vec{}); }, x);
    case BeforeKind::kGelu:
      return map(n, y, [](Vec a, Vec, Vec) {
        return 0.5f * a * (1.0f + tanh(0.797884561f * (a + 0.044715f * a * a * a)));
      }, x);
    case BeforeKind::kSwiglu:
      return map(n, y, [](Vec gate, Vec up, Vec) { return gate * sigmoid(gate) * up; }, x, x + n);
    case BeforeKind::kRmsNorm: {
      const Vec rate = splat(1.0f / std::sqrt(sum_of_products(x, x, n) / n + before.eps));
      return map(n, y, [&](Vec a, Vec gain, Vec) { return a * rate * gain; }, x, before.gain);
    }
    case BeforeKind::kLayerNorm: {
      const Vec mean = splat(sum_of_values(x, n) / n);
      map(n, y, [&](Vec a, Vec, Vec) { return a - mean; }, x);
      const Vec rate = splat(1.0f / std::sqrt(sum_of_products(y, y, n) / n + before.eps));
      return map(n, y, [&](Vec a, Vec gain, Vec shift) { return a * rate * gain + shift; }, y, before.gain, before.shift);
    }
  }
}

// Round y [n] to p [4 * fours(n)]. Returns the step; `sum` gets kOffset times the sum of p.
float coarsen(const float* y, int n, Coarse* p, int32_t* sum) {
  const float most = largest(y, n), step = most / 127, inverse = 1 / step;
  int32_t all = 0;
  int k = 0;
  IntVec sums{};
  for (; k + kLanes <= n; k += kLanes) {
    const IntVec whole = __builtin_convertvector(round(load(y + k) * inverse), IntVec);
    const CoarseVec coarse = __builtin_convertvector(whole, CoarseVec);
    std::memcpy(p + k, &coarse, sizeof coarse);
    sums += whole;
  }
  for (int i = 0; i < kLanes; ++i) all += sums[i];
  for (; k < n; ++k) {
    p[k] = static_cast<Coarse>(std::nearbyint(y[k] * inverse));
    all += p[k];
  }
  for (; k % 4; ++k) p[k] = 0;
  *sum = kOffset * all;
  return step;
}

void round_rows(const Int8Product& m, int first, int last) {
  const auto buffer = std::unique_ptr<float[]>(new float[m.inputs]);
  const size_t stride = 4 * fours(m.inputs);
  for (int row = first; row < last; ++row) {
    prepare(m.before, m.x + static_cast<size_t>(row) * m.x_stride, buffer.get(), m.inputs);
    m.steps[row] = coarsen(buffer.get(), m.inputs, static_cast<Coarse*>(m.coarse) + row * stride, m.sums + row);
  }
}

// Part of a product: fours [start, start + count) of rows at x and of the panels at w, of `depth` fours each. Sums go to
// t [rows, kTile * kPanel], or to [rows, kPanel] for one panel; those of later fours are added. The cache gets `count`
// cells from `ahead` on.
struct Part {
  const Coarse* x;
  const uint8_t *w, *ahead;
  int32_t* t;
  int depth, start, count;
};

// The part for R rows and C cells.
template <int R, int C>
__attribute__((noinline)) void dots(const Part& part) {
  const size_t stride = 4 * static_cast<size_t>(part.depth), panel = static_cast<size_t>(part.depth) * kPanel * 4;
  const Coarse* x = part.x + part.start * 4;
  const uint8_t *w = part.w + static_cast<size_t>(part.start) * kPanel * 4, *ahead = part.ahead;
  Sums sums[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sums[r][c] = zero();
  for (int k = 0; k < part.count; ++k, w += kPanel * 4, ahead += kPanel * 4, x += 4) {
    Four inputs[R];
    if (R > 1) __builtin_prefetch(ahead);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) inputs[r] = four(x + r * stride);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const Cell weights = cell(w + c / kPanelCells * panel + c % kPanelCells * kCell * 4);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[r][c] = add(sums[r][c], weights, inputs[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      int32_t* t = part.t + (r * C + c) * kCell;
      CellVec before{}, found;
      if (part.start) std::memcpy(&before, t, sizeof before);
      put(reinterpret_cast<int32_t*>(&found), sums[r][c]);
      found += before;
      std::memcpy(t, &found, sizeof found);
    }
}

// The part for as many of `rows` rows as fit a tile, of a whole tile or else of one panel. Returns their number.
inline int dots_of(int rows, bool whole, const Part& part) {
  if (!whole) return dots<1, kPanelCells>(part), 1;
  if (rows >= kTileRows && rows != 8) return dots<kTileRows, kTileCells>(part), kTileRows;
  if (kTileRows > 4 && rows >= 4) return dots<std::min(kTileRows, 4), kTileCells>(part), 4;
  if (rows >= 2) return dots<std::min(kTileRows, 2), kTileCells>(part), 2;
  return dots<1, kTileCells>(part), 1;
}

// Call use(row, panel, sums of the panel's outputs less the offset's part) for all rows and panels [first, last).
//
// A batch of sentences shares a part of the weights while it is in the first cache. With more rows, to fetch the parts
// from the second cost less than to add up their sums.
template <typename Use>
inline void for_sums(const Int8Product& m, int first, int last, const Use& use) {
  const int depth = fours(m.inputs);
  const int block = m.rows > kTileRows && m.rows <= kShared ? kFours : depth;
  const size_t size = static_cast<size_t>(depth) * kPanel * 4;
  alignas(64) int32_t t[kShared * kTile * kPanel];
  for (int p = first, panels; p < last; p += panels) {
    const bool whole = p + kTile <= last;
    panels = whole ? kTile : 1;
    for (int row = 0; row < m.rows; row += kShared) {
      const int rows = std::min(kShared, m.rows - row);
      for (int start = 0; start < depth; start += block) {
        Part part{.depth = depth, .start = start, .count = std::min(block, depth - start)};
        part.w = m.weights + p * size;
        for (int r = 0, group = 0; r < rows; ++group) {
          part.x = static_cast<const Coarse*>(m.coarse) + static_cast<size_t>(row + r) * 4 * depth;
          part.t = t + r * panels * kPanel;
          // Each group of rows fetches one panel of what follows.
          const int following = start + block < depth ? start + block : 0;
          part.ahead = part.w + (group % panels + (following ? 0 : panels)) * size + following * kPanel * 4;
          r += dots_of(rows - r, whole, part);
        }
      }
      for (int r = 0; r < rows; ++r)
        for (int i = 0; i < panels; ++i) use(row + r, p + i, t + (r * panels + i) * kPanel);
    }
  }
}

// y = residual + bias + the product, for all rows and the outputs of panels [first, last).
void multiply(const Int8Product& m, int first, int last) {
  for_sums(m, first, last, [&](int row, int panel, const int32_t* t) {
    const int start = panel * kPanel, count = std::min(kPanel, m.outputs - start);
    const size_t at = static_cast<size_t>(row) * m.outputs + start;
    const Vec step = splat(m.steps[row]);
    float out[kPanel];
    for (int k = 0; k < kPanel; k += kLanes) {
      IntVec whole;
      std::memcpy(&whole, t + k, sizeof whole);
      const Vec value = __builtin_convertvector(whole - m.sums[row], Vec) * (load(m.scales + start + k) * step);
      store(out + k, m.bias ? value + load(m.bias + start + k) : value);
    }
    if (m.residual)
      for (int k = 0; k < count; ++k) out[k] += m.residual[at + k];
    std::memcpy(m.y + at, out, count * sizeof(float));
  });
}

// Of rows [first, last) of the rounded inputs: the length of x less its rounding, and of x.
void measure_rows(const Int8Product& m, float* rests, float* norms, int first, int last) {
  const size_t stride = 4 * fours(m.inputs);
  for (int row = first; row < last; ++row) {
    const float *x = m.x + static_cast<size_t>(row) * m.x_stride;
    const Coarse* p = static_cast<const Coarse*>(m.coarse) + row * stride;
    double rest = 0, norm = 0;
    for (int k = 0; k < m.inputs; ++k) {
      const double off = x[k] - static_cast<double>(m.steps[row]) * p[k];
      rest += off * off;
      norm += static_cast<double>(x[k]) * x[k];
    }
    rests[row] = static_cast<float>(std::sqrt(rest));
    norms[row] = static_cast<float>(std::sqrt(norm));
  }
}

// Of outputs [first, last): the length of the rounded weights and, where there are `weights`, of what rounding took.
void measure_weights(const float* weights, const uint8_t* packed, const float* scales, int inputs, float* lengths, float* errors,
                     int first, int last) {
  for (int n = first; n < last; ++n) {
    double length = 0, error = 0;
    for_weights(packed, n, inputs, [&](int k, int q) {
      const double near = static_cast<double>(scales[n]) * q;
      length += near * near;
      if (!weights) return;
      const double off = weights[static_cast<size_t>(n) * inputs + k] - near;
      error += off * off;
    });
    lengths[n] = static_cast<float>(std::sqrt(length));
    errors[n] = static_cast<float>(std::sqrt(error));
  }
}

// Estimates of a panel's products, and the bounds of their errors and a little more: the bounds and the products are in
// single precision.
inline void bounds(const Int8Search& s, int row, int panel, const int32_t* t, float* middle, float* off) {
  const Int8Product& m = s.product;
  for (int k = 0; k < kPanel; k += kLanes) {
    const int at = panel * kPanel + k;
    IntVec whole;
    std::memcpy(&whole, t + k, sizeof whole);
    const Vec product = __builtin_convertvector(whole - m.sums[row], Vec) * (load(m.scales + at) * m.steps[row]);
    const Vec length = load(s.lengths + at), error = load(s.errors + at);
    store(middle + k, product + load(s.banned + at));
    store(off + k, 1.001f * (s.rests[row] * length + s.norms[row] * error) + 1e-5f * s.norms[row] * length);
  }
}

// Bound the largest product of each panel [first, last) from both sides, for all rows.
void screen(const Int8Search& s, int first, int last) {
  const int panels = (s.product.outputs + kPanel - 1) / kPanel;
  for_sums(s.product, first, last, [&](int row, int panel, const int32_t* t) {
    float middle[kPanel], off[kPanel], low = -INFINITY, high = -INFINITY;
    bounds(s, row, panel, t, middle, off);
    for (int k = 0; k < kPanel; ++k) {
      low = std::max(low, middle[k] - off[k]);
      high = std::max(high, middle[k] + off[k]);
    }
    s.floors[static_cast<size_t>(row) * panels + panel] = low;
    s.ceilings[static_cast<size_t>(row) * panels + panel] = high;
  });
}

// Find a row's largest product among the panels that may have it; of equal ones the first. Returns the number of
// products that were computed in full.
int choose(const Int8Search& s, int row, int32_t* best) {
  const Int8Product& m = s.product;
  const int depth = fours(m.inputs), panels = (m.outputs + kPanel - 1) / kPanel;
  const size_t bounded = static_cast<size_t>(row) * panels, size = static_cast<size_t>(depth) * kPanel * 4;
  const float *floors = s.floors + bounded, *ceilings = s.ceilings + bounded;
  float floor = -INFINITY, most = -INFINITY;
  for (int p = 0; p < panels; ++p) floor = std::max(floor, floors[p]);
  const auto buffer = std::unique_ptr<float[]>(new float[m.inputs]);
  const float* x = m.x + static_cast<size_t>(row) * m.x_stride;
  int count = 0;
  *best = 0;
  for (int p = 0; p < panels; ++p) {
    if (!(ceilings[p] >= floor)) continue;
    int32_t t[kPanel];
    float middle[kPanel], off[kPanel];
    const Coarse* rounded = static_cast<const Coarse*>(m.coarse) + static_cast<size_t>(row) * 4 * depth;
    dots<1, kPanelCells>({.x = rounded, .w = m.weights + p * size, .t = t, .depth = depth, .count = depth});
    bounds(s, row, p, t, middle, off);
    for (int k = 0; k < kPanel; ++k) {
      const int n = p * kPanel + k;
      if (!(middle[k] + off[k] >= floor) || s.banned[n] == -INFINITY) continue;
      const float* w = s.whole ? s.whole + static_cast<size_t>(n) * m.inputs : buffer.get();
      if (!s.whole) unpack(m.weights, m.scales, n, m.inputs, buffer.get());
      const float product = s.banned[n] + sum_of_products(x, w, m.inputs);
      ++count;
      if (product > most) {
        most = product;
        *best = n;
      }
    }
  }
  return count;
}

}  // namespace int8
}  // namespace
}  // namespace nightingale
