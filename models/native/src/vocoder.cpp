// Primitives at the two ends of a vocoder: the harmonic source, the short-time Fourier transform, and its inverse.
#include "primitive.h"

namespace nightingale {
namespace {

constexpr int kTile = 256;  // frames or hops; some 40 microseconds of work

// Phases [steps, harmonics] at the centers of the steps: the sum over time in double precision, rounded at each step.
void find_phases(const float* f0, int steps, int size, int harmonics, float rate, float* phases) {
  for (int k = 0; k < harmonics; ++k) {
    double sum = 0.0;
    for (int t = 0; t < steps; ++t) {
      const float turns = f0[t] * static_cast<float>(k + 1) / rate;
      sum += turns - std::floor(turns);
      phases[static_cast<size_t>(t) * harmonics + k] = static_cast<float>(sum) * 2.0f * 3.14159265f * static_cast<float>(size);
    }
  }
}

mx::array excite(const mx::array& f0, const mx::array& noise, const std::optional<mx::array>& count, const mx::array& weight,
                 const mx::array& bias, float rate) {
  const int B = f0.ndim() == 2 ? f0.shape(0) : 0, T = B ? f0.shape(1) : 0, H = static_cast<int>(weight.size());
  if (!T || !H || !noise.size() || noise.size() % f0.size() || bias.size() != 1) throw std::invalid_argument("excite: shapes do not fit");
  const int size = static_cast<int>(noise.size() / f0.size());
  Arrays inputs{float_rows(f0), float_rows(noise), counts(count, B), float_rows(weight), float_rows(bias)};
  return computed("NightingaleExcite", {B, T * size}, std::move(inputs), [=](const Arrays& in, mx::array& out) {
    const auto phases = uninitialized(static_cast<size_t>(B) * T * H);
    for (int b = 0; b < B; ++b) find_phases(floats(in[0]) + b * T, T, size, H, rate, phases.get() + static_cast<size_t>(b) * T * H);
    for_tiles(B, T, 16, [&](int b, int first, int last) {
      const size_t step = static_cast<size_t>(b) * T;
      kernels().excite({.f0 = floats(in[0]) + step,
                        .noise = floats(in[1]) + step * size,
                        .phases = phases.get() + step * H,
                        .weight = floats(in[3]),
                        .y = out.data<float>() + step * size,
                        .valid = valid_of(in[2], b, T),
                        .size = size,
                        .harmonics = H,
                        .bias = *floats(in[4])},
                       first, last);
    });
  });
}

mx::array analyze(const mx::array& x, const std::optional<mx::array>& count, const mx::array& basis, int hop, bool polar) {
  const int width = hop > 0 ? padded(2 * hop + 1) : 0;
  if (x.ndim() != 2 || x.shape(1) < 1 || !width || basis.size() != 8 * static_cast<size_t>(hop) * width)
    throw std::invalid_argument("analyze: shapes do not fit");
  const int B = x.shape(0), N = x.shape(1), F = N / hop + 1, bins = 2 * hop + 1;
  return computed("NightingaleAnalyze", {B, F, 2 * bins}, {float_rows(x), counts(count, B), float_rows(basis)}, [=](const Arrays& in, mx::array& out) {
    for_tiles(B, F, kTile, [&](int b, int first, int last) {
      kernels().analyze({.x = floats(in[0]) + static_cast<size_t>(b) * N,
                         .basis = floats(in[2]),
                         .y = out.data<float>() + static_cast<size_t>(b) * F * 2 * bins,
                         .samples = valid_of(in[1], b, N),
                         .hop = hop,
                         .polar = polar},
                        first, last);
    });
  });
}

mx::array synthesize(const mx::array& x, const std::optional<mx::array>& count, const mx::array& basis, const mx::array& edges, float most) {
  const int hop = static_cast<int>(edges.size() / 2), bins = 2 * hop + 1, F = x.ndim() == 3 ? x.shape(1) : 0;
  if (!hop || F < 2 || x.shape(2) != 2 * bins || basis.size() != 2 * static_cast<size_t>(bins) * padded(4 * hop))
    throw std::invalid_argument("synthesize: shapes do not fit");
  const int B = x.shape(0), hops = F - 1;
  Arrays inputs{float_rows(x), counts(count, B), float_rows(basis), float_rows(edges)};
  return computed("NightingaleSynthesize", {B, hops * hop}, std::move(inputs), [=](const Arrays& in, mx::array& out) {
    for_tiles(B, hops, kTile, [&](int b, int first, int last) {
      kernels().synthesize({.x = floats(in[0]) + static_cast<size_t>(b) * F * 2 * bins,
                            .basis = floats(in[2]),
                            .edges = floats(in[3]),
                            .y = out.data<float>() + static_cast<size_t>(b) * hops * hop,
                            .samples = valid_of(in[1], b, hops * hop),
                            .hop = hop,
                            .most = most},
                           first, last);
    });
  });
}

}  // namespace

void bind_vocoder(nb::module_& m) {
  m.def("excite", &excite);
  m.def("analyze", &analyze);
  m.def("synthesize", &synthesize);
}

}  // namespace nightingale
