// What models/chatterbox/s3gen/kernels/cuda.h says, on the emulated GPU of tests/models/emulator.py.

// What is written too early shows when copies are made at once, what is read too early when they are made LATE.
struct Copy {
  void *to;
  const void *from;
  int group;
};
static Copy copies[1024][256];
static int waiting[1024], groups_sent[1024];

static void COPY(void *to, const void *from) {
  if (LATE) copies[now->thread][waiting[now->thread]++] = {to, from, groups_sent[now->thread]};
  else memcpy(to, from, 16);
}
static void COMMIT() { ++groups_sent[now->thread]; }
static void WAIT_COPIES(int but) {
  const int own = now->thread;
  int left = 0;
  for (int i = 0; i < waiting[own]; ++i) {
    const Copy &one = copies[own][i];
    if (one.group < groups_sent[own] - but) memcpy(one.to, one.from, 16);
    else copies[own][left++] = one;
  }
  waiting[own] = left;
}

static uint PACKED(float low, float high) { return bfloat16(low).bits | (uint)bfloat16(high).bits << 16; }

// PTX ISA, "Matrix Fragments for mma.m16n8k16": a lane holds A[g][2t], A[g + 8][2t], A[g][2t + 8], A[g + 8][2t + 8],
// each with its neighbor, B[2t][g] and B[2t + 8][g] likewise, and C[g][2t], C[g][2t + 1] and those eight rows below,
// for g = lane / 4 and t = lane % 4. Both buffers are needed: a lane may come again before others have read.
static uint fragments[64][2][32][6];
static int turns[64][32];

static void MULTIPLY(float (&c)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  const int warp = now->thread / 32, lane = now->thread % 32, g = lane / 4, t = lane % 4;
  uint(*all)[6] = fragments[warp][turns[warp][lane] ^= 1];
  const uint own[6] = {a0, a1, a2, a3, b0, b1};
  memcpy(all[lane], own, sizeof own);
  wait_for(&now->warp->meet, 32);
  for (int k = 0; k < 16; ++k) {
    const int from = k % 8 / 2, part = k / 8;
    const auto half = [&](uint both) { return BITS_FLOAT(k % 2 ? both & 0xffff0000u : both << 16); };
    const float upper = half(all[4 * g + from][2 * part]), lower = half(all[4 * g + from][2 * part + 1]);
    for (int n = 0; n < 2; ++n) {
      const float b = half(all[4 * (2 * t + n) + from][4 + part]);
      c[n] += upper * b;
      c[2 + n] += lower * b;
    }
  }
}
