// Primitives of decoders: residual blocks as wholes.
#include "primitive.h"

namespace nightingale {
namespace {

// Scale and shift of AdaIN [2, channels] from the moments of tiles [tiles, 2, channels] and gamma, beta [2 * channels].
void affine_of(const float* moments, int rows, int tile, const float* affine, int channels, float* scale, float* shift) {
  const int tiles = tiles_of(rows, tile);
  for (int c = 0; c < channels; ++c) {
    double mean = 0.0, deviation = 0.0, seen = 0.0;
    for (int t = 0; t < tiles; ++t) {
      const double n = std::min(tile, rows - t * tile);
      const double d = moments[(2 * t) * channels + c] - mean, total = seen + n;
      mean += d * (n / total);
      deviation += moments[(2 * t + 1) * channels + c] + d * d * (seen * n / total);
      seen = total;
    }
    const double gain = (1.0 + affine[c]) / std::sqrt(deviation / std::max(seen, 1.0) + 1e-5);
    scale[c] = static_cast<float>(gain);
    shift[c] = static_cast<float>(affine[channels + c] - mean * gain);
  }
}

// The shortest tile of any plan.
constexpr int kLeastTile = 32;

// Residual block of Snake and convolutions, with AdaIN (`models.kokoro.generator.ResBlock`) or without.
struct BlockShape {
  int kernel;
  std::vector<int> dilations;
  std::vector<int> affines;  // where the style's gamma and beta of each convolution begin; empty without AdaIN
  float share, slope;
};

Task block_task(const Kernels& table, BlockShape shape) {
  return [&table, shape = std::move(shape)](const Arrays& in, mx::array& out) {
    // x, styled (without AdaIN: shifts [convolutions, C]), count, start, bias, rates, weights of each convolution
    const int B = in[0].shape(0), L = in[0].shape(1), C = in[0].shape(2), S = in[1].shape(1);
    const int before = 240, convolutions = 2 * static_cast<int>(shape.dilations.size());
    const bool normed = !shape.affines.empty();
    const size_t plane = static_cast<size_t>(L) * C, moments_size = static_cast<size_t>(tiles_of(L, kLeastTile)) * 2 * C;
    const float *x = floats(in[0]), *styled = floats(in[1]), *rates = floats(in[5]);
    const float* start = in[3].size() ? floats(in[3]) : nullptr;
    const float* bias = in[4].size() ? floats(in[4]) : nullptr;
    const auto valid = [&](int b) { return valid_of(in[2], b, L); };
    const auto inner = uninitialized(B * plane), found = uninitialized(B * moments_size);
    std::vector<float> scale(B * C, 1.0f), shift(B * C);
    float* y = out.data<float>();
    if (normed) for_tiles(B, L, before, [&](int b, int first, int last) {
      kernels().moments(x + b * plane, C, C, first, std::min(last, valid(b)), found.get() + b * moments_size + first / before * 2 * C);
    });
    int tile = before;
    for (int k = 0; k < convolutions; ++k) {
      const bool second = k % 2, last_one = k + 1 == convolutions;
      for (int b = 0; b < B; ++b) {
        if (normed)
          affine_of(found.get() + b * moments_size, valid(b), tile, styled + static_cast<size_t>(b) * S + shape.affines[k], C, &scale[b * C],
                    &shift[b * C]);
        else
          std::copy_n(styled + static_cast<size_t>(k) * C, C, &shift[b * C]);
      }
      Conv conv{};
      conv.kernel = shape.kernel;
      conv.dilation = second ? 1 : shape.dilations[k / 2];
      conv.left = conv.right = conv.dilation * (shape.kernel - 1) / 2;
      conv.length = conv.rows = L;
      conv.inputs = conv.outputs = C;
      conv.plan = table.plan(L, conv.kernel, conv.dilation, C, C);
      conv.activation = Activation::kSnake;
      conv.rate = rates + static_cast<size_t>(2 * k) * C;
      conv.inverse = rates + static_cast<size_t>(2 * k + 1) * C;
      conv.weights = floats(in[6 + k]);
      tile = conv.plan.tile;
      convolve(table, B, [&](int b) {
        Conv mine = conv;
        mine.x = (second ? inner.get() : k ? y : x) + b * plane;
        mine.scale = &scale[b * C];
        mine.shift = &shift[b * C];
        mine.residual = second ? (k == 1 ? x : y) + b * plane : nullptr;
        mine.y = (second ? y : inner.get()) + b * plane;
        mine.moments = last_one || !normed ? nullptr : found.get() + b * moments_size;
        mine.valid = mine.out_valid = valid(b);
        return mine;
      });
    }
    if (!start && !bias && shape.share == 1.0f && shape.slope == 1.0f) return;
    for_tiles(B, L, before, [&](int b, int first, int last) {
      for (int r = first; r < std::min(last, valid(b)); ++r) {
        float* row = y + b * plane + static_cast<size_t>(r) * C;
        const float* other = start ? start + b * plane + static_cast<size_t>(r) * C : nullptr;
        for (int c = 0; c < C; ++c) {
          const float v = (row[c] + (other ? other[c] : 0.0f)) * shape.share + (bias ? bias[c] : 0.0f);
          row[c] = std::max(v, v * shape.slope);
        }
      }
    });
  };
}

// Residual block of AdaIN, LeakyReLU and convolutions of three taps: see `models.kokoro.network.AdainResBlock`.
struct AdainShape {
  int inputs, outputs, affine1, affine2;
  bool upsample, shortcut;
};

Task adain_task(const Kernels& table, AdainShape s) {
  return [&table, s](const Arrays& in, mx::array& out) {
    // x, styled, count, weights 1, weights 2, bias, shortcut's weights, pool's taps [3, inputs], pool's bias
    const int B = in[0].shape(0), L = in[0].shape(1), I = s.inputs, O = s.outputs, S = in[1].shape(1);
    const int rows = s.upsample ? 2 * L : L, before = kLeastTile;
    const Plan first_plan = table.plan(rows, 3, 1, I, O), second_plan = table.plan(rows, 3, 1, O, O), one_plan = table.plan(rows, 1, 1, I, O);
    const size_t x_plane = static_cast<size_t>(L) * I, u_plane = static_cast<size_t>(rows) * I, y_plane = static_cast<size_t>(rows) * O;
    const auto valid = [&](int b) { return valid_of(in[2], b, L); };
    const int factor = s.upsample ? 2 : 1;
    const size_t found_size = static_cast<size_t>(tiles_of(L, before)) * 2 * I, inner_size = static_cast<size_t>(tiles_of(rows, kLeastTile)) * 2 * O;
    const auto found = uninitialized(B * found_size), inner_found = uninitialized(B * inner_size);
    const auto inner = uninitialized(B * y_plane), shortcut = uninitialized(s.shortcut ? B * y_plane : 0);
    const auto pooled = uninitialized(s.upsample ? B * u_plane : 0), wide = uninitialized(s.upsample ? B * u_plane : 0);
    std::vector<float> scale(B * std::max(I, O)), shift(B * std::max(I, O));
    const float *x = floats(in[0]), *styled = floats(in[1]);
    float* y = out.data<float>();
    for_tiles(B, L, before, [&](int b, int first, int last) {
      kernels().moments(x + b * x_plane, I, I, first, std::min(last, valid(b)), found.get() + b * found_size + first / before * 2 * I);
    });
    for (int b = 0; b < B; ++b)
      affine_of(found.get() + b * found_size, valid(b), before, styled + static_cast<size_t>(b) * S + s.affine1, I, &scale[b * I], &shift[b * I]);
    if (s.upsample) {
      const float *taps = floats(in[7]), *bias = floats(in[8]);
      for_tiles(B, L, before, [&](int b, int first, int last) {
        const float *gain = &scale[b * I], *offset = &shift[b * I];
        const auto at = [&](int row, int c) {
          if (row >= valid(b)) return 0.0f;
          const float v = x[b * x_plane + static_cast<size_t>(row) * I + c] * gain[c] + offset[c];
          return std::max(v, 0.2f * v);
        };
        for (int row = first; row < last; ++row) {
          float *even = pooled.get() + b * u_plane + static_cast<size_t>(2 * row) * I, *odd = even + I;
          for (int c = 0; c < I; ++c) {
            const float here = at(row, c), next = at(row + 1, c);
            even[c] = row < valid(b) ? here * taps[I + c] + bias[c] : 0.0f;
            odd[c] = row < valid(b) ? here * taps[2 * I + c] + next * taps[c] + bias[c] : 0.0f;
          }
          float* twice = wide.get() + b * u_plane + static_cast<size_t>(2 * row) * I;
          std::copy_n(x + b * x_plane + static_cast<size_t>(row) * I, I, twice);
          std::copy_n(x + b * x_plane + static_cast<size_t>(row) * I, I, twice + I);
        }
      });
    }
    const auto base = [&](int b, int inputs, const Plan& plan) {
      Conv conv{};
      conv.plan = plan;
      conv.length = conv.rows = rows;
      conv.valid = conv.out_valid = factor * valid(b);
      conv.inputs = inputs;
      conv.outputs = O;
      conv.kernel = 3;
      conv.dilation = conv.left = conv.right = 1;
      conv.slope = 0.2f;
      return conv;
    };
    convolve(table, B, [&](int b) {
      Conv conv = base(b, I, first_plan);
      conv.x = s.upsample ? pooled.get() + b * u_plane : x + b * x_plane;
      if (!s.upsample) {
        conv.scale = &scale[b * I];
        conv.shift = &shift[b * I];
        conv.activation = Activation::kLeaky;
      }
      conv.weights = floats(in[3]);
      conv.y = inner.get() + b * y_plane;
      conv.moments = inner_found.get() + b * inner_size;
      return conv;
    });
    const float* passed = s.upsample ? wide.get() : x;
    if (s.shortcut) {
      convolve(table, B, [&](int b) {
        Conv conv = base(b, I, one_plan);
        conv.x = passed + b * u_plane;
        conv.kernel = 1;
        conv.left = conv.right = 0;
        conv.weights = floats(in[6]);
        conv.y = shortcut.get() + b * y_plane;
        return conv;
      });
      passed = shortcut.get();
    }
    for (int b = 0; b < B; ++b)
      affine_of(inner_found.get() + b * inner_size, factor * valid(b), first_plan.tile, styled + static_cast<size_t>(b) * S + s.affine2, O,
                &scale[b * O], &shift[b * O]);
    convolve(table, B, [&](int b) {
      Conv conv = base(b, O, second_plan);
      conv.x = inner.get() + b * y_plane;
      conv.scale = &scale[b * O];
      conv.shift = &shift[b * O];
      conv.activation = Activation::kLeaky;
      conv.weights = floats(in[4]);
      conv.bias = floats(in[5]);
      conv.residual = passed + b * y_plane;
      conv.gain = 0.70710678f;
      conv.y = y + b * y_plane;
      return conv;
    });
  };
}

mx::array res_block(const mx::array& x, const mx::array& styled, const std::optional<mx::array>& count, const std::optional<mx::array>& start,
                    const std::optional<mx::array>& bias, const mx::array& rates, const Arrays& weights, int kernel,
                    const std::vector<int>& dilations, const std::vector<int>& affines, float share, float slope, bool bfloat16) {
  const Kernels& table = kernels_of(bfloat16);
  const size_t C = x.ndim() == 3 ? x.shape(2) : 0, convolutions = weights.size();
  const bool fits = C && styled.ndim() == 2 && kernel >= 3 && kernel % 2 && convolutions && convolutions == 2 * dilations.size() &&
                    (affines.size() == convolutions || (affines.empty() && styled.shape(0) == static_cast<int>(convolutions) && styled.size() == convolutions * C)) &&
                    rates.size() == 2 * convolutions * C && (!bias || bias->size() == C) &&
                    (!start || start->shape() == x.shape());
  if (!fits) throw std::invalid_argument("res_block: shapes do not fit");
  const auto given = [](const std::optional<mx::array>& a) { return a ? float_rows(*a) : mx::zeros({0}, mx::float32, here()); };
  Arrays inputs{float_rows(x), float_rows(styled), counts(count, x.shape(0)), given(start), given(bias), float_rows(rates)};
  for (size_t k = 0; k < convolutions; ++k) {
    const bool placed = affines.empty() || (affines[k] >= 0 && affines[k] + 2 * static_cast<int>(C) <= styled.shape(1));
    if (weights[k].size() != table.packed_size(C, kernel, C) || !placed)
      throw std::invalid_argument("res_block: a convolution's weights or style do not fit");
    inputs.push_back(weights[k]);
  }
  BlockShape shape{kernel, dilations, affines, share, slope};
  return computed("NightingaleResBlock", x.shape(), std::move(inputs), block_task(table, std::move(shape)));
}

mx::array adain_block(const mx::array& x, const mx::array& styled, const std::optional<mx::array>& count, const Arrays& weights,
                      const std::vector<int>& affines, int outputs, bool upsample, bool shortcut, bool bfloat16) {
  const Kernels& table = kernels_of(bfloat16);
  if (x.ndim() != 3 || styled.ndim() != 2 || weights.size() != 6 || affines.size() != 2) throw std::invalid_argument("adain_block: shapes do not fit");
  const int I = x.shape(2), S = styled.shape(1);
  const auto size = [&](int k) { return weights[k].size(); };
  const bool fits = size(0) == table.packed_size(outputs, 3, I) && size(1) == table.packed_size(outputs, 3, outputs) &&
                    size(2) == static_cast<size_t>(outputs) && (!shortcut || size(3) == table.packed_size(outputs, 1, I)) &&
                    (shortcut || I == outputs) && (!upsample || (size(4) == 3 * static_cast<size_t>(I) && size(5) == static_cast<size_t>(I))) &&
                    affines[0] >= 0 && affines[0] + 2 * I <= S && affines[1] >= 0 && affines[1] + 2 * outputs <= S;
  if (!fits) throw std::invalid_argument("adain_block: the weights or the style do not fit");
  const AdainShape shape{I, outputs, affines.at(0), affines.at(1), upsample, shortcut};
  Arrays inputs{float_rows(x), float_rows(styled), counts(count, x.shape(0))};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  return computed("NightingaleAdainBlock", {x.shape(0), x.shape(1) * (upsample ? 2 : 1), outputs}, std::move(inputs), adain_task(table, shape));
}

}  // namespace

void bind_decoder(nb::module_& m) {
  m.def("adain_block", &adain_block);
  m.def("res_block", &res_block);
}

}  // namespace nightingale
