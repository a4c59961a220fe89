// Signals at the two ends of a vocoder: the harmonic source, the short-time Fourier transform, and its inverse.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "convolution.h"
#include "simd.h"

namespace nightingale {
namespace {

constexpr float kPi = 3.14159265f;

// sin(x) for |x| < 1e6, absolute error under 1e-6: sin(r) / r in r^2 on [-pi, pi], least squares at 400 Chebyshev nodes.
// The first two of the three parts of 2 pi are short enough that whole multiples below 2^18 are exact.
inline Vec sine(Vec x) {
  const Vec n = round(x * 0.15915494f);
  const Vec r = ((x - n * 6.25f) - n * 0.033203125f) - n * -1.78178204e-5f;
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

// The angle of x + iy in (-pi, pi], error 2e-7 (Cephes' atanf); 0 for 0.
inline Vec angle(Vec y, Vec x) {
  const Vec a = max(x, -x), b = max(y, -y);
  const Vec t = min(a, b) / max(max(a, b), splat(1e-37f));
  const IntVec high = t > 0.41421356f;
  const Vec r = select(high, (t - 1.0f) / (t + 1.0f), t), z = r * r;
  Vec p = splat(8.05374449538e-2f);
  p = p * z - 1.38776856032e-1f;
  p = p * z + 1.99777106478e-1f;
  p = p * z - 3.33329491539e-1f;
  Vec found = p * z * r + r + select(high, splat(kPi / 4), Vec{});
  found = select(b > a, kPi / 2 - found, found);
  found = select(x < 0.0f, kPi - found, found);
  return select(y < 0.0f, -found, found);
}

inline Vec root(Vec x) {
  float all[kLanes];
  store(all, x);
  for (float& each : all) each = std::sqrt(each);
  return load(all);
}

// tanh(x) with an error relative to tanh(x), as the quiet parts of a signal need it.
inline Vec tanh_of_signal(Vec x) {
  const Vec z = x * x, small = x * (1.0f + z * (z * (0.13333333f - z * 0.05396825f) - 0.33333333f));
  return select(z < 0.04f, small, tanh(x));
}

// Rows [first, last) of steps of F0: each sample's harmonics and noise. See `models.kokoro.generator.harmonics_reference`.
void excite(const Source& s, int first, int last) {
  const int H = s.harmonics, S = s.size;
  float* late = scratch(3 * static_cast<size_t>(S) + kLanes);
  float *cycles = late + S, *sum = cycles + S;
  const double each = static_cast<float>(1.0 / S);
  for (int t = first; t < last; ++t) {
    float* y = s.y + static_cast<size_t>(t) * S;
    if (t >= s.valid) {
      std::fill(y, y + S, 0.0f);
      continue;
    }
    const float* here = s.phases + static_cast<size_t>(t) * H;
    const float *before = t ? here - H : here, *after = t + 1 < s.valid ? here + H : here;
    for (int n = 0; n < S; ++n) {
      const float at = static_cast<float>((static_cast<double>(t) * S + n + 0.5) * each - 0.5);
      late[n] = at - std::floor(at);
    }
    std::fill(sum, sum + S, 0.0f);
    for (int k = 0; k < H; ++k) {
      // As one fused multiply-add would round it: products of floats are exact in double precision.
      const auto blend = [&](int from, int to, float a, float b) {
        for (int n = from; n < to; ++n) {
          const float rest = late[n] * b;
          cycles[n] = static_cast<float>(static_cast<double>(1.0f - late[n]) * a + rest);
        }
      };
      blend(0, S / 2, before[k], here[k]);
      blend(S / 2, S, here[k], after[k]);
      for_vectors(S, [&](auto at, auto put) { put(sum, at(sum) + s.weight[k] * sine(at(cycles))); });
    }
    const bool voiced = s.f0[t] > 10.0f;
    const float amplitude = voiced ? 0.1f : 0.0f, level = voiced ? 0.003f : 0.1f / 3;
    const float* noise = s.noise + static_cast<size_t>(t) * S;
    for_vectors(S, [&](auto at, auto put) { put(y, tanh_of_signal(at(sum) * amplitude + at(noise) * level + s.bias)); });
  }
}

// Frames [first, last) of the transform of a signal that is reflected at both ends: real, then imaginary parts, or
// magnitudes and phases. Frames beyond the signal are zero.
void analyze(const Transform& t, int first, int last) {
  const int bins = t.bins(), width = padded(bins), size = 4 * t.hop;
  float* given = scratch(size);
  for (int f = first; f < last; ++f) {
    float* y = t.y + static_cast<size_t>(f) * 2 * bins;
    if (f >= t.frames()) {
      std::fill(y, y + 2 * bins, 0.0f);
      continue;
    }
    const int start = (f - 2) * t.hop;
    const float* x = t.x + start;
    if (start < 0 || start + size > t.samples) {
      for (int n = 0; n < size; ++n) {
        const int at = std::abs(start + n);
        given[n] = t.x[at < t.samples ? at : std::max(2 * (t.samples - 1) - at, 0)];
      }
      x = given;
    }
    for (int c = 0; c < bins; c += kLanes) {
      Vec real{}, imaginary{};
      const float* basis = t.basis + c;
      for (int n = 0; n < size; ++n, basis += 2 * width) {
        real += x[n] * load(basis);
        imaginary += x[n] * load(basis + width);
      }
      Vec out[2] = {real, imaginary};
      if (t.polar) {
        // Reflection makes the first frame symmetric: the sign of its rounding would choose between pi and -pi.
        if (!f) imaginary = Vec{};
        out[0] = root(real * real + imaginary * imaginary);
        out[1] = angle(imaginary, real);
      }
      const size_t bytes = std::min(kLanes, bins - c) * sizeof(float);
      std::memcpy(y + c, &out[0], bytes);
      std::memcpy(y + bins + c, &out[1], bytes);
    }
  }
}

// Samples of hops [first, last) of the signal whose frames are exp(m) (at most `most`) and sin(a), for rows of m, then a.
void synthesize(const Transform& t, int first, int last) {
  const int bins = t.bins(), hop = t.hop, size = 4 * hop, width = padded(size), frames = t.frames();
  const int from = std::max(0, first - 1), to = std::min(frames, last + 2);
  const size_t room = static_cast<size_t>(last - first + 6) * hop + width;
  float* sum = scratch(room + 2 * bins + kLanes);
  float* row = sum + room;
  std::fill(sum, sum + room, 0.0f);
  for (int f = from; f < to; ++f) {
    const float* x = t.x + static_cast<size_t>(f) * 2 * bins;
    for_vectors(bins, [&](auto at, auto put) {
      const Vec magnitude = min(exp(at(x)), splat(t.most)), phase = sine(at(x + bins));
      put(row, magnitude * sine(phase + kPi / 2));
      put(row + bins, magnitude * sine(phase));
    });
    float* target = sum + static_cast<size_t>(f - first + 1) * hop;
    for (int n = 0; n < size; n += kLanes) {
      Vec total = load(target + n);
      for (int c = 0; c < 2 * bins; ++c) total += row[c] * load(t.basis + static_cast<size_t>(c) * width + n);
      store(target + n, total);
    }
  }
  for (int h = first; h < last; ++h) {
    const float* sums = sum + static_cast<size_t>(h - first + 3) * hop;
    for (int n = 0; n < hop; ++n) {
      // The first and last hop lack the frame beyond the signal.
      const float gain = (h ? 1.0f : t.edges[n]) * (h == frames - 2 ? t.edges[hop + n] : 1.0f);
      t.y[static_cast<size_t>(h) * hop + n] = h < frames - 1 ? sums[n] * gain : 0.0f;
    }
  }
}

}  // namespace
}  // namespace nightingale
