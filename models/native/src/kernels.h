// The kernels of one instruction set, and the choice among those that a build has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nightingale {

enum class Activation : int { kNone = 0, kLeaky = 1, kSnake = 2 };

// Division of a convolution into pieces: output rows and outputs of each.
struct Plan {
  int tile, width;
};

// One convolution of stride 1 over rows [length, inputs], with what comes before and after it in the same pass:
// y = gain * (residual + bias + conv(activation(x * scale + shift))). Rows outside [0, valid) count as zero.
struct Conv {
  const float* x;         // [length, inputs]
  const float* scale;     // [inputs] or null
  const float* shift;     // [inputs]; null with `scale`
  const float* rate;      // [inputs]: alpha / pi; for Snake
  const float* inverse;   // [inputs]: 1 / alpha; for Snake
  const float* weights;   // packed by `pack`
  const float* bias;      // [outputs] or null
  const float* residual;  // [rows, outputs] or null; may be y
  float* y;               // [rows, outputs], rows = length + left + right - (kernel - 1) * dilation
  float* moments;         // null, or [tiles, 2, outputs]: mean and sum of squared deviations of each tile's rows
  Plan plan;
  int length, rows, valid, out_valid, inputs, outputs, kernel, dilation, left, right;
  float slope, gain = 1.0f;
  Activation activation;
};

// One direction of an LSTM over one sequence, gates in the order i, f, g, o.
struct Recurrence {
  const float* x;        // [length, 4 * hidden], rows x_stride apart: the projected inputs with all biases
  const float* weights;  // packed by `pack_recurrence`
  float* y;              // [length, hidden], rows y_stride apart
  int length, valid, hidden, x_stride, y_stride;
  bool backward;
};

struct Kernels {
  const char* name;
  Plan (*plan)(int rows, int kernel, int dilation, int inputs, int outputs);
  // Floats of packed weights, and the packing of weights [outputs, kernel, inputs].
  size_t (*packed_size)(int outputs, int kernel, int inputs);
  void (*pack)(const float* weights, float* packed, int outputs, int kernel, int inputs);
  // The number of pieces of a convolution, and the work of one.
  int (*pieces)(const Conv& conv);
  void (*conv)(const Conv& conv, int piece);
  // Mean and sum of squared deviations of rows [first, last) of x [*, stride]; the latter `stride` floats behind.
  void (*moments)(const float* x, int stride, int channels, int first, int last, float* out);
  int recurrence_units;  // hidden sizes are multiples of it
  // The packing of recurrent weights [hidden, 4 * hidden], of the same size.
  void (*pack_recurrence)(const float* weights, float* packed, int hidden);
  void (*recur)(const Recurrence& recurrence);
  // See elementwise.h.
  void (*spectrum)(const float* x, int bins, int first, int last, float* y);
};

// The best kernels in float32 for this processor; `NATIVE_KERNELS` (avx512, avx2, baseline) bounds the choice.
const Kernels& kernels();

// The kernels that multiply in bfloat16 and add in float32; null where this processor has no such instructions, and
// where `NATIVE_KERNELS` names others than amx.
const Kernels* bfloat16_kernels();

// One of the two. Throws std::invalid_argument for bfloat16 without them.
const Kernels& kernels_of(bool bfloat16);

}  // namespace nightingale
