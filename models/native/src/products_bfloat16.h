// Products of float32 rows with weights in bfloat16, which are widened in registers: half the memory to read, and the
// input and the sums stay in float32.
//
// Order: panels of kPanel outputs, pairs of inputs, outputs of the panel, the two inputs.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels.h"
#include "simd.h"

namespace nightingale {
namespace {
namespace int8 {

constexpr int kPairBytes = kPanel * 4;                 // of one pair of a panel
constexpr int kPairVectors = kLanes == 8 ? 2 : 4;      // of outputs, that are computed at once
constexpr int kPairPanels = kPairVectors * kLanes / kPanel;
#if defined(__AVX512F__)
constexpr int kPairRows = 6;
#elif defined(__AVX2__) || defined(__ARM_NEON)
constexpr int kPairRows = 4;
#else
constexpr int kPairRows = 2;
#endif
constexpr int kPairAhead = 512;  // bytes of each panel that are fetched ahead

// Round one output's weights w to bfloat16, into lane `lane` of each of the panel's pairs.
void pack_pairs(const float* w, uint8_t* panel, int lane, int inputs) {
  for (int k = 0; k < inputs; ++k) {
    const uint16_t half = to_bfloat16(w[k]);
    std::memcpy(panel + k / 2 * kPairBytes + lane * 4 + k % 2 * 2, &half, sizeof half);
  }
}

// The weights of one output, as float32.
void unpack_pairs(const uint8_t* panel, int lane, int inputs, float* y) {
  for (int k = 0; k < inputs; ++k) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<char*>(&bits) + 2, panel + k / 2 * kPairBytes + lane * 4 + k % 2 * 2, 2);
    std::memcpy(y + k, &bits, sizeof bits);
  }
}

// t [R, V * kLanes] = x [R rows, `stride` apart] times V vectors of outputs of the panels at w, `panel` bytes apart.
template <int R, int V>
__attribute__((noinline)) void pair_dots(const float* x, size_t stride, const uint8_t* w, size_t panel, int pairs, float* t) {
  Vec sums[R][V] = {};
  for (int p = 0; p < pairs; ++p, x += 2, w += kPairBytes) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const uint8_t* at = w + v * kLanes / kPanel * panel + v * kLanes % kPanel * 4;
      IntVec both;
      std::memcpy(&both, at, sizeof both);
      if (v * kLanes % kPanel == 0) __builtin_prefetch(at + kPairAhead);
      const Vec first = (Vec)(both << 16), second = (Vec)(both & -65536);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        sums[r][v] = fused(splat(x[r * stride]), first, sums[r][v]);
        sums[r][v] = fused(splat(x[r * stride + 1]), second, sums[r][v]);
      }
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) store(t + (r * V + v) * kLanes, sums[r][v]);
}

// Call use(row, panel, products [kPanel]) for all rows, which `coarse` holds as float32, and panels [first, last).
template <typename Use>
inline void for_pairs(const Int8Product& m, int first, int last, const Use& use) {
  constexpr int kNarrow = kPanel / kLanes;
  const int pairs = (m.inputs + 3) / 4 * 2;
  const size_t stride = 2 * static_cast<size_t>(pairs), size = static_cast<size_t>(pairs) * kPairBytes;
  alignas(64) float t[kPairRows * kPairVectors * kLanes];
  for (int p = first, panels; p < last; p += panels) {
    const bool wide = p + kPairPanels <= last;
    panels = wide ? kPairPanels : 1;
    for (int row = 0, rows; row < m.rows; row += rows) {
      const int left = m.rows - row;
      rows = left >= kPairRows ? kPairRows : left >= 2 ? 2 : 1;
      const auto run = rows == kPairRows ? (wide ? pair_dots<kPairRows, kPairVectors> : pair_dots<kPairRows, kNarrow>)
                       : rows == 2       ? (wide ? pair_dots<2, kPairVectors> : pair_dots<2, kNarrow>)
                                         : (wide ? pair_dots<1, kPairVectors> : pair_dots<1, kNarrow>);
      run(static_cast<const float*>(m.coarse) + row * stride, stride, m.weights + p * size, size, pairs, t);
      for (int r = 0; r < rows; ++r)
        for (int i = 0; i < panels; ++i) use(row + r, p + i, t + (r * panels + i) * kPanel);
    }
  }
}

}  // namespace int8
}  // namespace
}  // namespace nightingale
