// Products of float32 rows with weights of 8 or 4 bits; those in bfloat16 are in products_bfloat16.h.
//
// A weight is scale * q. With 8 bits |q| <= 127 and there is one scale an output; with 4 bits -8 <= q <= 7 and there is one
// for each group of kGroup inputs. The call rounds each row of inputs, x ~ step * p, and sums p * q in exact integers: a row
// of the result does not depend on the other rows of the call.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "int8_simd.h"
#include "kernels.h"
#include "products_bfloat16.h"
#include "products_matrix.h"
#include "rows.h"
#include "simd.h"

namespace nightingale {
namespace {
namespace int8 {

typedef Coarse CoarseVec __attribute__((vector_size(kLanes * sizeof(Coarse))));
typedef int32_t CellVec __attribute__((vector_size(kCell * sizeof(int32_t)), may_alias));
constexpr int kPanelCells = kPanel / kCell;
constexpr int kFours = 16384 / (kTileCells * kCell * 4);  // of a tile, that fit the first cache
constexpr int kShared = 48;                               // rows, at most, that share them

constexpr int kNibbleOffset = kOffset ? 8 : 0;
constexpr int kGroupFours = kGroup / 4, kGroupBytes = kGroup * kPanel;  // of a panel, when they are bytes

inline int fours(int inputs) { return (inputs + 3) / 4; }

// The largest absolute value of x [n], and at least 1e-30.
inline float largest(const float* x, int n) {
  Vec most = splat(1e-30f);
  int k = 0;
  for (; k + kLanes <= n; k += kLanes) most = max(most, max(load(x + k), -load(x + k)));
  float found = greatest(most);
  for (; k < n; ++k) found = std::max(found, std::fabs(x[k]));
  return found;
}

// y [n] = f(a, b, c), by the vector; the last may be short. b and c may be null: f gets zeros.
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
    case BeforeKind::kExactGelu:
      return map(n, y, [](Vec a, Vec, Vec) { return nightingale::gelu(a); }, x);
    case BeforeKind::kSwiglu:
      return map(n, y, [](Vec gate, Vec up, Vec) { return gate * sigmoid(gate) * up; }, x, x + n);
    case BeforeKind::kRmsNorm: {
      const Vec rate = splat(1.0f / std::sqrt(sum_of_products(x, x, n) / n + before.eps));
      return map(n, y, [&](Vec a, Vec gain, Vec) { return a * rate * gain; }, x, before.gain);
    }
    case BeforeKind::kLayerNorm:
      return normalize({.x = x, .gain = before.gain, .shift = before.shift, .y = y, .width = n, .eps = before.eps}, 0, 1);
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

// Prepare rows [first, last), and round them to `coarse` but for weights in bfloat16.
void round_rows(const Int8Product& m, int first, int last) {
  const auto buffer = std::unique_ptr<float[]>(new float[m.inputs]);
  const size_t stride = 4 * fours(m.inputs);
  const int groups = m.inputs / kGroup;
  for (int row = first; row < last; ++row) {
    const float* x = m.x + static_cast<size_t>(row) * m.x_stride;
    if (m.bits == 16) {
      float* to = static_cast<float*>(m.coarse) + row * stride;
      prepare(m.before, x, to, m.inputs);
      std::fill(to + m.inputs, to + stride, 0.0f);
      continue;
    }
    prepare(m.before, x, buffer.get(), m.inputs);
    Coarse* p = static_cast<Coarse*>(m.coarse) + row * stride;
    m.steps[row] = coarsen(buffer.get(), m.inputs, p, m.sums + row);
    if (m.pairs) {
      Coarse* pair = static_cast<Coarse*>(m.pairs) + (row - row % 2) * stride + row % 2 * 8;
      for (size_t k = 0; k + 8 <= stride; k += 8) std::memcpy(pair + 2 * k, p + k, 8 * sizeof(Coarse));
    }
    for (int g = 0; m.group_sums && g < groups; ++g) {
      int32_t sum = 0;
      for (int k = 0; k < kGroup; ++k) sum += p[g * kGroup + k];
      m.group_sums[static_cast<size_t>(row) * groups + g] = kNibbleOffset * sum;
    }
  }
}

// The part for R rows and C cells.
template <int R, int C>
__attribute__((noinline)) void dots(const Part& part) {
  const size_t stride = part.stride, panel = static_cast<size_t>(part.depth) * kPanel * 4;
  const Coarse* x = part.x + part.start * 4;
  const uint8_t *w = part.w + static_cast<size_t>(part.start) * kPanel * 4, *ahead = part.ahead;
  Sums sums[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sums[r][c] = zero();
  for (int k = 0; k < part.count; ++k, w += kPanel * 4, ahead += kPanel * 4, x += 4) {
    if (R > 1) __builtin_prefetch(ahead);
    const auto weights_at = [&](int c) { return w + c / kPanelCells * panel + c % kPanelCells * kCell * 4; };
#if defined(NIGHTINGALE_HALVES)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      Cell weights[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) weights[c] = cell(weights_at(c), half);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Four input = four(x + r * stride, half);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sums[r][c] = add(sums[r][c], weights[c], input);
      }
    }
#else
    Four inputs[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) inputs[r] = four(x + r * stride);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const Cell weights = cell(weights_at(c));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[r][c] = add(sums[r][c], weights, inputs[r]);
    }
#endif
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
  if (const int done = whole ? matrix_rows(rows, part) : 0) return done;
  if (!whole) return dots<1, kPanelCells>(part), 1;
  if (rows >= kTileRows && !(kTileRows == 6 && rows == 8)) return dots<kTileRows, kTileCells>(part), kTileRows;
  if (kTileRows > 4 && rows >= 4) return dots<std::min(kTileRows, 4), kTileCells>(part), 4;
  if (rows >= 2) return dots<std::min(kTileRows, 2), kTileCells>(part), 2;
  return dots<1, kTileCells>(part), 1;
}

inline Vec whole_vec(const int32_t* t, int32_t less) {
  IntVec whole;
  std::memcpy(&whole, t, sizeof whole);
  return __builtin_convertvector(whole - less, Vec);
}

// Int8Product::pairs from row `row`, which is even, and input `input` on; null without.
inline const Coarse* pairs_at(const Int8Product& m, int row, size_t stride, int input) {
  return m.pairs ? static_cast<const Coarse*>(m.pairs) + row * stride + 2 * input : nullptr;
}

// Call use(row, panel, products [kPanel]) for all rows and panels [first, last) of weights of 8 bits.
//
// A batch of sentences shares a part of the weights while it is in the first cache. With more rows, to fetch the parts
// from the second cost less than to add up their sums.
template <typename Use>
inline void for_bytes(const Int8Product& m, int first, int last, const Use& use) {
  const int depth = fours(m.inputs), block = m.rows > kTileRows && m.rows <= kShared ? kFours : depth;
  const size_t size = static_cast<size_t>(depth) * kPanel * 4, stride = 4 * static_cast<size_t>(depth);
  alignas(64) int32_t t[kShared * kTile * kPanel];
  for (int p = first, panels; p < last; p += panels) {
    const bool whole = p + kTile <= last;
    panels = whole ? kTile : 1;
    for (int row = 0; row < m.rows; row += kShared) {
      const int rows = std::min(kShared, m.rows - row);
      for (int start = 0; start < depth; start += block) {
        Part part{.stride = stride, .depth = depth, .start = start, .count = std::min(block, depth - start)};
        part.w = m.weights + p * size;
        for (int r = 0, group = 0; r < rows; ++group) {
          part.x = static_cast<const Coarse*>(m.coarse) + (row + r) * stride;
          part.pairs = pairs_at(m, row + r, stride, start * 4);
          part.t = t + r * panels * kPanel;
          // Each group of rows fetches one panel of what follows.
          const int following = start + block < depth ? start + block : 0;
          part.ahead = part.w + (group % panels + (following ? 0 : panels)) * size + following * kPanel * 4;
          r += dots_of(rows - r, whole, part);
        }
      }
      for (int r = 0; r < rows; ++r)
        for (int i = 0; i < panels; ++i) {
          float y[kPanel];
          const Vec step = splat(m.steps[row + r]);
          for (int k = 0; k < kPanel; k += kLanes)
            store(y + k, whole_vec(t + (r * panels + i) * kPanel + k, m.sums[row + r]) *
                             (load(m.scales + (p + i) * kPanel + k) * step));
          use(row + r, p + i, y);
        }
    }
  }
}

// Bytes of a group's halves of bytes: the lower of each 64 are those of a four of inputs, the upper those of the next. The
// cache gets what is `ahead` bytes behind them.
inline void expand(const uint8_t* halves, uint8_t* bytes, ptrdiff_t ahead) {
  typedef uint8_t Bytes __attribute__((vector_size(kPanel * 4)));
  for (int k = 0; k < kGroupFours / 2; ++k, halves += sizeof(Bytes), bytes += 2 * sizeof(Bytes)) {
    Bytes both;
    __builtin_prefetch(halves + ahead);
    std::memcpy(&both, halves, sizeof both);
    const Bytes low = (both & 15) - (8 - kNibbleOffset), high = (both >> 4) - (8 - kNibbleOffset);
    std::memcpy(bytes, &low, sizeof low);
    std::memcpy(bytes + sizeof low, &high, sizeof high);
  }
}

// The same for weights of 4 bits.
template <typename Use>
inline void for_halves(const Int8Product& m, int first, int last, const Use& use) {
  const int groups = m.inputs / kGroup;
  const size_t size = static_cast<size_t>(groups) * kGroupBytes / 2;
  alignas(64) uint8_t bytes[kTile * kGroupBytes];
  alignas(64) int32_t t[16 * kTile * kPanel];  // of the rows that are done at once, at most
  alignas(64) float y[kShared * kTile * kPanel];
  for (int p = first, panels; p < last; p += panels) {
    const bool whole = p + kTile <= last;
    panels = whole ? kTile : 1;
    for (int row = 0; row < m.rows; row += kShared) {
      const int rows = std::min(kShared, m.rows - row);
      std::fill_n(y, rows * panels * kPanel, 0.0f);
      for (int g = 0; g < groups; ++g) {
        const uint8_t* packed = m.weights + p * size + g * kGroupBytes / 2;
        // Two groups on, in this panel or in its follower.
        const size_t ahead = kGroupBytes + (g + 2 < groups ? 0 : (panels - 1) * size);
        for (int i = 0; i < panels; ++i) expand(packed + i * size, bytes + i * kGroupBytes, ahead);
        Part part{.w = bytes, .t = t, .stride = static_cast<size_t>(m.inputs), .depth = kGroupFours, .count = kGroupFours};
        for (int r = 0; r < rows;) {
          part.x = static_cast<const Coarse*>(m.coarse) + (row + r) * part.stride + g * kGroup;
          part.pairs = pairs_at(m, row + r, part.stride, g * kGroup);
          part.ahead = bytes;
          const int count = dots_of(rows - r, whole, part);
          const int32_t* found = t;
          for (const int end = r + count; r < end; ++r) {
            const int32_t less = m.group_sums[static_cast<size_t>(row + r) * groups + g];
            const float* scales = m.scales + (static_cast<size_t>(p) * groups + g) * kPanel;
            float* sums = y + r * panels * kPanel;
            for (int i = 0; i < panels; ++i, scales += groups * kPanel, sums += kPanel, found += kPanel)
              for (int k = 0; k < kPanel; k += kLanes)
                store(sums + k, load(sums + k) + whole_vec(found + k, less) * load(scales + k));
          }
        }
      }
      for (int r = 0; r < rows; ++r)
        for (int i = 0; i < panels; ++i) {
          float* product = y + (r * panels + i) * kPanel;
          for (int k = 0; k < kPanel; k += kLanes) store(product + k, load(product + k) * m.steps[row + r]);
          use(row + r, p + i, product);
        }
    }
  }
}

template <typename Use>
inline void for_products(const Int8Product& m, int first, int last, const Use& use) {
  if (m.bits == 16) return for_pairs(m, first, last, use);
#if defined(__AMX_INT8__)
  configure_tiles();
#endif
  m.bits == 4 ? for_halves(m, first, last, use) : for_bytes(m, first, last, use);
}

// y = residual + bias + the product, for all rows and the outputs of panels [first, last).
void multiply(const Int8Product& m, int first, int last) {
  for_products(m, first, last, [&](int row, int panel, const float* product) {
    const int start = panel * kPanel;
    const size_t at = static_cast<size_t>(row) * m.outputs + start;
    map(std::min(kPanel, m.outputs - start), m.y + at, [](Vec a, Vec b, Vec c) { return a + b + c; }, product,
        m.bias ? m.bias + start : nullptr, m.residual ? m.residual + at : nullptr);
  });
}

}  // namespace int8
}  // namespace
}  // namespace nightingale
