// Softmax attention of one query, and the sum that a softmax divides by.
#pragma once

#include <cmath>

#include "kernels.h"
#include "simd.h"

namespace nightingale {
namespace {

// Products of q with `Keys` keys at once: their sums do not wait for each other.
template <typename T, int Keys>
inline void score(const Attention& a, int first) {
  const T* keys = static_cast<const T*>(a.keys) + static_cast<size_t>(first) * a.stride;
  Vec sums[Keys] = {};
  int c = 0;
  for (; c + kLanes <= a.size; c += kLanes) {
    const Vec q = load(a.q + c);
#pragma GCC unroll 4
    for (int k = 0; k < Keys; ++k) sums[k] += q * load(keys + static_cast<size_t>(k) * a.stride + c);
  }
  for (int k = 0; k < Keys; ++k) {
    float sum = total(sums[k]);
    for (int rest = c; rest < a.size; ++rest) sum += a.q[rest] * widened(keys[static_cast<size_t>(k) * a.stride + rest]);
    a.scratch[first + k] = a.scale * sum + (a.bias ? a.bias[first + k] : 0.0f);
  }
}

// Weighted sum of `Vectors` vectors of the values from channel c on.
template <typename T, int Vectors>
inline void gather(const Attention& a, int c, float rate) {
  Vec sums[Vectors] = {};
  const T* values = static_cast<const T*>(a.values) + c;
  for (int k = 0; k < a.count; ++k, values += a.stride) {
    const Vec weight = splat(a.scratch[k]);
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sums[v] += weight * load(values + v * kLanes);
  }
  for (int v = 0; v < Vectors; ++v) store(a.y + c + v * kLanes, sums[v] * rate);
}

inline float maximum(const float* x, int count) {
  Vec most = splat(x[0]);
  int k = 0;
  for (; k + kLanes <= count; k += kLanes) most = max(most, load(x + k));
  float found = greatest(most);
  for (; k < count; ++k) found = x[k] > found ? x[k] : found;
  return found;
}

// Sum of exp(x - most), which use(k, exponentials, how many) gets by the vector.
template <typename Use>
inline float sum_exponentials(const float* x, int count, float most, const Use& use) {
  Vec sums{};
  int k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    const Vec found = exp(load(x + k) - most);
    use(k, found, kLanes);
    sums += found;
  }
  float sum = total(sums), last[kLanes] = {};
  if (k == count) return sum;
  for (int i = k; i < count; ++i) last[i - k] = x[i] - most;
  const Vec found = exp(load(last));
  use(k, found, count - k);
  for (int i = k; i < count; ++i) sum += found[i - k];
  return sum;
}

// log of the sum of exp(x). In parts, as single precision would lose a quarter of a million small ones in one sum.
float log_sum_exp(const float* x, int count) {
  constexpr int kPart = 4096;
  const float most = maximum(x, count);
  double sum = 0;
  for (int k = 0; k < count; k += kPart) sum += sum_exponentials(x + k, count - k < kPart ? count - k : kPart, most, [](int, Vec, int) {});
  return most + static_cast<float>(std::log(sum));
}

template <typename T>
void attend_to(const Attention& a) {
  int k = 0;
  for (; k + 4 <= a.count; k += 4) score<T, 4>(a, k);
  for (; k < a.count; ++k) score<T, 1>(a, k);
  const float sum = sum_exponentials(a.scratch, a.count, maximum(a.scratch, a.count), [&](int at, Vec found, int many) {
    if (many == kLanes) return store(a.scratch + at, found);
    for (int i = 0; i < many; ++i) a.scratch[at + i] = found[i];
  });
  const float rate = 1.0f / sum;
  int c = 0;
  for (; c + 4 * kLanes <= a.size; c += 4 * kLanes) gather<T, 4>(a, c, rate);
  for (; c + kLanes <= a.size; c += kLanes) gather<T, 1>(a, c, rate);
  const T* values = static_cast<const T*>(a.values);
  for (; c < a.size; ++c) {
    float y = 0;
    for (k = 0; k < a.count; ++k) y += a.scratch[k] * widened(values[static_cast<size_t>(k) * a.stride + c]);
    a.y[c] = y * rate;
  }
}

void attend(const Attention& a) { a.half ? attend_to<uint16_t>(a) : attend_to<float>(a); }

}  // namespace
}  // namespace nightingale
