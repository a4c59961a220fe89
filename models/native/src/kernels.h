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
  const float* x;         // [length, inputs]; apart from y
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

// What a product's input goes through first, row by row. Swiglu takes rows of gates, then of as many factors. GELU is that
// of tanh, the exact one that of erf.
enum class BeforeKind : int { kNone = 0, kRelu = 1, kGelu = 2, kSwiglu = 3, kRmsNorm = 4, kLayerNorm = 5, kExactGelu = 6 };

struct Before {
  BeforeKind kind;
  const float *gain, *shift;  // [inputs], of the norms
  float eps;
};

constexpr int kPanel = 16;  // outputs that are packed side by side
constexpr int kGroup = 64;  // inputs that share a scale with weights of 4 bits

// y = residual + bias + before(x) weights^T with weights of 8 or 4 bits: see products.h.
struct Int8Product {
  const float* x;          // [rows, inputs], rows x_stride apart
  const uint8_t* weights;  // packed by `int8_pack`
  const float* scales;     // [outputs, padded to whole panels]; with 4 bits [panels, groups, kPanel]; not read with 16
  const float* bias;       // [outputs, padded to whole panels], or null
  const float* residual;   // [rows, outputs] or null
  float* y;                // [rows, outputs]
  void* coarse;            // [rows, inputs, padded to fours] of `int8_coarse` bytes: the rounded inputs; floats with 16 bits
  void* pairs;             // null, or the rounded inputs two rows by two, eight inputs of one and eight of the other
  float* steps;            // [rows], of the rounded inputs
  int32_t* sums;           // [rows], what the weights' offset adds to each sum
  int32_t* group_sums;     // [rows, groups], the same for weights of 4 bits; or null
  int rows, inputs, outputs, x_stride, bits;  // 16 bits are bfloat16
  Before before;
};

// Of weights w, rounded to `near` = w - e: |near| and |e|, [outputs, padded to whole panels].
struct Int8Errors {
  const float *lengths, *errors;
};

// The search for the largest of product + banned of each row, in float32 though 8 or 4 bits are read of most weights.
//
// With x = step * p + d for a row, |x.w - step * p.near| <= |d| |near| + |x| |e| by Cauchy and Schwarz. Only products that
// may be the largest are computed in full: with weights of 8 bits the search is exact.
//
// Where there are `rough` weights of 4 bits, they are read first. Cauchy's bound would keep too many products. Rounding
// errors that do not follow x have a standard deviation of |x| |e| / sqrt(inputs), and kDeviations of them are allowed for:
// a product is beyond these once in 10^14.
constexpr float kDeviations = 8;

struct Int8Search {
  Int8Product product;     // its y, bias, residual and before are not read
  Int8Product rough;       // the same product with weights of 4 bits; or no weights
  const float* whole;      // [outputs, inputs], or null: then the rounded weights are all there is
  Int8Errors errors, rough_errors;
  const float* banned;     // [outputs, padded]: minus infinity where an output, or padding, is never chosen
  float *rests, *norms;    // [rows]: |d|, |x|
  float *floors, *ceilings;  // [rows, panels]: bounds of the panel's largest product
};

// Attention of one query of one head to `count` keys and values.
struct Attention {
  const float* q;       // [size]
  const void *keys, *values;  // [count, size] in float32, or in bfloat16 if `half`; rows `stride` apart
  const float* bias;    // [count] or null; added to the logits
  float* y;             // [size]
  float* scratch;       // [count]
  float scale;
  int count, size, stride;
  bool half = false;
};

inline int padded(int count) { return (count + kPanel - 1) / kPanel * kPanel; }

// Harmonics of F0 with noise, merged into one signal: `size` samples a step.
struct Source {
  const float *f0, *noise;  // [steps] in Hz, [steps, size]
  const float* phases;      // [steps, harmonics], at the centers of the steps
  const float* weight;      // [harmonics]
  float* y;                 // [steps, size]
  int valid, size, harmonics;
  float bias;
};

// A short-time Fourier transform of 4 * hop points, of a signal x or back to a signal y. Rows of frames have 2 * bins().
struct Transform {
  const float* x;
  const float* basis;  // forward: [4 * hop, 2, padded bins]; back: [2 * bins, padded 4 * hop]
  const float* edges;  // back: gains of the first and the last hop, [2, hop]
  float* y;
  int samples, hop;    // valid samples
  bool polar;          // forward: magnitudes and phases instead of real and imaginary parts
  float most;          // back: bound of the magnitudes

  int bins() const { return 2 * hop + 1; }
  int frames() const { return samples / hop + 1; }
};

// LayerNorm of rows of x, then Mish, then an addition, where they are asked for.
struct Norm {
  const float *x, *gain, *shift;  // [*, width], [width], [width]
  const float* add;               // [width] or null
  float* y;                       // [*, width]; may be x
  int width;
  float eps;
  bool mish;
};

// Attention of many queries of one head to `count` keys and values: rows [size], `stride` apart.
struct HeadAttention {
  const float *q, *keys, *values;
  const float* bias;  // [count] or null; added to the logits
  float* y;           // rows y_stride apart
  float scale;
  int count, size, stride, y_stride;
  int q_stride;   // of the queries
  int seen;       // keys that the first query sees, each later query one more; 0: all see all
};

// The keys that a query of an attention sees.
inline int seen_by(const HeadAttention& a, int query) { return a.seen && a.seen + query < a.count ? a.seen + query : a.count; }

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
  // Weights of 8 or 4 bits or in bfloat16: bytes when packed, the packing of rows [first, last), which are at `weights`, one row of them
  // as floats, and its `Int8Errors`.
  size_t (*int8_size)(int outputs, int inputs, int bits);
  void (*int8_pack)(const float* weights, uint8_t* packed, float* scales, int outputs, int inputs, int bits, int first, int last);
  void (*int8_row)(const uint8_t* packed, const float* scales, int output, int inputs, int bits, float* y);
  void (*int8_measure)(const uint8_t* packed, const float* scales, const float* whole, int output, int inputs, int bits,
                       float* length, float* error);
  int int8_coarse;  // bytes of a rounded input
  int int8_rows;    // that a product has at least, to be faster by this set than by one that multiplies no matrices
  bool int8_pairs;  // whether products by this set read `pairs`
  // The rounding of rows [first, last), then the product for all rows and the outputs of panels [first, last).
  void (*int8_round)(const Int8Product& product, int first, int last);
  void (*int8_multiply)(const Int8Product& product, int first, int last);
  // See Int8Search: the lengths of rows, the bounds of panels, and one row's largest product.
  void (*int8_measure_rows)(const Int8Product& product, float* rests, float* norms, int first, int last);
  void (*int8_screen)(const Int8Search& search, int first, int last);
  int (*int8_choose)(const Int8Search& search, int row, int32_t* best);
  // One row x [n] of a product's input into y [n], which may be x.
  void (*prepare)(const Before& before, const float* x, float* y, int n);
  void (*attend)(const Attention& attention);
  float (*log_sum_exp)(const float* x, int count);
  // Steps, frames or hops [first, last): see vocoder.h.
  void (*excite)(const Source& source, int first, int last);
  void (*analyze)(const Transform& transform, int first, int last);
  void (*synthesize)(const Transform& transform, int first, int last);
  // See rows.h: of rows [first, last), GELU of `count` numbers in place, and of queries [first, last).
  void (*normalize)(const Norm& norm, int first, int last);
  void (*gelu)(float* x, size_t count);
  void (*attend_rows)(const HeadAttention& attention, int first, int last);
};

// The best kernels in float32 for this processor; `NATIVE_KERNELS` (vnni, avx512, avxvnni, avx2, baseline) bounds the choice.
const Kernels& kernels();

// The kernels that multiply in bfloat16 and add in float32; null where this processor has no such instructions, and
// where `NATIVE_KERNELS` names others than amx and bf16.
const Kernels* bfloat16_kernels();

// One of the two. Throws std::invalid_argument for bfloat16 without them.
const Kernels& kernels_of(bool bfloat16);

}  // namespace nightingale
