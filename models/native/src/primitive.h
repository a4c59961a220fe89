// A primitive of one output, and what the files of primitives share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels.h"
#include "mlx/allocator.h"
#include "mlx/array.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/ops.h"
#include "mlx/primitives.h"
#include "mlx/utils.h"
#include "pool.h"

namespace nb = nanobind;
namespace mx = mlx::core;

namespace nightingale {

// Each file of primitives adds its functions to the module.
void bind_decoder(nb::module_& m);
void bind_layers(nb::module_& m);
void bind_vocoder(nb::module_& m);
void bind_transformer(nb::module_& m);
void bind_unet(nb::module_& m);

using Arrays = std::vector<mx::array>;

// A primitive of one output whose work is one task of its CPU stream.
class Kernel : public mx::Primitive {
 public:
  using mx::Primitive::Primitive;

  void eval_cpu(const Arrays& inputs, Arrays& outputs) override {
    auto& y = outputs[0];
    allocate(inputs, y);
    auto& encoder = mx::cpu::get_command_encoder(stream());
    for (const auto& each : inputs) encoder.set_input_array(each);
    encoder.set_output_array(y);
    Arrays views;
    for (const auto& each : inputs) views.push_back(mx::array::unsafe_weak_copy(each));
    encoder.dispatch([self = task(), views = std::move(views), y = mx::array::unsafe_weak_copy(y)]() mutable { self(views, y); });
  }

  void eval_gpu(const Arrays&, Arrays&) override { throw std::runtime_error("the native kernels compute on the CPU"); }

 protected:
  virtual void allocate(const Arrays&, mx::array& y) { y.set_data(mx::allocator::malloc(y.nbytes())); }

  // What is computed, as a value that outlives the primitive.
  virtual std::function<void(const Arrays&, mx::array&)> task() const = 0;
};

using Task = std::function<void(const Arrays&, mx::array&)>;

// A primitive that is its name and its work.
class Named : public Kernel {
 public:
  Named(mx::Stream stream, const char* name, Task work) : Kernel(stream), name_(name), work_(std::move(work)) {}

  const char* name() const override { return name_; }

 protected:
  Task task() const override { return work_; }

 private:
  const char* name_;
  Task work_;
};

inline mx::Stream here() { return mx::default_stream(mx::Device::cpu); }

// The array of this shape that `work` fills from the inputs.
inline mx::array computed(const char* name, mx::Shape shape, Arrays inputs, Task work, mx::Dtype dtype = mx::float32) {
  return mx::array(std::move(shape), dtype, std::make_shared<Named>(here(), name, std::move(work)), std::move(inputs));
}

inline int tiles_of(int rows, int tile) { return (rows + tile - 1) / tile; }

// Run work(batch, first row, last row) for every tile of every sequence of a batch.
inline void for_tiles(int batch, int rows, int tile, const std::function<void(int, int, int)>& work) {
  const int tiles = tiles_of(rows, tile);
  parallel(batch * tiles, [&](int k) {
    const int first = k % tiles * tile;
    work(k / tiles, first, std::min(rows, first + tile));
  });
}

// Convolve every sequence of a batch; conv_of(b) is the convolution of number b.
inline void convolve(const Kernels& table, int batch, const std::function<Conv(int)>& conv_of) {
  const int pieces = table.pieces(conv_of(0));
  parallel(batch * pieces, [&](int k) { table.conv(conv_of(k / pieces), k % pieces); });
}

// A dense layer of `rows` rows as a convolution of one tap; `x`, `y`, `residual` and `plan` are the caller's.
inline Conv dense_conv(int rows, int inputs, int outputs, const float* weights, const float* bias) {
  Conv conv{};
  conv.weights = weights;
  conv.bias = bias;
  conv.length = conv.rows = conv.valid = conv.out_valid = rows;
  conv.inputs = inputs;
  conv.outputs = outputs;
  conv.kernel = conv.dilation = 1;
  return conv;
}

inline std::unique_ptr<float[]> uninitialized(size_t count) { return std::unique_ptr<float[]>(new float[count]); }

inline const float* floats(const mx::array& a) { return a.data<float>(); }

// The valid rows of sequence b of `rows` rows, by `counts`.
inline int valid_of(const mx::array& count, int b, int rows) {
  return count.size() ? std::clamp(*(count.data<int32_t>() + b), 0, rows) : rows;
}

inline mx::array float_rows(const mx::array& a) { return mx::contiguous(mx::astype(a, mx::float32, here()), false, here()); }

// The same, computed now.
inline mx::array evaluated(const mx::array& a) {
  mx::array found = float_rows(a);
  found.eval();
  return found;
}

// The valid rows of each sequence, int32 [B]; empty without.
inline mx::array counts(const std::optional<mx::array>& count, int batch) {
  if (!count) return mx::zeros({0}, mx::int32, here());
  if (count->size() != static_cast<size_t>(batch)) throw std::invalid_argument("count needs one number for each sequence");
  return mx::contiguous(mx::astype(*count, mx::int32, here()), false, here());
}

}  // namespace nightingale
