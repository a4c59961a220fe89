// What the phases of a decoding step are made of: weights and rows of numbers, their products, their norms.
//
// One source for CUDA, Metal and the tests' emulation, in the C that these have in common. What differs comes before:
//   HIDDEN HEADS INNER LAYERS BATCH VOCABULARY EPSILON    the network, and the rows
//   BITS                                                  of a weight, 16 or 8
//   BIASED ROTARY GATED ABSOLUTE                          1 or 0. LayerNorm and products with biases, or RMS norm and
//                                                         none; queries and keys are rotated; silu(gate) * wide, or
//                                                         GELU; learned positions are the cache's, or speech's
//   WARPS SPLITS PIECES                                   warps a block; parts of the cache that are attended apart;
//                                                         parts of the feed-forward's inner row that fit SHARED
//   PROJECT_AHEAD GATE_AHEAD DOWN_AHEAD HEAD_AHEAD        reads of a warp's first weights that are sent before the phase
//                                                         begins; it sends the others
// and the words of models/layers/kernels (cuda.h or metal.h).
// The cache is bfloat16, kept as ushort, and so are the wide rows that every block reads, attention's and the
// feed-forward's, and weights of 16 bits. Sums and the residual stream are fp32.
//
// A product is one warp a pair of rows, or a quarter of a pair: each lane reads 8 weights at a time. Its vectors lie in
// shared memory, spread so that the 32 lanes' reads of 16 bytes do not collide (SPREAD). The loads of a phase are apart
// from its arithmetic: they need nothing from the phases before, so a kernel of many phases issues them early.

#define HEAD 64
#define LANES 32
#define THREADS (WARPS * LANES)
#define CHUNK 256  // weights that a warp reads at once
#define ROW (HIDDEN / CHUNK)  // such reads a row
#define PAIR (2 * ROW)
#define WIDE (INNER / PIECES)
#define GATE_PAIRS (GATED ? INNER : INNER / 2)  // pairs of rows of the feed-forward's first product
#define WIDEST (WIDE > HIDDEN ? WIDE : HIDDEN)
#define SPREAD(e) (((e) & ~255) | (((e) & 4) << 5) | (((e) & 248) >> 1) | ((e) & 3))

#define MAX_READS (PAIR > WIDE / 512 ? PAIR : WIDE / 512)  // that a warp holds

// Shared memory, in floats: the spread vectors, a norm's sums a warp and row, then (twice) two sums a warp and row.
#define SUMS (BATCH * WIDEST)
#define MOMENTS (BIASED ? 2 * BATCH : BATCH)
#define QUARTERS (SUMS + WARPS * MOMENTS)
#define PRODUCT_FLOATS (QUARTERS + 4 * WARPS * BATCH)
#define ATTEND_FLOATS (WARPS * (HEAD + 2))
#define AT_HEARD (((PRODUCT_FLOATS > ATTEND_FLOATS ? PRODUCT_FLOATS : ATTEND_FLOATS) + 3) & ~3)
#define SHARED_FLOATS (AT_HEARD + 2 * HEAD)  // a head's queries, and a key and a value

// Of a row's head, numbers with the turn in which they were made: queries [64], then keys and values in pairs of
// bfloat16, [32] of d and d + 32 each.
#define HEAD_WORDS (2 * HEAD)

// What blocks exchange, in floats.
#define AT_WORDS (BATCH * HIDDEN)
#define AT_WEIGHTS (AT_WORDS + BATCH * HEADS * HEAD_WORDS * 2)
#define AT_PARTS (AT_WEIGHTS + BATCH * HEADS * SPLITS * 2)
#define AT_INNER (AT_PARTS + BATCH * HEADS * SPLITS * HEAD / 2)
#define EXCHANGE_FLOATS (AT_INNER + BATCH * INNER / 2)

// A layer's terms (see Terms), in floats: [2, 3 HIDDEN], then the bias [HIDDEN] of attention's product, those of the
// feed-forward's first [2, INNER], and the bias [HIDDEN] of its second. After all layers those of the head.
#define AT_OUT_BIAS (6 * HIDDEN)
#define AT_GATE_TERMS (7 * HIDDEN)
#define AT_DOWN_BIAS (AT_GATE_TERMS + 2 * INNER)
#define LAYER_TERMS (AT_DOWN_BIAS + HIDDEN)

#define ROW_READS ((BATCH * HIDDEN / 4 + THREADS - 1) / THREADS)
#define WIDE_READS ((BATCH * WIDE / 8 + THREADS - 1) / THREADS)
#define NEVER (-1e30f)

typedef struct {
  int index, lane, warp, block, blocks;
} Where;

// CHUNK weights of a row. Those of 8 bits are bytes; 64 of them share a scale and an offset, two bfloat16 in a uint:
// a weight is scale * byte + offset.
typedef struct {
#if BITS == 8
  uint bytes[CHUNK / 4], scales[CHUNK / 64];
#else
  ushort halves[CHUNK];
#endif
} Chunk;

// Of a row of the stream: by what a product of its numbers times a norm's gains has to be moved and multiplied.
typedef struct {
  float mean, inverse;
} Moments;

// Of a pair of rows of weights behind a LayerNorm: `slope` is a row times the norm's gains, `offset` a row times the
// norm's biases plus the product's bias. An array of them is [2, outputs], slopes and offsets.
typedef struct {
  float slope[2], offset[2];
} Terms;


// To the nearest bfloat16, ties to even; no NaN comes here.
INLINE ushort rounded(float value) {
  const uint bits = FLOAT_BITS(value);
  return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Each of `count` numbers summed over the lanes, side by side.
INLINE void lane_sums(LOCAL float *v, const int count) {
  UNROLL
  for (int mask = 16; mask > 0; mask /= 2) {
    UNROLL
    for (int i = 0; i < count; ++i) v[i] += LANE_XOR(v[i], mask);
  }
}

// A lane's eight weights of a chunk: bfloat16; or, of 8 bits, the bytes and then their scale and offset.
INLINE uint4 lane_weights(GLOBAL const Chunk *from, int lane) {
#if BITS == 8
  uint4 v = WEIGHTS_OF_8(from->bytes + lane * 2);
  v.z = SCALE(from->scales + lane / 8);
  return v;
#else
  return WEIGHTS(from->halves + lane * 8);
#endif
}

#if BITS == 8
// Byte k of four: 2^23 has room for it in its last bits.
INLINE float byte_of(uint bytes, const int k) { return BITS_FLOAT(0x4b000000u | (bytes >> 8 * k & 255u)) - 8388608.0f; }
#endif

// s plus the product of eight weights and eight numbers, whose sum is `total`.
INLINE float add_product(float s, uint4 v, float4 lo, float4 hi, float total) {
#if BITS == 8
  float bytes = byte_of(v.x, 0) * lo.x;
  bytes += byte_of(v.x, 1) * lo.y;
  bytes += byte_of(v.x, 2) * lo.z;
  bytes += byte_of(v.x, 3) * lo.w;
  bytes += byte_of(v.y, 0) * hi.x;
  bytes += byte_of(v.y, 1) * hi.y;
  bytes += byte_of(v.y, 2) * hi.z;
  bytes += byte_of(v.y, 3) * hi.w;
  return s + low_half(v.z) * bytes + high_half(v.z) * total;
#else
  (void)total;
  s += low_half(v.x) * lo.x;
  s += high_half(v.x) * lo.y;
  s += low_half(v.y) * lo.z;
  s += high_half(v.y) * lo.w;
  s += low_half(v.z) * hi.x;
  s += high_half(v.z) * hi.y;
  s += low_half(v.w) * hi.z;
  s += high_half(v.w) * hi.w;
  return s;
#endif
}

// sums[r * BATCH + b] += row r of `w` (`count` reads each) times vector b of `x`, which are `stride` floats apart.
INLINE void multiply(LOCAL const uint4 *w, const int rows, const int count, SHARED const float *x, const int stride,
                     int lane, LOCAL float *sums) {
  UNROLL
  for (int c = 0; c < count; ++c) {
    UNROLL
    for (int b = 0; b < BATCH; ++b) {
      const float4 lo = *(SHARED const float4 *)(x + b * stride + c * CHUNK + lane * 4);
      const float4 hi = *(SHARED const float4 *)(x + b * stride + c * CHUNK + 128 + lane * 4);
      const float total = ((lo.x + lo.y) + (lo.z + lo.w)) + ((hi.x + hi.y) + (hi.z + hi.w));
      UNROLL
      for (int r = 0; r < rows; ++r)
        sums[r * BATCH + b] = add_product(sums[r * BATCH + b], w[r * count + c], lo, hi, total);
    }
  }
}

// The parts of a lane: those of rows `w` of a pair times the BATCH rows in `x`.
INLINE void multiply_pair(LOCAL const uint4 *w, SHARED const float *x, int lane, LOCAL float *sums) {
  UNROLL
  for (int i = 0; i < 2 * BATCH; ++i) sums[i] = 0.0f;
  multiply(w, 2, ROW, x, HIDDEN, lane, sums);
}

// The gains of the columns that `fetch_rows` reads.
INLINE void gain_load(Where at, GLOBAL const float *gains, LOCAL float4 *gain) {
  UNROLL
  for (int j = 0; j < ROW_READS; ++j) gain[j] = FETCH4(gains + (j * THREADS + at.index) * 4 % HIDDEN);
}

INLINE void fetch_rows(Where at, GLOBAL const float *x, LOCAL float4 *v) {
  UNROLL
  for (int j = 0; j < ROW_READS; ++j)
    if (j * THREADS + at.index < BATCH * HIDDEN / 4) v[j] = FETCH4(x + (j * THREADS + at.index) * 4);
}

// What `fetch_rows` read times `gain`, spread, into `shared`; beside it, one a warp, the rows' sums of squares, and for
// a LayerNorm their sums.
INLINE void stash_normed(Where at, LOCAL const float4 *x, LOCAL const float4 *gain, SHARED float *shared) {
  float sums[MOMENTS];
  UNROLL
  for (int b = 0; b < MOMENTS; ++b) sums[b] = 0.0f;
  UNROLL
  for (int j = 0; j < ROW_READS; ++j) {
    const int i = j * THREADS + at.index, row = i / (HIDDEN / 4), e = i % (HIDDEN / 4) * 4;
    if (row < BATCH) {
      float4 v = x[j];
      const float4 g = gain[j];
      const float square = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w, sum = (v.x + v.y) + (v.z + v.w);
      UNROLL
      for (int b = 0; b < MOMENTS; ++b) sums[b] += b % BATCH == row ? (b < BATCH ? square : sum) : 0.0f;
      v.x *= g.x;
      v.y *= g.y;
      v.z *= g.z;
      v.w *= g.w;
      *(SHARED float4 *)(shared + row * HIDDEN + SPREAD(e)) = v;
    }
  }
  lane_sums(sums, MOMENTS);
  UNROLL
  for (int b = 0; b < MOMENTS; ++b)
    if (at.lane == b) shared[SUMS + at.warp * MOMENTS + b] = sums[b];
  SYNC();
}

// Of the row that is the lane's, modulo BATCH.
INLINE Moments moments(Where at, SHARED const float *shared) {
  Moments of = {0.0f, 0.0f};
  float squares = 0.0f;
  UNROLL
  for (int w = 0; w < WARPS; ++w) {
    SHARED const float *sums = shared + SUMS + w * MOMENTS + at.lane % BATCH;
    squares += sums[0];
    if (BIASED) of.mean += sums[BATCH];
  }
  of.mean *= 1.0f / HIDDEN;
  of.inverse = RSQRT(squares * (1.0f / HIDDEN) - of.mean * of.mean + EPSILON);
  return of;
}

// Eight bfloat16, times `scale`, added to y.
INLINE void add_halves(uint4 v, float scale, LOCAL float *y) {
  y[0] += scale * low_half(v.x);
  y[1] += scale * high_half(v.x);
  y[2] += scale * low_half(v.y);
  y[3] += scale * high_half(v.y);
  y[4] += scale * low_half(v.z);
  y[5] += scale * high_half(v.z);
  y[6] += scale * low_half(v.w);
  y[7] += scale * high_half(v.w);
}

// Eight numbers from e on (a multiple of 8), spread into a row.
INLINE void stash_eight(LOCAL const float *y, int e, SHARED float *row) {
  float4 lo, hi;
  lo.x = y[0];
  lo.y = y[1];
  lo.z = y[2];
  lo.w = y[3];
  hi.x = y[4];
  hi.y = y[5];
  hi.z = y[6];
  hi.w = y[7];
  *(SHARED float4 *)(row + SPREAD(e)) = lo;
  *(SHARED float4 *)(row + SPREAD(e) + 128) = hi;
}

INLINE int task(Where at, int round) { return (round * WARPS + at.warp) * at.blocks + at.block; }

// Rows `first` and `second` of a product that reads HIDDEN numbers: reads `from` to `end` of their PAIR.
INLINE void load_rows(GLOBAL const Chunk *weight, int first, int second, int lane, const int from, const int end,
                      LOCAL uint4 *w) {
  UNROLL
  for (int c = 0; c < PAIR; ++c)
    if (from <= c && c < end) w[c] = lane_weights(weight + (long)(c < ROW ? first : second) * ROW + c % ROW, lane);
}

INLINE void load_terms(GLOBAL const float *terms, const int outputs, int first, int second, LOCAL Terms *of) {
  if (!BIASED) return;
  of->slope[0] = FETCH(terms + first);
  of->slope[1] = FETCH(terms + second);
  of->offset[0] = FETCH(terms + outputs + first);
  of->offset[1] = FETCH(terms + outputs + second);
}

// The product of a row's numbers after their norm, from `sum`, that of the numbers times the norm's gains.
INLINE float normed(float sum, Moments row, LOCAL const Terms *of, const int which) {
  return BIASED ? (sum - row.mean * of->slope[which]) * row.inverse + of->offset[which] : sum * row.inverse;
}

typedef struct {
  float first, second;
} Pair;

// A pair of rows after the norm, for the row that is the lane's, from the parts of all lanes.
INLINE Pair normed_pair(int lane, LOCAL float *sums, Moments row, LOCAL const Terms *of) {
  Pair pair = {0.0f, 0.0f};
  lane_sums(sums, 2 * BATCH);
  UNROLL
  for (int b = 0; b < BATCH; ++b) {
    pair.first = lane == b ? sums[b] : pair.first;
    pair.second = lane == b ? sums[BATCH + b] : pair.second;
  }
  pair.first = normed(pair.first, row, of, 0);
  pair.second = normed(pair.second, row, of, 1);
  return pair;
}
