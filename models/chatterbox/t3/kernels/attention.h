// Attention over the cache, behind phases.h.
//
// Attention of one query a row and head over rows 0..place of the cache, in SPLITS parts: softmax's sums so far go to
// `parts` [BATCH, HEADS, SPLITS, 64] and `weights` [.., 2] (largest score, sum). Eight lanes share a cached row.

INLINE int part_rows(int place) { return (place + SPLITS) / SPLITS; }

INLINE GLOBAL const ushort *part_keys(Where at, int unit, int length, GLOBAL const ushort *cache) {
  const int head = unit / SPLITS;  // of all rows' heads
  return cache + (long)(head + head / HEADS * HEADS) * length * HEAD + at.lane % 8 * 8;
}

// The first rows that a block reads, but for the one that is still to be written: kv is [2].
INLINE void attend_load(Where at, GLOBAL const ushort *cache, int place, int length, LOCAL uint4 *kv) {
  const int row = at.block % SPLITS * part_rows(place) + at.warp * 4 + at.lane / 8;
  if (at.block >= BATCH * HEADS * SPLITS || row >= place) return;
  GLOBAL const ushort *keys = part_keys(at, at.block, length, cache);
  kv[0] = FETCH8(keys + row * HEAD);
  kv[1] = FETCH8(keys + ((long)HEADS * length + row) * HEAD);
}

// A head's queries of this turn into `heard` [64], as soon as they are made: blocks do not wait for all others here. If
// `fresh`, the key and the value of the new row behind them, bfloat16 [2, 64].
INLINE void hear(Where at, GLOBAL const float *words, int turn, GLOBAL const int *counters, int failed, int fresh,
                 SHARED float *heard) {
  if (at.index < (fresh ? HEAD_WORDS : HEAD)) {
    const float value = FETCH_TURN(words + 2 * at.index, turn, counters, failed);
    if (at.index < HEAD) {
      heard[at.index] = value;
    } else {
      SHARED ushort *half = (SHARED ushort *)(heard + HEAD) + (at.index - HEAD) / 32 * HEAD + at.index % 32;
      half[0] = (ushort)FLOAT_BITS(value);
      half[32] = (ushort)(FLOAT_BITS(value) >> 16);
    }
  }
  SYNC();
}

INLINE void attend(Where at, LOCAL const uint4 *kv, GLOBAL const float *words, int turn, GLOBAL const int *counters,
                   int failed, GLOBAL const ushort *cache, int place, int length, GLOBAL ushort *parts,
                   GLOBAL float *weights, SHARED float *shared) {
  SHARED float *heard = shared + AT_HEARD, *merged = shared, *most_of = shared + WARPS * HEAD, *sum_of = most_of + WARPS;
  const int group = at.lane / 8, part = at.lane % 8 * 8;
  for (int unit = at.block; unit < BATCH * HEADS * SPLITS; unit += at.blocks) {
    const int per = part_rows(place), start = unit % SPLITS * per;
    const int stop = start + per < place + 1 ? start + per : place + 1;
    GLOBAL const ushort *keys = part_keys(at, unit, length, cache), *values = keys + (long)HEADS * length * HEAD;
    hear(at, words + unit / SPLITS * 2 * HEAD_WORDS, turn, counters, failed, start <= place && place < stop, heard);
    const float4 lo = *(SHARED const float4 *)(heard + part), hi = *(SHARED const float4 *)(heard + part + 4);
    float most = NEVER, sum = 0.0f, y[8];
    uint4 next_k = kv[0], next_v = kv[1];
    if (unit != at.block && start + at.warp * 4 + group < stop) {
      next_k = FETCH8(keys + (start + at.warp * 4 + group) * HEAD);
      next_v = FETCH8(values + (start + at.warp * 4 + group) * HEAD);
    }
    UNROLL
    for (int j = 0; j < 8; ++j) y[j] = 0.0f;
    for (int base = start + at.warp * 4; base < stop; base += WARPS * 4) {
      const int row = base + group, live = row < stop, next = row + WARPS * 4;
      uint4 k = next_k, v = next_v;
      if (row == place) {
        k = *(SHARED const uint4 *)((SHARED const ushort *)(heard + HEAD) + part);
        v = *(SHARED const uint4 *)((SHARED const ushort *)(heard + HEAD) + HEAD + part);
      }
      if (next < stop) {
        next_k = FETCH8(keys + next * HEAD);
        next_v = FETCH8(values + next * HEAD);
      }
      float score = low_half(k.x) * lo.x + high_half(k.x) * lo.y + low_half(k.y) * lo.z + high_half(k.y) * lo.w +
                    low_half(k.z) * hi.x + high_half(k.z) * hi.y + low_half(k.w) * hi.z + high_half(k.w) * hi.w;
      score += LANE_XOR(score, 1);
      score += LANE_XOR(score, 2);
      score += LANE_XOR(score, 4);
      if (live) {
        const float top = score > most ? score : most, keep = EXP(most - top), add = EXP(score - top);
        most = top;
        sum = sum * keep + add;
        UNROLL
        for (int j = 0; j < 8; ++j) y[j] *= keep;
        add_halves(v, add, y);
      }
    }
    merge_lanes(&most, &sum, y);
    if (group == 0) {
      UNROLL
      for (int j = 0; j < 8; ++j) merged[at.warp * HEAD + part + j] = y[j];
      if (at.lane == 0) {
        most_of[at.warp] = most;
        sum_of[at.warp] = sum;
      }
    }
    SYNC();
    if (at.index < HEAD) {
      const float value = merge_warps(most_of, sum_of, merged, 0, WARPS, HEAD, at.index, &most, &sum);
      POST_HALF(parts + unit * HEAD + at.index, rounded(value));
      if (at.index == 0) {
        POST(weights + unit * 2, most);
        POST(weights + unit * 2 + 1, sum);
      }
    }
    SYNC();
  }
}

// Lanes side by side that put eight numbers of a row together, as far as there are threads and parts for them.
#define SPARE (8 * THREADS / (BATCH * HIDDEN))
#define SHARES (SPARE >= 4 && SPLITS > 2 ? 4 : SPARE >= 2 && SPLITS > 1 ? 2 : 1)
#define SHARE ((SPLITS + SHARES - 1) / SHARES)  // of the parts, a lane's

// What `attend` left, put together and spread into `shared`.
INLINE void stash_attended(Where at, GLOBAL const ushort *parts, GLOBAL const float *weights, SHARED float *shared) {
  for (int i = at.index / SHARES; i < BATCH * HIDDEN / 8; i += THREADS / SHARES) {
    const int row = i / (HIDDEN / 8), e = i % (HIDDEN / 8) * 8, head = (row * HEADS + e / HEAD) * SPLITS;
    float most[SHARE], total[SHARE], sum = 0.0f, top = NEVER, y[8];
    uint4 part[SHARE];
    UNROLL
    for (int k = 0; k < SHARE; ++k) {
      const int s = at.index % SHARES + k * SHARES, at_part = head + (s < SPLITS ? s : 0);
      part[k] = FETCH8(parts + at_part * HEAD + e % HEAD);
      most[k] = FETCH(weights + at_part * 2);
      total[k] = FETCH(weights + at_part * 2 + 1);
      if (s >= SPLITS) {
        most[k] = NEVER;
        total[k] = 0.0f;
      }
    }
    UNROLL
    for (int k = 0; k < SHARE; ++k) top = most[k] > top ? most[k] : top;
    UNROLL
    for (int mask = 1; mask < SHARES; mask *= 2) {
      const float other = LANE_XOR(top, mask);
      top = other > top ? other : top;
    }
    UNROLL
    for (int j = 0; j < 8; ++j) y[j] = 0.0f;
    UNROLL
    for (int k = 0; k < SHARE; ++k) {
      const float scale = EXP(most[k] - top);
      sum += scale * total[k];
      add_halves(part[k], scale, y);
    }
    UNROLL
    for (int mask = 1; mask < SHARES; mask *= 2) {
      sum += LANE_XOR(sum, mask);
      UNROLL
      for (int j = 0; j < 8; ++j) y[j] += LANE_XOR(y[j], mask);
    }
    const float scale = 1.0f / sum;
    UNROLL
    for (int j = 0; j < 8; ++j) y[j] *= scale;
    if (at.index % SHARES == 0) stash_eight(y, e, shared + row * HIDDEN);
  }
  SYNC();
}
