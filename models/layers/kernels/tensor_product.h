// A product of rows of half precision in shared memory by a matrix in global memory, as pieces, on tensor cores.
// MULTIPLY_TILES names the product of tiles: of bfloat16 unless the kernel says otherwise.
//
// A tensor core multiplies [16, 16] by [16, 8]. Each lane has its share of a tile in registers, one after the other, as
// READ_TILE brings it from shared memory: gathered from longer reads, it would take two moves for each register. Weights lie
// in memory as pieces: a lane's shares of 64 terms of eight columns are two of 16 bytes, and a warp reads 512 at a time
// (`pieces` in tensor_product.py).
//
// Expected: the words of cuda_copies.h.

#ifndef MULTIPLY_TILES
#define MULTIPLY_TILES MULTIPLY
#endif
#define THREADS 256
#define WARPS 8

struct At {
  int warp, lane, quad, group;  // quad: lane % 4, its share of a sum; group: lane / 4, its row or column
};

INLINE uint word(const uint4 &v, const int index) {
  return index == 0 ? v.x : index == 1 ? v.y : index == 2 ? v.z : v.w;
}
INLINE float low(const uint both) { return BITS_FLOAT(both << 16); }
INLINE float high(const uint both) { return BITS_FLOAT(both & 0xffff0000u); }

// Numbers of half precision in shared memory: `width` a row, of `stride` places. A product makes one row of several,
// `dilation` apart.
struct Rows {
  ushort *data;
  int width, stride, dilation;
};
INLINE Rows rows_at(unsigned char *room, const int width, const int dilation) {
  return {(ushort *)room, width, width + 8, dilation};  // so that eight rows' pieces of 16 bytes lie in different banks
}

// A lane's own pieces of what its warp reads from memory, on their way to shared memory: 16 bytes each. No lane reads
// another's, so that waiting for its own is enough.
#ifndef PRODUCT_PIECES
#define PRODUCT_PIECES 24
#endif
#define RING_BYTES(pieces) (WARPS * (pieces) * 32 * 16)

struct Ring {
  uint4 *pieces;
  int each;  // of a warp

  INLINE_MEMBER uint4 *at(const At &at, const int piece) const {
    return pieces + ((at.warp * each + piece) * 32 + at.lane);
  }
};

#define PIECE 8     // numbers of a lane
#define PIECES 256  // of a warp

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

// sums += rows x weights^T, for 16 * TILES rows and the columns of the feed's next group. `stage` is the place of its
// next pieces, 0 at first.
template <int TILES, int AT_ONCE>
INLINE void multiply(const At &at, const Rows &rows, Feed<AT_ONCE> &feed, int &stage, float (&sums)[TILES][AT_ONCE][4]) {
  constexpr int STAGES = Feed<AT_ONCE>::STAGES;
  const int each = rows.width / 64, runs = feed.runs;
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
      const ushort *here = rows.data + ((16 * m + tap * rows.dilation) * rows.stride + (run - tap * each) * 64);
      UNROLL
      for (int step = 0; step < 4; ++step) {
        uint tile[4];
        READ_TILE(at.lane, tile, here + 16 * step, rows.stride);
        UNROLL
        for (int n = 0; n < AT_ONCE; ++n)
          MULTIPLY_TILES(
              sums[m][n], tile[0], tile[1], tile[2], tile[3], word(now[n][step / 2], step % 2 * 2),
              word(now[n][step / 2], step % 2 * 2 + 1)
          );
      }
    }
  }
}

// Calls done(row, column, first, second) with two neighboring columns of rows x weights^T plus `bias`, which may be null,
// for 16 * TILES rows.
template <int TILES, int AT_ONCE, typename Done>
INLINE void product(const At &at, const Rows &rows, Feed<AT_ONCE> &feed, const ushort *bias, const Done &done) {
  int stage = 0;
  ROLLED
  for (int group = at.warp; group < feed.groups; group += WARPS) {
    float sums[TILES][AT_ONCE][4] = {};
    const int column = feed.first + group * AT_ONCE * 8 + 2 * at.quad;
    uint beside[AT_ONCE] = {};  // here, so that it is there when the sums are
    if (bias)
      UNROLL
      for (int n = 0; n < AT_ONCE; ++n) beside[n] = *(const uint *)(bias + column + 8 * n);
    multiply(at, rows, feed, stage, sums);
    UNROLL
    for (int m = 0; m < TILES; ++m)
      UNROLL
      for (int n = 0; n < AT_ONCE; ++n) {
        const int row = 16 * m + at.group;
        const float first = low(beside[n]), second = high(beside[n]);
        done(row, column + 8 * n, sums[m][n][0] + first, sums[m][n][1] + second);
        done(row + 8, column + 8 * n, sums[m][n][2] + first, sums[m][n][3] + second);
      }
  }
}
