// Primitives of Transformers: products with weights of 8 or 4 bits or in bfloat16, the search for the likeliest token, attention.
#include "primitive.h"

namespace nightingale {
namespace {

constexpr int kFewRows = 8;           // whose weights are read once, in large pieces
constexpr int kLeastWeights = 1 << 17;  // that a second thread is worth
constexpr size_t kCoarseBytes = 256 << 10;  // of rounded rows that stay in the second cache
constexpr int kRowsUnit = 48;               // rows that share weights in the first cache: see products.h

template <typename T>
const T* optional_data(const mx::array& a) {
  return a.size() ? a.data<T>() : nullptr;
}

// An array as its consumers here need it: float32 in rows. Results of this module are, and need no more of the graph.
mx::array dense(const mx::array& a) {
  if (a.dtype() == mx::float32) {
    if (a.has_primitive() && dynamic_cast<Kernel*>(&a.primitive())) return a;
    if (a.is_available() && a.flags().row_contiguous) return a;
  }
  return float_rows(a);
}

// Rows in float32, or in bfloat16 as they are.
mx::array dense_or_half(const mx::array& a) {
  if (a.dtype() != mx::bfloat16) return dense(a);
  return a.is_available() && a.flags().row_contiguous ? a : mx::contiguous(a, false, here());
}

mx::array none() {
  static const mx::array empty = mx::array(mx::allocator::malloc(0), {0}, mx::float32);
  return empty;
}

int panels_of(int outputs) { return (outputs + kPanel - 1) / kPanel; }

// The kernels for products of so many rows: those with products of matrices, where there are any, read the same weights.
const Kernels& kernels_for(int rows) {
  const Kernels* matrices = bfloat16_kernels();
  return matrices && rows >= matrices->int8_rows ? *matrices : kernels();
}

// Bytes of a row of rounded inputs.
size_t coarse_bytes(const Int8Product& m) {
  return static_cast<size_t>((m.inputs + 3) / 4 * 4) * (m.bits == 16 ? sizeof(float) : kernels().int8_coarse);
}

// Room for the rounded inputs of a product, and their rounding.
struct Rounded {
  std::unique_ptr<char[]> coarse, pairs;
  std::unique_ptr<float[]> steps;
  std::unique_ptr<int32_t[]> sums;

  // With `grouped`, also what products with weights of 4 bits need.
  Rounded(Int8Product& m, bool grouped)
      : steps(new float[m.rows]), sums(new int32_t[static_cast<size_t>(m.rows) * (grouped ? 1 + m.inputs / kGroup : 1)]) {
    coarse.reset(new char[m.rows * coarse_bytes(m)]);
    if (m.bits != 16 && kernels_for(m.rows).int8_pairs) pairs.reset(new char[(m.rows + 1) / 2 * 2 * coarse_bytes(m)]);
    m.coarse = coarse.get();
    m.pairs = pairs.get();
    m.steps = steps.get();
    m.sums = sums.get();
    if (grouped) m.group_sums = sums.get() + m.rows;
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

// Rows [first, last) of a product.
Int8Product rows_of(Int8Product m, int first, int last) {
  m.x += static_cast<size_t>(first) * m.x_stride;
  if (m.residual) m.residual += static_cast<size_t>(first) * m.outputs;
  m.y += static_cast<size_t>(first) * m.outputs;
  m.coarse = static_cast<char*>(m.coarse) + first * coarse_bytes(m);
  if (m.pairs) m.pairs = static_cast<char*>(m.pairs) + first * coarse_bytes(m);
  m.steps += first;
  m.sums += first;
  if (m.group_sums) m.group_sums += static_cast<size_t>(first) * (m.inputs / kGroup);
  m.rows = last - first;
  return m;
}

// Multiply all rows by all panels. Rounded rows that do not fit the second cache beside the weights are taken in parts.
void multiply_all(const Int8Product& m) {
  const auto& table = kernels_for(m.rows);
  const int most = static_cast<int>(kCoarseBytes / coarse_bytes(m)) / kRowsUnit * kRowsUnit;
  if (most < kRowsUnit || m.rows <= most) return for_panels(m, [&](int first, int last) { table.int8_multiply(m, first, last); });
  const int parts = tiles_of(tiles_of(m.rows, most), pool_size()) * pool_size(), tile = tiles_of(tiles_of(m.rows, parts), kRowsUnit) * kRowsUnit;
  for_tiles(1, m.rows, tile, [&](int, int first, int last) { table.int8_multiply(rows_of(m, first, last), 0, panels_of(m.outputs)); });
}

Task linear_task(Int8Product shape) {
  return [m = shape](const Arrays& in, mx::array& out) mutable {
    m.x = floats(in[0]);
    m.weights = in[1].data<uint8_t>();
    m.scales = optional_data<float>(in[2]);
    m.bias = optional_data<float>(in[3]);
    m.residual = optional_data<float>(in[4]);
    m.before.gain = optional_data<float>(in[5]);
    m.before.shift = optional_data<float>(in[6]);
    m.y = out.data<float>();
    const Rounded rounded(m, m.bits == 4);
    for_rows(m, [&](int first, int last) { kernels().int8_round(m, first, last); });
    multiply_all(m);
  };
}

// The bits of weights of this many bytes.
int bits_of(size_t bytes, int outputs, int inputs) {
  for (const int bits : {8, 4, 16})
    if (bytes == kernels().int8_size(outputs, inputs, bits) && (bits != 4 || inputs % kGroup == 0)) return bits;
  throw std::invalid_argument("int8: the weights do not fit");
}

// The number of scales of packed weights.
size_t scales_of(int outputs, int inputs, int bits) {
  return bits == 16 ? 0 : static_cast<size_t>(panels_of(outputs)) * kPanel * (bits == 4 ? inputs / kGroup : 1);
}

Int8Product product_of(const mx::array& x, const mx::array& weights, const mx::array& scales, int outputs, int inputs,
                       BeforeKind kind = BeforeKind::kNone) {
  const int width = kind == BeforeKind::kSwiglu ? 2 * inputs : inputs, bits = bits_of(weights.size(), outputs, inputs);
  if (!x.ndim() || x.shape(-1) != width || scales.size() != scales_of(outputs, inputs, bits))
    throw std::invalid_argument("int8_linear: the weights do not fit the input");
  Int8Product m{};
  m.bits = bits;
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
  const auto fits = [&](const Maybe& a) { return a && a->size() == static_cast<size_t>(inputs); };
  if ((bias && bias->size() != static_cast<size_t>(panels_of(outputs)) * kPanel) || (residual && residual->shape() != shape) || (norm && !fits(gain)) ||
      (m.before.kind == BeforeKind::kLayerNorm && !fits(shift)))
    throw std::invalid_argument("int8_linear: the sums or the norm do not fit");
  auto given = [&](const Maybe& a) { return a ? dense(*a) : none(); };
  return computed("NightingaleInt8Linear", shape, {dense(x), weights, scales, given(bias), given(residual), given(gain), given(shift)},
                  linear_task(m));
}

// Rows `ids` of weights as float32, times `scale`.
mx::array int8_rows(const mx::array& ids, const mx::array& weights, const mx::array& scales, int outputs, int inputs, float scale) {
  const int bits = bits_of(weights.size(), outputs, inputs);
  if (scales.size() != scales_of(outputs, inputs, bits)) throw std::invalid_argument("int8_rows: the scales do not fit");
  mx::Shape shape = ids.shape();
  shape.push_back(inputs);
  return computed("NightingaleInt8Rows", shape, {mx::contiguous(mx::astype(ids, mx::int32, here()), false, here()), weights, scales},
                  [=](const Arrays& in, mx::array& out) {
    const int count = static_cast<int>(in[0].size());
    const auto work = [&](int k) {
      const int id = std::clamp(in[0].data<int32_t>()[k], 0, outputs - 1);
      float* y = out.data<float>() + static_cast<size_t>(k) * inputs;
      kernels().int8_row(in[1].data<uint8_t>(), optional_data<float>(in[2]), id, inputs, bits, y);
      for (int i = 0; i < inputs; ++i) y[i] *= scale;
    };
    if (count >= 4) return parallel(count, work);
    for (int k = 0; k < count; ++k) work(k);
  });
}

// [2, ...]: the places of the largest products, and how many products were computed in full for each.
Task argmax_task(Int8Product shape) {
  return [m = shape](const Arrays& in, mx::array& out) mutable {
    m.x = floats(in[0]);
    m.weights = in[1].data<uint8_t>();
    m.scales = floats(in[2]);
    const bool rough = in.size() > 7 && m.rows <= kFewRows;  // more rows wait for products, not for memory
    const Rounded rounded(m, rough || m.bits == 4);
    const size_t bounds = static_cast<size_t>(m.rows) * panels_of(m.outputs);
    const auto rests = uninitialized(2 * m.rows), floors = uninitialized(2 * bounds);
    Int8Search s{.product = m,
                 .whole = optional_data<float>(in[6]),
                 .errors = {floats(in[3]), floats(in[4])},
                 .banned = floats(in[5]),
                 .rests = rests.get(),
                 .norms = rests.get() + m.rows,
                 .floors = floors.get(),
                 .ceilings = floors.get() + bounds};
    if (rough) {
      s.rough = m;
      s.rough.bits = 4;
      s.rough.weights = in[7].data<uint8_t>();
      s.rough.scales = floats(in[8]);
      s.rough_errors = {floats(in[9]), floats(in[10])};
    }
    for_rows(m, [&](int first, int last) {
      kernels().int8_round(m, first, last);
      kernels().int8_measure_rows(m, s.rests, s.norms, first, last);
    });
    for_panels(m, [&](int first, int last) { kernels_for(m.rows).int8_screen(s, first, last); });
    int32_t* places = out.data<int32_t>();
    parallel(m.rows, [&](int row) { places[m.rows + row] = kernels().int8_choose(s, row, places + row); });
  };
}

// `rough` is empty, or has the results of `int8_rough`.
mx::array int8_argmax(const mx::array& x, const mx::array& weights, const mx::array& scales, const mx::array& lengths, const mx::array& errors,
                      const mx::array& banned, const Maybe& whole, const Arrays& rough, int outputs, int inputs) {
  const Int8Product m = product_of(x, weights, scales, outputs, inputs);
  const size_t padded = static_cast<size_t>(panels_of(outputs)) * kPanel;
  if (lengths.size() != padded || errors.size() != padded || banned.size() != padded ||
      (whole && whole->size() != static_cast<size_t>(outputs) * inputs) ||
      (rough.size() && (rough.size() != 4 || rough[0].size() != kernels().int8_size(outputs, inputs, 4) ||
                        rough[1].size() != scales_of(outputs, inputs, 4) || rough[2].size() != padded || rough[3].size() != padded)))
    throw std::invalid_argument("int8_argmax: shapes do not fit");
  mx::Shape shape = x.shape();
  shape.back() = 2;
  std::rotate(shape.begin(), shape.end() - 1, shape.end());
  Arrays inputs_of{dense(x), weights, scales, lengths, errors, dense(banned), whole ? dense(*whole) : none()};
  inputs_of.insert(inputs_of.end(), rough.begin(), rough.end());
  return computed("NightingaleInt8Argmax", shape, std::move(inputs_of), argmax_task(m), mx::int32);
}

// The log of the sum of exp(x), of each row.
Task log_sum_exp_task() {
  return [](const Arrays& in, mx::array& out) {
    const int width = in[0].shape(-1);
    parallel(static_cast<int>(out.size()), [&](int row) {
      out.data<float>()[row] = kernels().log_sum_exp(floats(in[0]) + static_cast<size_t>(row) * width, width);
    });
  };
}

// x Phi(x) of numbers [...].
mx::array gelu(const mx::array& x) {
  return computed("NightingaleGelu", x.shape(), {dense(x)}, [](const Arrays& in, mx::array& out) {
    constexpr size_t kPart = 1 << 15;
    const int parts = static_cast<int>((out.size() + kPart - 1) / kPart);
    const auto work = [&](int k) {
      const size_t first = k * kPart, count = std::min(kPart, out.size() - first);
      float* y = out.data<float>() + first;
      std::copy_n(floats(in[0]) + first, count, y);
      kernels().gelu(y, count);
    };
    if (parts > 1) return parallel(parts, work);
    if (parts) work(0);
  });
}

mx::array log_sum_exp(const mx::array& x) {
  if (!x.ndim() || !x.shape(-1)) throw std::invalid_argument("log_sum_exp: rows are empty");
  mx::Shape shape = x.shape();
  shape.back() = 1;
  return computed("NightingaleLogSumExp", shape, {dense(x)}, log_sum_exp_task());
}

// A flat array of `size` bytes that begins where a line of the cache does: vectors across two lines take twice the time.
mx::array aligned_bytes(size_t size) {
  constexpr size_t kLine = 64;
  const mx::array whole(mx::allocator::malloc(size + kLine), {static_cast<int>(size + kLine)}, mx::uint8);
  const size_t past = reinterpret_cast<size_t>(whole.data<uint8_t>()) % kLine;
  mx::array part({static_cast<int>(size)}, mx::uint8, nullptr, {});
  part.copy_shared_buffer(whole, {1}, {true, true, true}, size, past ? kLine - past : 0);
  part.set_status(mx::array::Status::available);
  return part;
}

mx::array filled(size_t count) {
  auto data = mx::allocator::malloc(count * sizeof(float));
  std::fill_n(static_cast<float*>(data.buffer().raw_ptr()), count, 0.0f);
  return mx::array(std::move(data), {static_cast<int>(count)}, mx::float32);
}

// Weights [outputs, inputs] in the order that the kernels read, a flat array, and their scales.
std::pair<mx::array, mx::array> pack_int8(const mx::array& weight, int bits) {
  const mx::array w = evaluated(weight);
  if (w.ndim() != 2 || (bits == 4 && w.shape(1) % kGroup)) throw std::invalid_argument("pack_int8: the weights cannot be packed");
  const int N = w.shape(0), K = w.shape(1);
  mx::array packed = aligned_bytes(kernels().int8_size(N, K, bits)), scales = filled(scales_of(N, K, bits));
  for_tiles(1, panels_of(N), 16, [&](int, int first, int last) {
    const int row = first * kPanel;
    kernels().int8_pack(w.data<float>() + static_cast<size_t>(row) * K, packed.data<uint8_t>(), scales.data<float>(), N, K, bits, row, last * kPanel);
  });
  return {packed, scales};
}

// The lengths of rounded weights, and of what their rounding took from `whole` (zero without): see Int8Errors.
std::pair<mx::array, mx::array> int8_lengths(const mx::array& weights, const mx::array& scales, const Maybe& whole, int outputs, int inputs) {
  const mx::array w = whole ? evaluated(*whole) : none();
  const int bits = bits_of(weights.size(), outputs, inputs);
  mx::array lengths = filled(panels_of(outputs) * kPanel), errors = filled(panels_of(outputs) * kPanel);
  for_tiles(1, outputs, 256, [&](int, int first, int last) {
    for (int n = first; n < last; ++n)
      kernels().int8_measure(weights.data<uint8_t>(), floats(scales), whole ? floats(w) + static_cast<size_t>(n) * inputs : nullptr, n, inputs,
                             bits, lengths.data<float>() + n, errors.data<float>() + n);
  });
  return {lengths, errors};
}

// Weights of 4 bits for those of 8: packed, their scales, lengths and errors.
Arrays int8_rough(const mx::array& weights, const mx::array& scales, int outputs, int inputs) {
  const int padded = panels_of(outputs) * kPanel;
  const auto& table = kernels();
  mx::array packed = aligned_bytes(table.int8_size(outputs, inputs, 4)), rough = filled(scales_of(outputs, inputs, 4));
  mx::array lengths = filled(padded), errors = filled(padded);
  for_tiles(1, outputs, kPanel, [&](int, int first, int last) {
    const auto rows = uninitialized(static_cast<size_t>(kPanel) * inputs);
    const auto row = [&](int n) { return rows.get() + static_cast<size_t>(n - first) * inputs; };
    for (int n = first; n < last; ++n) table.int8_row(weights.data<uint8_t>(), floats(scales), n, inputs, 8, row(n));
    table.int8_pack(rows.get(), packed.data<uint8_t>(), rough.data<float>(), outputs, inputs, 4, first, first + kPanel);
    for (int n = first; n < last; ++n)
      table.int8_measure(packed.data<uint8_t>(), floats(rough), row(n), n, inputs, 4, lengths.data<float>() + n, errors.data<float>() + n);
  });
  return {packed, rough, lengths, errors};
}

// Run work(batch, head) for all heads of a batch, on more threads where `cost` products are worth it.
void for_heads(int batch, int heads, size_t cost, const std::function<void(int, int)>& work) {
  const int count = batch * heads, pieces = cost < kLeastWeights / 8 ? 1 : std::min(count, 4 * pool_size());
  parallel(pieces, [&](int piece) {
    for (int k = count * piece / pieces; k < count * (piece + 1) / pieces; ++k) work(k / heads, k % heads);
  });
}

// Turn the halves of x [size] by their angles, of which these are the cosines and sines.
void turn(const float* x, const float* cosines, const float* sines, float* y, int size) {
  const int half = size / 2;
  for (int i = 0; i < half; ++i) {
    const float a = x[i], b = x[half + i];
    y[i] = a * cosines[i] - b * sines[i];
    y[half + i] = b * cosines[i] + a * sines[i];
  }
}

// Cosines, then sines of n positions from `place` on: [n, size]. Empty without wavelengths.
std::unique_ptr<float[]> angles_of(const mx::array& wavelengths, int place, int n, int size) {
  const float* turns = optional_data<float>(wavelengths);
  if (!turns) return nullptr;
  auto angles = uninitialized(static_cast<size_t>(n) * size);
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < size / 2; ++k) {
      const float angle = static_cast<float>(place + i) * (1.0f / turns[k]);  // as MLX rounds it
      angles[i * size + k] = std::cos(angle);
      angles[i * size + size / 2 + k] = std::sin(angle);
    }
  return angles;
}

// The first place of n new tokens in a cache of `room`.
int place_of(const mx::array& place, int n, int room) { return std::clamp(*place.data<int32_t>(), 0, room - n); }

// A cache with the keys and values of n new tokens, in the memory of the old one where nothing else refers to it.
class Remember : public Kernel {
 public:
  Remember(mx::Stream stream, int heads) : Kernel(stream), heads_(heads) {}

  const char* name() const override { return "NightingaleRemember"; }

 protected:
  void allocate(const Arrays& inputs, mx::array& y) override {
    if (inputs[0].is_donatable() && inputs[0].flags().row_contiguous) {
      y.copy_shared_buffer(inputs[0]);
    } else {
      Kernel::allocate(inputs, y);
    }
  }

  std::function<void(const Arrays&, mx::array&)> task() const override {
    return [H = heads_](const Arrays& in, mx::array& out) {
      const int B = out.shape(0), T = out.shape(2), D = out.shape(3), n = in[1].shape(1), place = place_of(in[2], n, T);
      const auto angles = angles_of(in[3], place, n, D);
      const float* before = floats(in[0]);
      float* cache = out.data<float>();
      if (cache != before) std::copy(before, before + out.size(), cache);
      for (int b = 0; b < B; ++b)
        for (int h = 0; h < 2 * H; ++h)
          for (int i = 0; i < n; ++i) {
            const float* from = floats(in[1]) + ((static_cast<size_t>(b) * n + i) * 3 * H + H + h) * D;
            float* to = cache + ((static_cast<size_t>(b) * 2 * H + h) * T + place + i) * D;
            if (angles && h < H) {
              turn(from, angles.get() + i * D, angles.get() + i * D + D / 2, to, D);
            } else {
              std::copy(from, from + D, to);
            }
          }
    };
  }

 private:
  int heads_;
};

// What the queries of an attention see.
enum class Sight { kSelf, kMemory, kPast };

// Queries to which attention one by one is as fast as by tiles: of themselves, and of a cache.
constexpr int kFewQueries = 128, kFewOfPast = 16;
constexpr int kQueryTile = 384;  // of too few heads for all threads; each tile packs the keys and values again

// Attention of rows of queries, keys and values [B, n, 3C] to all of them, by tiles of queries.
void attend_tiles(const float* rows, const float* bias, int H, mx::array& out) {
  const int B = out.shape(0), n = out.shape(1), C = out.shape(2), D = C / H;
  for_tiles(B * H, n, B * H < 4 * pool_size() ? kQueryTile : n, [&](int number, int first, int last) {
    const int b = number / H, h = number % H;
    const float* q = rows + static_cast<size_t>(b) * n * 3 * C + h * D;
    kernels().attend_rows({.q = q,
                           .keys = q + C,
                           .values = q + 2 * C,
                           .bias = bias ? bias + static_cast<size_t>(b) * n : nullptr,
                           .y = out.data<float>() + static_cast<size_t>(b) * n * C + h * D,
                           .scale = 1 / std::sqrt(static_cast<float>(D)),
                           .count = n,
                           .size = D,
                           .stride = 3 * C,
                           .y_stride = C,
                           .q_stride = 3 * C,
                           .seen = 0},
                          first, last);
  });
}

// Attention of queries in rows of 3C to a cache [B, 2 * heads, S, D] up to their own places, from `place` on, by tiles.
void attend_past_tiles(const float* rows, const float* past, int S, int place, const float* angles, int H, mx::array& out) {
  const int B = out.shape(0), n = out.shape(1), C = out.shape(2), D = C / H;
  for_tiles(B * H, n, B * H < 4 * pool_size() ? kQueryTile : n, [&](int number, int first, int last) {
    const int b = number / H, h = number % H;
    const float* q = rows + (static_cast<size_t>(b) * n + first) * 3 * C + h * D;
    const float* keys = past + (static_cast<size_t>(b) * 2 * H + h) * S * D;
    const auto turned = uninitialized(angles ? static_cast<size_t>(last - first) * D : 0);
    for (int i = first; angles && i < last; ++i)
      turn(q + static_cast<size_t>(i - first) * 3 * C, angles + i * D, angles + i * D + D / 2, turned.get() + static_cast<size_t>(i - first) * D, D);
    kernels().attend_rows({.q = angles ? turned.get() : q,
                           .keys = keys,
                           .values = keys + static_cast<size_t>(H) * S * D,
                           .bias = nullptr,
                           .y = out.data<float>() + (static_cast<size_t>(b) * n + first) * C + h * D,
                           .scale = 1 / std::sqrt(static_cast<float>(D)),
                           .count = place + last,
                           .size = D,
                           .stride = D,
                           .y_stride = C,
                           .q_stride = angles ? D : 3 * C,
                           .seen = place + first + 1},
                          0, last - first);
  });
}

// Attention of queries [B, n, C], to `kSelf`, the keys and values behind them in rows of 3C; to a `kMemory`
// [B, 2 * heads, S, D]; or to a `kPast` of that form as far as their own places, where they are in rows of 3C, too.
Task attend_task(int H, Sight sight) {
  return [H, sight](const Arrays& in, mx::array& out) {
    const bool self = sight == Sight::kSelf, past = sight == Sight::kPast;
    const int B = out.shape(0), n = out.shape(1), C = out.shape(2), D = C / H, S = self ? n : in[1].shape(2);
    const int width = sight == Sight::kMemory ? C : 3 * C, place = past ? place_of(in[3], n, S) : S;
    const int seen = past ? place + n : S;
    const auto angles = angles_of(in[4], place, n, D);
    const float* bias = optional_data<float>(in[2]);
    if (self && n > kFewQueries) return attend_tiles(floats(in[0]), bias, H, out);
    if (past && n > kFewOfPast) return attend_past_tiles(floats(in[0]), floats(in[1]), S, place, angles.get(), H, out);
    for_heads(B, H, static_cast<size_t>(B) * n * seen * C, [&](int b, int h) {
      const auto scratch = uninitialized(seen + D);
      float* turned = scratch.get() + seen;
      const float* row = floats(in[0]) + static_cast<size_t>(b) * n * width + h * D;
      const bool half = !self && in[1].dtype() == mx::bfloat16;
      const auto at = [&](int head) {  // keys of head 0, ..., H - 1, then values
        const size_t first = (static_cast<size_t>(b) * 2 * H + head) * S * D;
        return half ? static_cast<const void*>(in[1].data<uint16_t>() + first) : in[1].data<float>() + first;
      };
      for (int i = 0; i < n; ++i) {
        const float* q = row + static_cast<size_t>(i) * width;
        if (angles) turn(q, angles.get() + i * D, angles.get() + i * D + D / 2, turned, D);
        kernels().attend({.q = angles ? turned : q,
                          .keys = self ? row + C : at(h),
                          .values = self ? row + 2 * C : at(H + h),
                          .bias = bias ? bias + static_cast<size_t>(b) * S : nullptr,
                          .y = out.data<float>() + (static_cast<size_t>(b) * n + i) * C + h * D,
                          .scratch = scratch.get(),
                          .scale = 1 / std::sqrt(static_cast<float>(D)),
                          .count = past ? place + i + 1 : S,
                          .size = D,
                          .stride = self ? width : D,
                          .half = half});
      }
    });
  };
}

mx::array attend(const mx::array& q, const Maybe& memory, const Maybe& bias, int heads) {
  const bool self = !memory;
  const int C = q.ndim() == 3 ? q.shape(2) / (self ? 3 : 1) : 0, D = heads > 0 ? C / heads : 0;
  const int B = C ? q.shape(0) : 0, S = memory && memory->ndim() == 4 ? memory->shape(2) : C ? q.shape(1) : 0;
  if (!D || C % heads || (self && q.shape(2) != 3 * C) || (memory && memory->shape() != mx::Shape{B, 2 * heads, S, D}) ||
      (bias && bias->size() != static_cast<size_t>(B) * S))
    throw std::invalid_argument("attend: shapes do not fit");
  return computed("NightingaleAttend", {B, q.shape(1), C}, {dense(q), memory ? dense_or_half(*memory) : none(), bias ? dense(*bias) : none(), none(), none()},
                  attend_task(heads, self ? Sight::kSelf : Sight::kMemory));
}

// Rows x [B, S, parts * heads * size] as [parts, B, heads, S, size].
mx::array to_heads(const mx::array& x, int parts, int size) {
  const int width = x.ndim() == 3 ? x.shape(2) : 0;
  if (parts < 1 || size < 1 || !width || width % (parts * size)) throw std::invalid_argument("to_heads: shapes do not fit");
  const int B = x.shape(0), S = x.shape(1), H = width / parts / size;
  return computed("NightingaleToHeads", {parts, B, H, S, size}, {dense(x)}, [=](const Arrays& in, mx::array& out) {
    parallel(parts * B * H, [&](int k) {
      const int part = k / (B * H), b = k / H % B, h = k % H;
      const float* from = floats(in[0]) + static_cast<size_t>(b) * S * width + (part * H + h) * size;
      float* to = out.data<float>() + static_cast<size_t>(k) * S * size;
      for (int row = 0; row < S; ++row) std::copy_n(from + static_cast<size_t>(row) * width, size, to + static_cast<size_t>(row) * size);
    });
  });
}

std::pair<mx::array, mx::array> step_attend(const mx::array& qkv, const mx::array& past, const mx::array& place, int heads,
                                            const Maybe& wavelengths) {
  const int C = qkv.ndim() == 3 ? qkv.shape(2) / 3 : 0, D = heads > 0 ? C / heads : 0;
  const bool cached = past.ndim() == 4 && D && past.shape() == mx::Shape{qkv.shape(0), 2 * heads, past.shape(2), D};
  if (!cached || qkv.shape(2) != 3 * C || C % heads || past.shape(2) < qkv.shape(1) || place.size() != 1 ||
      (wavelengths && (wavelengths->size() != static_cast<size_t>(D / 2) || D % 2)))
    throw std::invalid_argument("step_attend: shapes do not fit");
  const mx::array at = place.dtype() == mx::int32 ? place : mx::astype(place, mx::int32, here()), rows = dense(qkv);
  const mx::array turns = wavelengths ? dense(*wavelengths) : none();
  const mx::array after(past.shape(), mx::float32, std::make_shared<Remember>(here(), heads), {dense(past), rows, at, turns});
  return {computed("NightingaleAttend", {qkv.shape(0), qkv.shape(1), C}, {rows, after, none(), at, turns}, attend_task(heads, Sight::kPast)), after};
}

}  // namespace

void bind_transformer(nb::module_& m) {
  m.def("pack_int8", &pack_int8);
  m.def("int8_lengths", &int8_lengths);
  m.def("int8_linear", &int8_linear);
  m.def("int8_rows", &int8_rows);
  m.def("int8_argmax", &int8_argmax);
  m.def("int8_rough", &int8_rough);
  m.def("log_sum_exp", &log_sum_exp);
  m.def("gelu", &gelu);
  m.def("to_heads", &to_heads);
  m.def("attend", &attend);
  m.def("step_attend", &step_attend);
}

}  // namespace nightingale
