// The phases of one decoding step of a Llama or GPT-2 decoder: one token, BATCH rows that share it.
//
// One source for CUDA, Metal and the tests' emulation, in the C that these have in common. What differs comes before:
//   HIDDEN HEADS INNER LAYERS BATCH VOCABULARY EPSILON    the network, and the rows
//   BIASED ROTARY GATED ABSOLUTE                          1 or 0. LayerNorm and products with biases, or RMS norm and
//                                                         none; queries and keys are rotated; silu(gate) * wide, or
//                                                         GELU; learned positions are the cache's, or speech's
//   WARPS SPLITS PIECES                                   warps a block; parts of the cache that are attended apart;
//                                                         parts of the feed-forward's inner row that fit SHARED
//   PROJECT_AHEAD GATE_AHEAD HEAD_AHEAD PAIRS_AHEAD       pairs of rows that a warp loads before it needs them, and
//                                                         the most of these, at least 1
//   INLINE GLOBAL SHARED LOCAL UNROLL                     qualifiers, and the hint to unroll the next loop
//   FETCH FETCH4 FETCH8 POST POST_HALF                    exchange between blocks, past any cache of one block: a
//                                                         float, four, eight bfloat16; a float, a bfloat16
//   WEIGHTS                                               eight weights, read once
//   LANE_XOR(v, mask) SYNC()                              shuffle in a warp; barrier of a block
//   BITS_FLOAT FLOAT_BITS EXP RSQRT                       arithmetic
// Weights and the cache are bfloat16, kept as ushort, and so are the wide rows that every block reads: attention's and
// the feed-forward's. Sums and the residual stream are fp32.
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

#define MOST_AHEAD (PAIRS_AHEAD * PAIR > WIDE / 512 ? PAIRS_AHEAD * PAIR : WIDE / 512)

// Shared memory, in floats: the spread vectors, a norm's sums a warp and row, then (twice) two sums a warp and row.
#define SUMS (BATCH * WIDEST)
#define MOMENTS (BIASED ? 2 * BATCH : BATCH)
#define QUARTERS (SUMS + WARPS * MOMENTS)
#define PRODUCT_FLOATS (QUARTERS + 4 * WARPS * BATCH)
#define ATTEND_FLOATS (WARPS * (HEAD + 2))
#define SHARED_FLOATS (PRODUCT_FLOATS > ATTEND_FLOATS ? PRODUCT_FLOATS : ATTEND_FLOATS)

// What blocks exchange, in floats.
#define AT_QUERY (BATCH * HIDDEN)
#define AT_WEIGHTS (AT_QUERY + BATCH * HIDDEN)
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

// Of a row of the stream: by what a product of its numbers times a norm's gains has to be moved and multiplied.
typedef struct {
  float mean, inverse;
} Moments;

// Of a pair of rows of weights behind a LayerNorm: `slope` is a row times the norm's gains, `offset` a row times the
// norm's biases plus the product's bias. An array of them is [2, outputs], slopes and offsets.
typedef struct {
  float slope[2], offset[2];
} Terms;

INLINE float low_half(uint bits) { return BITS_FLOAT(bits << 16); }
INLINE float high_half(uint bits) { return BITS_FLOAT(bits & 0xffff0000u); }
INLINE float widened(ushort bits) { return BITS_FLOAT((uint)bits << 16); }

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

// sums[r * BATCH + b] += row r of `w` (`count` reads each) times vector b of `x`, which are `stride` floats apart.
INLINE void multiply(LOCAL const uint4 *w, const int rows, const int count, SHARED const float *x, const int stride,
                     int lane, LOCAL float *sums) {
  UNROLL
  for (int c = 0; c < count; ++c) {
    UNROLL
    for (int b = 0; b < BATCH; ++b) {
      const float4 lo = *(SHARED const float4 *)(x + b * stride + c * CHUNK + lane * 4);
      const float4 hi = *(SHARED const float4 *)(x + b * stride + c * CHUNK + 128 + lane * 4);
      UNROLL
      for (int r = 0; r < rows; ++r) {
        const uint4 v = w[r * count + c];
        float s = sums[r * BATCH + b];
        s += low_half(v.x) * lo.x;
        s += high_half(v.x) * lo.y;
        s += low_half(v.y) * lo.z;
        s += high_half(v.y) * lo.w;
        s += low_half(v.z) * hi.x;
        s += high_half(v.z) * hi.y;
        s += low_half(v.w) * hi.z;
        s += high_half(v.w) * hi.w;
        sums[r * BATCH + b] = s;
      }
    }
  }
}

INLINE void fetch_rows(Where at, GLOBAL const float *x, LOCAL float4 *v) {
  UNROLL
  for (int j = 0; j < ROW_READS; ++j)
    if (j * THREADS + at.index < BATCH * HIDDEN / 4) v[j] = FETCH4(x + (j * THREADS + at.index) * 4);
}

// What `fetch_rows` read times `gain`, spread, into `shared`; beside it, one a warp, the rows' sums of squares, and for
// a LayerNorm their sums.
INLINE void stash_normed(Where at, LOCAL const float4 *x, GLOBAL const float *gain, SHARED float *shared) {
  float sums[MOMENTS];
  UNROLL
  for (int b = 0; b < MOMENTS; ++b) sums[b] = 0.0f;
  UNROLL
  for (int j = 0; j < ROW_READS; ++j) {
    const int i = j * THREADS + at.index, row = i / (HIDDEN / 4), e = i % (HIDDEN / 4) * 4;
    if (row < BATCH) {
      float4 v = x[j];
      const float4 g = *(GLOBAL const float4 *)(gain + e);
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

INLINE void load_rows(GLOBAL const ushort *first, GLOBAL const ushort *second, int lane, LOCAL uint4 *w) {
  UNROLL
  for (int c = 0; c < ROW; ++c) w[c] = WEIGHTS(first + c * CHUNK + lane * 8);
  UNROLL
  for (int c = 0; c < ROW; ++c) w[ROW + c] = WEIGHTS(second + c * CHUNK + lane * 8);
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

// The embedding of a token: x [BATCH, HIDDEN] = speech[token] + learned[position], the same in every row.
INLINE void embed(Where at, GLOBAL const ushort *speech, GLOBAL const ushort *learned, GLOBAL float *x) {
  for (int i = at.block * THREADS + at.index; i < BATCH * HIDDEN; i += at.blocks * THREADS)
    POST(x + i, widened(speech[i % HIDDEN]) + widened(learned[i % HIDDEN]));
}

// Queries, keys and values: norm, product, rotation. A pair is the two rows of a head that rotate together.

INLINE int project_row(int pair) { return pair / 32 * HEAD + pair % 32; }

INLINE void project_load(Where at, GLOBAL const ushort *weight, GLOBAL const float *terms, int round, LOCAL uint4 *w,
                         LOCAL Terms *of) {
  const int pair = task(at, round), first = project_row(pair);
  if (pair >= 3 * HIDDEN / 2) return;
  GLOBAL const ushort *row = weight + (long)first * HIDDEN;
  load_rows(row, row + 32 * HIDDEN, at.lane, w);
  load_terms(terms, 3 * HIDDEN, first, first + 32, of);
}

// `rope` is [64]: 32 cosines, 32 sines of this place. Keys and values go to row `place` of cache [BATCH, 2 HEADS,
// length, 64], queries to [BATCH, HIDDEN], scaled for attention.
INLINE void project_pair(Where at, int pair, LOCAL const uint4 *w, LOCAL const Terms *of, SHARED const float *shared,
                         Moments row_of, GLOBAL const float *rope, int place, int length, GLOBAL float *query,
                         GLOBAL ushort *cache) {
  float sums[2 * BATCH], first = 0.0f, second = 0.0f;
  UNROLL
  for (int i = 0; i < 2 * BATCH; ++i) sums[i] = 0.0f;
  multiply(w, 2, ROW, shared, HIDDEN, at.lane, sums);
  lane_sums(sums, 2 * BATCH);
  UNROLL
  for (int b = 0; b < BATCH; ++b) {
    first = at.lane == b ? sums[b] : first;
    second = at.lane == b ? sums[BATCH + b] : second;
  }
  if (at.lane >= BATCH) return;
  const int which = pair / (HIDDEN / 2), head = pair % (HIDDEN / 2) / 32, d = pair % 32;
  first = normed(first, row_of, of, 0);
  second = normed(second, row_of, of, 1);
  if (ROTARY && which < 2) {
    const float c = rope[d], s = rope[32 + d], turned = first * c - second * s;
    second = second * c + first * s;
    first = turned;
  }
  if (which == 0) {
    POST(query + at.lane * HIDDEN + head * HEAD + d, first * 0.125f);
    POST(query + at.lane * HIDDEN + head * HEAD + 32 + d, second * 0.125f);
  } else {
    GLOBAL ushort *row = cache + ((long)((2 * at.lane + which - 1) * HEADS + head) * length + place) * HEAD + d;
    POST_HALF(row, rounded(first));
    POST_HALF(row + 32, rounded(second));
  }
}

INLINE void project(Where at, LOCAL uint4 *w, LOCAL Terms *of, GLOBAL const ushort *weight, GLOBAL const float *terms,
                    GLOBAL const float *x, GLOBAL const float *gain, GLOBAL const float *rope, int place, int length,
                    GLOBAL float *query, GLOBAL ushort *cache, SHARED float *shared) {
  float4 v[ROW_READS];
  fetch_rows(at, x, v);
  stash_normed(at, v, gain, shared);
  const Moments row_of = moments(at, shared);
  UNROLL
  for (int round = 0; round < PROJECT_AHEAD; ++round)
    if (task(at, round) < 3 * HIDDEN / 2)
      project_pair(at, task(at, round), w + round * PAIR, of + round, shared, row_of, rope, place, length, query,
                   cache);
  for (int round = PROJECT_AHEAD; task(at, round) < 3 * HIDDEN / 2; ++round) {
    project_load(at, weight, terms, round, w, of);
    project_pair(at, task(at, round), w, of, shared, row_of, rope, place, length, query, cache);
  }
}

// WIDE of each of the rows' INNER numbers, spread into `shared`.
INLINE void stash_inner(Where at, GLOBAL const ushort *inner, SHARED float *shared) {
  uint4 v[WIDE_READS];  // all under way before the first is needed
  UNROLL
  for (int j = 0; j < WIDE_READS; ++j) {
    const int i = j * THREADS + at.index, row = i / (WIDE / 8), e = i % (WIDE / 8) * 8;
    if (row < BATCH) v[j] = FETCH8(inner + row * INNER + e);
  }
  UNROLL
  for (int j = 0; j < WIDE_READS; ++j) {
    const int i = j * THREADS + at.index, row = i / (WIDE / 8), e = i % (WIDE / 8) * 8;
    float y[8];
    UNROLL
    for (int k = 0; k < 8; ++k) y[k] = 0.0f;
    if (row < BATCH) {
      add_halves(v[j], 1.0f, y);
      stash_eight(y, e, shared + row * WIDE);
    }
  }
  SYNC();
}

// A product from `width` to HIDDEN that is added to x: four warps a pair of rows, a quarter of both each. Rows of the
// weights are `stride` apart. `offset` is the bias of the row that a lane writes.

INLINE int mix_row(Where at, int round) { return 2 * ((round * (WARPS / 4) + at.warp / 4) * at.blocks + at.block); }

INLINE void mix_load(Where at, GLOBAL const ushort *weight, GLOBAL const float *bias, const int width, const int stride,
                     int round, LOCAL uint4 *w, LOCAL float *offset) {
  const int row = mix_row(at, round);
  *offset = 0.0f;
  if (row >= HIDDEN) return;
  if (BIASED) *offset = FETCH(bias + row + at.lane % 2);
  GLOBAL const ushort *from = weight + (long)row * stride + at.warp % 4 * (width / 4) + at.lane * 8;
  UNROLL
  for (int c = 0; c < width / 1024; ++c) {
    w[c] = WEIGHTS(from + c * CHUNK);
    w[width / 1024 + c] = WEIGHTS(from + stride + c * CHUNK);
  }
}

INLINE void mix(Where at, LOCAL uint4 *w, float offset, GLOBAL const ushort *weight, GLOBAL const float *bias,
                const int width, const int stride, GLOBAL const float *x, GLOBAL float *y, SHARED float *shared) {
  for (int round = 0; 2 * (round * (WARPS / 4) * at.blocks + at.block) < HIDDEN; ++round) {
    const int row = mix_row(at, round), b = at.lane / 2, mine = b * HIDDEN + row + at.lane % 2;
    SHARED float *quarters = shared + QUARTERS + round % 2 * WARPS * 2 * BATCH;
    const int writes = at.warp % 4 == 0 && b < BATCH && row < HIDDEN;
    float before = 0.0f, sums[2 * BATCH];
    if (round) mix_load(at, weight, bias, width, stride, round, w, &offset);
    if (writes) before = FETCH(x + mine);
    UNROLL
    for (int i = 0; i < 2 * BATCH; ++i) sums[i] = 0.0f;
    if (row < HIDDEN) multiply(w, 2, width / 1024, shared + at.warp % 4 * (width / 4), width, at.lane, sums);
    lane_sums(sums, 2 * BATCH);
    UNROLL
    for (int i = 0; i < 2 * BATCH; ++i)
      if (at.lane == i) quarters[at.warp * 2 * BATCH + i] = sums[i];
    SYNC();
    if (writes) {
      SHARED const float *four = quarters + at.warp * 2 * BATCH + at.lane % 2 * BATCH + b;
      const float sum = (four[0] + four[2 * BATCH]) + (four[4 * BATCH] + four[6 * BATCH]);
      POST(y + mine, before + (BIASED ? sum + offset : sum));
    }
  }
}

// Norm, the gate's and the wide product, silu(gate) * wide: `weight` is [2, INNER, HIDDEN], gate, then wide. Without a
// gate: norm, product, GELU; a pair's rows are half of `weight` [INNER, HIDDEN] apart.

INLINE float silu(float x) { return x / (1.0f + EXP(-x)); }

// 0.5 x (1 + tanh(u)) = x sigmoid(2 u) for u = sqrt(2 / pi) (x + 0.044715 x^3).
INLINE float gelu(float x) { return x / (1.0f + EXP(-1.5957691216f * (x + 0.044715f * x * x * x))); }

INLINE void gate_load(Where at, GLOBAL const ushort *weight, GLOBAL const float *terms, int round, LOCAL uint4 *w,
                      LOCAL Terms *of) {
  const int row = task(at, round), other = GATE_PAIRS + row;
  if (row >= GATE_PAIRS) return;
  load_rows(weight + (long)row * HIDDEN, weight + (long)other * HIDDEN, at.lane, w);
  load_terms(terms, 2 * GATE_PAIRS, row, other, of);
}

// `pairs` of rows, those of rounds from `round` on.
INLINE void gate_rows(Where at, int round, const int pairs, LOCAL const uint4 *w, LOCAL const Terms *of,
                      SHARED const float *shared, Moments row_of, GLOBAL ushort *inner) {
  float sums[2 * BATCH * PAIRS_AHEAD], g = 0.0f, wide = 0.0f;
  UNROLL
  for (int i = 0; i < 2 * BATCH * pairs; ++i) sums[i] = 0.0f;
  multiply(w, 2 * pairs, ROW, shared, HIDDEN, at.lane, sums);
  lane_sums(sums, 2 * BATCH * pairs);
  UNROLL
  for (int i = 0; i < BATCH * pairs; ++i) {
    const int from = i / BATCH * 2 * BATCH + i % BATCH;
    g = at.lane == i ? normed(sums[from], row_of, of + i / BATCH, 0) : g;
    wide = at.lane == i ? normed(sums[from + BATCH], row_of, of + i / BATCH, 1) : wide;
  }
  const int row = task(at, round + at.lane / BATCH);
  if (at.lane >= BATCH * pairs || row >= GATE_PAIRS) return;
  inner += at.lane % BATCH * INNER + row;
  POST_HALF(inner, rounded(GATED ? silu(g) * wide : gelu(g)));
  if (!GATED) POST_HALF(inner + GATE_PAIRS, rounded(gelu(wide)));
}

INLINE void gate(Where at, LOCAL uint4 *w, LOCAL Terms *of, GLOBAL const ushort *weight, GLOBAL const float *terms,
                 GLOBAL const float *x, GLOBAL const float *gain, GLOBAL ushort *inner, SHARED float *shared) {
  float4 v[ROW_READS];
  fetch_rows(at, x, v);
  stash_normed(at, v, gain, shared);
  const Moments row_of = moments(at, shared);
  if (GATE_AHEAD && task(at, 0) < GATE_PAIRS) gate_rows(at, 0, GATE_AHEAD, w, of, shared, row_of, inner);
  for (int round = GATE_AHEAD; task(at, round) < GATE_PAIRS; ++round) {
    gate_load(at, weight, terms, round, w, of);
    gate_rows(at, round, 1, w, of, shared, row_of, inner);
  }
}

// Final norm and the logits [BATCH, VOCABULARY], plus `spoilt`. A pair is rows 2 p and 2 p + 1; an odd last one is
// alone.

INLINE void logits_load(Where at, GLOBAL const ushort *weight, GLOBAL const float *terms, int round, LOCAL uint4 *w,
                        LOCAL Terms *of) {
  const int row = 2 * task(at, round), other = row + 1 < VOCABULARY ? row + 1 : row;
  if (row >= VOCABULARY) return;
  load_rows(weight + (long)row * HIDDEN, weight + (long)other * HIDDEN, at.lane, w);
  load_terms(terms, VOCABULARY, row, other, of);
}

INLINE void logits_rows(Where at, int round, const int pairs, LOCAL const uint4 *w, LOCAL const Terms *of,
                        SHARED const float *shared, Moments row_of, float spoilt, GLOBAL float *logits) {
  float sums[2 * BATCH * PAIRS_AHEAD], first = 0.0f, second = 0.0f;
  UNROLL
  for (int i = 0; i < 2 * BATCH * pairs; ++i) sums[i] = 0.0f;
  multiply(w, 2 * pairs, ROW, shared, HIDDEN, at.lane, sums);
  lane_sums(sums, 2 * BATCH * pairs);
  UNROLL
  for (int i = 0; i < BATCH * pairs; ++i) {
    const int from = i / BATCH * 2 * BATCH + i % BATCH;
    first = at.lane == i ? normed(sums[from], row_of, of + i / BATCH, 0) : first;
    second = at.lane == i ? normed(sums[from + BATCH], row_of, of + i / BATCH, 1) : second;
  }
  const int row = 2 * task(at, round + at.lane / BATCH);
  if (at.lane >= BATCH * pairs || row >= VOCABULARY) return;
  GLOBAL float *to = logits + (long)(at.lane % BATCH) * VOCABULARY + row;
  to[0] = first + spoilt;
  if (row + 1 < VOCABULARY) to[1] = second + spoilt;
}

INLINE void logits_of(Where at, LOCAL uint4 *w, LOCAL Terms *of, GLOBAL const ushort *weight, GLOBAL const float *terms,
                      GLOBAL const float *x, GLOBAL const float *gain, float spoilt, GLOBAL float *logits,
                      SHARED float *shared) {
  float4 v[ROW_READS];
  fetch_rows(at, x, v);
  stash_normed(at, v, gain, shared);
  const Moments row_of = moments(at, shared);
  if (HEAD_AHEAD && 2 * task(at, 0) < VOCABULARY)
    logits_rows(at, 0, HEAD_AHEAD, w, of, shared, row_of, spoilt, logits);
  for (int round = HEAD_AHEAD; 2 * task(at, round) < VOCABULARY; ++round) {
    logits_load(at, weight, terms, round, w, of);
    logits_rows(at, round, 1, w, of, shared, row_of, spoilt, logits);
  }
}
