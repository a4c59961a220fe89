// Tiles of 16 * TILES rows: products, layer norm, and a block's queries, keys and values.
//
// A tensor core multiplies [16, 16] by [16, 8]. Which 16 of a sum's terms it takes at a time is free, as long as both
// factors agree: here a lane's share of 64 terms is 16 neighbors, two pieces of 16 bytes of a row. Weights, keys and
// values lie in memory as such pieces, a warp's 32 one after the other, so that it reads 512 bytes at a time (`place`).
//
// SHARE blocks of a cluster have the same rows, and each a part of a product's columns, or of the heads: each reads that
// part of the weights alone. Each tells the others its results.
//
// Expected: CHANNELS, HEADS (of 64 channels each), WIDE, and the words of cuda.h.

#define HEAD 64
#define INNER (HEADS * HEAD)
#define THREADS 256
#define WARPS 8
#define FAR (-1e30f)

struct At {
  int warp, lane, quad, group;  // quad: lane % 4, its share of a sum; group: lane / 4, its row or column
};

INLINE uint word(const uint4 &v, const int index) {
  return index == 0 ? v.x : index == 1 ? v.y : index == 2 ? v.z : v.w;
}
INLINE float low(const uint both) { return BITS_FLOAT(both << 16); }
INLINE float high(const uint both) { return BITS_FLOAT(both & 0xffff0000u); }

// bfloat16s in shared memory: `width` a row, of `stride` places. Of `taps` rows one after the other a product makes one.
struct Rows {
  ushort *data;
  int width, stride, taps;
};
INLINE Rows rows_at(unsigned char *room, const int width, const int taps) {
  return {(ushort *)room, width, width + 8, taps};  // so that eight rows' pieces of 16 bytes lie in different banks
}

// A lane's own pieces of what its warp reads from memory, on their way to shared memory: 16 bytes each. No lane reads
// another's, so that waiting for its own is enough.
#define PRODUCT_PIECES 24
#define RING_BYTES(pieces) (WARPS * (pieces) * 32 * 16)

struct Ring {
  uint4 *pieces;
  int each;  // of a warp

  INLINE_MEMBER uint4 *at(const At &at, const int piece) const {
    return pieces + ((at.warp * each + piece) * 32 + at.lane);
  }
};

#define PIECE 8     // bfloat16s of a lane
#define PIECES 256  // of a warp

// Where row `row`'s term `term` lies among the pieces of a matrix [.., 64 * runs].
INLINE int place(const int row, const int term, const int runs) {
  const int lane = row % 8 * 4 + term % 64 / 16;
  return ((row / 8 * runs + term / 64) * 2 + term % 16 / 8) * PIECES + lane * PIECE + term % 8;
}

// Groups of eight columns that a warp computes at once, of a block's `columns`: so many that all warps have the same.
constexpr int at_once(const int columns) {
  return columns % (32 * WARPS) == 0 ? 4 : columns % (16 * WARPS) == 0 ? 2 : 1;
}

// A block's `columns` of weights [.., 64 * runs] on their way to a product: each warp takes `AT_ONCE` groups of eight at a
// time, in runs of 64 terms. `start` may be called before the other factor is there.
template <int AT_ONCE>
struct Feed {
  static constexpr int STAGES = PRODUCT_PIECES / (2 * AT_ONCE);
  Ring ring;
  const ushort *own;
  int first, runs, groups, group, run, stage;

  INLINE_MEMBER void send(const At &at) {
    if (group < groups) {
      UNROLL
      for (int n = 0; n < AT_ONCE; ++n) {
        const ushort *from = own + ((group * AT_ONCE + n) * runs + run) * 2 * PIECES;
        COPY(ring.at(at, 2 * (stage * AT_ONCE + n)), from);
        COPY(ring.at(at, 2 * (stage * AT_ONCE + n) + 1), from + PIECES);
      }
      if (++run == runs) {
        run = 0;
        group += WARPS;
      }
    }
    COMMIT();  // nothing, too: the number of what is on its way stays the same
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
};

// The feed of a block's share, COLUMNS of all, from column `first` on; sums have `length` terms.
template <int COLUMNS>
INLINE Feed<at_once(COLUMNS)> start(
    const At &at, const Ring &ring, const ushort *weights, const int first, const int length
) {
  constexpr int AT_ONCE = at_once(COLUMNS);
  const int runs = length / 64;
  Feed<AT_ONCE> feed = {ring, weights + (first * length + at.lane * PIECE), first, runs, COLUMNS / (8 * AT_ONCE), at.warp,
                        0, 0};
  UNROLL
  for (int stage = 0; stage < Feed<AT_ONCE>::STAGES - 1; ++stage) feed.send(at);
  return feed;
}

// Calls done(row, column, first, second) with two neighboring columns of rows x weights^T, for 16 * TILES rows.
template <int TILES, int AT_ONCE, typename Done>
INLINE void product(const At &at, const Rows &rows, Feed<AT_ONCE> &feed, const Done &done) {
  constexpr int STAGES = Feed<AT_ONCE>::STAGES;
  const int each = rows.width / 64, runs = feed.runs;
  int stage = 0;
  ROLLED
  for (int group = at.warp; group < feed.groups; group += WARPS) {
    float sums[TILES][AT_ONCE][4] = {};
    PAIRED
    for (int run = 0; run < runs; ++run) {
      WAIT_COPIES(STAGES - 2);
      uint4 now[AT_ONCE][2];
      UNROLL
      for (int n = 0; n < AT_ONCE; ++n) {
        now[n][0] = *feed.ring.at(at, 2 * (stage * AT_ONCE + n));
        now[n][1] = *feed.ring.at(at, 2 * (stage * AT_ONCE + n) + 1);
      }
      stage = stage + 1 == STAGES ? 0 : stage + 1;
      feed.send(at);
      const int tap = run / each;
      UNROLL
      for (int m = 0; m < TILES; ++m) {
        const ushort *here =
            rows.data + ((16 * m + at.group + tap) * rows.stride + (run - tap * each) * 64 + 16 * at.quad);
        UNROLL
        for (int half = 0; half < 2; ++half) {
          const uint4 upper = ((const uint4 *)here)[half], lower = ((const uint4 *)(here + 8 * rows.stride))[half];
          UNROLL
          for (int s = 0; s < 4; s += 2)
            UNROLL
            for (int n = 0; n < AT_ONCE; ++n)
              MULTIPLY(
                  sums[m][n], word(upper, s), word(lower, s), word(upper, s + 1), word(lower, s + 1),
                  word(now[n][half], s), word(now[n][half], s + 1)
              );
        }
      }
    }
    UNROLL
    for (int m = 0; m < TILES; ++m)
      UNROLL
      for (int n = 0; n < AT_ONCE; ++n) {
        const int row = 16 * m + at.group, column = feed.first + (group * AT_ONCE + n) * 8 + 2 * at.quad;
        done(row, column, sums[m][n][0], sums[m][n][1]);
        done(row + 8, column, sums[m][n][2], sums[m][n][3]);
      }
  }
}

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

// A barrier of the cluster's blocks, in two halves; of one block, where that is all.
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
  ROLLED
  for (int row = at.warp; row < 16 * TILES; row += WARPS) {
    const float *from = stream + (row * (CHANNELS + 4) + at.lane * EACH);
    float v[EACH], sum = 0, spread = 0;
    UNROLL
    for (int i = 0; i < EACH; ++i) sum += v[i] = from[i];
    UNROLL
    for (int d = 16; d; d >>= 1) sum += LANE_XOR(sum, d);
    UNROLL
    for (int i = 0; i < EACH; ++i) {
      v[i] -= sum / CHANNELS;
      spread += v[i] * v[i];
    }
    UNROLL
    for (int d = 16; d; d >>= 1) spread += LANE_XOR(spread, d);
    const float scale = 1 / sqrtf(spread / CHANNELS + 1e-5f);
    UNROLL
    for (int i = 0; i < EACH; i += 2) {
      const int c = at.lane * EACH + i;
      const uint g = *(const uint *)(gain + c), s = *(const uint *)(shift + c);
      done(row, c, v[i] * scale * low(g) + low(s), v[i + 1] * scale * high(g) + high(s));
    }
  }
}

// The residual stream [ROWS, CHANNELS + 4], float32, and what is added to it.
template <int TILES>
struct Stream {
  static constexpr int ROWS = 16 * TILES;
  float *data;

  INLINE_MEMBER void load(const int thread, const ushort *x) const {
    ROLLED
    for (int i = thread; i < ROWS * CHANNELS / 2; i += THREADS) {
      const uint both = ((const uint *)x)[i];
      float *here = at(2 * i / CHANNELS, 2 * i % CHANNELS);
      here[0] = low(both);
      here[1] = high(both);
    }
  }
  // COUNT channels from `first` on.
  template <int COUNT>
  INLINE_MEMBER void store(const int thread, const int first, ushort *x) const {
    ROLLED
    for (int i = thread; i < ROWS * COUNT / 2; i += THREADS) {
      const int row = 2 * i / COUNT, channel = first + 2 * i % COUNT;
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
  product<TILES>(at, normal, feed, [&](const int r, const int c, const float a, const float b) {
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
