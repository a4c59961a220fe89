// A transformer block of the flow's estimator for 16 * TILES rows, and the next block's queries, keys and values.

// Attention of one head, a warp's: queries [rows, INNER] to keys [frames, HEAD] and values [HEAD, frames], into `out`
// [16 * TILES, stride]. `mask` [frames] is added to the logits. Of 64 keys a lane meets its 16 neighbours.
template <int TILES>
INLINE void attend(
    const At &at, const ushort *queries, const ushort *keys, const ushort *values, const ushort *mask, const int frames,
    ushort *out, const int stride
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
        *(uint *)(out + ((16 * m + 8 * k + at.group) * stride + 8 * n + 2 * at.quad)) =
            PACKED(sums[m][n][2 * k] * scale, sums[m][n][2 * k + 1] * scale);
    }
}

struct Given {
  const ushort *x, *queries, *keys, *values, *mask;
  const ushort *out, *out_bias, *gain2, *shift2, *fc1, *fc1_bias, *fc2, *fc2_bias;  // of this block
  const ushort *gain1, *shift1, *qkv;                                              // of the next
};

// Rows from 16 * TILES * block on, of x [.., frames, CHANNELS]. `rest`: there is a block to compute, and not only what
// follows; `ahead`: there is a next block.
template <int TILES>
INLINE void block(
    const int thread, const int block, const int frames, const bool rest, const bool ahead, const Given &of,
    const Made &to, unsigned char *room
) {
  const At at = {thread / 32, thread % 32, thread % 4, thread % 32 / 4};
  const Stream<TILES> stream = {(float *)room};
  const Rows normal = rows_at(room + 64 * TILES * (CHANNELS + 4), CHANNELS, 1);
  unsigned char *wide = (unsigned char *)(normal.data + 16 * TILES * normal.stride);
  const Rows mixed = rows_at(wide, INNER, 1), inner = rows_at(wide, WIDE, 1);
  const int row = block * 16 * TILES;
  stream.load(thread, of.x + row * CHANNELS);
  const auto add = [&](const ushort *bias) {
    return [=](const int r, const int c, const float a, const float b) {
      const uint both = *(const uint *)(bias + c);
      float *here = stream.at(r, c);
      here[0] += a + low(both);
      here[1] += b + high(both);
    };
  };
  if (rest) {
    for (int head = at.warp; head < HEADS; head += WARPS) {
      const int own = (row / frames * HEADS + head) * frames * HEAD;
      attend<TILES>(
          at, of.queries + (row * INNER + head * HEAD), of.keys + own, of.values + own, of.mask, frames,
          mixed.data + head * HEAD, mixed.stride
      );
    }
    SYNC();
    product<TILES>(at, mixed, of.out, CHANNELS, add(of.out_bias));
    SYNC();
    normalise<TILES>(
        at, stream.data, of.gain2, of.shift2, [&](const int r, const int c, const float a, const float b) {
          *(uint *)(normal.data + (r * normal.stride + c)) = PACKED(a, b);
        }
    );
    SYNC();
    product<TILES>(at, normal, of.fc1, WIDE, [&](const int r, const int c, const float a, const float b) {
      const uint both = *(const uint *)(of.fc1_bias + c);
      const float x = a + low(both), y = b + high(both);
      *(uint *)(inner.data + (r * inner.stride + c)) =
          PACKED(0.5f * x * (1 + erff(x * 0.70710678f)), 0.5f * y * (1 + erff(y * 0.70710678f)));
    });
    SYNC();
    product<TILES>(at, inner, of.fc2, CHANNELS, add(of.fc2_bias));
  }
  SYNC();
  if (rest) stream.store(thread, to.x + row * CHANNELS);
  if (ahead) project<TILES>(at, stream.data, normal, row, frames, of.gain1, of.shift1, of.qkv, to);
}
