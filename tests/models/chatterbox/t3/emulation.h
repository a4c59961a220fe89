// A GPU for the tests: what rows.h and step.h ask for, in C, on the fibers of tests/models/fibers.h.

#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline
#define GLOBAL
#define SHARED
#define LOCAL
#define UNROLL

typedef unsigned int uint;
typedef unsigned short ushort;
typedef struct {
  uint x, y, z, w;
} __attribute__((aligned(16))) uint4;
typedef struct {
  float x, y, z, w;
} __attribute__((aligned(16))) float4;

static float bits_float(uint bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static uint float_bits(float value) {
  uint bits;
  memcpy(&bits, &value, 4);
  return bits;
}

#define LANE_XOR(v, mask) lane_xor(v, mask)
#define SYNC() wait_for(&block_meet[now->block], block_threads)
#define ARRIVE(thread, counters, met, failed) ((void)(counters), (void)(met), (void)(failed), SYNC())
#define WAIT(thread, blocks, counters, met, failed) wait_for(&grid_meet, all_threads)
#define ANY(v) (v)
#define PART(thread, blocks, counters) ((void)(counters))
#define BITS_FLOAT(bits) bits_float(bits)
#define FLOAT_BITS(value) float_bits(value)
#define EXP(x) expf(x)
#define RSQRT(x) (1.0f / sqrtf(x))
#define FETCH(from) (*(from))
#define FETCH4(from) (*(const float4 *)(from))
#define FETCH8(from) (*(const uint4 *)(from))
#define WEIGHTS(from) (*(const uint4 *)(from))
#define WEIGHTS_OF_8(from) ((uint4){(from)[0], (from)[1], 0, 0})
#define SCALE(from) (*(from))
#define POST(to, value) (*(to) = (value))
#define POST_HALF(to, value) (*(to) = (value))
