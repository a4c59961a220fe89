// The packing of weights of 8 and 4 bits and in bfloat16, and what is known of their rounding.
//
// Order: panels of kPanel outputs, fours of inputs, outputs of the panel, inputs of the four as `place_of` has them. With 4 bits a byte holds two
// weights, of neighboring fours: see `expand`.
#pragma once

#include "products.h"

namespace nightingale {
namespace {
namespace int8 {

size_t size(int outputs, int inputs, int bits) {
  return static_cast<size_t>((outputs + kPanel - 1) / kPanel) * fours(inputs) * kPanel * 4 * bits / 8;
}

// Round one output's weights w to 8 bits, into byte `lane` of each of the panel's fours.
void pack_bytes(const float* w, uint8_t* panel, float* scale, int inputs) {
  *scale = largest(w, inputs) / 127;
  for (int k = 0; k < inputs; ++k)
    panel[k / 4 * kPanel * 4 + place_of(k % 4)] = static_cast<uint8_t>(static_cast<int>(std::nearbyint(w[k] / *scale)) + kOffset);
}

// The same to 4 bits. The largest of a group is -8 of its scales. A last factor makes the error orthogonal to the result,
// which is thereby nearest to w.
void pack_halves(const float* w, uint8_t* panel, float* scales, int inputs) {
  double product = 0, square = 0;
  for (int g = 0; g < inputs / kGroup; ++g) {
    const float* in = w + g * kGroup;
    float most = 0;
    for (int k = 0; k < kGroup; ++k)
      if (std::fabs(in[k]) > std::fabs(most)) most = in[k];
    const float scale = scales[g * kPanel] = most / -8, inverse = most ? 1 / scale : 0;
    for (int k = 0; k < kGroup; ++k) {
      const int q = std::clamp(static_cast<int>(std::nearbyint(in[k] * inverse)), -8, 7);
      uint8_t& byte = panel[g * kGroupBytes / 2 + k / 8 * kPanel * 4 + place_of(k % 4)];
      byte = k % 8 < 4 ? (byte & 0xf0) | (q + 8) : (byte & 0x0f) | (q + 8) << 4;
      product += static_cast<double>(in[k]) * q * scale;
      square += static_cast<double>(q * scale) * (q * scale);
    }
  }
  const float factor = square > 0 ? static_cast<float>(product / square) : 1.0f;
  for (int g = 0; g < inputs / kGroup; ++g) scales[g * kPanel] *= factor;
}

// Round rows [first, last), which are at `weights`, to the panels that hold them; `first` is a multiple of kPanel. The
// scales of a panel's missing outputs are zero.
void pack(const float* weights, uint8_t* packed, float* scales, int outputs, int inputs, int bits, int first, int last) {
  const size_t panel_size = size(kPanel, inputs, bits), groups = bits == 4 ? inputs / kGroup : 1;
  if (bits == 16) {
    std::memset(packed + first / kPanel * panel_size, 0, (last - first + kPanel - 1) / kPanel * panel_size);
    for (int row = first; row < std::min(last, outputs); ++row)
      pack_pairs(weights + static_cast<size_t>(row - first) * inputs, packed + row / kPanel * panel_size, row % kPanel, inputs);
    return;
  }
  for (int start = first; start < last; start += kPanel) {
    uint8_t* panel = packed + start / kPanel * panel_size;
    float* own = scales + start * groups;
    std::memset(panel, bits == 4 ? 0x88 : kOffset, panel_size);
    std::fill_n(own, kPanel * groups, 0.0f);
    for (int lane = 0; lane < kPanel && start + lane < outputs; ++lane)
      (bits == 4 ? pack_halves : pack_bytes)(weights + static_cast<size_t>(start + lane - first) * inputs, panel + lane * 4,
                                             own + lane, inputs);
  }
}

inline int value_of(uint8_t w) { return kOffset ? w - kOffset : static_cast<int8_t>(w); }

// The weights of one output, as float32.
void unpack(const uint8_t* packed, const float* scales, int output, int inputs, int bits, float* y) {
  const uint8_t* panel = packed + output / kPanel * size(kPanel, inputs, bits);
  const uint8_t* w = panel + output % kPanel * 4;
  if (bits == 16) return unpack_pairs(panel, output % kPanel, inputs, y);
  if (bits == 8) {
    for (int k = 0; k < inputs; ++k) y[k] = scales[output] * value_of(w[k / 4 * kPanel * 4 + place_of(k % 4)]);
    return;
  }
  const float* own = scales + static_cast<size_t>(output / kPanel) * (inputs / kGroup) * kPanel + output % kPanel;
  for (int k = 0; k < inputs; ++k) {
    const uint8_t both = w[k / 8 * kPanel * 4 + place_of(k % 4)];
    y[k] = own[k / kGroup * kPanel] * ((k % 8 < 4 ? both & 15 : both >> 4) - 8);
  }
}

// Of one output: the length of the rounded weights and of what rounding took from `whole`, or null.
void measure(const uint8_t* packed, const float* scales, const float* whole, int output, int inputs, int bits, float* length,
             float* error) {
  const auto near = std::unique_ptr<float[]>(new float[inputs]);
  unpack(packed, scales, output, inputs, bits, near.get());
  double squares = 0, rest = 0;
  for (int k = 0; k < inputs; ++k) {
    squares += static_cast<double>(near[k]) * near[k];
    const double off = whole ? static_cast<double>(whole[k]) - near[k] : 0;
    rest += off * off;
  }
  *length = static_cast<float>(std::sqrt(squares));
  *error = static_cast<float>(std::sqrt(rest));
}

}  // namespace int8
}  // namespace
}  // namespace nightingale
