"""PL-BERT's encoder as one CUDA kernel: one layer, applied several times, between barriers of the whole grid.

In MLX's operations a layer is about 14 launches, and twelve of them bound the text side of a short sentence. Here one
launch computes all in float32; the weights of the one layer stay in L2. `AlbertEncoder.plain` is the definition.

Metal has no barrier of a grid, and MLX has few launches a layer there: it has no such kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from models.backend import mx
from models.layers.kernels.device import THREADS, Kernel, counters, launch, launches_directly, processors

HEAD = 64  # channels of a head
MAX_LENGTH = 64  # rows of a sequence: each lane has two keys
MAX_ROWS = 256  # of all sequences; with more, MLX's matrix products share weights better

_HEADER = r"""
#define WARPS 8
#define TILE 16
#define COLUMNS 4
#define STAGE 512  // columns of the rows that a block holds: 32 KB
#define READS (TILE * STAGE / 4 / (WARPS * 32))

// A thread's share of the rows of a tile, from column `start` on; 0 beyond the last row.
INLINE void read_rows(const int thread, const int rows, const int width, const int first, const int start,
                      const float *from, float4 *given) {
  UNROLL
  for (int j = 0; j < READS; ++j) {
    const int i = (j * WARPS * 32 + thread) * 4, row = first + i / STAGE, column = start + i % STAGE;
    const float4 none = {0.0f, 0.0f, 0.0f, 0.0f};
    given[j] = row < rows && column < width ? FETCH4(from + (long)row * width + column) : none;
  }
}

// to [rows, outputs] = from [rows, width] w^T + bias, then GELU or + add. A warp computes COLUMNS outputs of TILE rows:
// its lanes share the sum. Blocks share the tiles, and those of a tile its outputs; all warps of a block read rows from
// shared memory. The next rows and weights are under way while the last are multiplied.
template <bool GELU, bool ADD>
INLINE void product(const int thread, const int block, const int blocks, const int rows, const int width,
                    const int outputs, const float *from, const float *w, const float *bias, const float *add,
                    float *to, float *shared) {
  const int lane = thread % 32, warp = thread / 32, units = outputs / COLUMNS, tiles = (rows + TILE - 1) / TILE;
  const int groups = min(tiles, blocks), place = block / groups;
  const int share = (blocks - block % groups + groups - 1) / groups;  // blocks of this group
  const int turns = (units + share * WARPS - 1) / (share * WARPS);
  for (int first = block % groups * TILE; first < rows; first += groups * TILE) {
    for (int turn = 0; turn < turns; ++turn) {
      const int unit = (turn * WARPS + warp) * share + place;
      const bool live = unit < units;
      const float *own = w + (long)(live ? unit : 0) * COLUMNS * width + lane * 4;
      float sums[COLUMNS * TILE];
      float4 given[READS], weights[COLUMNS];
      UNROLL
      for (int i = 0; i < COLUMNS * TILE; ++i) sums[i] = 0.0f;
      UNROLL
      for (int j = 0; j < COLUMNS; ++j) weights[j] = *(const float4 *)(own + (long)j * width);
      read_rows(thread, rows, width, first, 0, from, given);
      for (int start = 0; start < width; start += STAGE) {
        SYNC();
        UNROLL
        for (int j = 0; j < READS; ++j) *(float4 *)(shared + (j * WARPS * 32 + thread) * 4) = given[j];
        SYNC();
        if (start + STAGE < width) read_rows(thread, rows, width, first, start + STAGE, from, given);
        if (!live) continue;
        const int stage = min(STAGE, width - start);
        for (int k = 0; k < stage; k += 128) {
          float4 now[COLUMNS];
          UNROLL
          for (int j = 0; j < COLUMNS; ++j) {
            now[j] = weights[j];
            if (start + k + 128 < width) weights[j] = *(const float4 *)(own + (long)j * width + start + k + 128);
          }
          UNROLL
          for (int r = 0; r < TILE; ++r) {
            const float4 v = *(const float4 *)(shared + r * STAGE + k + lane * 4);
            UNROLL
            for (int j = 0; j < COLUMNS; ++j) {
              float sum = sums[j * TILE + r];
              sum = fmaf(now[j].x, v.x, sum);
              sum = fmaf(now[j].y, v.y, sum);
              sum = fmaf(now[j].z, v.z, sum);
              sums[j * TILE + r] = fmaf(now[j].w, v.w, sum);
            }
          }
        }
      }
      if (!live) continue;
      // Each exchange halves the sums of a lane. It ends with two of them, 2 * lane and the next.
      UNROLL
      for (int step = 0; step < 5; ++step) {
        const int mask = 16 >> step, half = 32 >> step;
        UNROLL
        for (int i = 0; i < 32; ++i) {
          if (i >= half) break;
          const float given = lane & mask ? sums[i] : sums[i + half];
          const float kept = lane & mask ? sums[i + half] : sums[i];
          sums[i] = kept + LANE_XOR(given, mask);
        }
      }
      UNROLL
      for (int i = 0; i < 2; ++i) {
        const int column = unit * COLUMNS + (2 * lane + i) / TILE, row = first + (2 * lane + i) % TILE;
        if (row >= rows) continue;
        float v = sums[i] + bias[column];
        if (GELU) v = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
        if (ADD) v += FETCH(add + (long)row * outputs + column);
        POST(to + (long)row * outputs + column, v);
      }
    }
  }
}

// Attention of each row and head by a warp; qkv [rows, 3, heads, 64], `valid` keys of each sequence of `length` rows.
INLINE void attend(const int thread, const int block, const int blocks, const int rows, const int length,
                   const int heads, const int *count, const float *qkv, float *to, float *shared) {
  const int lane = thread % 32, warp = thread / 32, width = heads * 64;
  float *weights = shared + warp * 64;
  for (int unit = warp * blocks + block; unit < rows * heads; unit += blocks * WARPS) {
    const int row = unit / heads, head = unit % heads, sequence = row / length, valid = min(count[sequence], length);
    const float *q = qkv + (long)row * 3 * width + head * 64;
    const float *keys = qkv + (long)sequence * length * 3 * width + width + head * 64, *values = keys + width;
    float logits[2], most = -3.0e38f, sum = 0.0f;
    UNROLL
    for (int n = 0; n < 2; ++n) {
      const int key = lane + 32 * n;
      logits[n] = -3.0e38f;
      if (key >= valid) continue;
      float dot = 0.0f;
      UNROLL
      for (int i = 0; i < 64; i += 4) {
        const float4 a = FETCH4(q + i), b = FETCH4(keys + (long)key * 3 * width + i);
        dot = fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, dot))));
      }
      logits[n] = 0.125f * dot;
      most = fmaxf(most, logits[n]);
    }
    for (int mask = 16; mask > 0; mask /= 2) most = fmaxf(most, LANE_XOR(most, mask));
    UNROLL
    for (int n = 0; n < 2; ++n) {
      const float weight = lane + 32 * n < valid ? expf(logits[n] - most) : 0.0f;
      weights[lane + 32 * n] = weight;
      sum += weight;
    }
    for (int mask = 16; mask > 0; mask /= 2) sum += LANE_XOR(sum, mask);
    WARP_SYNC();
    float low = 0.0f, high = 0.0f;
    for (int key = 0; key < valid; ++key) {
      low = fmaf(weights[key], FETCH(values + (long)key * 3 * width + lane), low);
      high = fmaf(weights[key], FETCH(values + (long)key * 3 * width + lane + 32), high);
    }
    POST(to + (long)row * width + head * 64 + lane, low / sum);
    POST(to + (long)row * width + head * 64 + lane + 32, high / sum);
    WARP_SYNC();
  }
}

// LayerNorm of each row by a warp.
template <int WIDTH>
INLINE void normalize(const int thread, const int block, const int blocks, const int rows, const float *from,
                      const float *gain, const float *shift, float *to) {
  const int lane = thread % 32, warp = thread / 32;
  for (int row = warp * blocks + block; row < rows; row += blocks * WARPS) {
    float v[WIDTH / 32], mean = 0.0f, square = 0.0f;
    UNROLL
    for (int i = 0; i < WIDTH / 32; ++i) mean += v[i] = FETCH(from + (long)row * WIDTH + 32 * i + lane);
    for (int mask = 16; mask > 0; mask /= 2) mean += LANE_XOR(mean, mask);
    mean /= WIDTH;
    UNROLL
    for (int i = 0; i < WIDTH / 32; ++i) square = fmaf(v[i] - mean, v[i] - mean, square);
    for (int mask = 16; mask > 0; mask /= 2) square += LANE_XOR(square, mask);
    const float scale = RSQRT(square / WIDTH + 1e-12f);
    UNROLL
    for (int i = 0; i < WIDTH / 32; ++i) {
      const int column = 32 * i + lane;
      POST(to + (long)row * WIDTH + column, (v[i] - mean) * scale * gain[column] + shift[column]);
    }
  }
}

#define MEET() \
  ARRIVE(thread, meeting, &met, &failed); \
  WAIT(thread, blocks, meeting, &met, &failed)
"""

_BODY = r"""
    const int length = x_shape[1], rows = x_shape[0] * length, thread = THREAD, block = BLOCK_X, blocks = BLOCKS_X;
    SHARED_ARRAY(float, shared, TILE * STAGE);
    int *meeting = (int *)counters;
    int met = 0, failed = 0;
    float *qkv = exchange, *mixed = qkv + (long)rows * 3 * C, *total = mixed + (long)rows * C;
    float *inner = total + (long)rows * C;
    for (int layer = 0; layer < DEPTH; ++layer) {
      const float *now = layer ? y : x;
      product<false, false>(thread, block, blocks, rows, C, 3 * C, now, wqkv, bqkv, now, qkv, shared);
      MEET();
      attend(thread, block, blocks, rows, length, C / 64, count, qkv, mixed, shared);
      MEET();
      product<false, true>(thread, block, blocks, rows, C, C, mixed, wout, bout, now, total, shared);
      MEET();
      normalize<C>(thread, block, blocks, rows, total, gain1, shift1, y);
      MEET();
      product<true, false>(thread, block, blocks, rows, C, INNER, y, wup, bup, y, inner, shared);
      MEET();
      product<false, true>(thread, block, blocks, rows, INNER, C, inner, wdown, bdown, y, total, shared);
      MEET();
      normalize<C>(thread, block, blocks, rows, total, gain2, shift2, y);
      MEET();
    }
    if (ANY(failed)) {
      for (int i = block * WARPS * 32 + thread; i < rows * C; i += blocks * WARPS * 32) y[i] = BITS_FLOAT(0x7fc00000u);
    }
    PART(thread, blocks, meeting);
"""
_WEIGHTS = (
    "wqkv", "bqkv", "wout", "bout", "gain1", "shift1", "wup", "bup", "wdown", "bdown", "gain2", "shift2",
)  # fmt: skip
KERNEL = Kernel(
    "nightingale_albert",
    ("x", "count", "counters", *_WEIGHTS),
    ("y", "exchange"),
    _BODY,
    f"#define THREADS {THREADS}\n{_HEADER}",
    in_place=True,
    bounded=True,
)


_counters = cache(counters)


def fits(x: mx.array, heads: int, inner: int) -> bool:
    """Return whether the kernel is for such rows x [B, T, C] here."""
    batch, length, width = x.shape
    whole = width == heads * HEAD and width % 128 == 0 and inner % 128 == 0 and x.dtype == mx.float32
    few = length <= MAX_LENGTH and batch * length <= MAX_ROWS
    return whole and few and processors() > 0 and launches_directly()


def encode(x: mx.array, count: mx.array, weights: Sequence[mx.array], depth: int, blocks: int = 0) -> mx.array:
    """Return x [B, T, C] float32 after `depth` layers, each after the last. Only for what `fits`.

    Args:
        x: rows.
        count: valid rows of each sequence, int32 [B], which alone are attended to.
        weights: weight and bias of queries, keys and values, joined, of attention's output, of its LayerNorm, of both
            products of the feed-forward, and of its LayerNorm.
        depth: number of layers.
        blocks: blocks of the grid, all of which run at once; 0: one a processor.
    """
    batch, length, width = x.shape
    inner = weights[6].shape[0]
    y: mx.array = launch(
        KERNEL,
        [mx.contiguous(x), count, _counters(), *weights],
        [(x.shape, mx.float32), ((batch * length * (5 * width + inner),), mx.float32)],
        (blocks or processors(), 1, 1),
        {"C": width, "INNER": inner, "DEPTH": depth},
    )[0]
    return y
