// Tiles of 16 * TILES rows: layer norm, and a block's queries, keys and values.
//
// SHARE blocks of a cluster have the same rows, and each a part of a product's columns, or of the heads: each reads that
// part of the weights alone. Each tells the others its results.
//
// Expected: CHANNELS, HEADS (of 64 channels each), WIDE, and tensor_product.h.

#define HEAD 64
#define INNER (HEADS * HEAD)
#define FAR (-1e30f)

// What a block has computed, to the same place in all blocks of its cluster. They read it after `meet`.
template <int SHARE, typename Value>
INLINE void tell(Value *here, const Value value) {
  if constexpr (SHARE == 1) {
    *here = value;
  } else {
    UNROLL
    for (int peer = 0; peer < SHARE; ++peer) *PEER(here, peer) = value;
  }
}

// A barrier of the cluster's blocks, in two halves; of one block, where that is all. `enter` is the first half of a barrier
// before which nothing was told.
template <int SHARE>
INLINE void enter() {
  if constexpr (SHARE > 1) CLUSTER_ENTER();
}
template <int SHARE>
INLINE void arrive() {
  if constexpr (SHARE > 1) CLUSTER_ARRIVE();
}
template <int SHARE>
INLINE void meet() {
  if constexpr (SHARE > 1) CLUSTER_WAIT();
  else SYNC();
}

// Calls done(row, channel, first, second) with two neighboring channels of each row's layer norm, of `stream`
// [16 * TILES, CHANNELS + 4].
template <int TILES, typename Done>
INLINE void normalize(const At &at, const float *stream, const ushort *gain, const ushort *shift, const Done &done) {
  constexpr int EACH = CHANNELS / 32;
  uint gains[EACH / 2], shifts[EACH / 2];
  UNROLL
  for (int i = 0; i < EACH / 2; ++i) {
    gains[i] = ((const uint *)gain)[at.lane * EACH / 2 + i];
    shifts[i] = ((const uint *)shift)[at.lane * EACH / 2 + i];
  }
  ROLLED
  for (int row = at.warp; row < 16 * TILES; row += 2 * WARPS) {  // two at a time: their sums take turns
    float v[2][EACH], sum[2] = {0, 0}, spread[2] = {0, 0};
    UNROLL
    for (int r = 0; r < 2; ++r)
      UNROLL
      for (int i = 0; i < EACH; ++i)
        sum[r] += v[r][i] = stream[(row + r * WARPS) * (CHANNELS + 4) + at.lane * EACH + i];
    UNROLL
    for (int d = 16; d; d >>= 1)
      UNROLL
      for (int r = 0; r < 2; ++r) sum[r] += LANE_XOR(sum[r], d);
    UNROLL
    for (int r = 0; r < 2; ++r)
      UNROLL
      for (int i = 0; i < EACH; ++i) {
        v[r][i] -= sum[r] / CHANNELS;
        spread[r] += v[r][i] * v[r][i];
      }
    UNROLL
    for (int d = 16; d; d >>= 1)
      UNROLL
      for (int r = 0; r < 2; ++r) spread[r] += LANE_XOR(spread[r], d);
    UNROLL
    for (int r = 0; r < 2; ++r) {
      const float scale = RSQRT(spread[r] / CHANNELS + 1e-5f);
      UNROLL
      for (int i = 0; i < EACH; i += 2) {
        const float a = v[r][i] * scale, b = v[r][i + 1] * scale;
        const uint g = gains[i / 2], s = shifts[i / 2];
        done(row + r * WARPS, at.lane * EACH + i, a * low(g) + low(s), b * high(g) + high(s));
      }
    }
  }
}

// The residual stream [ROWS, CHANNELS + 4], float32, and what is added to it.
template <int TILES>
struct Stream {
  static constexpr int ROWS = 16 * TILES, COUNT = ROWS * CHANNELS / 8, HELD = (COUNT + THREADS - 1) / THREADS;
  float *data;

  // A thread's pieces of x, all on their way at once, and then to their places.
  INLINE_MEMBER void fetch(const int thread, const ushort *x, uint4 (&held)[HELD]) const {
    UNROLL
    for (int i = 0; i < HELD; ++i)
      if (i * THREADS + thread < COUNT) held[i] = ((const uint4 *)x)[i * THREADS + thread];
  }
  INLINE_MEMBER void put(const int thread, const uint4 (&held)[HELD]) const {
    UNROLL
    for (int i = 0; i < HELD; ++i) {
      const int piece = i * THREADS + thread;
      if (piece >= COUNT) break;
      float4 *here = (float4 *)at(piece / (CHANNELS / 8), piece % (CHANNELS / 8) * 8);
      here[0] = {low(held[i].x), high(held[i].x), low(held[i].y), high(held[i].y)};
      here[1] = {low(held[i].z), high(held[i].z), low(held[i].w), high(held[i].w)};
    }
  }
  // OWN channels from `first` on.
  template <int OWN>
  INLINE_MEMBER void store(const int thread, const int first, ushort *x) const {
    ROLLED
    for (int i = thread; i < ROWS * OWN / 2; i += THREADS) {
      const int row = 2 * i / OWN, channel = first + 2 * i % OWN;
      const float *here = at(row, channel);
      *(uint *)(x + (row * CHANNELS + channel)) = PACKED(here[0], here[1]);
    }
  }
  INLINE_MEMBER float *at(const int row, const int channel) const { return data + (row * (CHANNELS + 4) + channel); }
};

// What a launch makes of all rows, one after the other: each further array would cost the host a launch's third.
struct Made {
  ushort *x, *queries, *keys, *values;
};

INLINE Made made(ushort *state, const int rows) {
  ushort *queries = state + rows * CHANNELS;
  return {state, queries, queries + rows * INNER, queries + 2 * rows * INNER};
}

// Where row `row`'s term `term` of a matrix [.., 64 * runs] of keys or values lies: attention has the other factor in
// registers, where a lane's share of 64 terms is 16 neighbors.
INLINE int place(const int row, const int term, const int runs) {
  const int lane = row % 8 * 4 + term % 64 / 16;
  return ((row / 8 * runs + term / 64) * 2 + term % 16 / 8) * PIECES + lane * PIECE + term % 8;
}

// Of 64 keys that attention takes at a time, the row of the product with queries that stands for frame `frame`: such that
// a lane's logits are those of the 16 neighbors whose values it reads.
INLINE int key_row(const int frame) {
  const int r = frame % 64;
  return frame - r + r % 16 / 2 * 8 + r / 16 * 2 + r % 2;
}

// What a transformer block needs before its attention, of 16 * TILES rows from `row` on: queries [.., INNER], and for
// each sequence and head keys and values as pieces.
template <int TILES, int SHARE>
INLINE void project(
    const At &at, Feed<at_once(3 * INNER / SHARE)> &feed, const float *stream, const Rows &normal, const int row,
    const int frames, const ushort *gain, const ushort *shift, const Made &to
) {
  const int frame = row % frames, each = frames * HEAD, own = row / frames * HEADS * each;
  normalize<TILES>(at, stream, gain, shift, [&](const int r, const int c, const float a, const float b) {
    *(uint *)(normal.data + (r * normal.stride + c)) = PACKED(a, b);
  });
  SYNC();
  product<TILES>(at, normal, feed, nullptr, [&](const int r, const int c, const float a, const float b) {
    const int part = c / INNER, head = c % INNER / HEAD, d = c % HEAD;
    const uint both = PACKED(a, b);
    if (part == 0) {
      *(uint *)(to.queries + ((row + r) * INNER + c)) = both;
    } else if (part == 1) {
      *(uint *)(to.keys + (own + head * each + place(key_row(frame + r), d, 1))) = both;
    } else {
      ushort *here = to.values + (own + head * each);
      here[place(d, frame + r, frames / 64)] = (ushort)both;
      here[place(d + 1, frame + r, frames / 64)] = (ushort)(both >> 16);
    }
  });
}
