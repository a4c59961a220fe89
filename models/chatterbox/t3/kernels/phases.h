// The phases of one decoding step of a Llama or GPT-2 decoder, behind rows.h: one token, BATCH rows that share it.

// The embedding of a token: x [BATCH, HIDDEN] = speech[token] + learned[position], the same in every row.
INLINE void embed(Where at, GLOBAL const ushort *speech, GLOBAL const ushort *learned, GLOBAL float *x) {
  for (int i = at.block * THREADS + at.index; i < BATCH * HIDDEN; i += at.blocks * THREADS)
    POST(x + i, widened(speech[i % HIDDEN]) + widened(learned[i % HIDDEN]));
}

// Words of no turn: memory holds anything before, such as another step's.
INLINE void forget(Where at, GLOBAL float *words) {
  for (int i = at.block * THREADS + at.index; i < 2 * BATCH * HEADS * HEAD_WORDS; i += at.blocks * THREADS)
    POST(words + i, 0.0f);
}

// Queries, keys and values: norm, product, rotation. A pair is the two rows of a head that rotate together.

INLINE int project_row(int pair) { return pair / 32 * HEAD + pair % 32; }

INLINE void project_load(Where at, GLOBAL const Chunk *weight, GLOBAL const float *terms, int round, const int from,
                         const int end, LOCAL uint4 *w, LOCAL Terms *of) {
  const int pair = task(at, round), first = project_row(pair);
  if (pair >= 3 * HIDDEN / 2) return;
  load_rows(weight, first, first + 32, at.lane, from, end, w);
  if (from == 0) load_terms(terms, 3 * HIDDEN, first, first + 32, of);
}

// `rope` is [64]: 32 cosines, 32 sines of this place. Keys and values go to row `place` of cache [BATCH, 2 HEADS,
// length, 64]; they and the queries, scaled for attention, to words [BATCH, HEADS, HEAD_WORDS] of this turn.
INLINE void project_post(Where at, int pair, Pair of, GLOBAL const float *rope, int place, int length, int turn,
                         GLOBAL float *words, GLOBAL ushort *cache) {
  float first = of.first, second = of.second;
  if (at.lane >= BATCH) return;
  const int which = pair / (HIDDEN / 2), head = pair % (HIDDEN / 2) / 32, d = pair % 32;
  if (ROTARY && which < 2) {
    const float c = rope[d], s = rope[32 + d], turned = first * c - second * s;
    second = second * c + first * s;
    first = turned;
  }
  words += 2 * ((at.lane * HEADS + head) * HEAD_WORDS + d);
  if (which == 0) {
    POST_TURN(words, first * 0.125f, turn);
    POST_TURN(words + 64, second * 0.125f, turn);
  } else {
    POST_TURN(words + 64 * (which + 1), BITS_FLOAT(PACKED(first, second)), turn);
    GLOBAL ushort *row = cache + ((long)((2 * at.lane + which - 1) * HEADS + head) * length + place) * HEAD + d;
    POST_HALF(row, rounded(first));
    POST_HALF(row + 32, rounded(second));
  }
}

INLINE void project(Where at, LOCAL uint4 *w, LOCAL Terms *of, GLOBAL const Chunk *weight, GLOBAL const float *terms,
                    GLOBAL const float *x, LOCAL const float4 *gain, GLOBAL const float *rope, int place, int length,
                    int turn, GLOBAL float *words, GLOBAL ushort *cache, SHARED float *shared) {
  float4 v[ROW_READS];
  fetch_rows(at, x, v);
  project_load(at, weight, terms, 0, PROJECT_AHEAD, PAIR, w, of);
  stash_normed(at, v, gain, shared);
  const Moments row_of = moments(at, shared);
  for (int round = 0; task(at, round) < 3 * HIDDEN / 2; ++round) {
    float sums[2 * BATCH];
    const Terms mine = *of;
    multiply_pair(w, shared, at.lane, sums);
    project_load(at, weight, terms, round + 1, 0, PAIR, w, of);
    const Pair pair = normed_pair(at.lane, sums, row_of, &mine);
    project_post(at, task(at, round), pair, rope, place, length, turn, words, cache);
  }
}

// WIDE of each of the rows' INNER numbers.
INLINE void fetch_inner(Where at, GLOBAL const ushort *inner, LOCAL uint4 *v) {
  UNROLL
  for (int j = 0; j < WIDE_READS; ++j) {
    const int i = j * THREADS + at.index, row = i / (WIDE / 8), e = i % (WIDE / 8) * 8;
    if (row < BATCH) v[j] = FETCH8(inner + row * INNER + e);
  }
}

// What `fetch_inner` read, spread into `shared`.
INLINE void stash_inner(Where at, LOCAL const uint4 *v, SHARED float *shared) {
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

// Reads `from` to `end` of them.
INLINE void mix_load(Where at, GLOBAL const Chunk *weight, GLOBAL const float *bias, const int width, const int stride,
                     int round, const int from, const int end, LOCAL uint4 *w, LOCAL float *offset) {
  const int row = mix_row(at, round), reads = width / 1024;
  if (from == 0) *offset = 0.0f;
  if (row >= HIDDEN) return;
  if (BIASED && from == 0) *offset = FETCH(bias + row + at.lane % 2);
  GLOBAL const Chunk *rows = weight + (long)row * (stride / CHUNK) + at.warp % 4 * reads;
  UNROLL
  for (int c = 0; c < 2 * reads; ++c)
    if (from <= c && c < end) w[c] = lane_weights(rows + c / reads * (stride / CHUNK) + c % reads, at.lane);
}

INLINE void mix(Where at, LOCAL uint4 *w, float offset, GLOBAL const Chunk *weight, GLOBAL const float *bias,
                const int width, const int stride, GLOBAL const float *x, GLOBAL float *y, SHARED float *shared) {
  for (int round = 0; 2 * (round * (WARPS / 4) * at.blocks + at.block) < HIDDEN; ++round) {
    const int row = mix_row(at, round), b = at.lane / 2, mine = b * HIDDEN + row + at.lane % 2;
    SHARED float *quarters = shared + QUARTERS + round % 2 * WARPS * 2 * BATCH;
    const int writes = at.warp % 4 == 0 && b < BATCH && row < HIDDEN;
    float before = 0.0f, sums[2 * BATCH];
    if (round) mix_load(at, weight, bias, width, stride, round, 0, width / 512, w, &offset);
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

// The feed-forward's second product, of WIDE of its numbers.
INLINE void mix_inner(Where at, LOCAL uint4 *w, float offset, GLOBAL const Chunk *weight, GLOBAL const float *bias,
                      GLOBAL const ushort *inner, GLOBAL const float *x, GLOBAL float *y, SHARED float *shared) {
  uint4 v[WIDE_READS];
  fetch_inner(at, inner, v);
  mix_load(at, weight, bias, WIDE, INNER, 0, DOWN_AHEAD, WIDE / 512, w, &offset);
  stash_inner(at, v, shared);
  mix(at, w, offset, weight, bias, WIDE, INNER, x, y, shared);
}

// Norm, the gate's and the wide product, silu(gate) * wide: `weight` is [2, INNER, HIDDEN], gate, then wide. Without a
// gate: norm, product, GELU; a pair's rows are half of `weight` [INNER, HIDDEN] apart.

INLINE float silu(float x) { return DIVIDE(x, 1.0f + EXP(-x)); }

// 0.5 x (1 + tanh(u)) = x sigmoid(2 u) for u = sqrt(2 / pi) (x + 0.044715 x^3).
INLINE float gelu_tanh(float x) { return DIVIDE(x, 1.0f + EXP(-1.5957691216f * (x + 0.044715f * x * x * x))); }

INLINE void gate_load(Where at, GLOBAL const Chunk *weight, GLOBAL const float *terms, int round, const int from,
                      const int end, LOCAL uint4 *w, LOCAL Terms *of) {
  const int row = task(at, round), other = GATE_PAIRS + row;
  if (row >= GATE_PAIRS) return;
  load_rows(weight, row, other, at.lane, from, end, w);
  if (from == 0) load_terms(terms, 2 * GATE_PAIRS, row, other, of);
}

INLINE void gate_post(Where at, int row, Pair of, GLOBAL ushort *inner) {
  if (at.lane >= BATCH) return;
  inner += at.lane * INNER + row;
  POST_HALF(inner, rounded(GATED ? silu(of.first) * of.second : gelu_tanh(of.first)));
  if (!GATED) POST_HALF(inner + GATE_PAIRS, rounded(gelu_tanh(of.second)));
}

INLINE void gate(Where at, LOCAL uint4 *w, LOCAL Terms *of, GLOBAL const Chunk *weight, GLOBAL const float *terms,
                 GLOBAL const float *x, LOCAL const float4 *gain, GLOBAL ushort *inner, SHARED float *shared) {
  float4 v[ROW_READS];
  fetch_rows(at, x, v);
  gate_load(at, weight, terms, 0, GATE_AHEAD, PAIR, w, of);
  stash_normed(at, v, gain, shared);
  const Moments row_of = moments(at, shared);
  for (int round = 0; task(at, round) < GATE_PAIRS; ++round) {
    float sums[2 * BATCH];
    const Terms mine = *of;
    multiply_pair(w, shared, at.lane, sums);
    gate_load(at, weight, terms, round + 1, 0, PAIR, w, of);
    gate_post(at, task(at, round), normed_pair(at.lane, sums, row_of, &mine), inner);
  }
}

// Final norm and the logits [BATCH, VOCABULARY], plus `spoilt`. A pair is rows 2 p and 2 p + 1; an odd last one is
// alone.

INLINE void logits_load(Where at, GLOBAL const Chunk *weight, GLOBAL const float *terms, int round, const int from,
                        const int end, LOCAL uint4 *w, LOCAL Terms *of) {
  const int row = 2 * task(at, round), other = row + 1 < VOCABULARY ? row + 1 : row;
  if (row >= VOCABULARY) return;
  load_rows(weight, row, other, at.lane, from, end, w);
  if (from == 0) load_terms(terms, VOCABULARY, row, other, of);
}

INLINE void logits_of(Where at, LOCAL uint4 *w, LOCAL Terms *of, GLOBAL const Chunk *weight, GLOBAL const float *terms,
                      GLOBAL const float *x, LOCAL const float4 *gain, float spoilt, GLOBAL float *logits,
                      SHARED float *shared) {
  float4 v[ROW_READS];
  fetch_rows(at, x, v);
  logits_load(at, weight, terms, 0, HEAD_AHEAD, PAIR, w, of);
  stash_normed(at, v, gain, shared);
  const Moments row_of = moments(at, shared);
  for (int round = 0; 2 * task(at, round) < VOCABULARY; ++round) {
    const int row = 2 * task(at, round);
    float sums[2 * BATCH];
    const Terms mine = *of;
    multiply_pair(w, shared, at.lane, sums);
    logits_load(at, weight, terms, round + 1, 0, PAIR, w, of);
    const Pair pair = normed_pair(at.lane, sums, row_of, &mine);
    if (at.lane >= BATCH) continue;
    GLOBAL float *to = logits + (long)at.lane * VOCABULARY + row;
    to[0] = pair.first + spoilt;
    if (row + 1 < VOCABULARY) to[1] = pair.second + spoilt;
  }
}
