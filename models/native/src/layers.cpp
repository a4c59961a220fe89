// Primitives of single layers: a convolution along time, and a bidirectional LSTM.
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
  auto s = mx::default_stream(mx::Device::cpu);
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
  Arrays inputs{contiguous(x, s), weights};
  if (bias) inputs.push_back(contiguous(*bias, s));
  if (residual) inputs.push_back(contiguous(mx::broadcast_to(*residual, {B, rows, outputs}, s), s));
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

mx::array evaluated(const mx::array& a) {
  mx::array found = contiguous(a, mx::default_stream(mx::Device::cpu));
  found.eval();
  return found;
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
  auto s = mx::default_stream(mx::Device::cpu);
  return computed("NightingaleBiLstm", {B, T, 2 * H}, {contiguous(xp, s), weights, counts(count, B, s)}, [B, T, H](const Arrays& in, mx::array& out) {
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

}  // namespace

void bind_layers(nb::module_& m) {
  m.def("pack_conv", &pack_conv, nb::arg("weight"), nb::arg("bfloat16"));
  m.def("has_bfloat16", [] { return bfloat16_kernels() != nullptr; });
  m.def("conv1d", &conv1d, nb::arg("x"), nb::arg("weights"), nb::arg("bias").none(), nb::arg("residual").none(), nb::arg("outputs"),
        nb::arg("kernel"), nb::arg("dilation"), nb::arg("left"), nb::arg("right"), nb::arg("bfloat16"));
  m.def("bilstm", &bilstm, nb::arg("xp"), nb::arg("weights"), nb::arg("count").none());
  m.def("pack_bilstm", &pack_bilstm);
  m.def("recurrence_units", [] { return kernels().recurrence_units; });
}

}  // namespace nightingale
