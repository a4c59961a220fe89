// Attention of one query a row and head, and the search for the likeliest token, behind products.h.

#define SHARE (WARPS / TILES)  // warps of a row's head; one or two may have none

// The turn in which words were made: see POST_TURN and FETCH_TURN.
typedef struct {
  GLOBAL const int *counters;
  int number, failed;
} Turn;

// Of a row's head, the keys and values that it sees.
typedef struct {
  GLOBAL const ushort *cache;
  GLOBAL const int *origin;
  GLOBAL const ushort *mask;
  int sentence, head, length, end;
} Cached;

typedef struct {
  uint4 key, value;
  ushort mask;
} Key;

// A lane's eight numbers of a key and its value, beyond the end none, and the key's mask as it is.
INLINE void key_load(Where at, Cached of, int key, LOCAL Key *to) {
  to->key = to->value = none();
  to->mask = 0;
  if (key >= of.end) return;
  const int own = of.origin ? of.origin[of.sentence * of.length + key] : of.sentence;
  GLOBAL const ushort *from = of.cache + (((long)own * 2 * HEADS + of.head) * of.length + key) * HEAD + at.lane % 8 * 8;
  to->key = FETCH8(from);
  to->value = FETCH8(from + (long)HEADS * of.length * HEAD);
  if (of.mask) to->mask = of.mask[of.sentence * of.length + key];
}

// A row's head as soon as it is made, for the whole block: its queries into `heard` [64] and, if `fresh`, its key and
// its value behind them, bfloat16 [2, 64].
INLINE void hear(Where at, GLOBAL const float *words, int fresh, Turn turn, SHARED float *heard) {
  const int i = at.index;
  if (i < (fresh ? HEAD_WORDS : HEAD)) {
    const float value = FETCH_TURN(words + 2 * i, turn.number, turn.counters, turn.failed);
    if (i < HEAD) heard[i] = value;
    else ((SHARED ushort *)(heard + HEAD))[i - HEAD] = (ushort)FLOAT_BITS(value);
  }
  SYNC();
}

// Row r is the query `which` = first + r, of sentence which / each. Keys and values are [sentences, 2 HEADS, length,
// HEAD]. With `origin` [sentences, length], the sentence that has a sentence's keys at each place, a query sees `count`
// keys and one more for each query of its sentence before it; without, `count` keys of its own sentence. `mask`
// [sentences, length] is added to the logits, if there is one. Eight lanes share a key.
//
// Where there are fewer rows and heads than blocks, each is shared out in `parts`, whose sums go to `partial`
// [rows, HEADS, parts, PARTIAL]: the values' weighted sum, the largest logit, the sum of weights. `combine` follows.
//
// If WORDS, queries, and with `origin` a query's own key and value, are words of `turn`, which are awaited.
INLINE void attend(Where at, int first, int rows, int each, int count, int length, GLOBAL const float *query,
                   GLOBAL const ushort *cache, GLOBAL const int *origin, GLOBAL const ushort *mask, int parts,
                   Turn turn, GLOBAL float *partial, GLOBAL ushort *mixed, SHARED float *shared) {
  SHARED float *heard = shared + AT_ROOM, *merged = heard + 2 * HEAD;
  SHARED float *most_of = merged + WARPS * HEAD, *sum_of = most_of + WARPS;
  const int part = at.lane % 8 * 8, units = rows * HEADS * parts;
  for (int base = at.block * TILES; base < units; base += at.blocks * TILES) {
    const int unit = base + at.warp / SHARE, row = unit / parts / HEADS, head = unit / parts % HEADS;
    const int sentence = (first + row) / each, seen = origin ? count + (first + row) % each : count;
    const int begin = seen * (unit % parts) / parts, end = seen * (unit % parts + 1) / parts;
    float most = NEVER, sum = 0.0f, y[8];
    UNROLL
    for (int j = 0; j < 8; ++j) y[j] = 0.0f;
    const int live_warp = row < rows && at.warp < SHARE * TILES;
    const int mine = begin + at.warp % SHARE * 4 + at.lane / 8;  // the first key of the lane
    const Cached from = {cache, origin, mask, sentence, head, length, live_warp ? end : 0};
    Key next;
    key_load(at, from, mine, &next);  // on its way before the query is there
    if (WORDS) hear(at, query + WORD(row, head, 0), origin != 0, turn, heard);
    if (live_warp) {
      GLOBAL const float *far = query + row * HIDDEN + head * HEAD + part;
      const float4 lo = WORDS ? *(SHARED const float4 *)(heard + part) : FETCH4(far);
      const float4 hi = WORDS ? *(SHARED const float4 *)(heard + part + 4) : FETCH4(far + 4);
      for (int key = mine; key - at.lane / 8 < end; key += SHARE * 4) {
        const int live = key < end;
        float score = live && mask && at.lane % 8 == 0 ? widened(next.mask) : 0.0f;
        uint4 k = next.key, v = next.value;
        if (WORDS && origin && key + 1 == seen) {
          k = *(SHARED const uint4 *)((SHARED const ushort *)(heard + HEAD) + part);
          v = *(SHARED const uint4 *)((SHARED const ushort *)(heard + HEAD) + HEAD + part);
        }
        key_load(at, from, key + SHARE * 4, &next);
        score += low_half(k.x) * lo.x + high_half(k.x) * lo.y + low_half(k.y) * lo.z + high_half(k.y) * lo.w +
                 low_half(k.z) * hi.x + high_half(k.z) * hi.y + low_half(k.w) * hi.z + high_half(k.w) * hi.w;
        score += LANE_XOR(score, 1);
        score += LANE_XOR(score, 2);
        score += LANE_XOR(score, 4);
        if (live && score > NEVER) {
          const float top = score > most ? score : most, keep = EXP(most - top), add = EXP(score - top);
          most = top;
          sum = sum * keep + add;
          UNROLL
          for (int j = 0; j < 4; ++j) {
            y[2 * j] = y[2 * j] * keep + add * low_half(word(v, j));
            y[2 * j + 1] = y[2 * j + 1] * keep + add * high_half(word(v, j));
          }
        }
      }
    }
    merge_lanes(&most, &sum, y);
    if (at.lane < 8) {
      UNROLL
      for (int j = 0; j < 8; ++j) merged[at.warp * HEAD + part + j] = y[j];
      if (at.lane == 0) {
        most_of[at.warp] = most;
        sum_of[at.warp] = sum;
      }
    }
    SYNC();
    const int done = base + at.index / HEAD, d = at.index % HEAD;
    if (at.index < TILES * HEAD && done < units) {
      const float value = merge_warps(most_of, sum_of, merged, at.index / HEAD * SHARE, SHARE, HEAD, d, &most, &sum);
      if (parts == 1) {
        POST_HALF(mixed + done * HEAD + d, (ushort)PACKED(value / sum, 0.0f));
      } else {
        POST(partial + done * PARTIAL + d, value);
        if (d < 2) POST(partial + done * PARTIAL + HEAD + d, d ? sum : most);
      }
    }
    SYNC();
  }
}

#if GRID_BARRIER
// Attention's output [rows, HIDDEN] from its parts.
INLINE void combine(Where at, int rows, int parts, GLOBAL const float *partial, GLOBAL ushort *mixed) {
  for (int i = at.block * THREADS + at.index; i < rows * HIDDEN; i += at.blocks * THREADS) {
    GLOBAL const float *from = partial + i / HEAD * parts * PARTIAL;
    float top = NEVER, total = 0.0f, value = 0.0f;
    for (int p = 0; p < parts; ++p) {
      const float other = FETCH(from + p * PARTIAL + HEAD);
      top = other > top ? other : top;
    }
    for (int p = 0; p < parts; ++p) {
      const float scale = EXP(FETCH(from + p * PARTIAL + HEAD) - top);
      total += scale * FETCH(from + p * PARTIAL + HEAD + 1);
      value += scale * FETCH(from + p * PARTIAL + i % HEAD);
    }
    POST_HALF(mixed + i, (ushort)PACKED(value / total, 0.0f));
  }
}
#endif

// The embedding of each row's token, plus the position's: `each` rows have one after the other.
INLINE void embed(Where at, int rows, int each, GLOBAL const int *ids, Matrix table, GLOBAL const ushort *positions,
                  GLOBAL float *x) {
  for (int i = at.block * THREADS + at.index; i < rows * HIDDEN / 8; i += at.blocks * THREADS) {
    const int row = i / (HIDDEN / 8), c = i % (HIDDEN / 8) * 8;
    const uint4 weights = piece(table, (long)(ids[row] < 0 ? 0 : ids[row]) * HIDDEN + c);
    UNROLL
    for (int j = 0; j < 4; ++j) {
      const uint two = pair(weights, j), added = ((GLOBAL const uint *)(positions + row % each * HIDDEN + c))[j];
      POST(x + row * HIDDEN + c + 2 * j, low_half(two) * EMBED_SCALE + low_half(added));
      POST(x + row * HIDDEN + c + 2 * j + 1, high_half(two) * EMBED_SCALE + high_half(added));
    }
  }
}

#define SEARCH_RUNS (HIDDEN / RUN)

// A run of 16 outputs, from `output` of `count` on: two pieces of the upper eight, two of the lower.
INLINE void search_load(Where at, Matrix of, int count, int output, int run, LOCAL uint4 *w) {
  const int last = count - 1, upper = output + at.lane / 4, lower = upper + 8;
  const int k = run * RUN + at.lane % 4 * 8;
  const long one = (long)(upper < last ? upper : last) * HIDDEN + k;
  const long other = (long)(lower < last ? lower : last) * HIDDEN + k;
  w[0] = piece(of, one);
  w[1] = second_piece(of, one, w[0]);
  w[2] = piece(of, other);
  w[3] = second_piece(of, other, w[2]);
}

INLINE int search_output(Where at) { return (at.block * WARPS + at.warp) * 16; }

INLINE void search_start(Where at, Matrix of, int count, LOCAL Ahead *ahead) {
  UNROLL
  for (int slot = 0; slot < 2; ++slot) search_load(at, of, count, search_output(at), slot, ahead->w + slot * 4);
}

INLINE void keep_better(float value, float place, LOCAL float *best, LOCAL float *where) {
  if (value > *best || (value == *best && place < *where)) {
    *best = value;
    *where = place;
  }
}

// The best of `count` outputs for each of the rows, as this block sees them: `best` [rows, blocks, 2] gets the sum and
// the output, a float that holds it exactly. `banned` [count] is added to the sums. The rows are normalized.
INLINE void search(Where at, int rows, int count, Matrix of, GLOBAL const ushort *banned, LOCAL Ahead *ahead,
                   GLOBAL float *best, SHARED float *shared) {
  float tops[TILES][2], places[TILES][2];
  UNROLL
  for (int i = 0; i < 2 * TILES; ++i) {
    tops[i / 2][i % 2] = FAR;
    places[i / 2][i % 2] = 1e9f;
  }
  const int stride = at.blocks * WARPS * 16;
  for (int output = search_output(at); output < count; output += stride) {
    float sums[TILES][4];
    UNROLL
    for (int i = 0; i < 4 * TILES; ++i) sums[i / 4][i % 4] = 0.0f;
    const int upper = output + at.lane / 4, lower = upper + 8;
    const float ban = upper < count ? widened(banned[upper]) : FAR;
    const float bar = lower < count ? widened(banned[lower]) : FAR;
    for (int run = 0; run < SEARCH_RUNS; run += 2) {
      UNROLL
      for (int slot = 0; slot < 2; ++slot) {
        LOCAL uint4 *w = ahead->w + slot * 4;
        UNROLL
        for (int p = 0; p < 2; ++p) {
          uint4 x[TILES];
          normal_pieces(at, (SHARED const ushort *)shared, (run + slot) * RUN + p * 32, x);
          multiply(at, w[p], w[2 + p], x, sums);
        }
        const int ahead_by = run + slot + 2, next = ahead_by < SEARCH_RUNS ? output : output + stride;
        if (next < count) search_load(at, of, count, next, ahead_by % SEARCH_RUNS, w);
      }
    }
    UNROLL
    for (int n = 0; n < TILES; ++n) {
      UNROLL
      for (int c = 0; c < 2; ++c) {
        keep_better(sums[n][c] + ban, (float)upper, &tops[n][c], &places[n][c]);
        keep_better(sums[n][2 + c] + bar, (float)lower, &tops[n][c], &places[n][c]);
      }
    }
  }
  SHARED float *room = shared + AT_ROOM;
  UNROLL
  for (int n = 0; n < TILES; ++n) {
    UNROLL
    for (int c = 0; c < 2; ++c) {
      UNROLL
      for (int mask = 4; mask < 32; mask *= 2) {
        const float value = LANE_XOR(tops[n][c], mask), place = LANE_XOR(places[n][c], mask);
        keep_better(value, place, &tops[n][c], &places[n][c]);
      }
      if (at.lane < 4) {
        SHARED float *to = room + (at.warp * COLUMNS + 8 * n + 2 * at.lane + c) * 2;
        to[0] = tops[n][c];
        to[1] = places[n][c];
      }
    }
  }
  SYNC();
  if (at.index < rows) {
    float top = FAR, place = 1e9f;
    for (int w = 0; w < WARPS; ++w) {
      SHARED const float *from = room + (w * COLUMNS + at.index) * 2;
      keep_better(from[0], from[1], &top, &place);
    }
    POST(best + (at.index * at.blocks + at.block) * 2, top);
    POST(best + (at.index * at.blocks + at.block) * 2 + 1, place);
  }
}

// Each row's token: the entry of `table` for the best of the outputs that `count` blocks found. Without one (sums
// that are no numbers), or if the step `failed`, it is -1.
INLINE void choose(Where at, int rows, int count, GLOBAL const float *best, GLOBAL const int *table, int failed,
                   GLOBAL int *tokens) {
  for (int row = at.block * WARPS + at.warp; row < rows; row += at.blocks * WARPS) {
    float top = FAR, place = 1e9f;
    for (int i = at.lane; i < count; i += LANES) {
      GLOBAL const float *from = best + (row * count + i) * 2;
      keep_better(FETCH(from), FETCH(from + 1), &top, &place);
    }
    UNROLL
    for (int mask = 16; mask > 0; mask /= 2) {
      const float value = LANE_XOR(top, mask), other = LANE_XOR(place, mask);
      keep_better(value, other, &top, &place);
    }
    if (at.lane == 0) tokens[row] = failed || place > 1e8f ? -1 : table[(int)place];
  }
}
