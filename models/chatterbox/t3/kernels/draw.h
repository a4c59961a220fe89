// Parts of the kernel that draws a token (draw.py): one block, which holds a row of numbers in registers.
//
// A warp has a run of 32 N numbers; a lane has N of them, every 32nd. Sums are added in one order: equal rows give equal
// tokens. A number that is no number spoils every sum.

#define NEVER BITS_FLOAT(0xff800000u)  // the score of what is not drawn: minus infinity

typedef struct {
  int lane, warp, warps, turn;
  SHARED float *room;  // [2, warps]
} Block;

// A number of each warp, for all threads. The next ones lie elsewhere: some threads may still read these.
INLINE SHARED float *gather(LOCAL Block &at, float number) {
  SHARED float *room = at.room + at.turn * at.warps;
  at.turn ^= 1;
  if (at.lane == 0) room[at.warp] = number;
  SYNC();
  return room;
}

INLINE float warp_sum(float x) {
  UNROLL
  for (int mask = 16; mask > 0; mask >>= 1) x += LANE_XOR(x, mask);
  return x;
}

INLINE float block_sum(LOCAL Block &at, float x) {
  SHARED const float *room = gather(at, warp_sum(x));
  float sum = 0.0f;
  for (int i = 0; i < at.warps; ++i) sum += room[i];
  return sum;
}

INLINE float block_max(LOCAL Block &at, float x) {
  UNROLL
  for (int mask = 16; mask > 0; mask >>= 1) x = fmaxf(x, LANE_XOR(x, mask));
  SHARED const float *room = gather(at, x);
  for (int i = 0; i < at.warps; ++i) x = fmaxf(x, room[i]);
  return x;
}

template <int N>
INLINE float greatest(LOCAL Block &at, LOCAL const float (&scores)[N]) {
  float most = NEVER;
  UNROLL
  for (int i = 0; i < N; ++i) most = fmaxf(most, scores[i]);
  return block_max(at, most);
}

// Weights in proportion to probabilities: 1 for a score of `most`, 0 for NEVER. Returns this thread's sum.
template <int N>
INLINE float weigh(LOCAL const float (&scores)[N], float most, LOCAL float (&weights)[N]) {
  float sum = 0.0f;
  UNROLL
  for (int i = 0; i < N; ++i) sum += weights[i] = expf(scores[i] - most);
  return sum;
}

// Floats as integers of the same order, and back.
INLINE uint rank_of(float x) {
  const uint bits = FLOAT_BITS(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

INLINE float of_rank(uint rank) { return BITS_FLOAT(rank & 0x80000000u ? rank & 0x7fffffffu : ~rank); }

// The least score from `low` to `high` that has weights of more than `limit` up to it, its equals included, or `high`.
template <int N>
INLINE float threshold(LOCAL Block &at, LOCAL const float (&scores)[N], LOCAL const float (&weights)[N], float limit,
                       float low, float high) {
  uint from = rank_of(low), to = rank_of(high);
  while (from < to) {
    const uint middle = from + (to - from) / 2;
    const float pivot = of_rank(middle);
    float sum = 0.0f;
    UNROLL
    for (int i = 0; i < N; ++i) sum += scores[i] <= pivot ? weights[i] : 0.0f;
    if (block_sum(at, sum) > limit) {
      to = middle;
    } else {
      from = middle + 1;
    }
  }
  return of_rank(to);
}

template <int N>
INLINE void drop_below(LOCAL float (&scores)[N], float least) {
  UNROLL
  for (int i = 0; i < N; ++i) scores[i] = scores[i] < least ? NEVER : scores[i];
}

INLINE float penalized(float score, bool seen, float penalty) {
  return !seen ? score : score < 0.0f ? score * penalty : score / penalty;
}

// The last of `count` weights that is not 0 and has at most `target` before it. `before` is the sum before the first of
// them, then that before the one found.
INLINE int locate(SHARED const float *weights, int count, float target, LOCAL float &before) {
  float sum = before;
  int found = 0;
  for (int i = 0; i < count; ++i) {
    const float weight = weights[i];
    if (weight > 0.0f && sum <= target) {
      found = i;
      before = sum;
    }
    sum += weight;
  }
  return found;
}

// The bits of MLX's generator for one number: the first word of Threefry-2x32 (Salmon et al. 2011) of a counter of 0.
INLINE uint random_bits(uint key0, uint key1) {
  const uint keys[3] = {key0, key1, key0 ^ key1 ^ 0x1bd11bdau};
  const uint rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  uint x = keys[0], y = keys[1];
  UNROLL
  for (int i = 0; i < 20; ++i) {
    const uint rotation = rotations[i % 8];
    x += y;
    y = (y << rotation | y >> (32 - rotation)) ^ x;
    if (i % 4 == 3) {
      x += keys[(i / 4 + 1) % 3];
      y += keys[(i / 4 + 2) % 3] + (uint)(i / 4 + 1);
    }
  }
  return x;
}

// MLX's uniform number of these bits: below 1.
INLINE float uniform_of(uint bits) { return fminf((float)bits * BITS_FLOAT(0x2f800000u), BITS_FLOAT(0x3f7fffffu)); }
