// Causal attention of a prompt by tiles (prefill.py): a block of WARPS warps has TILE queries of a head, 16 a warp. It
// holds TILE keys and values at once. Products are a warp's, of bfloat16; sums are float.
//
// A head has HEAD numbers; i and i + HEAD / 2 of a query and a key turn together. Values lie by columns in shared memory,
// since a product reads two neighboring keys at once.

#define HEAD 64
#define TILE (16 * WARPS)
#define PITCH (HEAD + 8)  // of a row in shared memory: neighboring rows begin in other banks
#define VALUE_PITCH (TILE + 8)
#define SHARED_HALVES (TILE * PITCH + HEAD * VALUE_PITCH)
#define NEVER (-1e30f)

typedef struct {
  int index, lane, warp;
} Where;

// A row and head of the prompt: `from` has its queries, keys and values, rows of which are `stride` apart, `kept` its
// keys in the cache, whose values are `behind` further on. `count` places are the prompt's.
typedef struct {
  GLOBAL const ushort *from;
  GLOBAL ushort *kept;
  GLOBAL const float *wavelengths;
  long behind;
  int width, stride, count, rotary;
} Part;

// Two neighboring numbers of the first half of a head, from dimension `d` on, and those of the second, turned.
INLINE void turn(Part of, int place, int d, LOCAL uint *first, LOCAL uint *second) {
  if (!of.rotary) return;
  float x[2] = {low_half(*first), high_half(*first)}, y[2] = {low_half(*second), high_half(*second)};
  UNROLL
  for (int i = 0; i < 2; ++i) {
    const float angle = (float)place * (1.0f / of.wavelengths[d + i]), c = cosf(angle), s = sinf(angle);
    const float turned = x[i] * c - y[i] * s;
    y[i] = x[i] * s + y[i] * c;
    x[i] = turned;
  }
  *first = PACKED(x[0], x[1]);
  *second = PACKED(y[0], y[1]);
}

// Keys and values of the places from `first` on; 0 behind the prompt's. `keep`: they go to the cache, too.
INLINE void read_tile(Where at, Part of, int first, bool keep, SHARED ushort *keys, SHARED ushort *values) {
  for (int task = at.index; task < TILE * (HEAD / 4); task += WARPS * 32) {
    const int row = task / (HEAD / 4), d = task % (HEAD / 4) * 2, place = first + row;
    GLOBAL const ushort *key = of.from + (long)place * of.stride + of.width + d;
    uint k[2] = {0, 0}, v[2] = {0, 0};
    if (place < of.count) {
      UNROLL
      for (int half = 0; half < 2; ++half) {
        k[half] = *(GLOBAL const uint *)(key + half * (HEAD / 2));
        v[half] = *(GLOBAL const uint *)(key + of.width + half * (HEAD / 2));
      }
      turn(of, place, d, k, k + 1);
    }
    UNROLL
    for (int half = 0; half < 2; ++half) {
      const int e = d + half * (HEAD / 2);
      *(SHARED uint *)(keys + row * PITCH + e) = k[half];
      values[e * VALUE_PITCH + row] = (ushort)v[half];
      values[(e + 1) * VALUE_PITCH + row] = (ushort)(v[half] >> 16);
      if (keep) {
        GLOBAL ushort *kept = of.kept + (long)place * HEAD + e;
        *(GLOBAL uint *)kept = k[half];
        *(GLOBAL uint *)(kept + of.behind) = v[half];
      }
    }
  }
}

// A warp's queries, in the order of MULTIPLY's first factor: rows `row` and `row` + 8, four runs of 16 dimensions.
INLINE void read_queries(Where at, Part of, int row, LOCAL uint *q) {
  UNROLL
  for (int i = 0; i < 8; ++i) {
    const int place = row + i % 2 * 8, d = i / 4 * 16 + i / 2 % 2 * 8 + at.lane % 4 * 2;
    GLOBAL const ushort *query = of.from + (long)place * of.stride + d;
    q[i] = q[i + 8] = 0;
    if (place >= of.count) continue;
    q[i] = *(GLOBAL const uint *)query;
    q[i + 8] = *(GLOBAL const uint *)(query + HEAD / 2);
    turn(of, place, d, q + i, q + i + 8);
  }
}

// Queries of tile `tile`, attended to all places up to their own: `to` is the first row's result of this head.
INLINE void attend_tile(Where at, Part of, int tile, GLOBAL ushort *to, SHARED ushort *shared) {
  SHARED ushort *keys = shared, *values = shared + TILE * PITCH;
  const int first = tile * TILE, group = at.lane / 4, column = at.lane % 4 * 2, row = first + at.warp * 16 + group;
  uint q[16];
  float most[2] = {NEVER, NEVER}, sum[2] = {0.0f, 0.0f}, y[HEAD / 8][4];
  if (first >= of.count) {
    read_tile(at, of, first, true, keys, values);
    return;
  }
  read_queries(at, of, row, q);
  UNROLL
  for (int i = 0; i < HEAD / 2; ++i) y[i / 4][i % 4] = 0.0f;
  for (int from = 0; from <= first; from += TILE) {
    SYNC();
    read_tile(at, of, from, from == first, keys, values);
    SYNC();
    float scores[TILE / 8][4], top[2] = {most[0], most[1]};
    UNROLL
    for (int n = 0; n < TILE / 8; ++n) {
      SHARED const ushort *key = keys + (n * 8 + group) * PITCH + column;
      UNROLL
      for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
      UNROLL
      for (int k = 0; k < HEAD / 16; ++k)
        MULTIPLY(scores[n], q[4 * k], q[4 * k + 1], q[4 * k + 2], q[4 * k + 3], *(SHARED const uint *)(key + 16 * k),
                 *(SHARED const uint *)(key + 16 * k + 8));
      UNROLL
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = from + n * 8 + column + i % 2 <= row + i / 2 * 8 ? scores[n][i] * 0.125f : NEVER;
        top[i / 2] = fmaxf(top[i / 2], scores[n][i]);
      }
    }
    UNROLL
    for (int j = 0; j < 2; ++j) {
      top[j] = fmaxf(top[j], LANE_XOR(top[j], 1));
      top[j] = fmaxf(top[j], LANE_XOR(top[j], 2));
      const float kept = EXP(most[j] - top[j]);
      most[j] = top[j];
      sum[j] *= kept;
      UNROLL
      for (int d = 0; d < HEAD / 8; ++d) {
        y[d][2 * j] *= kept;
        y[d][2 * j + 1] *= kept;
      }
    }
    UNROLL
    for (int n = 0; n < TILE / 8; ++n) {
      UNROLL
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = EXP(scores[n][i] - most[i / 2]);
        sum[i / 2] += scores[n][i];
      }
    }
    UNROLL
    for (int k = 0; k < TILE / 16; ++k) {
      uint w[4];
      UNROLL
      for (int i = 0; i < 4; ++i) w[i] = PACKED(scores[2 * k + i / 2][i % 2 * 2], scores[2 * k + i / 2][i % 2 * 2 + 1]);
      UNROLL
      for (int d = 0; d < HEAD / 8; ++d) {
        SHARED const ushort *value = values + (d * 8 + group) * VALUE_PITCH + 16 * k + column;
        MULTIPLY(y[d], w[0], w[1], w[2], w[3], *(SHARED const uint *)value, *(SHARED const uint *)(value + 8));
      }
    }
  }
  UNROLL
  for (int j = 0; j < 2; ++j) {
    const int place = row + 8 * j;
    sum[j] += LANE_XOR(sum[j], 1);
    sum[j] += LANE_XOR(sum[j], 2);
    if (place >= of.count) continue;
    UNROLL
    for (int d = 0; d < HEAD / 8; ++d)
      *(GLOBAL uint *)(to + (long)place * of.width + d * 8 + column) =
          PACKED(y[d][2 * j] / sum[j], y[d][2 * j + 1] / sum[j]);
  }
}
