// Primitives of Transformers: products with weights of 8 bits, the search for the likeliest token, attention.
#include "primitive.h"

namespace nightingale {
namespace {

constexpr int kFewRows = 8;           // whose weights are read once, in large pieces
constexpr int kLeastWeights = 1 << 17;  // that a second thread is worth

template <typename T>
const T* optional_data(const mx::array& a) {
  return a.size() ? a.data<T>() : nullptr;
}

// An array as its consumers here need it: float32 in rows. Results of this module are, and need no more of the graph.
mx::array dense(const mx::array& a, mx::Stream s) {
  if (a.dtype() == mx::float32) {
    if (a.has_primitive() && dynamic_cast<Kernel*>(&a.primitive())) return a;
    if (a.is_available() && a.flags().row_contiguous) return a;
  }
  return contiguous(a, s);
}

mx::array none() {
  static const mx::array empty = mx::array(mx::allocator::malloc(0), {0}, mx::float32);
  return empty;
}

int panels_of(int outputs) { return (outputs + kPanel - 1) / kPanel; }

// Room for the rounded inputs of a product, and their rounding.
struct Rounded {
  std::unique_ptr<char[]> coarse;
  std::unique_ptr<float[]> steps;
  std::unique_ptr<int32_t[]> sums;

  explicit Rounded(Int8Product& m)
      : coarse(new char[static_cast<size_t>(m.rows) * (m.inputs + 3) / 4 * 4 * kernels().int8_coarse + 4 * kernels().int8_coarse * m.rows]),
        steps(new float[m.rows]),
        sums(new int32_t[m.rows]) {
    m.coarse = coarse.get();
    m.steps = steps.get();
    m.sums = sums.get();
  }
};

// Run work(first, last) over all rows.
void for_rows(const Int8Product& m, const std::function<void(int, int)>& work) {
  if (m.rows <= 4) return work(0, m.rows);
  for_tiles(1, m.rows, 4, [&](int, int first, int last) { work(first, last); });
}

// Run work(first, last) over all panels, in multiples of four of them.
void for_panels(const Int8Product& m, const std::function<void(int, int)>& work) {
  const int panels = panels_of(m.outputs);
  if (static_cast<size_t>(m.inputs) * m.outputs * m.rows < kLeastWeights) return work(0, panels);
  const int wanted = m.rows > kFewRows ? 1 : panels / (16 * pool_size());
  for_tiles(1, panels, 4 * std::max(1, wanted), [&](int, int first, int last) { work(first, last); });
}

class Int8Linear : public Kernel {
 public:
  Int8Linear(mx::Stream stream, Int8Product shape) : Kernel(stream), shape_(shape) {}

  const char* name() const override { return "NightingaleInt8Linear"; }

 protected:
  std::function<void(const Arrays&, mx::array&)> task() const override {
    return [m = shape_](const Arrays& in, mx::array& out) mutable {
      m.x = floats(in[0]);
      m.weights = in[1].data<uint8_t>();
      m.scales = floats(in[2]);
      m.bias = optional_data<float>(in[3]);
      m.residual = optional_data<float>(in[4]);
      m.before.gain = optional_data<float>(in[5]);
      m.before.shift = optional_data<float>(in[6]);
      m.y = out.data<float>();
      const Rounded rounded(m);
      for_rows(m, [&](int first, int last) { kernels().int8_round(m, first, last); });
      for_panels(m, [&](int first, int last) { kernels().int8_multiply(m, first, last); });
    };
  }

 private:
  Int8Product shape_;
};

Int8Product product_of(const mx::array& x, const mx::array& weights, const mx::array& scales, int outputs, int inputs, BeforeKind kind = BeforeKind::kNone) {
  const int width = kind == BeforeKind::kSwiglu ? 2 * inputs : inputs;
  if (!x.ndim() || x.shape(-1) != width || weights.size() != kernels().int8_size(outputs, inputs) || scales.size() != static_cast<size_t>(panels_of(outputs)) * kPanel)
    throw std::invalid_argument("int8_linear: the weights do not fit the input");
  Int8Product m{};
  m.rows = static_cast<int>(x.size() / width);
  m.inputs = inputs;
  m.outputs = outputs;
  m.x_stride = width;
  m.before.kind = kind;
  return m;
}

using Maybe = std::optional<mx::array>;

mx::array int8_linear(const mx::array& x, const mx::array& weights, const mx::array& scales, const Maybe& bias, const Maybe& residual,
                      const Maybe& gain, const Maybe& shift, int outputs, int inputs, int before, float eps) {
  Int8Product m = product_of(x, weights, scales, outputs, inputs, static_cast<BeforeKind>(before));
  m.before.eps = eps;
  mx::Shape shape = x.shape();
  shape.back() = outputs;
  const bool norm = m.before.kind == BeforeKind::kRmsNorm || m.before.kind == BeforeKind::kLayerNorm;
  if ((bias && bias->size() != scales.size()) || (residual && residual->shape() != shape) || (norm && (!gain || gain->size() != static_cast<size_t>(inputs))) ||
      (m.before.kind == BeforeKind::kLayerNorm && (!shift || shift->size() != static_cast<size_t>(inputs))))
    throw std::invalid_argument("int8_linear: the sums or the norm do not fit");
  auto s = mx::default_stream(mx::Device::cpu);
  auto given = [&](const Maybe& a) { return a ? dense(*a, s) : none(); };
  return mx::array(shape, mx::float32, std::make_shared<Int8Linear>(s, m), {dense(x, s), weights, scales, given(bias), given(residual), given(gain), given(shift)});
}

// Rows of weights as float32, times `scale`.
class Int8Rows : public Kernel {
 public:
  Int8Rows(mx::Stream stream, int inputs, float scale) : Kernel(stream), inputs_(inputs), scale_(scale) {}

  const char* name() const override { return "NightingaleInt8Rows"; }

 protected:
  std::function<void(const Arrays&, mx::array&)> task() const override {
    return [inputs = inputs_, scale = scale_](const Arrays& in, mx::array& out) {
      const int count = static_cast<int>(in[0].size()), outputs = static_cast<int>(in[2].size());
      const auto work = [&](int k) {
        const int id = std::clamp(in[0].data<int32_t>()[k], 0, outputs - 1);
        float* y = out.data<float>() + static_cast<size_t>(k) * inputs;
        kernels().int8_row(in[1].data<uint8_t>(), floats(in[2]), id, inputs, y);
        for (int i = 0; i < inputs; ++i) y[i] *= scale;
      };
      if (count < 4) {
        for (int k = 0; k < count; ++k) work(k);
      } else {
        parallel(count, work);
      }
    };
  }

 private:
  int inputs_;
  float scale_;
};

mx::array int8_rows(const mx::array& ids, const mx::array& weights, const mx::array& scales, int inputs, float scale) {
  if (weights.size() != kernels().int8_size(static_cast<int>(scales.size()), inputs)) throw std::invalid_argument("int8_rows: the weights do not fit");
  auto s = mx::default_stream(mx::Device::cpu);
  mx::Shape shape = ids.shape();
  shape.push_back(inputs);
  return mx::array(shape, mx::float32, std::make_shared<Int8Rows>(s, inputs, scale), {mx::contiguous(mx::astype(ids, mx::int32, s), false, s), weights, scales});
}

// The places of the largest products, and how many products were computed in full for each.
class Int8Argmax : public mx::Primitive {
 public:
  Int8Argmax(mx::Stream stream, Int8Product shape) : mx::Primitive(stream), shape_(shape) {}

  const char* name() const override { return "NightingaleInt8Argmax"; }

  void eval_cpu(const Arrays& inputs, Arrays& outputs) override {
    auto& encoder = mx::cpu::get_command_encoder(stream());
    Arrays in, out;
    for (auto& each : outputs) {
      each.set_data(mx::allocator::malloc(each.nbytes()));
      encoder.set_output_array(each);
      out.push_back(mx::array::unsafe_weak_copy(each));
    }
    for (const auto& each : inputs) {
      encoder.set_input_array(each);
      in.push_back(mx::array::unsafe_weak_copy(each));
    }
    encoder.dispatch([m = shape_, in = std::move(in), out = std::move(out)]() mutable {
      m.x = floats(in[0]);
      m.weights = in[1].data<uint8_t>();
      m.scales = floats(in[2]);
      const Rounded rounded(m);
      const size_t bounds = static_cast<size_t>(m.rows) * panels_of(m.outputs);
      const auto rests = uninitialized(2 * m.rows), floors = uninitialized(2 * bounds);
      const Int8Search s{m, optional_data<float>(in[6]), floats(in[3]), floats(in[4]), floats(in[5]), rests.get(), rests.get() + m.rows, floors.get(), floors.get() + bounds};
      for_rows(m, [&](int first, int last) {
        kernels().int8_round(m, first, last);
        kernels().int8_measure_rows(m, s.rests, s.norms, first, last);
      });
      for_panels(m, [&](int first, int last) { kernels().int8_screen(s, first, last); });
      parallel(m.rows, [&](int row) { out[1].data<int32_t>()[row] = kernels().int8_choose(s, row, out[0].data<int32_t>() + row); });
    });
  }

  void eval_gpu(const Arrays&, Arrays&) override { throw std::runtime_error("the native kernels compute on the CPU"); }

 private:
  Int8Product shape_;
};

std::pair<mx::array, mx::array> int8_argmax(const mx::array& x, const mx::array& weights, const mx::array& scales, const mx::array& lengths, const mx::array& errors,
                                            const mx::array& banned, const Maybe& whole, int outputs, int inputs) {
  const Int8Product m = product_of(x, weights, scales, outputs, inputs);
  if (lengths.size() != scales.size() || errors.size() != scales.size() || banned.size() != scales.size() || (whole && whole->size() != static_cast<size_t>(outputs) * inputs))
    throw std::invalid_argument("int8_argmax: shapes do not fit");
  auto s = mx::default_stream(mx::Device::cpu);
  mx::Shape shape(x.shape().begin(), x.shape().end() - 1);
  auto found = mx::array::make_arrays({shape, shape}, {mx::int32, mx::int32}, std::make_shared<Int8Argmax>(s, m),
                                      {dense(x, s), weights, scales, lengths, errors, dense(banned, s), whole ? dense(*whole, s) : none()});
  return {found[0], found[1]};
}

mx::array evaluated(const mx::array& a) {
  mx::array x = contiguous(a, mx::default_stream(mx::Device::cpu));
  x.eval();
  return x;
}

template <typename T = float>
T* data_of(mx::allocator::Data& data) {
  return static_cast<T*>(data.buffer().raw_ptr());
}

// Weights [outputs, inputs] in the order that the kernels read, a flat array, and their scales.
std::pair<mx::array, mx::array> pack_int8(const mx::array& weight) {
  const mx::array w = evaluated(weight);
  if (w.ndim() != 2) throw std::invalid_argument("pack_int8: weights have two dimensions");
  const int N = w.shape(0), K = w.shape(1), panels = panels_of(N);
  const size_t size = kernels().int8_size(N, K);
  auto packed = mx::allocator::malloc(size), scales = mx::allocator::malloc(panels * kPanel * sizeof(float));
  for_tiles(1, panels, 16, [&](int, int first, int last) {
    kernels().int8_pack(w.data<float>(), data_of<uint8_t>(packed), data_of(scales), N, K, first * kPanel, last * kPanel);
  });
  return {mx::array(std::move(packed), {static_cast<int>(size)}, mx::uint8), mx::array(std::move(scales), {panels * kPanel}, mx::float32)};
}

// The lengths of rounded weights, and of what their rounding took from `whole` (zero without): see Int8Search.
std::pair<mx::array, mx::array> int8_lengths(const mx::array& weights, const mx::array& scales, const Maybe& whole, int outputs, int inputs) {
  const mx::array w = whole ? evaluated(*whole) : none();
  const int padded = static_cast<int>(scales.size());
  auto lengths = mx::allocator::malloc(padded * sizeof(float)), errors = mx::allocator::malloc(padded * sizeof(float));
  std::fill_n(data_of(lengths), padded, 0.0f);
  std::fill_n(data_of(errors), padded, 0.0f);
  for_tiles(1, outputs, 256, [&](int, int first, int last) {
    kernels().int8_measure_weights(optional_data<float>(w), weights.data<uint8_t>(), scales.data<float>(), inputs, data_of(lengths), data_of(errors), first, last);
  });
  return {mx::array(std::move(lengths), {padded}, mx::float32), mx::array(std::move(errors), {padded}, mx::float32)};
}

}  // namespace

void bind_transformer(nb::module_& m) {
  m.def("pack_int8", &pack_int8);
  m.def("int8_lengths", &int8_lengths, nb::arg("weights"), nb::arg("scales"), nb::arg("whole").none(), nb::arg("outputs"), nb::arg("inputs"));
  m.def("int8_linear", &int8_linear, nb::arg("x"), nb::arg("weights"), nb::arg("scales"), nb::arg("bias").none(), nb::arg("residual").none(),
        nb::arg("gain").none(), nb::arg("shift").none(), nb::arg("outputs"), nb::arg("inputs"), nb::arg("before"), nb::arg("eps"));
  m.def("int8_rows", &int8_rows);
  m.def("int8_argmax", &int8_argmax, nb::arg("x"), nb::arg("weights"), nb::arg("scales"), nb::arg("lengths"), nb::arg("errors"), nb::arg("banned"),
        nb::arg("whole").none(), nb::arg("outputs"), nb::arg("inputs"));
}

}  // namespace nightingale
