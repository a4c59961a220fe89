// Elementwise functions.
#pragma once

#include "convolution.h"
#include "simd.h"

namespace nightingale {
namespace {

// sin(x) for |x| < 1e6, absolute error under 1e-6: `models.layers.activation.sine` gives the polynomial.
inline Vec sine(Vec x) {
  const Vec n = round(x * 0.15915494f);
  const Vec r = ((x - n * 6.25f) - n * 0.033203125f) - n * -1.8193252e-5f;
  const Vec z = r * r;
  Vec p = splat(1.34499896e-10f);
  p = p * z - 2.46764924e-08f;
  p = p * z + 2.75293953e-06f;
  p = p * z - 0.000198401519f;
  p = p * z + 0.00833331029f;
  p = p * z - 0.166666646f;
  p = p * z + 0.999999994f;
  return r * p;
}

// Rows [first, last) of x [*, 2 * bins], log magnitude then phase's argument a: exp(m) cos(sin a), then exp(m) sin(sin a).
void spectrum(const float* x, int bins, int first, int last, float* y) {
  for (int row = first; row < last; ++row) {
    const float* from = x + static_cast<size_t>(row) * 2 * bins;
    float* to = y + static_cast<size_t>(row) * 2 * bins;
    for_vectors(bins, [&](auto at, auto put) {
      const Vec magnitude = exp(at(from)), phase = sine(at(from + bins));
      put(to, magnitude * sine(phase + 1.57079633f));
      put(to + bins, magnitude * sine(phase));
    });
  }
}

}  // namespace
}  // namespace nightingale
