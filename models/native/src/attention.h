// Softmax attention of one query.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace nightingale {
namespace {

// Products of q with `Keys` keys at once: their sums do not wait for each other.
template <int Keys>
inline void score(const Attention& a, int first) {
  const float* keys = a.keys + static_cast<size_t>(first) * a.stride;
  Vec sums[Keys] = {};
  int c = 0;
  for (; c + kLanes <= a.size; c += kLanes) {
    const Vec q = load(a.q + c);
#pragma GCC unroll 4
    for (int k = 0; k < Keys; ++k) sums[k] += q * load(keys + static_cast<size_t>(k) * a.stride + c);
  }
  for (int k = 0; k < Keys; ++k) {
    float sum = total(sums[k]);
    for (int rest = c; rest < a.size; ++rest) sum += a.q[rest] * keys[static_cast<size_t>(k) * a.stride + rest];
    a.scratch[first + k] = a.scale * sum + (a.bias ? a.bias[first + k] : 0.0f);
  }
}

// Weighted sum of `Vectors` vectors of the values from channel c on.
template <int Vectors>
inline void gather(const Attention& a, int c, float rate) {
  Vec sums[Vectors] = {};
  const float* values = a.values + c;
  for (int k = 0; k < a.count; ++k, values += a.stride) {
    const Vec weight = splat(a.scratch[k]);
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sums[v] += weight * load(values + v * kLanes);
  }
  for (int v = 0; v < Vectors; ++v) store(a.y + c + v * kLanes, sums[v] * rate);
}

void attend(const Attention& a) {
  int k = 0;
  for (; k + 4 <= a.count; k += 4) score<4>(a, k);
  for (; k < a.count; ++k) score<1>(a, k);
  float most = a.scratch[0];
  for (k = 1; k < a.count; ++k) most = a.scratch[k] > most ? a.scratch[k] : most;
  Vec sums{};
  for (k = 0; k + kLanes <= a.count; k += kLanes) {
    const Vec weights = exp(load(a.scratch + k) - most);
    store(a.scratch + k, weights);
    sums += weights;
  }
  float sum = total(sums);
  if (k < a.count) {
    float last[kLanes] = {};
    for (int i = k; i < a.count; ++i) last[i - k] = a.scratch[i] - most;
    store(last, exp(load(last)));
    for (int i = k; i < a.count; ++i) sum += a.scratch[i] = last[i - k];
  }
  const float rate = 1.0f / sum;
  int c = 0;
  for (; c + 4 * kLanes <= a.size; c += 4 * kLanes) gather<4>(a, c, rate);
  for (; c + kLanes <= a.size; c += kLanes) gather<1>(a, c, rate);
  for (; c < a.size; ++c) {
    float y = 0;
    for (k = 0; k < a.count; ++k) y += a.scratch[k] * a.values[static_cast<size_t>(k) * a.stride + c];
    a.y[c] = y * rate;
  }
}

}  // namespace
}  // namespace nightingale
