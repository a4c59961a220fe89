// models/layers/kernels/cuda_memory.h for the tests. The barrier counts as the GPU's does: a block that goes on too early
// is seen. It never fails.
static uint4 WEIGHTS(const ushort *from) { return *(const uint4 *)from; }
static uint4 WEIGHTS_OF_8(const uint *from) { return {from[0], from[1], 0, 0}; }
static uint SCALE(const uint *from) { return *from; }
static float FETCH(const float *from) { return *from; }
static float4 FETCH4(const float *from) { return *(const float4 *)from; }
static uint4 FETCH8(const ushort *from) { return *(const uint4 *)from; }
static void POST(float *to, float value) { *to = value; }
static void POST_HALF(ushort *to, ushort value) { *to = value; }

static uint PACKED(float low, float high) { return bfloat16(low).bits | (uint)bfloat16(high).bits << 16; }

// PTX ISA, "Matrix Fragments for mma.m16n8k16": a lane holds A[g][2t], A[g + 8][2t], A[g][2t + 8], A[g + 8][2t + 8],
// each with its neighbor, B[2t][g] and B[2t + 8][g] likewise, and C[g][2t], C[g][2t + 1] and those eight rows below,
// for g = lane / 4 and t = lane % 4. Both buffers are needed: a lane may come again before others have read.
static uint fragments[4096][2][32][6];  // of all warps of a run
static int turns[4096][32];

template <typename Widened>
static void fragments_product(float (&c)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1, const Widened &widened) {
  const int warp = now->warp - warps, lane = now->thread % 32, g = lane / 4, t = lane % 4;
  uint(*all)[6] = fragments[warp][turns[warp][lane] ^= 1];
  const uint own[6] = {a0, a1, a2, a3, b0, b1};
  memcpy(all[lane], own, sizeof own);
  wait_for(&now->warp->meet, 32);
  for (int k = 0; k < 16; ++k) {
    const int from = k % 8 / 2, part = k / 8;
    const auto half = [&](uint both) { return widened((ushort)(k % 2 ? both >> 16 : both)); };
    const float upper = half(all[4 * g + from][2 * part]), lower = half(all[4 * g + from][2 * part + 1]);
    for (int n = 0; n < 2; ++n) {
      const float b = half(all[4 * (2 * t + n) + from][4 + part]);
      c[n] += upper * b;
      c[2 + n] += lower * b;
    }
  }
}

static void MULTIPLY(float (&c)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  fragments_product(c, a0, a1, a2, a3, b0, b1, [](ushort bits) { return BITS_FLOAT((uint)bits << 16); });
}

static ushort half_bits(float value) {
  const _Float16 half = (_Float16)(value > 65504.0f ? 65504.0f : value < -65504.0f ? -65504.0f : value);
  ushort bits;
  memcpy(&bits, &half, 2);
  return bits;
}
static float half_value(ushort bits) {
  _Float16 half;
  memcpy(&half, &bits, 2);
  return (float)half;
}
static uint PACKED_HALF(float low, float high) { return half_bits(low) | (uint)half_bits(high) << 16; }
static void MULTIPLY_HALF(float (&c)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  fragments_product(c, a0, a1, a2, a3, b0, b1, half_value);
}

static void ARRIVE(int thread, int *counters, int *met, int *failed) {
  SYNC();
  ++*met;
  if (thread == 0) ++counters[0];
}
static void WAIT(int thread, int blocks, int *counters, int *met, int *failed) {
  if (thread == 0)
    while (counters[0] < *met * blocks) yield_now();
  SYNC();
}
static int ANY(int v) {
  static int any[MAX_BLOCKS];
  if (now->thread == 0) any[now->block] = 0;
  SYNC();
  any[now->block] |= v;
  SYNC();
  const int found = any[now->block];
  SYNC();  // the next call clears it
  return found;
}
static void POST_TURN(float *to, float value, int turn) {
  to[0] = value;
  memcpy(to + 1, &turn, 4);
}
static float FETCH_TURN(const float *from, int turn, const int *counters, int failed) {
  while (memcmp(from + 1, &turn, 4) != 0 && !failed) yield_now();
  return *from;
}
static void PART(int thread, int blocks, int *counters) {
  SYNC();
  if (thread == 0 && ++counters[1] == blocks) counters[0] = counters[1] = counters[2] = 0;
}
static bool LAST(int thread, int *counter, int blocks) {
  SYNC();
  const bool last = thread == 0 && ++*counter == blocks;
  if (last) *counter = 0;
  return ANY(last);
}
