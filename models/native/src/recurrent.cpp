// Primitive of a bidirectional LSTM.
#include "primitive.h"

namespace nightingale {
namespace {

// Both directions of an LSTM: see `models.layers.lstm`.
class BiLstm : public Kernel {
 public:
  using Kernel::Kernel;

  const char* name() const override { return "NightingaleBiLstm"; }

 protected:
  std::function<void(const Arrays&, mx::array&)> task() const override {
    return [](const Arrays& in, mx::array& out) {
      const int B = in[0].shape(0), T = in[0].shape(1), H = in[0].shape(2) / 8;
      const int32_t* count = in[2].size() ? in[2].data<int32_t>() : nullptr;
      parallel(2 * B, [&](int k) {
        const int b = k / 2, side = k % 2;
        const size_t row = static_cast<size_t>(b) * T;
        kernels().recur({.x = floats(in[0]) + row * 8 * H + side * 4 * H,
                         .weights = floats(in[1]) + static_cast<size_t>(side) * 4 * H * H,
                         .y = out.data<float>() + row * 2 * H + side * H,
                         .length = T,
                         .valid = count ? std::min(T, std::max(0, count[b])) : T,
                         .hidden = H,
                         .x_stride = 8 * H,
                         .y_stride = 2 * H,
                         .backward = side == 1});
      });
    };
  }
};

mx::array bilstm(const mx::array& xp, const mx::array& weights, const std::optional<mx::array>& count) {
  const int H = xp.ndim() == 3 ? xp.shape(2) / 8 : 0;
  if (!H || H % kernels().recurrence_units || weights.size() != 8 * static_cast<size_t>(H) * H)
    throw std::invalid_argument("bilstm: shapes do not fit");
  auto s = mx::default_stream(mx::Device::cpu);
  return mx::array({xp.shape(0), xp.shape(1), 2 * H}, mx::float32, std::make_shared<BiLstm>(s),
                   {contiguous(xp, s), weights, counts(count, xp.shape(0), s)});
}

// Recurrent weights [2, hidden, 4 * hidden] in the order that the kernels read, a flat array.
mx::array pack_bilstm(const mx::array& weight) {
  mx::array w = mx::contiguous(mx::astype(weight, mx::float32, mx::Device::cpu), false, mx::Device::cpu);
  w.eval();
  const int H = w.shape(1);
  const size_t size = 4 * static_cast<size_t>(H) * H;
  auto buffer = mx::allocator::malloc(2 * size * sizeof(float));
  for (int side = 0; side < 2; ++side)
    kernels().pack_recurrence(w.data<float>() + side * size, static_cast<float*>(buffer.buffer().raw_ptr()) + side * size, H);
  return mx::array(std::move(buffer), {static_cast<int>(2 * size)}, mx::float32);
}

}  // namespace

void bind_recurrent(nb::module_& m) {
  m.def("bilstm", &bilstm, nb::arg("xp"), nb::arg("weights"), nb::arg("count").none());
  m.def("pack_bilstm", &pack_bilstm);
  m.def("recurrence_units", [] { return kernels().recurrence_units; });
}

}  // namespace nightingale
