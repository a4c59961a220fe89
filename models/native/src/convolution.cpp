// Primitive of one convolution.
#include "primitive.h"

namespace nightingale {
namespace {

// Convolution of rows; `left` and `right` rows of zeros count as input.
class Convolution : public Kernel {
 public:
  Convolution(mx::Stream stream, const Kernels& table, Conv shape, bool bias, bool residual)
      : Kernel(stream), table_(table), shape_(shape), bias_(bias), residual_(residual) {}

  const char* name() const override { return "NightingaleConv1d"; }

 protected:
  std::function<void(const Arrays&, mx::array&)> task() const override {
    return [&table = table_, shape = shape_, bias = bias_, residual = residual_](const Arrays& in, mx::array& out) {
      const int B = in[0].shape(0);
      const size_t from = static_cast<size_t>(shape.length) * shape.inputs, to = static_cast<size_t>(shape.rows) * shape.outputs;
      convolve(table, B, [&](int b) {
        Conv conv = shape;
        conv.x = floats(in[0]) + b * from;
        conv.weights = floats(in[1]);
        conv.bias = bias ? floats(in[2]) : nullptr;
        conv.residual = residual ? floats(in[2 + bias]) + b * to : nullptr;
        conv.y = out.data<float>() + b * to;
        return conv;
      });
    };
  }

 private:
  const Kernels& table_;
  Conv shape_;
  bool bias_, residual_;
};

mx::array conv1d(const mx::array& x, const mx::array& weights, const std::optional<mx::array>& bias,
                 const std::optional<mx::array>& residual, int outputs, int kernel, int dilation, int left, int right,
                 bool bfloat16) {
  const Kernels& table = kernels_of(bfloat16);
  if (x.ndim() != 3 || weights.size() != table.packed_size(outputs, kernel, x.shape(2)))
    throw std::invalid_argument("conv1d: the weights do not fit the input");
  const int rows = x.shape(1) + left + right - (kernel - 1) * dilation;
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
  if (residual) inputs.push_back(contiguous(mx::broadcast_to(*residual, {x.shape(0), rows, outputs}, s), s));
  return mx::array({x.shape(0), rows, outputs}, mx::float32, std::make_shared<Convolution>(s, table, shape, bias.has_value(), residual.has_value()), std::move(inputs));
}

// Weights [outputs, kernel, inputs] in the order that the kernels read, a flat array.
mx::array pack_conv(const mx::array& weight, bool bfloat16) {
  const Kernels& table = kernels_of(bfloat16);
  mx::array w = mx::contiguous(mx::astype(weight, mx::float32, mx::Device::cpu), false, mx::Device::cpu);
  w.eval();
  const int O = w.shape(0), K = w.shape(1), I = w.shape(2);
  const size_t size = table.packed_size(O, K, I);
  auto buffer = mx::allocator::malloc(size * sizeof(float));
  table.pack(w.data<float>(), static_cast<float*>(buffer.buffer().raw_ptr()), O, K, I);
  return mx::array(std::move(buffer), {static_cast<int>(size)}, mx::float32);
}

}  // namespace

void bind_convolution(nb::module_& m) {
  m.def("pack_conv", &pack_conv, nb::arg("weight"), nb::arg("bfloat16"));
  m.def("has_bfloat16", [] { return bfloat16_kernels() != nullptr; });
  m.def("conv1d", &conv1d, nb::arg("x"), nb::arg("weights"), nb::arg("bias").none(), nb::arg("residual").none(), nb::arg("outputs"),
        nb::arg("kernel"), nb::arg("dilation"), nb::arg("left"), nb::arg("right"), nb::arg("bfloat16"));
}

}  // namespace nightingale
