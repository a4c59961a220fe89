// Primitives of layers: a convolution along time, a bidirectional LSTM, and a transformer's encoder.
#include "primitive.h"

namespace nightingale {
namespace {

// Convolution of rows; `left` and `right` rows of zeros count as input.
mx::array conv1d(const mx::array& x, const mx::array& weights, const std::optional<mx::array>& bias,
                 const std::optional<mx::array>& residual, int outputs, int kernel, int dilation, int left, int right,
                 bool bfloat16) {
  const Kernels& table = kernels_of(bfloat16);
  if (x.ndim() != 3 || weights.size() != table.packed_size(outputs, kernel, x.shape(2)))
    throw std::invalid_argument("conv1d: the weights do not fit the input");
  const int B = x.shape(0), rows = x.shape(1) + left + right - (kernel - 1) * dilation;
  if (rows < 1) throw std::invalid_argument("conv1d: the input is shorter than the kernel");
  Conv shape{};
  shape.length = shape.valid = x.shape(1);
  shape.out_valid = shape.rows = rows;
  shape.inputs = x.shape(2);
  shape.outputs = outputs;
  shape.kernel = kernel;
  shape.dilation = dilation;
  shape.left = left;
  shape.right = right;
  shape.plan = table.plan(rows, kernel, dilation, shape.inputs, outputs);
  Arrays inputs{float_rows(x), weights};
  if (bias) inputs.push_back(float_rows(*bias));
  if (residual) inputs.push_back(float_rows(mx::broadcast_to(*residual, {B, rows, outputs}, here())));
  const bool biased = bias.has_value(), added = residual.has_value();
  return computed("NightingaleConv1d", {B, rows, outputs}, std::move(inputs), [&table, shape, biased, added](const Arrays& in, mx::array& out) {
    const size_t from = static_cast<size_t>(shape.length) * shape.inputs, to = static_cast<size_t>(shape.rows) * shape.outputs;
    convolve(table, out.shape(0), [&](int b) {
      Conv conv = shape;
      conv.x = floats(in[0]) + b * from;
      conv.weights = floats(in[1]);
      conv.bias = biased ? floats(in[2]) : nullptr;
      conv.residual = added ? floats(in[2 + biased]) + b * to : nullptr;
      conv.y = out.data<float>() + b * to;
      return conv;
    });
  });
}

// Weights [outputs, kernel, inputs] in the order that the kernels read, a flat array.
mx::array pack_conv(const mx::array& weight, bool bfloat16) {
  const Kernels& table = kernels_of(bfloat16);
  const mx::array w = evaluated(weight);
  const int O = w.shape(0), K = w.shape(1), I = w.shape(2);
  const size_t size = table.packed_size(O, K, I);
  auto buffer = mx::allocator::malloc(size * sizeof(float));
  table.pack(w.data<float>(), static_cast<float*>(buffer.buffer().raw_ptr()), O, K, I);
  return mx::array(std::move(buffer), {static_cast<int>(size)}, mx::float32);
}

// Both directions of an LSTM: see `models.layers.lstm`.
mx::array bilstm(const mx::array& xp, const mx::array& weights, const std::optional<mx::array>& count) {
  const int B = xp.ndim() == 3 ? xp.shape(0) : 0, T = B ? xp.shape(1) : 0, H = B ? xp.shape(2) / 8 : 0;
  if (!H || H % kernels().recurrence_units || weights.size() != 8 * static_cast<size_t>(H) * H)
    throw std::invalid_argument("bilstm: shapes do not fit");
  return computed("NightingaleBiLstm", {B, T, 2 * H}, {float_rows(xp), weights, counts(count, B)}, [B, T, H](const Arrays& in, mx::array& out) {
    parallel(2 * B, [&](int k) {
      const int b = k / 2, side = k % 2;
      const size_t row = static_cast<size_t>(b) * T;
      kernels().recur({.x = floats(in[0]) + row * 8 * H + side * 4 * H,
                       .weights = floats(in[1]) + static_cast<size_t>(side) * 4 * H * H,
                       .y = out.data<float>() + row * 2 * H + side * H,
                       .length = T,
                       .valid = valid_of(in[2], b, T),
                       .hidden = H,
                       .x_stride = 8 * H,
                       .y_stride = 2 * H,
                       .backward = side == 1});
    });
  });
}

// Recurrent weights [2, hidden, 4 * hidden] in the order that the kernels read, a flat array.
mx::array pack_bilstm(const mx::array& weight) {
  const mx::array w = evaluated(weight);
  const int H = w.shape(1);
  const size_t size = 4 * static_cast<size_t>(H) * H;
  auto buffer = mx::allocator::malloc(2 * size * sizeof(float));
  for (int side = 0; side < 2; ++side)
    kernels().pack_recurrence(w.data<float>() + side * size, static_cast<float*>(buffer.buffer().raw_ptr()) + side * size, H);
  return mx::array(std::move(buffer), {static_cast<int>(2 * size)}, mx::float32);
}

// Inputs of `encode` behind x and count: weights and bias of queries, keys and values, of attention's output, its norm's
// gain and shift, and the same of the two feed-forward layers.
enum EncoderInput { kQkv = 2, kQkvBias, kOut, kOutBias, kGain, kShift, kWide, kWideBias, kNarrow, kNarrowBias, kLastGain, kLastShift, kEncoderInputs };

struct EncoderShape {
  int rows, channels, heads, wide, depth;
  float eps;
};

// x [B, T, C] through the layer `depth` times, each with LayerNorm after attention and after the feed-forward layers.
void run_encoder(const EncoderShape& s, const Arrays& in, float* y) {
  const Kernels& table = kernels();
  const int B = in[0].shape(0), T = in[0].shape(1), R = s.rows, C = s.channels, D = C / s.heads;
  const size_t row = C;
  const auto qkv = uninitialized(3 * row * R), heard = uninitialized(row * R), middle = uninitialized(row * R);
  const auto wide = uninitialized(static_cast<size_t>(s.wide) * R);
  const auto dense = [&](const float* x, int inputs, int outputs, int weights, const float* residual, float* to) {
    Conv conv = dense_conv(R, inputs, outputs, floats(in[weights]), floats(in[weights + 1]));
    conv.x = x;
    conv.residual = residual;
    conv.y = to;
    conv.plan = table.plan(R, 1, 1, inputs, outputs);
    convolve(table, 1, [&](int) { return conv; });
  };
  const auto prepare = [&](const Before& before, float* x, size_t width) {
    for_tiles(1, R, 64, [&](int, int first, int last) {
      for (int r = first; r < last; ++r) table.prepare(before, x + r * width, x + r * width, static_cast<int>(width));
    });
  };
  const auto norm = [&](int gain) { return Before{BeforeKind::kLayerNorm, floats(in[gain]), floats(in[gain + 1]), s.eps}; };
  const float* x = floats(in[0]);
  for (int k = 0; k < s.depth; ++k, x = y) {
    dense(x, C, 3 * C, kQkv, nullptr, qkv.get());
    for_tiles(B * s.heads, T, 64, [&](int number, int first, int last) {
      const int b = number / s.heads, h = number % s.heads;
      const float* q = qkv.get() + 3 * static_cast<size_t>(b) * T * row + h * D;
      table.attend_rows({.q = q,
                         .keys = q + row,
                         .values = q + 2 * row,
                         .bias = nullptr,
                         .y = heard.get() + static_cast<size_t>(b) * T * row + h * D,
                         .scale = 1 / std::sqrt(static_cast<float>(D)),
                         .count = std::max(1, valid_of(in[1], b, T)),
                         .size = D,
                         .stride = 3 * C,
                         .y_stride = C,
                         .q_stride = 3 * C,
                         .seen = 0},
                        first, last);
    });
    dense(heard.get(), C, C, kOut, x, middle.get());
    prepare(norm(kGain), middle.get(), row);
    dense(middle.get(), C, s.wide, kWide, nullptr, wide.get());
    prepare({.kind = BeforeKind::kGelu}, wide.get(), s.wide);
    dense(wide.get(), s.wide, C, kNarrow, middle.get(), y);
    prepare(norm(kLastGain), y, row);
  }
}

mx::array encode(const mx::array& x, const std::optional<mx::array>& count, const Arrays& weights, int heads, int depth, float eps) {
  const int C = x.ndim() == 3 ? x.shape(2) : 0, wide = weights.size() == kEncoderInputs - 2 ? static_cast<int>(weights[kWideBias - 2].size()) : 0;
  const auto packed = [&](int outputs, int inputs) { return kernels().packed_size(outputs, 1, inputs); };
  const size_t one = C, sizes[] = {packed(3 * C, C), 3 * one, packed(C, C), one, one, one, packed(wide, C), static_cast<size_t>(wide), packed(C, wide), one, one, one};
  bool fits = C && wide && heads > 0 && C % heads == 0 && depth > 0;
  for (size_t k = 0; fits && k < weights.size(); ++k) fits = weights[k].size() == sizes[k];
  if (!fits) throw std::invalid_argument("encode: shapes do not fit");
  Arrays inputs{float_rows(x), counts(count, x.shape(0))};
  for (const auto& each : weights) inputs.push_back(float_rows(each));
  const EncoderShape shape{x.shape(0) * x.shape(1), C, heads, wide, depth, eps};
  return computed("NightingaleEncode", x.shape(), std::move(inputs), [shape](const Arrays& in, mx::array& out) { run_encoder(shape, in, out.data<float>()); });
}

}  // namespace

void bind_layers(nb::module_& m) {
  m.def("pack_conv", &pack_conv);
  m.def("has_bfloat16", [] { return bfloat16_kernels() != nullptr; });
  m.def("conv1d", &conv1d);
  m.def("bilstm", &bilstm);
  m.def("pack_bilstm", &pack_bilstm);
  m.def("encode", &encode);
  m.def("recurrence_units", [] { return kernels().recurrence_units; });
}

}  // namespace nightingale
