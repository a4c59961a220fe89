// The search for the largest product of each row: see Int8Search.
#pragma once

#include "attention.h"
#include "products_pack.h"

namespace nightingale {
namespace {
namespace int8 {

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

// Bounds of a panel's products: `products` less and more than these, and a little more, as bounds and products are in single
// precision. `share` of the rounding's largest effect is allowed for.
inline void bounds(const Int8Search& s, const Int8Errors& e, float share, int row, int panel, const float* products, float* low,
                   float* high) {
  const float rest = share * s.rests[row], norm = share * s.norms[row], slack = 1e-5f * s.norms[row];
  for (int k = 0; k < kPanel; k += kLanes) {
    const int at = panel * kPanel + k;
    const Vec length = load(e.lengths + at), middle = load(products + k) + load(s.banned + at);
    const Vec off = 1.001f * (rest * length + norm * load(e.errors + at)) + slack * length;
    store(low + k, middle - off);
    store(high + k, middle + off);
  }
}

// Bound the largest product of each panel [first, last) from both sides, for all rows.
void screen(const Int8Search& s, int first, int last) {
  const bool rough = s.rough.weights;
  const Int8Product& m = rough ? s.rough : s.product;
  const int panels = (m.outputs + kPanel - 1) / kPanel;
  const float share = rough ? std::min(1.0f, kDeviations / std::sqrt(static_cast<float>(m.inputs))) : 1.0f;
  for_products(m, first, last, [&](int row, int panel, const float* products) {
    float low[kPanel], high[kPanel];
    bounds(s, rough ? s.rough_errors : s.errors, share, row, panel, products, low, high);
    s.floors[static_cast<size_t>(row) * panels + panel] = maximum(low, kPanel);
    s.ceilings[static_cast<size_t>(row) * panels + panel] = maximum(high, kPanel);
  });
}

// Find a row's largest product among the panels that may have it; of equal ones the first. Returns the number of
// products that were computed in full.
int choose(const Int8Search& s, int row, int32_t* best) {
  Int8Product m = s.product;
  const int panels = (m.outputs + kPanel - 1) / kPanel;
  const size_t bounded = static_cast<size_t>(row) * panels;
  const float *floors = s.floors + bounded, *ceilings = s.ceilings + bounded;
  const int likely = static_cast<int>(std::max_element(floors, floors + panels) - floors);
  float floor = floors[likely];
  const float* x = m.x + static_cast<size_t>(row) * m.x_stride;
  const auto buffer = std::unique_ptr<float[]>(new float[m.inputs]);
  float most = -INFINITY;
  int count = 0;
  *best = 0;
  m.rows = 1;
  m.coarse = static_cast<Coarse*>(m.coarse) + static_cast<size_t>(row) * 4 * fours(m.inputs);
  m.steps += row;
  m.sums += row;
  if (m.group_sums) m.group_sums += static_cast<size_t>(row) * (m.inputs / kGroup);
  const auto compute = [&](int p) {
    for_products(m, p, p + 1, [&](int, int, const float* products) {
      float low[kPanel], high[kPanel];
      bounds(s, s.errors, 1.0f, row, p, products, low, high);
      for (int k = 0; k < kPanel; ++k) {
        const int n = p * kPanel + k;
        if (!(high[k] >= floor) || s.banned[n] == -INFINITY) continue;
        const float* w = s.whole ? s.whole + static_cast<size_t>(n) * m.inputs : buffer.get();
        if (!s.whole) unpack(m.weights, m.scales, n, m.inputs, m.bits, buffer.get());
        const float product = s.banned[n] + sum_of_products(x, w, m.inputs);
        ++count;
        if (!(product > most || (product == most && n < *best))) continue;
        most = product;
        floor = std::max(floor, product);
        *best = n;
      }
    });
  };
  // Once the likeliest is known, few others may be larger.
  compute(likely);
  for (int p = 0; p < panels; ++p)
    if (p != likely && ceilings[p] >= floor) compute(p);
  return count;
}

}  // namespace int8
}  // namespace
}  // namespace nightingale
