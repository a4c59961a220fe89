// Primitive of a U-Net block: causal convolutions, then blocks of attention and feed-forward layers. See
// `models.chatterbox.s3gen.blocks`, which has the plain definition.
#include "primitive.h"

namespace nightingale {
namespace {

constexpr float kEps = 1e-5f;
constexpr int kTaps = 3;
// Rows that one piece of work takes through its layers: few enough for the second cache, and many for each weight read.
constexpr int kFewestRows = 32, kMostRows = 128;

struct UNetShape {
  int channels, heads, inner, wide, blocks;
};

// Arrays of a block of attention and feed-forward layers, in the order of the inputs.
struct Layer {
  const float *gain1, *shift1, *qkv, *out, *out_bias, *gain2, *shift2, *fc1, *fc1_bias, *fc2, *fc2_bias;
};
constexpr int kLayerArrays = 11;
// Before those: x, the time's vector, the attention's bias, and the arrays of the convolutions.
constexpr int kHeadArrays = 13;

// Scratch of one thread, apart from that of the kernels.
float* room(size_t floats) {
  static thread_local std::vector<float> kept;
  if (kept.size() < floats) kept.resize(floats);
  return kept.data();
}

// y [rows, outputs] = x [rows, inputs] times weights of one tap, plus `bias` [outputs] and `residual` [rows, outputs].
void dense(const Kernels& table, const float* x, int rows, int inputs, int outputs, const float* weights, const float* bias,
           const float* residual, float* y) {
  Conv conv = dense_conv(rows, inputs, outputs, weights, bias);
  conv.x = x;
  conv.residual = residual;
  conv.y = y;
  conv.plan = {rows, outputs};
  table.conv(conv, 0);
}

void run_block(const Kernels& table, const UNetShape& s, const Arrays& in, float* y) {
  const int B = in[0].shape(0), F = in[0].shape(1), I = in[0].shape(2), C = s.channels, N = s.inner, W = s.wide, R = B * F;
  const int share = (R / (4 * pool_size()) + kFewestRows - 1) / kFewestRows * kFewestRows;
  const int tile = std::clamp(share, kFewestRows, kMostRows);
  const auto at = [](const auto* p, int row, int width) { return p + static_cast<size_t>(row) * width; };
  const auto put = [](float* p, int row, int width) { return p + static_cast<size_t>(row) * width; };
  const auto first = uninitialized(static_cast<size_t>(R) * C), second = uninitialized(static_cast<size_t>(R) * C);
  const auto qkv = uninitialized(static_cast<size_t>(R) * 3 * N), heard = uninitialized(static_cast<size_t>(R) * N);
  const auto layer = [&](int k) {
    const auto begin = in.begin() + kHeadArrays + k * kLayerArrays;
    const auto p = [&](int i) { return floats(begin[i]); };
    return Layer{p(0), p(1), p(2), p(3), p(4), p(5), p(6), p(7), p(8), p(9), p(10)};
  };
  const auto convolution = [&](const float* x, int inputs, const mx::array& weights, const mx::array& start, float* to) {
    Conv conv{};
    conv.plan = table.plan(F, kTaps, 1, inputs, C);
    conv.length = conv.rows = conv.valid = conv.out_valid = F;
    conv.inputs = inputs;
    conv.outputs = C;
    conv.kernel = kTaps;
    conv.dilation = 1;
    conv.left = kTaps - 1;
    conv.weights = floats(weights);
    const bool whole = start.ndim() == 3;
    conv.bias = whole ? nullptr : floats(start);
    convolve(table, B, [&](int b) {
      Conv mine = conv;
      mine.x = at(x, b * F, inputs);
      mine.residual = whole ? at(floats(start), b * F, C) : nullptr;
      mine.y = put(to, b * F, C);
      return mine;
    });
  };
  const auto norm = [&](const float* x, const float* gain, const float* shift, float* to, bool mish, const float* add, int rows) {
    table.normalize({.x = x, .gain = gain, .shift = shift, .add = add, .y = to, .width = C, .eps = kEps, .mish = mish}, 0, rows);
  };
  // Queries, keys and values of rows [begin, begin + rows) of y for layer k.
  const auto project = [&](int k, int begin, int rows) {
    if (k == s.blocks) return;
    const Layer a = layer(k);
    float* normal = room(static_cast<size_t>(rows) * (C + W));
    norm(at(y, begin, C), a.gain1, a.shift1, normal, false, nullptr, rows);
    dense(table, normal, rows, C, 3 * N, a.qkv, nullptr, nullptr, put(qkv.get(), begin, 3 * N));
  };
  convolution(floats(in[0]), I, in[5], in[3], first.get());
  for_tiles(1, R, kFewestRows, [&](int, int begin, int end) {
    float* rows = put(first.get(), begin, C);
    norm(rows, floats(in[6]), floats(in[7]), rows, true, floats(in[1]), end - begin);
  });
  convolution(first.get(), C, in[8], in[9], second.get());
  for_tiles(1, R, tile, [&](int, int begin, int end) {
    float *rows = put(second.get(), begin, C), *to = put(y, begin, C);
    const bool whole = in[4].ndim() == 3;
    norm(rows, floats(in[10]), floats(in[11]), rows, true, whole ? nullptr : floats(in[4]), end - begin);
    if (whole) {
      const float* start = at(floats(in[4]), begin, C);
      for (int k = 0; k < (end - begin) * C; ++k) rows[k] += start[k];
    }
    dense(table, at(floats(in[0]), begin, I), end - begin, I, C, floats(in[12]), nullptr, rows, to);
    project(0, begin, end - begin);
  });
  const int D = N / s.heads, parts = tiles_of(4 * pool_size(), B * s.heads), queries = tiles_of(F, parts);
  const float* bias = in[2].size() ? floats(in[2]) : nullptr;
  for (int k = 0; k < s.blocks; ++k) {
    for_tiles(B * s.heads, F, queries, [&](int number, int begin, int end) {
      const int b = number / s.heads, h = number % s.heads;
      const float* q = at(qkv.get(), b * F, 3 * N) + h * D;
      table.attend_rows({.q = q,
                         .keys = q + N,
                         .values = q + 2 * N,
                         .bias = bias,
                         .y = put(heard.get(), b * F, N) + h * D,
                         .scale = 1 / std::sqrt(static_cast<float>(D)),
                         .count = F,
                         .size = D,
                         .stride = 3 * N,
                         .y_stride = N,
                         .q_stride = 3 * N,
                         .seen = 0},
                        begin, end);
    });
    const Layer a = layer(k);
    for_tiles(1, R, tile, [&](int, int begin, int end) {
      const int rows = end - begin;
      float *to = put(y, begin, C), *normal = room(static_cast<size_t>(rows) * (C + W)), *wide = normal + static_cast<size_t>(rows) * C;
      dense(table, at(heard.get(), begin, N), rows, N, C, a.out, a.out_bias, to, to);
      norm(to, a.gain2, a.shift2, normal, false, nullptr, rows);
      dense(table, normal, rows, C, W, a.fc1, a.fc1_bias, nullptr, wide);
      table.gelu(wide, static_cast<size_t>(rows) * W);
      dense(table, wide, rows, W, C, a.fc2, a.fc2_bias, to, to);
      project(k + 1, begin, rows);
    });
  }
}

mx::array unet_block(const mx::array& x, const mx::array& shift, const std::optional<mx::array>& bias, const mx::array& start,
                     const mx::array& end, const Arrays& weights, int heads, int inner, int wide, bool bfloat16) {
  const Kernels& table = kernels_of(bfloat16);
  const int C = shift.ndim() == 1 ? shift.shape(0) : 0, I = x.ndim() == 3 ? x.shape(2) : 0;
  const int blocks = (static_cast<int>(weights.size()) - (kHeadArrays - 5)) / kLayerArrays;
  if (!C || !I || heads < 1 || inner % heads || blocks < 1 || weights.size() != static_cast<size_t>(kHeadArrays - 5 + blocks * kLayerArrays) ||
      (bias && bias->size() != static_cast<size_t>(x.shape(1))))
    throw std::invalid_argument("unet_block: shapes do not fit");
  const auto packed = [&](int outputs, int kernel, int inputs) { return table.packed_size(outputs, kernel, inputs); };
  const size_t one = C;
  std::vector<size_t> sizes{packed(C, kTaps, I), one, one, packed(C, kTaps, C), one, one, one, packed(C, 1, I)};
  const std::vector<size_t> layer{one, one, packed(3 * inner, 1, C), packed(C, 1, inner), one, one, one, packed(wide, 1, C),
                                  static_cast<size_t>(wide), packed(C, 1, wide), one};
  for (int k = 0; k < blocks; ++k) sizes.insert(sizes.end(), layer.begin(), layer.end());
  for (size_t k = 0; k < sizes.size(); ++k)
    if (weights[k].size() != sizes[k]) throw std::invalid_argument("unet_block: the weights do not fit");
  const mx::Shape shape{x.shape(0), x.shape(1), C};
  for (const auto* each : {&start, &end})
    if (each->size() != one && each->shape() != shape) throw std::invalid_argument("unet_block: what is added does not fit");
  Arrays inputs{float_rows(x), float_rows(shift), bias ? float_rows(*bias) : mx::zeros({0}, mx::float32, here()), float_rows(start), float_rows(end)};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  const UNetShape dims{C, heads, inner, wide, blocks};
  return computed("NightingaleUNetBlock", shape, std::move(inputs),
                  [&table, dims](const Arrays& in, mx::array& out) { run_block(table, dims, in, out.data<float>()); });
}

}  // namespace

void bind_unet(nb::module_& m) {
  m.def("unet_block", &unet_block);
}

}  // namespace nightingale
