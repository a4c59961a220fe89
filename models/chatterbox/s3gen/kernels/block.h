// A transformer block of the flow's estimator for 16 * TILES rows, and the next block's queries, keys and values.
//
// A tensor core multiplies [16, 16] by [16, 8]. Which 16 of a sum's terms it takes at a time is free, as long as both
// factors agree: here a lane's share of 64 terms is 16 neighbours in memory, which it reads in two pieces of 16 bytes.
// So weights and keys are read where they lie, in whole lines, and go straight into registers.
//
// Expected: CHANNELS, HEADS (of 64 channels each), WIDE, and the words of cuda.h.

#define HEAD 64
#define INNER (HEADS * HEAD)
#define THREADS 256
#define WARPS 8
#define COLUMNS 4  // groups of eight columns that a warp computes at once
#define FAR (-1e30f)

struct At {
  int warp, lane, quad, group;  // quad: lane % 4, its share of a sum; group: lane / 4, its row or column
};

INLINE uint word(const uint4 &v, const int index) {
  return index == 0 ? v.x : index == 1 ? v.y : index == 2 ? v.z : v.w;
}
INLINE float low(const uint both) { return BITS_FLOAT(both << 16); }
INLINE float high(const uint both) { return BITS_FLOAT(both & 0xffff0000u); }

// Calls done(row, column, first, second) with two neighbouring columns of rows [16 * TILES, LENGTH] x weights^T.
// `rows` has STRIDE bfloat16s a row and lies in shared memory; `weights` is [columns, LENGTH].
template <int TILES, int LENGTH, int STRIDE, typename Done>
INLINE void product(const At &at, const ushort *rows, const ushort *weights, const int columns, const Done &done) {
  constexpr int CHUNKS = LENGTH / 64;
  const int groups = columns / (8 * COLUMNS);
  if (at.warp >= groups) return;
  uint4 next[COLUMNS][2], now[COLUMNS][2];
  const ushort *own = weights + (at.group * LENGTH + 16 * at.quad);
  const auto load = [&](const int group, const int chunk) {
    UNROLL
    for (int n = 0; n < COLUMNS; ++n) {
      const uint4 *from = (const uint4 *)(own + ((group * COLUMNS + n) * 8 * LENGTH + chunk * 64));
      next[n][0] = from[0];
      next[n][1] = from[1];
    }
  };
  load(at.warp, 0);
  for (int group = at.warp; group < groups; group += WARPS) {
    float sums[TILES][COLUMNS][4] = {};
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      UNROLL
      for (int n = 0; n < COLUMNS; ++n) {
        now[n][0] = next[n][0];
        now[n][1] = next[n][1];
      }
      if (chunk + 1 < CHUNKS) load(group, chunk + 1);
      else if (group + WARPS < groups) load(group + WARPS, 0);
      UNROLL
      for (int m = 0; m < TILES; ++m) {
        const ushort *here = rows + ((16 * m + at.group) * STRIDE + chunk * 64 + 16 * at.quad);
        UNROLL
        for (int half = 0; half < 2; ++half) {
          const uint4 upper = ((const uint4 *)here)[half], lower = ((const uint4 *)(here + 8 * STRIDE))[half];
          UNROLL
          for (int s = 0; s < 4; s += 2)
            UNROLL
            for (int n = 0; n < COLUMNS; ++n)
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
      for (int n = 0; n < COLUMNS; ++n) {
        const int row = 16 * m + at.group, column = (group * COLUMNS + n) * 8 + 2 * at.quad;
        done(row, column, sums[m][n][0], sums[m][n][1]);
        done(row + 8, column, sums[m][n][2], sums[m][n][3]);
      }
  }
}

// Layer norm of each row of `stream` [16 * TILES, CHANNELS + 4] into `normal` [.., CHANNELS + 8].
template <int TILES>
INLINE void normalise(const At &at, const float *stream, ushort *normal, const ushort *gain, const ushort *shift) {
  constexpr int EACH = CHANNELS / 32;
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
      *(uint *)(normal + (row * (CHANNELS + 8) + c)) =
          PACKED(v[i] * scale * low(g) + low(s), v[i + 1] * scale * high(g) + high(s));
    }
  }
}

// Attention of one head, a warp's: queries [rows, INNER] to keys [frames, HEAD] and values [HEAD, frames], into `out`
// [16 * TILES, STRIDE]. `mask` [frames] is added to the logits. Of 64 keys a lane meets its 16 neighbours.
template <int TILES, int STRIDE>
INLINE void attend(
    const At &at, const ushort *queries, const ushort *keys, const ushort *values, const ushort *mask, const int frames,
    ushort *out
) {
  uint4 q[TILES][2][2];
  float sums[TILES][8][4] = {}, most[TILES][2], total[TILES][2] = {};
  UNROLL
  for (int m = 0; m < TILES; ++m)
    UNROLL
    for (int k = 0; k < 2; ++k) {
      const uint4 *from = (const uint4 *)(queries + ((16 * m + 8 * k + at.group) * INNER + 16 * at.quad));
      q[m][k][0] = from[0];
      q[m][k][1] = from[1];
      most[m][k] = FAR;
    }
  for (int first = 0; first < frames; first += 64) {
    float logits[TILES][8][4] = {};
    UNROLL
    for (int j = 0; j < 8; ++j) {
      const int key = first + 16 * (at.group / 2) + 2 * j + at.group % 2;
      const uint4 *from = (const uint4 *)(keys + (key * HEAD + 16 * at.quad));
      const uint4 k[2] = {from[0], from[1]};
      UNROLL
      for (int m = 0; m < TILES; ++m)
        UNROLL
        for (int half = 0; half < 2; ++half)
          UNROLL
          for (int s = 0; s < 4; s += 2)
            MULTIPLY(
                logits[m][j], word(q[m][0][half], s), word(q[m][1][half], s), word(q[m][0][half], s + 1),
                word(q[m][1][half], s + 1), word(k[half], s), word(k[half], s + 1)
            );
    }
    const uint4 *masks = (const uint4 *)(mask + (first + 16 * at.quad));
    const uint4 hidden[2] = {masks[0], masks[1]};
    uint weights[TILES][8][2];
    UNROLL
    for (int m = 0; m < TILES; ++m)
      UNROLL
      for (int k = 0; k < 2; ++k) {  // the upper row, and the one eight below
        float highest = most[m][k];
        UNROLL
        for (int j = 0; j < 8; ++j) {
          const uint both = word(hidden[j / 4], j % 4);
          float &a = logits[m][j][2 * k], &b = logits[m][j][2 * k + 1];
          a = a * 0.125f + low(both);
          b = b * 0.125f + high(both);
          highest = fmaxf(highest, fmaxf(a, b));
        }
        highest = fmaxf(highest, LANE_XOR(highest, 1));
        highest = fmaxf(highest, LANE_XOR(highest, 2));
        const float fade = expf(most[m][k] - highest);
        most[m][k] = highest;
        total[m][k] *= fade;
        UNROLL
        for (int n = 0; n < 8; ++n) {
          sums[m][n][2 * k] *= fade;
          sums[m][n][2 * k + 1] *= fade;
        }
        UNROLL
        for (int j = 0; j < 8; ++j) {
          const float a = expf(logits[m][j][2 * k] - highest), b = expf(logits[m][j][2 * k + 1] - highest);
          total[m][k] += a + b;
          weights[m][j][k] = PACKED(a, b);
        }
      }
    UNROLL
    for (int n = 0; n < 8; ++n) {
      const uint4 *from = (const uint4 *)(values + ((8 * n + at.group) * frames + first + 16 * at.quad));
      const uint4 v[2] = {from[0], from[1]};
      UNROLL
      for (int m = 0; m < TILES; ++m)
        UNROLL
        for (int j = 0; j < 8; j += 2)
          MULTIPLY(
              sums[m][n], weights[m][j][0], weights[m][j][1], weights[m][j + 1][0], weights[m][j + 1][1],
              word(v[j / 4], j % 4), word(v[j / 4], j % 4 + 1)
          );
    }
  }
  UNROLL
  for (int m = 0; m < TILES; ++m)
    UNROLL
    for (int k = 0; k < 2; ++k) {
      total[m][k] += LANE_XOR(total[m][k], 1);
      total[m][k] += LANE_XOR(total[m][k], 2);
      const float scale = 1 / total[m][k];
      UNROLL
      for (int n = 0; n < 8; ++n)
        *(uint *)(out + ((16 * m + 8 * k + at.group) * STRIDE + 8 * n + 2 * at.quad)) =
            PACKED(sums[m][n][2 * k] * scale, sums[m][n][2 * k + 1] * scale);
    }
}

struct Given {
  const ushort *x, *queries, *keys, *values, *mask;
  const ushort *out, *out_bias, *gain2, *shift2, *fc1, *fc1_bias, *fc2, *fc2_bias;  // of this block
  const ushort *gain1, *shift1, *qkv;                                              // of the next
};
struct Made {
  ushort *x, *queries, *keys, *values;
};

// The block's bytes of shared memory; `exchange` in kernels.blocks says the same.
#define SPREAD ((INNER > WIDE ? INNER : WIDE) + 8)

// Rows from 16 * TILES * block on, of x [.., frames, CHANNELS]. `rest`: there is a block to compute, and not only what
// follows; `ahead`: there is a next block.
template <int TILES>
INLINE void block(
    const int thread, const int block, const int frames, const bool rest, const bool ahead, const Given &of,
    const Made &to, unsigned char *room
) {
  const At at = {thread / 32, thread % 32, thread % 4, thread % 32 / 4};
  constexpr int ROWS = 16 * TILES;
  float *stream = (float *)room;                      // [ROWS, CHANNELS + 4]
  ushort *normal = (ushort *)(stream + ROWS * (CHANNELS + 4));  // [ROWS, CHANNELS + 8]
  ushort *wide = normal + ROWS * (CHANNELS + 8);      // [ROWS, SPREAD]
  const int row = block * ROWS, batch = row / frames, frame = row % frames;
  for (int i = thread; i < ROWS * CHANNELS / 2; i += THREADS) {
    const uint both = ((const uint *)(of.x + row * CHANNELS))[i];
    float *here = stream + (2 * i / CHANNELS * (CHANNELS + 4) + 2 * i % CHANNELS);
    here[0] = low(both);
    here[1] = high(both);
  }
  const auto add = [&](const ushort *bias) {
    return [=](const int r, const int c, const float a, const float b) {
      const uint both = *(const uint *)(bias + c);
      float *here = stream + (r * (CHANNELS + 4) + c);
      here[0] += a + low(both);
      here[1] += b + high(both);
    };
  };
  if (rest) {
    for (int head = at.warp; head < HEADS; head += WARPS) {
      const int own = (batch * HEADS + head) * frames * HEAD;
      attend<TILES, SPREAD>(
          at, of.queries + (row * INNER + head * HEAD), of.keys + own, of.values + own, of.mask, frames,
          wide + head * HEAD
      );
    }
    SYNC();
    product<TILES, INNER, SPREAD>(at, wide, of.out, CHANNELS, add(of.out_bias));
    SYNC();
    normalise<TILES>(at, stream, normal, of.gain2, of.shift2);
    SYNC();
    product<TILES, CHANNELS, CHANNELS + 8>(
        at, normal, of.fc1, WIDE, [&](const int r, const int c, const float a, const float b) {
          const uint both = *(const uint *)(of.fc1_bias + c);
          const float x = a + low(both), y = b + high(both);
          *(uint *)(wide + (r * SPREAD + c)) =
              PACKED(0.5f * x * (1 + erff(x * 0.70710678f)), 0.5f * y * (1 + erff(y * 0.70710678f)));
        }
    );
    SYNC();
    product<TILES, WIDE, SPREAD>(at, wide, of.fc2, CHANNELS, add(of.fc2_bias));
    SYNC();
    for (int i = thread; i < ROWS * CHANNELS / 2; i += THREADS) {
      const float *here = stream + (2 * i / CHANNELS * (CHANNELS + 4) + 2 * i % CHANNELS);
      ((uint *)(to.x + row * CHANNELS))[i] = PACKED(here[0], here[1]);
    }
  } else {
    SYNC();
  }
  if (!ahead) return;
  normalise<TILES>(at, stream, normal, of.gain1, of.shift1);
  SYNC();
  product<TILES, CHANNELS, CHANNELS + 8>(
      at, normal, of.qkv, 3 * INNER, [&](const int r, const int c, const float a, const float b) {
        const int part = c / INNER, head = c % INNER / HEAD, d = c % HEAD;
        const uint both = PACKED(a, b);
        if (part == 0) {
          *(uint *)(to.queries + ((row + r) * INNER + c)) = both;
        } else if (part == 1) {
          *(uint *)(to.keys + (((batch * HEADS + head) * frames + frame + r) * HEAD + d)) = both;
        } else {
          ushort *here = to.values + (((batch * HEADS + head) * HEAD + d) * frames + frame + r);
          here[0] = (ushort)both;
          here[frames] = (ushort)(both >> 16);
        }
      }
  );
}
