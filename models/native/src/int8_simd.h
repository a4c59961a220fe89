// Sums of products of bytes, for each instruction set.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace nightingale {
namespace {
namespace int8 {

// For each instruction set: `Cell`, the weights of kCell outputs and four inputs as 4 * kCell bytes q + kOffset; `Four`,
// four rounded inputs for every output; `Sums` of their products. A tile has kTileRows rows and kTileCells cells at most.
// Where cells are taken by halves, they and fours have two inputs of the four.
#if defined(__AVX512VNNI__)
using Coarse = int8_t;
using Cell = __m512i;
using Four = __m512i;
using Sums = __m512i;
constexpr int kOffset = 128, kCell = 16, kTileRows = 6, kTileCells = 4;
inline Cell cell(const uint8_t* w) { return _mm512_loadu_si512(w); }
inline Four four(const Coarse* x) {
  int32_t all;
  std::memcpy(&all, x, sizeof all);
  return _mm512_set1_epi32(all);
}
inline Sums zero() { return _mm512_setzero_si512(); }
inline Sums add(Sums sums, Cell w, Four x) {
  sums = _mm512_dpbusd_epi32(sums, w, x);
  asm volatile("" : "+v"(sums));  // in this order: the compiler's own spills sums
  return sums;
}
inline void put(int32_t* to, Sums sums) { _mm512_storeu_si512(to, sums); }
#elif defined(__AVXVNNI__)
using Coarse = int8_t;
using Cell = __m256i;
using Four = __m256i;
using Sums = __m256i;
constexpr int kOffset = 128, kCell = 8, kTileRows = 3, kTileCells = 4;
inline Cell cell(const uint8_t* w) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)); }
inline Four four(const Coarse* x) {
  int32_t all;
  std::memcpy(&all, x, sizeof all);
  return _mm256_set1_epi32(all);
}
inline Sums zero() { return _mm256_setzero_si256(); }
inline Sums add(Sums sums, Cell w, Four x) { return _mm256_dpbusd_avx_epi32(sums, w, x); }
inline void put(int32_t* to, Sums sums) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums); }
#elif defined(__AVX512BW__)  // two sums of two products each an output, here and below
using Coarse = int16_t;
using Cell = __m512i;
using Four = __m512i;
using Sums = __m512i;
constexpr int kOffset = 128, kCell = 8, kTileRows = 6, kTileCells = 4;
inline Cell cell(const uint8_t* w) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)));
}
inline Four four(const Coarse* x) {
  int64_t all;
  std::memcpy(&all, x, sizeof all);
  return _mm512_set1_epi64(all);
}
inline Sums zero() { return _mm512_setzero_si512(); }
inline Sums add(Sums sums, Cell w, Four x) {
  sums = _mm512_add_epi32(sums, _mm512_madd_epi16(w, x));
  asm volatile("" : "+v"(sums));  // in this order: the compiler's own spills sums
  return sums;
}
inline void put(int32_t* to, Sums sums) {
  const __m512i both = _mm512_add_epi32(sums, _mm512_srli_epi64(sums, 32));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi64_epi32(both));
}
#elif defined(__AVX2__)  // the first two inputs of each four, then the others: no sums of two are left to add up
#define NIGHTINGALE_HALVES
using Coarse = int16_t;
using Cell = __m256i;
using Four = __m256i;
using Sums = __m256i;
constexpr int kOffset = 128, kCell = 8, kTileRows = 6, kTileCells = 2;
constexpr int place_of(int input) { return (input & 1) << 1 | input >> 1; }
// Half of a cell: its bytes of even numbers, or those of odd ones.
inline Cell cell(const uint8_t* w, int half) {
  const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
  return half ? _mm256_srli_epi16(both, 8) : _mm256_and_si256(both, _mm256_set1_epi16(255));
}
inline Four four(const Coarse* x, int half) {
  int32_t both;
  std::memcpy(&both, x + 2 * half, sizeof both);
  return _mm256_set1_epi32(both);
}
inline Sums zero() { return _mm256_setzero_si256(); }
inline Sums add(Sums sums, Cell w, Four x) {
  __m256i products;  // in this order, and without copies of sums
  asm volatile("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sums), "=&x"(products) : "x"(w), "x"(x));
  return sums;
}
inline void put(int32_t* to, Sums sums) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums); }
#elif defined(__SSE2__)
using Coarse = int16_t;
using Cell = __m128i;
using Four = __m128i;
using Sums = __m128i;
constexpr int kOffset = 128, kCell = 2, kTileRows = 1, kTileCells = 8;
inline Cell cell(const uint8_t* w) {
  return _mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(w)), _mm_setzero_si128());
}
inline Four four(const Coarse* x) {
  int64_t all;
  std::memcpy(&all, x, sizeof all);
  return _mm_set1_epi64x(all);
}
inline Sums zero() { return _mm_setzero_si128(); }
inline Sums add(Sums sums, Cell w, Four x) { return _mm_add_epi32(sums, _mm_madd_epi16(w, x)); }
inline void put(int32_t* to, Sums sums) {
  const __m128i both = _mm_add_epi32(sums, _mm_srli_epi64(sums, 32));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi32(both, 0x08));
}
#elif defined(__ARM_FEATURE_DOTPROD)
using Coarse = int8_t;
using Cell = int8x16_t;
using Four = int8x16_t;
using Sums = int32x4_t;
constexpr int kOffset = 0, kCell = 4, kTileRows = 4, kTileCells = 4;
inline Cell cell(const uint8_t* w) { return vreinterpretq_s8_u8(vld1q_u8(w)); }
inline Four four(const Coarse* x) {
  int32_t all;
  std::memcpy(&all, x, sizeof all);
  return vreinterpretq_s8_s32(vdupq_n_s32(all));
}
inline Sums zero() { return vdupq_n_s32(0); }
inline Sums add(Sums sums, Cell w, Four x) { return vdotq_s32(sums, w, x); }
inline void put(int32_t* to, Sums sums) { vst1q_s32(to, sums); }
#elif defined(__ARM_NEON)
using Coarse = int8_t;
using Cell = int8x8_t;
using Four = int8x8_t;
using Sums = int32x4_t;
constexpr int kOffset = 0, kCell = 2, kTileRows = 2, kTileCells = 8;
inline Cell cell(const uint8_t* w) { return vreinterpret_s8_u8(vld1_u8(w)); }
inline Four four(const Coarse* x) {
  int32_t all;
  std::memcpy(&all, x, sizeof all);
  return vreinterpret_s8_s32(vdup_n_s32(all));
}
inline Sums zero() { return vdupq_n_s32(0); }
inline Sums add(Sums sums, Cell w, Four x) { return vpadalq_s16(sums, vmull_s8(w, x)); }
inline void put(int32_t* to, Sums sums) { vst1_s32(to, vpadd_s32(vget_low_s32(sums), vget_high_s32(sums))); }
#else
#error "no products of 8 bits for this processor"
#endif

#if !defined(NIGHTINGALE_HALVES)
// Where input k of a four lies in its bytes.
constexpr int place_of(int input) { return input; }
#endif

}  // namespace int8
}  // namespace
}  // namespace nightingale
