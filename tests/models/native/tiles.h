// AMX in plain C++, for processors without: the tile instructions that the kernels use, on tiles of 16 rows of 64 bytes.
// Compile with `-include tiles.h` and without the flags of AMX and of AVX-512 BF16.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __AMX_TILE__ 1
#define __AMX_BF16__ 1
#define __AMX_INT8__ 1

namespace emulated {

struct Tile {
  uint8_t bytes[16][64];
};

inline thread_local Tile tiles[8];
inline thread_local bool configured = false;

inline void configure(const uint8_t* config) {
  for (int k = 0; k < 8; ++k)
    if (config[0] != 1 || config[16 + 2 * k] != 64 || config[17 + 2 * k] || config[48 + k] != 16) std::abort();
  configured = true;
}

inline Tile& tile(int number) {
  if (!configured) std::abort();
  return tiles[number];
}

inline void load(int to, const void* base, long stride) {
  for (int r = 0; r < 16; ++r) std::memcpy(tile(to).bytes[r], static_cast<const char*>(base) + r * stride, 64);
}

inline void store(int from, void* base, long stride) {
  for (int r = 0; r < 16; ++r) std::memcpy(static_cast<char*>(base) + r * stride, tile(from).bytes[r], 64);
}

inline float widened(const uint8_t* half) {
  uint16_t bits;
  std::memcpy(&bits, half, sizeof bits);
  const uint32_t whole = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &whole, sizeof value);
  return value;
}

// to[m][n] += sum over k of a's cell [m][k] times b's cell [k][n]; a cell has four bytes.
template <typename Number, typename Product>
inline void multiply(int to, int a, int b, const Product& product) {
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      Number sum;
      std::memcpy(&sum, tile(to).bytes[m] + 4 * n, sizeof sum);
      for (int k = 0; k < 16; ++k) sum += product(tile(a).bytes[m] + 4 * k, tile(b).bytes[k] + 4 * n);
      std::memcpy(tile(to).bytes[m] + 4 * n, &sum, sizeof sum);
    }
}

inline float bf16_product(const uint8_t* a, const uint8_t* b) {
  return widened(a) * widened(b) + widened(a + 2) * widened(b + 2);
}

inline int32_t su_product(const uint8_t* a, const uint8_t* b) {
  int32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<int8_t>(a[i]) * b[i];
  return sum;
}

inline __m256bh rounded(__m512 x) {
  float from[16];
  uint16_t to[16];
  std::memcpy(from, &x, sizeof from);
  for (int k = 0; k < 16; ++k) {
    uint32_t bits;
    std::memcpy(&bits, from + k, sizeof bits);
    to[k] = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  __m256bh half;
  std::memcpy(&half, to, sizeof half);
  return half;
}

}  // namespace emulated

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbsud
#define _tile_loadconfig(config) emulated::configure(reinterpret_cast<const uint8_t*>(config))
#define _tile_loadd(to, base, stride) emulated::load(to, base, static_cast<long>(stride))
#define _tile_stored(from, base, stride) emulated::store(from, base, static_cast<long>(stride))
#define _tile_zero(to) std::memset(&emulated::tile(to), 0, sizeof(emulated::Tile))
#define _tile_dpbf16ps(to, a, b) emulated::multiply<float>(to, a, b, emulated::bf16_product)
#define _tile_dpbsud(to, a, b) emulated::multiply<int32_t>(to, a, b, emulated::su_product)
#define _mm512_cvtneps_pbh(x) emulated::rounded(x)
