// Products of a decoding step: at most 8 * TILES rows of inputs, and weights that are read once for all of them.
//
// One source for CUDA, Metal and the tests' emulation, behind the words of a device and these constants:
//   HIDDEN HEADS INNER LAYERS EMBED_SCALE   the network
//   ACTIVATE(x)                             of the feed-forward part
//   BITS                                    of a weight: 16 (bfloat16), 8 or 4 (as `mx.quantize` packs them)
//   TILES WARPS                             groups of eight rows; warps a block
//   MEMORIES                                of an encoder: layers of the decoder that reads its output
// Rows that products read are bfloat16. Sums, queries and the residual stream are float32.
//
// MULTIPLY takes 16 outputs, 16 terms of their sums, and eight rows. A lane has the terms of its quad (lane % 4) and
// the outputs lane / 4 and lane / 4 + 8. Both factors agree on the terms: of a run of 64 a quad has two pieces of
// eight neighbors, so that a warp reads 64 bytes a row at a time. The warps of a block share a sum's terms.

#define HEAD 64
#define LANES 32
#define THREADS (WARPS * LANES)
#define RUN 64
#define GROUP 64              // weights of 8 or 4 bits that share a scale and an offset
#define COLUMNS (8 * TILES)   // rows of inputs
#define STRIDE (HIDDEN + 32)  // of rows in shared memory: two rows' pieces lie in different banks
#define SUM_ROW 20            // floats of 16 sums: lanes write them without conflicts
#define NEVER (-1e30f)
#define FAR BITS_FLOAT(0xff800000u)

#define NARROW (HIDDEN / RUN / WARPS)  // runs of a warp
#define WIDE (INNER / RUN / WARPS)
#define MANY 4  // groups of eight outputs that a block multiplies at once where there are many; 1 where there are few
#define MAX_PIECES (2 * (MANY * NARROW > WIDE ? MANY * NARROW : WIDE))
#define AHEAD_PIECES (MAX_PIECES > 8 ? MAX_PIECES : 8)
#define EXCHANGED (TILES > 2 ? 16 : 8 * TILES)  // rows whose sums warps exchange at once
#define SUMS ((16 * EXCHANGED + THREADS - 1) / THREADS)  // of these, that a thread completes
#define TIMES (COLUMNS / EXCHANGED)

#define NORM_READS ((HIDDEN + THREADS - 1) / THREADS)  // of a thread: two gains or shifts each

// Shared memory, in floats: normalized rows, and behind them what warps exchange, or a norm.
#define AT_ROOM (COLUMNS * STRIDE / 2)
#define PARTS (WARPS * EXCHANGED * SUM_ROW)  // more than attention has
#define SHARED_FLOATS (AT_ROOM + (PARTS > HIDDEN ? PARTS : HIDDEN))

// Attention of few rows waits for its own head's numbers in place of all blocks: pairs of a number and its turn, for each
// row and head queries, key and value.
#define WORDS (GRID_BARRIER && TILES == 1)
#define HEAD_WORDS (3 * HEAD)
#define WORD(row, head, i) (2 * (((row) * HEADS + (head)) * HEAD_WORDS + (i)))

// What blocks exchange, in floats: the stream, queries or words, attention's output, the inner rows, each block's best
// tokens, and parts of attention's sums: see `attend`.
#define AT_QUERY (COLUMNS * HIDDEN)
#define AT_MIXED (AT_QUERY + (WORDS ? 2 * HEAD_WORDS * COLUMNS * HEADS : COLUMNS * HIDDEN))
#define AT_INNER (AT_MIXED + COLUMNS * HIDDEN / 2)
#define AT_BEST (AT_INNER + COLUMNS * INNER / 2)
#define AT_PARTIAL(blocks) (AT_BEST + COLUMNS * 2 * (blocks))
#define PARTIAL (HEAD + 2)

// A layer's vectors, bfloat16: three norms (gain, shift), and the biases of its six products.
#define AT_BIAS_QKV (6 * HIDDEN)
#define AT_BIAS_OUT (AT_BIAS_QKV + 3 * HIDDEN)
#define AT_BIAS_QUERY (AT_BIAS_OUT + HIDDEN)
#define AT_BIAS_CROSS (AT_BIAS_QUERY + HIDDEN)
#define AT_BIAS_FC1 (AT_BIAS_CROSS + HIDDEN)
#define AT_BIAS_FC2 (AT_BIAS_FC1 + INNER)
#define LAYER_VECTORS (AT_BIAS_FC2 + HIDDEN)

typedef struct {
  int index, lane, warp, block, blocks;
} Where;

// A matrix [outputs, inputs].
typedef struct {
  GLOBAL const uint *words;
  GLOBAL const ushort *scales, *offsets;  // one of each GROUP; not read with 16 bits
} Matrix;

// What a product reads before its rows are there: weights, its bias, numbers of the stream, and its rows' norm.
typedef struct {
  uint4 w[AHEAD_PIECES];
  ushort bias[MANY / 2];  // as it is: a conversion would wait for it
  float before[TIMES * SUMS];
  uint norm[NORM_READS];
} Ahead;

INLINE uint word(uint4 v, const int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

INLINE Matrix moved(Matrix of, long weights) {
  of.words += weights * BITS / 32;
#if BITS != 16
  of.scales += weights / GROUP;
  of.offsets += weights / GROUP;
#endif
  return of;
}

// Eight neighboring weights from weight `at` on, of 8 and 4 bits without their scale and offset.
INLINE uint4 bare_piece(Matrix of, long at) {
#if BITS == 16
  return WEIGHTS((GLOBAL const ushort *)of.words + at);
#elif BITS == 8
  return WEIGHTS_OF_8(of.words + at / 4);
#else
  uint4 v;
  v.x = SCALE(of.words + at / 8);
  v.y = 0;
  return v;
#endif
}

// The same with the scale and the offset, in z and w.
INLINE uint4 piece(Matrix of, long at) {
  uint4 v = bare_piece(of, at);
#if BITS != 16
  v.z = of.scales[at / GROUP];
  v.w = of.offsets[at / GROUP];
#endif
  return v;
}

// A lane's second piece of a run whose first, at weight `at`, is there: both have one scale and offset.
INLINE uint4 second_piece(Matrix of, long at, uint4 first) {
  uint4 v = bare_piece(of, at + RUN / 2);
#if BITS != 16
  v.z = first.z;
  v.w = first.w;
#else
  (void)first;
#endif
  return v;
}

#if BITS != 16
// The last BITS of `bits` as a number: 2^23 has room for it in its last bits.
INLINE float whole(uint bits) { return BITS_FLOAT(0x4b000000u | (bits & ((1u << BITS) - 1))) - 8388608.0f; }
#endif

// Weights 2 i and 2 i + 1 of a piece as bfloat16, the first in the lower half.
INLINE uint pair(uint4 v, const int i) {
#if BITS == 16
  return word(v, i);
#else
  const uint four = BITS == 8 ? word(v, i / 2) >> i % 2 * 16 : v.x >> i * 8;
  const float scale = BITS_FLOAT(v.z << 16), offset = BITS_FLOAT(v.w << 16);
  return PACKED(scale * whole(four) + offset, scale * whole(four >> BITS) + offset);
#endif
}

// sums [TILES, 4] += the outputs of two groups of weights, a piece each, times a piece of every row.
INLINE void multiply(Where at, uint4 upper, uint4 lower, LOCAL const uint4 *x, LOCAL float (*sums)[4]) {
  (void)at;  // some devices' MULTIPLY reads it
  UNROLL
  for (int half = 0; half < 2; ++half) {
    const uint a0 = pair(upper, 2 * half), a1 = pair(lower, 2 * half);
    const uint a2 = pair(upper, 2 * half + 1), a3 = pair(lower, 2 * half + 1);
    UNROLL
    for (int n = 0; n < TILES; ++n) MULTIPLY(sums[n], a0, a1, a2, a3, word(x[n], 2 * half), word(x[n], 2 * half + 1));
  }
}

INLINE uint4 none(void) {
  uint4 v;
  v.x = v.y = v.z = v.w = 0;
  return v;
}

// Of rows in shared memory, the pieces of the terms from `k` on.
INLINE void normal_pieces(Where at, SHARED const ushort *rows, int k, LOCAL uint4 *x) {
  UNROLL
  for (int n = 0; n < TILES; ++n)
    x[n] = *(SHARED const uint4 *)(rows + (8 * n + at.lane / 4) * STRIDE + k + at.lane % 4 * 8);
}

// The same of `count` rows [count, width] in the device's memory.
INLINE void far_pieces(Where at, GLOBAL const ushort *rows, int count, const int width, int k, LOCAL uint4 *x) {
  UNROLL
  for (int n = 0; n < TILES; ++n) {
    const int row = 8 * n + at.lane / 4;
    x[n] = row < count ? FETCH8(rows + row * width + k + at.lane % 4 * 8) : none();
  }
}

// A thread's part of a norm's gains and shifts.
INLINE void norm_load(Where at, GLOBAL const ushort *norm, LOCAL Ahead *ahead) {
  UNROLL
  for (int i = 0; i < NORM_READS; ++i)
    if (i * THREADS + at.index < HIDDEN) ahead->norm[i] = ((GLOBAL const uint *)norm)[i * THREADS + at.index];
}

// Layer norm of rows x [count, HIDDEN], a warp each, into shared memory: its gains and shifts are in `ahead`.
INLINE void normalize(Where at, GLOBAL const float *x, int count, LOCAL const Ahead *ahead, SHARED float *shared) {
  SHARED ushort *rows = (SHARED ushort *)shared;
  SHARED uint *norm = (SHARED uint *)(shared + AT_ROOM);
  UNROLL
  for (int i = 0; i < NORM_READS; ++i)
    if (i * THREADS + at.index < HIDDEN) norm[i * THREADS + at.index] = ahead->norm[i];
  SYNC();
  for (int row = at.warp; row < count; row += WARPS) {
    float4 v[HIDDEN / 128];
    float sum = 0.0f, spread = 0.0f;
    UNROLL
    for (int i = 0; i < HIDDEN / 128; ++i) v[i] = FETCH4(x + row * HIDDEN + i * 128 + at.lane * 4);
    UNROLL
    for (int i = 0; i < HIDDEN / 128; ++i) sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
    UNROLL
    for (int mask = 16; mask > 0; mask /= 2) sum += LANE_XOR(sum, mask);
    const float mean = sum * (1.0f / HIDDEN);
    UNROLL
    for (int i = 0; i < HIDDEN / 128; ++i) {
      v[i].x -= mean;
      v[i].y -= mean;
      v[i].z -= mean;
      v[i].w -= mean;
      spread += (v[i].x * v[i].x + v[i].y * v[i].y) + (v[i].z * v[i].z + v[i].w * v[i].w);
    }
    UNROLL
    for (int mask = 16; mask > 0; mask /= 2) spread += LANE_XOR(spread, mask);
    const float inverse = RSQRT(spread * (1.0f / HIDDEN) + 1e-5f);
    UNROLL
    for (int i = 0; i < HIDDEN / 128; ++i) {
      const int c = i * 128 + at.lane * 4;
      SHARED const uint *gain = norm + c / 2, *shift = gain + HIDDEN / 2;
      const float a = v[i].x * inverse * low_half(gain[0]) + low_half(shift[0]);
      const float b = v[i].y * inverse * high_half(gain[0]) + high_half(shift[0]);
      const float d = v[i].z * inverse * low_half(gain[1]) + low_half(shift[1]);
      const float e = v[i].w * inverse * high_half(gain[1]) + high_half(shift[1]);
      SHARED uint *to = (SHARED uint *)(rows + row * STRIDE + c);
      to[0] = PACKED(a, b);
      to[1] = PACKED(d, e);
    }
  }
  SYNC();
}

// The kinds of products, by what they read and where their sums go.
#define QKV 0    // normalized rows; queries, and row `place` of the cache
#define QUERY 1  // normalized rows; queries
#define FEED 2   // normalized rows; the feed-forward's inner rows
#define MIX 3    // attention's output; the stream
#define FEED_MIX 4  // inner rows; the stream
#define MEMORY 5    // normalized rows; keys and values for a decoder's layers

#define WIDTH_OF(kind) ((kind) == FEED_MIX ? INNER : HIDDEN)
#define OUTPUTS_OF(kind) \
  ((kind) == QKV ? 3 * HIDDEN : (kind) == FEED ? INNER : (kind) == MEMORY ? 2 * MEMORIES * HIDDEN : HIDDEN)
#define RUNS_OF(kind) ((kind) == FEED_MIX ? WIDE : NARROW)
#define GROUPS_OF(kind) ((kind) == QKV || (kind) == FEED || (kind) == MEMORY ? MANY : 1)

// The arrays between which products run.
typedef struct {
  GLOBAL const float *x;  // stream [rows, HIDDEN]
  GLOBAL float *y;        // the stream afterwards, which may be `x`
  GLOBAL float *query;    // [rows, HIDDEN], scaled for attention; or words
  GLOBAL ushort *cache;   // [sentences, 2 HEADS, length, HEAD]: keys, then values; of MEMORY [MEMORIES, sentences, ..]
  GLOBAL ushort *mixed;   // [rows, HIDDEN]
  GLOBAL ushort *inner;   // [rows, INNER]
  int rows, first, each, place, length;  // `each` rows are of one sentence, from `place` on; `first`: see `attend`
  int turn;               // of words
} Arrays;

// Of `groups` of outputs, the first of a block.
INLINE int share(int groups, int block, int blocks) { return groups * block / blocks; }

// The row of the sum `j` of those that a thread completes; beyond the rows if it has none.
INLINE int sum_row(Where at, const int j) {
  const int row = (j % SUMS * THREADS + at.index) / 16;
  return row < EXCHANGED ? j / SUMS * EXCHANGED + row : COLUMNS;
}

// Loads for the groups from `group` on, of the block's, which end at `end`.
INLINE void load_groups(Where at, const int kind, Matrix of, GLOBAL const ushort *bias, Arrays to, int group, int end,
                        LOCAL Ahead *ahead) {
  const int width = WIDTH_OF(kind), runs = RUNS_OF(kind);
  UNROLL
  for (int i = 0; i < GROUPS_OF(kind); ++i) {
    const long row = (group + i) * 8 + at.lane / 4;
    UNROLL
    for (int r = 0; r < runs; ++r) {
      LOCAL uint4 *w = ahead->w + (i * runs + r) * 2;
      const long from = row * width + (at.warp * runs + r) * RUN + at.lane % 4 * 8;
      w[0] = group + i < end ? piece(of, from) : none();
      w[1] = group + i < end ? second_piece(of, from, w[0]) : none();
    }
  }
  UNROLL
  for (int i = 0; i < (GROUPS_OF(kind) + 1) / 2; ++i) {
    const int output = (group + 2 * i) * 8 + at.index % 16;
    ahead->bias[i] = bias[output < end * 8 ? output : 0];
  }
  if (kind == MIX || kind == FEED_MIX) {
    UNROLL
    for (int j = 0; j < TIMES * SUMS; ++j) {
      const int row = sum_row(at, j), output = group * 8 + at.index % 16;
      ahead->before[j] = row < to.rows && output < end * 8 ? FETCH(to.x + row * HIDDEN + output) : 0.0f;
    }
  }
}

// May come before the blocks meet: a block's numbers of the stream are its own.
INLINE void product_load(Where at, const int kind, Matrix of, GLOBAL const ushort *bias, Arrays to,
                         LOCAL Ahead *ahead) {
  const int groups = OUTPUTS_OF(kind) / 8;
  load_groups(at, kind, of, bias, to, share(groups, at.block, at.blocks), share(groups, at.block + 1, at.blocks),
              ahead);
}

INLINE void finish(const int kind, Arrays to, int row, int output, float sum, float before) {
  if (WORDS && (kind == QUERY || kind == QKV)) {
    const int d = output % HIDDEN, which = output / HIDDEN;  // queries, keys or values
    const float value = which ? BITS_FLOAT(PACKED(sum, 0.0f)) : sum * 0.125f;
    POST_TURN(to.query + WORD(row, d / HEAD, which * HEAD + d % HEAD), value, to.turn);
  }
  if (kind == QUERY || (kind == QKV && output < HIDDEN)) {
    if (!WORDS) POST(to.query + row * HIDDEN + output, sum * 0.125f);
  } else if (kind == QKV) {
    const int d = output - HIDDEN, which = to.first + row;
    const long head = (long)(which / to.each) * 2 * HEADS + d / HEAD;
    POST_HALF(to.cache + (head * to.length + to.place + which % to.each) * HEAD + d % HEAD, (ushort)PACKED(sum, 0.0f));
  } else if (kind == MEMORY) {
    const int layer = output / (2 * HIDDEN), d = output % (2 * HIDDEN);
    const long head = ((long)layer * (to.rows / to.each) + row / to.each) * 2 * HEADS + d / HEAD;
    POST_HALF(to.cache + (head * to.length + row % to.each) * HEAD + d % HEAD, (ushort)PACKED(sum, 0.0f));
  } else if (kind == FEED) {
    POST_HALF(to.inner + row * INNER + output, (ushort)PACKED(ACTIVATE(sum), 0.0f));
  } else {
    POST(to.y + row * HIDDEN + output, before + sum);
  }
}

// The product of the rows with a matrix whose first weights `product_load` has read.
INLINE void product(Where at, const int kind, Matrix of, GLOBAL const ushort *bias, Arrays to, LOCAL Ahead *ahead,
                    SHARED float *shared) {
  const int runs = RUNS_OF(kind), many = GROUPS_OF(kind);
  const int begin = share(OUTPUTS_OF(kind) / 8, at.block, at.blocks);
  const int end = share(OUTPUTS_OF(kind) / 8, at.block + 1, at.blocks);
  SHARED float *room = shared + AT_ROOM;
  for (int group = begin; group < end; group += many) {
    float sums[MANY / 2][TILES][4];
    UNROLL
    for (int i = 0; i < MANY / 2 * TILES * 4; ++i) sums[i / (TILES * 4)][i / 4 % TILES][i % 4] = 0.0f;
    if (group != begin) load_groups(at, kind, of, bias, to, group, end, ahead);
    UNROLL
    for (int p = 0; p < 2 * runs; ++p) {
      uint4 x[TILES];
      const int k = at.warp * runs * RUN + p * 32;
      if (kind == MIX) far_pieces(at, to.mixed, to.rows, HIDDEN, k, x);
      else if (kind == FEED_MIX) far_pieces(at, to.inner, to.rows, INNER, k, x);
      else normal_pieces(at, (SHARED const ushort *)shared, k, x);
      UNROLL
      for (int i = 0; i < (many + 1) / 2; ++i)
        multiply(at, ahead->w[2 * i * 2 * runs + p], many == 1 ? none() : ahead->w[(2 * i + 1) * 2 * runs + p], x,
                 sums[i]);
    }
    UNROLL
    for (int i = 0; i < (many + 1) / 2; ++i) {
      if (group + 2 * i >= end) break;  // the same in the whole block
      UNROLL
      for (int time = 0; time < TIMES; ++time) {
        UNROLL
        for (int n = 0; n < EXCHANGED / 8; ++n) {
          SHARED float *part = room + (at.warp * EXCHANGED + 8 * n + at.lane % 4 * 2) * SUM_ROW + at.lane / 4;
          LOCAL const float *own = sums[i][time * (EXCHANGED / 8) + n];
          part[0] = own[0];
          part[SUM_ROW] = own[1];
          part[8] = own[2];
          part[SUM_ROW + 8] = own[3];
        }
        SYNC();
        UNROLL
        for (int j = time * SUMS; j < (time + 1) * SUMS; ++j) {
          const int row = sum_row(at, j), output = (group + 2 * i) * 8 + at.index % 16;
          if (row < to.rows && output < end * 8 && (many > 1 || at.index % 16 < 8)) {
            float sum = widened(ahead->bias[i]);
            UNROLL
            for (int w = 0; w < WARPS; ++w)
              sum += room[(w * EXCHANGED + row % EXCHANGED) * SUM_ROW + at.index % 16];
            finish(kind, to, row, output, sum, ahead->before[j]);
          }
        }
        SYNC();
      }
    }
  }
}

// Of one layer's products, the loads for one before the blocks meet, also with its norm; and the meeting meanwhile.
#define NEXT(kind, of, at_bias) product_load(at, kind, of, vectors + (at_bias), to, &ahead)
#define NEXT_NORMED(kind, of, at_bias, at_norm) \
  norm_load(at, vectors + (at_norm), &ahead);   \
  NEXT(kind, of, at_bias)
#define MEET(loads)                          \
  ARRIVE(at.index, counters, &met, &failed); \
  loads;                                     \
  WAIT(at.index, at.blocks, counters, &met, &failed)
