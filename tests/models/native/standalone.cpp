// The kernels and the pool of threads against plain loops, without MLX and without Python: for sanitizers, for other
// processors, and for what a process that embeds Python cannot try (fork, exit). Prints the instructions it used.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels.h"
#include "pool.h"

using namespace nightingale;

#if defined(EMULATED_TILES)
namespace nightingale {
extern const Kernels kernels_amx;
}
#endif

namespace {

// The kernels that multiply in bfloat16, and on AMX in matrices of bytes, too; or null.
const Kernels* matrix_kernels() {
#if defined(EMULATED_TILES)
  return &kernels_amx;
#else
  return bfloat16_kernels();
#endif
}

// An array of exactly the size that the kernels may use: one number beyond it is a sanitizer's finding.
using Floats = std::unique_ptr<float[]>;

uint64_t state = 88172645463325252ull;

uint64_t next() {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

int whole(int low, int high) { return low + static_cast<int>(next() % static_cast<uint64_t>(high - low + 1)); }

float number() { return static_cast<float>(next() >> 40) / 8388608.0f - 1.0f; }

Floats random(size_t count) {
  Floats made(new float[count]);
  for (size_t k = 0; k < count; ++k) made[k] = number();
  return made;
}

Floats empty(size_t count) {
  Floats made(new float[count]);
  std::fill_n(made.get(), count, NAN);
  return made;
}

[[noreturn]] void fail(const std::string& what) {
  std::printf("%s: error: %s\n", kernels().name, what.c_str());
  std::exit(1);
}

void compare(const char* what, const float* found, const std::vector<double>& expected, double tolerance) {
  double most = 1e-6;
  for (double each : expected) most = std::max(most, std::abs(each));
  for (size_t k = 0; k < expected.size(); ++k)
    if (!(std::abs(found[k] - expected[k]) <= tolerance * most))
      fail(std::string(what) + ", number " + std::to_string(k) + ": " + std::to_string(found[k]) + " instead of " +
           std::to_string(expected[k]) + " among " + std::to_string(most));
}

// Products in bfloat16 have numbers of eight bits.
double tolerance(const Kernels& table) { return &table == matrix_kernels() ? 2e-2 : 2e-5; }

double activated(const Conv& conv, int row, int c) {
  if (row < 0 || row >= conv.valid) return 0;
  double v = conv.x[static_cast<size_t>(row) * conv.inputs + c];
  if (conv.scale) v = v * conv.scale[c] + conv.shift[c];
  if (conv.activation == Activation::kLeaky) v = std::max(v, v * conv.slope);
  if (conv.activation == Activation::kSnake) {
    const double s = std::sin(M_PI * v * conv.rate[c]);
    v += s * s * conv.inverse[c];
  }
  return v;
}

std::vector<double> convolved(const Conv& conv, const float* weights, const float* residual) {
  std::vector<double> y(static_cast<size_t>(conv.rows) * conv.outputs);
  for (int row = 0; row < std::min(conv.rows, conv.out_valid); ++row)
    for (int o = 0; o < conv.outputs; ++o) {
      const size_t at = static_cast<size_t>(row) * conv.outputs + o;
      double sum = (conv.bias ? conv.bias[o] : 0) + (residual ? residual[at] : 0);
      for (int k = 0; k < conv.kernel; ++k)
        for (int c = 0; c < conv.inputs; ++c)
          sum += activated(conv, row - conv.left + k * conv.dilation, c) *
                 weights[(static_cast<size_t>(o) * conv.kernel + k) * conv.inputs + c];
      y[at] = sum * conv.gain;
    }
  return y;
}

void check_moments(const Kernels& table, const Conv& conv, const std::vector<double>& y) {
  const int tiles = (conv.rows + conv.plan.tile - 1) / conv.plan.tile;
  std::vector<double> expected(static_cast<size_t>(tiles) * 2 * conv.outputs);
  for (int tile = 0; tile < tiles; ++tile) {
    const int first = tile * conv.plan.tile, last = std::min({conv.rows, conv.out_valid, first + conv.plan.tile});
    for (int o = 0; o < conv.outputs && last > first; ++o) {
      double mean = 0, squares = 0;
      for (int r = first; r < last; ++r) mean += y[static_cast<size_t>(r) * conv.outputs + o] / (last - first);
      for (int r = first; r < last; ++r) squares += std::pow(y[static_cast<size_t>(r) * conv.outputs + o] - mean, 2);
      expected[static_cast<size_t>(tile) * 2 * conv.outputs + o] = mean;
      expected[(static_cast<size_t>(tile) * 2 + 1) * conv.outputs + o] = squares;
    }
  }
  compare("moments", conv.moments, expected, 10 * tolerance(table));
}

void check_convolution(const Kernels& table, int inputs, int outputs, int kernel, int dilation, int length) {
  Conv conv{};
  conv.length = length;
  conv.inputs = inputs;
  conv.outputs = outputs;
  conv.kernel = kernel;
  conv.dilation = dilation;
  conv.left = whole(0, (kernel - 1) * dilation);
  conv.right = (kernel - 1) * dilation - conv.left + whole(0, 2);
  conv.rows = length + conv.left + conv.right - (kernel - 1) * dilation;
  conv.valid = whole(0, 3) ? length : whole(0, length);
  conv.out_valid = whole(0, 3) ? conv.rows : whole(0, conv.rows);
  conv.activation = static_cast<Activation>(whole(0, 2));
  conv.slope = 0.1f;
  conv.gain = whole(0, 1) ? 1.0f : 0.7f;
  const size_t size = static_cast<size_t>(conv.rows) * outputs;
  const Floats x = random(static_cast<size_t>(length) * inputs), w = random(static_cast<size_t>(outputs) * kernel * inputs);
  const Floats scale = random(inputs), shift = random(inputs), rate = random(inputs), inverse = random(inputs);
  const Floats bias = random(outputs), residual = random(size);
  conv.x = x.get();
  if (whole(0, 1)) {
    conv.scale = scale.get();
    conv.shift = shift.get();
  }
  conv.rate = rate.get();
  conv.inverse = inverse.get();
  if (whole(0, 1)) conv.bias = bias.get();
  conv.plan = table.plan(conv.rows, kernel, dilation, inputs, outputs);
  const Floats packed = empty(table.packed_size(outputs, kernel, inputs));
  table.pack(w.get(), packed.get(), outputs, kernel, inputs);
  conv.weights = packed.get();
  Floats y = empty(size);
  const int place = whole(0, 2);  // no residual, one of its own, or the result's place
  if (place == 1) conv.residual = residual.get();
  if (place == 2) {
    std::copy_n(residual.get(), size, y.get());
    conv.residual = y.get();
  }
  conv.y = y.get();
  const int tiles = (conv.rows + conv.plan.tile - 1) / conv.plan.tile;
  const Floats moments = empty(static_cast<size_t>(tiles) * 2 * outputs);
  if (whole(0, 1)) conv.moments = moments.get();
  parallel(table.pieces(conv), [&](int piece) { table.conv(conv, piece); });
  const auto expected = convolved(conv, w.get(), place ? residual.get() : nullptr);
  const std::string shape = "convolution " + std::to_string(length) + " x " + std::to_string(inputs) + " to " +
                            std::to_string(outputs) + ", kernel " + std::to_string(kernel) + ", dilation " + std::to_string(dilation);
  compare(shape.c_str(), y.get(), expected, tolerance(table));
  if (conv.moments) check_moments(table, conv, expected);
}

void check_convolutions(const Kernels& table) {
  for (int round = 0; round < 60; ++round)
    check_convolution(table, whole(1, 40), whole(1, 70), whole(1, 12), whole(1, 5), whole(1, 150));
  check_convolution(table, 16, 16, 3, 1, 1);
  check_convolution(table, 48, 48, 11, 5, 700);
  check_convolution(table, 274, 208, 3, 1, 40);  // so many weights that pieces divide the outputs
  check_convolution(table, 300, 450, 2, 1, 33);
}

void check_recurrence(int hidden, int length, int valid, bool backward) {
  const int width = 4 * hidden, x_stride = 2 * width, y_stride = 2 * hidden;
  const Floats x = random(static_cast<size_t>(length) * x_stride), w = random(static_cast<size_t>(hidden) * width);
  for (int k = 0; k < hidden * width; ++k) w[k] *= 0.1f;
  const Floats packed = empty(static_cast<size_t>(hidden) * width), y = empty(static_cast<size_t>(length) * y_stride);
  kernels().pack_recurrence(w.get(), packed.get(), hidden);
  const int offset = backward ? width : 0, to = backward ? hidden : 0;
  kernels().recur({x.get() + offset, packed.get(), y.get() + to, length, valid, hidden, x_stride, y_stride, backward});
  std::vector<double> h(hidden), cell(hidden), expected(static_cast<size_t>(length) * hidden), found_at(expected);
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (int step = 0; step < valid; ++step) {
    const int t = backward ? valid - 1 - step : step;
    std::vector<double> gates(width);
    for (int g = 0; g < width; ++g) {
      gates[g] = x[static_cast<size_t>(t) * x_stride + offset + g];
      for (int k = 0; k < hidden; ++k) gates[g] += h[k] * w[static_cast<size_t>(k) * width + g];
    }
    for (int u = 0; u < hidden; ++u) {
      cell[u] = sigmoid(gates[hidden + u]) * cell[u] + sigmoid(gates[u]) * std::tanh(gates[2 * hidden + u]);
      expected[static_cast<size_t>(t) * hidden + u] = h[u] = sigmoid(gates[3 * hidden + u]) * std::tanh(cell[u]);
    }
  }
  Floats rows(new float[expected.size()]);
  for (int t = 0; t < length; ++t)
    std::copy_n(y.get() + static_cast<size_t>(t) * y_stride + to, hidden, rows.get() + static_cast<size_t>(t) * hidden);
  compare("recurrence", rows.get(), expected, 2e-5);
}

void check_recurrences() {
  const int unit = kernels().recurrence_units;
  for (const int hidden : {unit, 2 * unit, 3 * unit})
    for (const bool backward : {false, true}) {
      check_recurrence(hidden, 1, 1, backward);
      check_recurrence(hidden, 17, 17, backward);
      check_recurrence(hidden, 12, 5, backward);
    }
}

// A signal of `hops` hops, its transform, and the way back from rows of logarithms and angles' sines.
void check_transform(int hop, int hops) {
  const int size = 4 * hop, bins = 2 * hop + 1, width = padded(bins), samples = hops * hop, frames = hops + 1;
  const Floats x = random(samples), basis = empty(static_cast<size_t>(size) * 2 * width);
  for (int k = 0; k < size * 2 * width; ++k) basis[k] = k % width < bins ? number() : 0.0f;
  for (const bool polar : {false, true}) {
    const Floats y = empty(static_cast<size_t>(frames + 1) * 2 * bins);
    const Transform transform{.x = x.get(), .basis = basis.get(), .y = y.get(), .samples = samples, .hop = hop, .polar = polar};
    parallel(frames + 1, [&](int f) { kernels().analyze(transform, f, f + 1); });
    std::vector<double> expected(static_cast<size_t>(frames + 1) * 2 * bins);
    for (int f = 0; f < frames; ++f)
      for (int c = 0; c < bins; ++c) {
        double sums[2] = {};
        for (int n = 0; n < size; ++n) {
          const int at = std::abs((f - 2) * hop + n);
          const double value = x[at < samples ? at : std::max(2 * (samples - 1) - at, 0)];
          for (int part = 0; part < 2; ++part) sums[part] += value * basis[(2 * n + part) * width + c];
        }
        if (polar && !f) sums[1] = 0.0;
        double* to = &expected[static_cast<size_t>(f) * 2 * bins + c];
        to[0] = polar ? std::hypot(sums[0], sums[1]) : sums[0];
        to[bins] = polar ? std::atan2(sums[1], sums[0]) : sums[1];
      }
    compare("analyze", y.get(), expected, 2e-5);
  }
  const int wide = padded(size);
  const Floats rows = random(static_cast<size_t>(frames) * 2 * bins), back = empty(static_cast<size_t>(2 * bins) * wide), edges = random(2 * hop);
  for (int k = 0; k < 2 * bins * wide; ++k) back[k] = k % wide < size ? number() : 0.0f;
  const Floats y = empty(samples + hop);
  const Transform transform{.x = rows.get(), .basis = back.get(), .edges = edges.get(), .y = y.get(), .samples = samples, .hop = hop, .most = 2.0f};
  parallel(hops + 1, [&](int h) { kernels().synthesize(transform, h, h + 1); });
  std::vector<double> sums(samples + 2 * size), expected(samples + hop);
  for (int f = 0; f < frames; ++f)
    for (int c = 0; c < bins; ++c) {
      const float* row = rows.get() + static_cast<size_t>(f) * 2 * bins;
      const double magnitude = std::min(std::exp(static_cast<double>(row[c])), 2.0), phase = std::sin(row[bins + c]);
      for (int n = 0; n < size; ++n)
        sums[f * hop + n] += magnitude * (std::cos(phase) * back[c * wide + n] + std::sin(phase) * back[(bins + c) * wide + n]);
    }
  for (int n = 0; n < samples; ++n)
    expected[n] = sums[2 * hop + n] * (n < hop ? edges[n] : 1.0) * (n >= samples - hop ? edges[hop + n % hop] : 1.0);
  compare("synthesize", y.get(), expected, 2e-5);
}

void check_source(int steps, int size, int valid) {
  constexpr int harmonics = 9;
  const Floats f0 = random(steps), noise = random(static_cast<size_t>(steps) * size), phases = random(static_cast<size_t>(steps) * harmonics);
  const Floats weight = random(harmonics), y = empty(static_cast<size_t>(steps) * size);
  for (int t = 0; t < steps; ++t) f0[t] *= 100;
  for (int k = 0; k < steps * harmonics; ++k) phases[k] *= 300;
  const Source source{.f0 = f0.get(), .noise = noise.get(), .phases = phases.get(), .weight = weight.get(), .y = y.get(),
                      .valid = valid, .size = size, .harmonics = harmonics, .bias = 0.1f};
  parallel(steps, [&](int t) { kernels().excite(source, t, t + 1); });
  std::vector<double> expected(static_cast<size_t>(steps) * size);
  for (int n = 0; n < valid * size; ++n) {
    const int t = n / size, other = n % size < size / 2 ? std::max(t - 1, 0) : std::min(t + 1, valid - 1);
    const double place = (n + 0.5) / size - 0.5, late = place - std::floor(place);
    const bool before = n % size < size / 2, voiced = f0[t] > 10;
    double sum = 0;
    for (int k = 0; k < harmonics; ++k) {
      const double here = phases[t * harmonics + k], there = phases[other * harmonics + k];
      sum += weight[k] * std::sin(before ? (1 - late) * there + late * here : (1 - late) * here + late * there);
    }
    expected[n] = std::tanh((voiced ? 0.1 * sum : 0.0) + noise[n] * (voiced ? 0.003 : 0.1 / 3) + 0.1);
  }
  compare("excite", y.get(), expected, 2e-4);  // places are rounded, and multiply hundreds
}

void check_signals() {
  for (const int hop : {1, 4, 5, 9})
    for (const int hops : {3, 40}) check_transform(hop, hops);
  check_source(1, 300, 1);
  check_source(9, 60, 9);
  check_source(12, 7, 5);
}

void check_int8(const Kernels& table, int rows, int inputs, int outputs, int bits) {
  const int panels = (outputs + kPanel - 1) / kPanel;
  const Floats x = random(static_cast<size_t>(rows) * inputs), w = random(static_cast<size_t>(outputs) * inputs);
  const Floats bias = random(panels * kPanel), residual = random(static_cast<size_t>(rows) * outputs);
  const int groups = bits == 4 ? inputs / kGroup : 1;
  const Floats scales = empty(bits == 16 ? 0 : panels * kPanel * groups), y = empty(static_cast<size_t>(rows) * outputs), row = empty(inputs);
  const std::unique_ptr<uint8_t[]> packed(new uint8_t[table.int8_size(outputs, inputs, bits)]);
  table.int8_pack(w.get(), packed.get(), scales.get(), outputs, inputs, bits, 0, panels * kPanel);
  const std::unique_ptr<char[]> coarse(new char[static_cast<size_t>(rows) * ((inputs + 3) / 4 * 4) * (bits == 16 ? sizeof(float) : table.int8_coarse)]);
  const std::unique_ptr<char[]> pairs(new char[static_cast<size_t>(rows + 1) / 2 * 2 * ((inputs + 3) / 4 * 4) * table.int8_coarse]);
  const Floats steps = empty(rows);
  const std::unique_ptr<int32_t[]> sums(new int32_t[rows]), group_sums(new int32_t[rows * groups]);
  Int8Product product{};
  product.bits = bits;
  product.group_sums = bits == 4 ? group_sums.get() : nullptr;
  product.x = x.get();
  product.weights = packed.get();
  product.scales = scales.get();
  product.bias = bias.get();
  product.residual = residual.get();
  product.y = y.get();
  product.coarse = coarse.get();
  product.pairs = bits != 16 && table.int8_pairs ? pairs.get() : nullptr;
  product.steps = steps.get();
  product.sums = sums.get();
  product.rows = rows;
  product.inputs = product.x_stride = inputs;
  product.outputs = outputs;
  product.before.kind = whole(0, 1) ? BeforeKind::kRelu : BeforeKind::kNone;
  parallel(rows, [&](int k) { table.int8_round(product, k, k + 1); });
  parallel(panels, [&](int panel) { table.int8_multiply(product, panel, panel + 1); });
  std::vector<double> expected(static_cast<size_t>(rows) * outputs);
  for (int o = 0; o < outputs; ++o) {
    table.int8_row(packed.get(), scales.get(), o, inputs, bits, row.get());
    for (int c = 0; c < inputs; ++c) {
      if (bits == 16) {
        const float weight = w[static_cast<size_t>(o) * inputs + c];
        if (!(std::abs(row[c] - weight) <= std::abs(weight) / 256)) fail("a weight in bfloat16 is not the nearest");
        continue;
      }
      const size_t at = bits == 4 ? (static_cast<size_t>(o / kPanel) * groups + c / kGroup) * kPanel + o % kPanel : o;
      const float most = (bits == 4 ? 1.5f : 0.51f) * std::abs(scales[at]);  // 4 bits have no +8, and a factor of the row
      if (!(std::abs(row[c] - w[static_cast<size_t>(o) * inputs + c]) <= most)) fail("a rounded weight is not the nearest");
    }
    for (int r = 0; r < rows; ++r) {
      double& sum = expected[static_cast<size_t>(r) * outputs + o];
      sum = bias[o] + residual[static_cast<size_t>(r) * outputs + o];
      for (int c = 0; c < inputs; ++c) {
        const float v = x[static_cast<size_t>(r) * inputs + c];
        sum += (product.before.kind == BeforeKind::kRelu ? std::max(v, 0.0f) : v) * static_cast<double>(row[c]);
      }
    }
  }
  compare("product of 16, 8 or 4 bits", y.get(), expected, bits == 16 ? 2e-5 : 2e-2);
  if (&table == &kernels()) return;
  const std::vector<double> found(y.get(), y.get() + expected.size());
  kernels().int8_multiply(product, 0, panels);  // of the same weights and rounded inputs
  compare("product by the other instructions", y.get(), found, 1e-6);
}

void check_attention(int count, int size) {
  const int stride = size + whole(0, 5);
  const Floats q = random(size), k = random(static_cast<size_t>(count - 1) * stride + size);
  const Floats v = random(static_cast<size_t>(count - 1) * stride + size), bias = random(count);
  const Floats y = empty(size), scratch = empty(count);
  kernels().attend({q.get(), k.get(), v.get(), bias.get(), y.get(), scratch.get(), 0.3f, count, size, stride});
  std::vector<double> expected(size), weights(count);
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    for (int c = 0; c < size; ++c) weights[i] += 0.3 * q[c] * k[static_cast<size_t>(i) * stride + c];
    sum += weights[i] = std::exp(weights[i] + bias[i]);
  }
  for (int i = 0; i < count; ++i)
    for (int c = 0; c < size; ++c) expected[c] += weights[i] / sum * v[static_cast<size_t>(i) * stride + c];
  compare("attention", y.get(), expected, 2e-5);
  const float total = kernels().log_sum_exp(q.get(), size);
  double exponentials = 0;
  for (int c = 0; c < size; ++c) exponentials += std::exp(static_cast<double>(q[c]));
  compare("logarithm of a sum", &total, {std::log(exponentials)}, 2e-5);
}

void check_attention_of_rows(const Kernels& table, int queries, int count, int size) {
  const int stride = size + whole(0, 5), y_stride = size + whole(0, 3);
  const auto rows = [&](int n) { return random(static_cast<size_t>(n - 1) * stride + size); };
  const Floats q = rows(queries), k = rows(count), v = rows(count), bias = random(count), y = empty(static_cast<size_t>(queries) * y_stride);
  const int seen = whole(0, 1) ? whole(1, count) : 0;
  const HeadAttention a{q.get(), k.get(), v.get(), whole(0, 1) ? bias.get() : nullptr, y.get(), 0.3f, count, size, stride, y_stride, stride, seen};
  const int parts = whole(1, 3);
  parallel(parts, [&](int part) { table.attend_rows(a, queries * part / parts, queries * (part + 1) / parts); });
  std::vector<double> expected(static_cast<size_t>(queries) * size);
  const Floats found(new float[expected.size() + 1]);
  for (int r = 0; r < queries; ++r) {
    const int live = seen ? std::min(count, seen + r) : count;
    std::vector<double> weights(count);
    double sum = 0;
    for (int i = 0; i < live; ++i) {
      for (int c = 0; c < size; ++c) weights[i] += 0.3 * q[static_cast<size_t>(r) * stride + c] * k[static_cast<size_t>(i) * stride + c];
      sum += weights[i] = std::exp(weights[i] + (a.bias ? bias[i] : 0.0f));
    }
    for (int i = 0; i < count; ++i)
      for (int c = 0; c < size; ++c) expected[static_cast<size_t>(r) * size + c] += weights[i] / sum * v[static_cast<size_t>(i) * stride + c];
    std::copy_n(y.get() + static_cast<size_t>(r) * y_stride, size, found.get() + static_cast<size_t>(r) * size);
  }
  // Of numbers about 1. A sum of values may nearly cancel.
  expected.push_back(1.0);
  found[expected.size() - 1] = 1.0f;
  compare("attention of rows", found.get(), expected, tolerance(table));
}

void check_norm(int rows, int width) {
  const size_t size = static_cast<size_t>(rows) * width;
  const Floats x = random(size), gain = random(width), shift = random(width), add = random(width), y = empty(size);
  const bool mish = whole(0, 1), added = whole(0, 1);
  kernels().normalize({x.get(), gain.get(), shift.get(), added ? add.get() : nullptr, y.get(), width, 1e-5f, mish}, 0, rows);
  std::vector<double> expected(size);
  for (int r = 0; r < rows; ++r) {
    double mean = 0, square = 0;
    const float* from = x.get() + static_cast<size_t>(r) * width;
    for (int c = 0; c < width; ++c) mean += from[c] / static_cast<double>(width);
    for (int c = 0; c < width; ++c) square += (from[c] - mean) * (from[c] - mean) / width;
    for (int c = 0; c < width; ++c) {
      const double v = (from[c] - mean) / std::sqrt(square + 1e-5) * gain[c] + shift[c];
      expected[static_cast<size_t>(r) * width + c] = (mish ? v * std::tanh(std::log1p(std::exp(v))) : v) + (added ? add[c] : 0.0f);
    }
  }
  compare("norm of rows", y.get(), expected, 2e-5);
  for (size_t k = 0; k < size; ++k) {
    x[k] = k ? x[k] * 6 : 6.0f;  // one large number, as errors count relative to the largest
    expected[k] = 0.5 * x[k] * (1 + std::erf(x[k] * std::sqrt(0.5)));
  }
  kernels().gelu(x.get(), size);
  compare("GELU", x.get(), expected, 2e-6);
}

void check_rows() {
  for (int round = 0; round < 20; ++round) {
    check_attention_of_rows(kernels(), whole(1, 90), whole(1, 90), whole(1, 80));
    if (matrix_kernels()) check_attention_of_rows(*matrix_kernels(), whole(1, 90), whole(1, 90), whole(1, 80));
    check_norm(whole(1, 5), whole(2, 70));
  }
}

void check_products(const Kernels& table) {
  for (int round = 0; round < 30; ++round) {
    check_int8(table, whole(1, 9), whole(1, 90), whole(1, 100), 8);
    check_int8(table, whole(1, 20), whole(1, 90), whole(1, 100), 16);
    check_int8(table, whole(1, 60), 64 * whole(1, 3), whole(1, 100), 4);
  }
  for (const int rows : {13, 16, 31, 50, 100}) {
    check_int8(table, rows, 300, 70, 8);
    check_int8(table, rows, 512, 130, 8);
  }
}

void check_transformers() {
  check_products(kernels());
  if (matrix_kernels()) check_products(*matrix_kernels());
  for (int round = 0; round < 30; ++round) check_attention(whole(1, 60), whole(1, 100));
}

// Every piece is done once, and its effect is seen when `parallel` returns.
void check_turns(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const int count = round % 23;
    std::vector<int> done(count);  // plain numbers: a race would be a sanitizer's finding
    parallel(count, [&](int k) { ++done[k]; });
    if (std::count(done.begin(), done.end(), 1) != count) fail("a piece of work was not done once");
  }
}

// Two pieces that wait for each other end only if two threads do them.
void check_that_threads_share() {
  std::atomic<int> begun{0};
  parallel(2, [&](int) {
    ++begun;
    for (int waited = 0; begun != 2; ++waited) {
      if (waited > 60000) fail("a piece of work waits for a thread that does not come");
      usleep(1000);
    }
  });
}

void check_pool() {
  check_that_threads_share();
  check_turns(3000);
  std::vector<std::thread> callers;
  for (int k = 0; k < 3; ++k) callers.emplace_back([] { check_turns(1000); });
  for (auto& caller : callers) caller.join();
  usleep(20000);  // the threads sleep now
  check_that_threads_share();
}

// A child of fork() has none of the pool's threads; it works all the same, while its parent's other threads compute.
// Sanitizers and qemu cannot run such a child: their own locks stay held.
void check_fork() {
#if !defined(WITHOUT_FORK)
  std::atomic<bool> stop{false};
  std::thread busy([&] { while (!stop) check_turns(10); });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (!child) {
      alarm(100);
      check_that_threads_share();
      check_turns(50);
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status) fail("a child of fork() ended with " + std::to_string(status));
  }
  stop = true;
  busy.join();
#endif
}

}  // namespace

int main() {
  resize_pool(3);
  if (pool_size() != 3) fail("the pool has another size");
  check_convolutions(kernels());
  if (matrix_kernels()) check_convolutions(*matrix_kernels());
  check_recurrences();
  check_signals();
  check_transformers();
  check_rows();
  check_pool();
  check_fork();
  std::printf("%s%s\n", kernels().name, matrix_kernels() ? " and bfloat16" : "");
}
