// Vectors of floats as wide as the instruction set that a file is compiled for, in GCC's and clang's vector types.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__FMA__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace nightingale {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef int32_t IntVec __attribute__((vector_size(kLanes * 4)));

inline Vec load(const float* from) {
  Vec value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Numbers in bfloat16.
inline Vec load(const uint16_t* from) {
  typedef uint16_t Halves __attribute__((vector_size(kLanes * 2)));
  Halves value;
  std::memcpy(&value, from, sizeof value);
  return (Vec)(__builtin_convertvector(value, IntVec) << 16);
}

inline float widened(float x) { return x; }

inline float widened(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline void store(float* to, Vec value) { std::memcpy(to, &value, sizeof value); }

// The nearest bfloat16, ties to even.
inline uint16_t to_bfloat16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline Vec splat(float value) { return value - Vec{}; }

// a * b + c, rounded once where there is an instruction for it: left to itself, a compiler fuses some of equal loops only.
inline Vec fused(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON)
  return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

inline Vec select(IntVec where, Vec yes, Vec no) { return where ? yes : no; }

inline Vec max(Vec a, Vec b) { return a > b ? a : b; }

inline Vec min(Vec a, Vec b) { return a < b ? a : b; }

// A vector's numbers, joined by `two`: quarters by vectors of four, then these.
template <typename Two>
inline float joined(Vec x, const Two& two) {
  typedef float Four __attribute__((vector_size(16)));
  Four parts[kLanes / 4];
  std::memcpy(parts, &x, sizeof x);
  for (int k = 1; k < kLanes / 4; ++k) parts[0] = two(parts[0], parts[k]);
  return two(two(parts[0][0], parts[0][2]), two(parts[0][1], parts[0][3]));
}

inline float total(Vec x) { return joined(x, [](auto a, auto b) { return a + b; }); }

inline float greatest(Vec x) { return joined(x, [](auto a, auto b) { return a > b ? a : b; }); }

// The nearest whole number, for |x| < 2^22.
inline Vec round(Vec x) {
  const Vec shift = splat(12582912.0f);
  return (x + shift) - shift;
}

// exp(x), relative error 2e-7 (Cephes' expf); 0 below -87, and clipped above 88.
inline Vec exp(Vec x) {
  x = min(max(x, splat(-87.3f)), splat(88.3f));
  const Vec n = round(x * 1.44269504f);
  const Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r * r + r) + 1.0f;
  const IntVec power = (__builtin_convertvector(n, IntVec) + 127) << 23;
  return p * (Vec)power;
}

inline Vec sigmoid(Vec x) { return 1.0f / (1.0f + exp(-x)); }

inline Vec tanh(Vec x) { return 2.0f / (1.0f + exp(-2.0f * x)) - 1.0f; }

// y + sin^2(pi * cycles) * inverse; `models.layers.activation.snake` gives the polynomial and its error.
inline Vec snake(Vec y, Vec cycles, Vec inverse) {
  const Vec m = cycles - round(cycles);
  const Vec z = m * m;
  Vec p = splat(10.57316894f);
  p = p * z - 29.42110714f;
  p = p * z + 42.64227604f;
  p = p * z - 32.46503585f;
  p = p * z + 9.86952175f;
  return y + inverse * (z * p);
}

}  // namespace
}  // namespace nightingale
