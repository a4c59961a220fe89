// The time loop of an LSTM.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels.h"
#include "simd.h"

namespace nightingale {
namespace {

constexpr int kGates = 4;
constexpr int kPair = 2;  // vectors of units whose gates share the registers

// Order: pairs of vectors of units, inputs, vector of the pair, gate, units of the vector.
void pack_recurrence(const float* weights, float* packed, int hidden) {
  for (int first = 0; first < hidden; first += kPair * kLanes)
    for (int k = 0; k < hidden; ++k)
      for (int p = 0; p < kPair; ++p)
        for (int gate = 0; gate < kGates; ++gate)
          for (int n = 0; n < kLanes; ++n)
            *packed++ = weights[(static_cast<size_t>(k) * kGates + gate) * hidden + first + p * kLanes + n];
}

void recur(const Recurrence& r) {
  const int H = r.hidden;
  std::vector<float> state(3 * H, 0.0f);
  float *h = state.data(), *next = h + H, *cell = next + H;
  for (int step = 0; step < r.length; ++step) {
    const int t = r.backward ? r.length - 1 - step : step;
    float* y = r.y + static_cast<size_t>(t) * r.y_stride;
    if (t >= r.valid) {  // padding: the backward direction begins at the true end
      std::fill(y, y + H, 0.0f);
      continue;
    }
    const float* x = r.x + static_cast<size_t>(t) * r.x_stride;
    const float* w = r.weights;
    for (int first = 0; first < H; first += kPair * kLanes) {
      Vec sum[kPair][kGates];
      for (int p = 0; p < kPair; ++p)
        for (int gate = 0; gate < kGates; ++gate) sum[p][gate] = load(x + gate * H + first + p * kLanes);
      for (int k = 0; k < H; ++k, w += kPair * kGates * kLanes) {
        const Vec value = splat(h[k]);
#pragma GCC unroll 2
        for (int p = 0; p < kPair; ++p)
#pragma GCC unroll 4
          for (int gate = 0; gate < kGates; ++gate) sum[p][gate] += value * load(w + (p * kGates + gate) * kLanes);
      }
      for (int p = 0; p < kPair; ++p) {
        const int at = first + p * kLanes;
        const Vec c = sigmoid(sum[p][1]) * load(cell + at) + sigmoid(sum[p][0]) * tanh(sum[p][2]);
        const Vec out = sigmoid(sum[p][3]) * tanh(c);
        store(cell + at, c);
        store(next + at, out);
        store(y + at, out);
      }
    }
    std::swap(h, next);
  }
}

}  // namespace

}  // namespace nightingale
