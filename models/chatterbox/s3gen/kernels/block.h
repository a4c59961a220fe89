// A transformer block of the flow's estimator for 16 * TILES rows, and the next block's queries, keys and values.

// Attention of one head, a warp's: queries [rows, INNER] to keys and values, which are pieces, into `out`
// [16 * TILES, stride]. `mask` [frames] is added to the logits.
template <int TILES>
INLINE void attend(
    const At &at, const Ring &wide_ring, const ushort *queries, const ushort *keys, const ushort *values,
    const ushort *mask, const int frames, ushort *out, const int stride
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
  // Keys take two of the ring's four stages, values the others: either are fetched while the others are multiplied.
  const auto send = [&](const int stage, const ushort *from, const int stride) {
    UNROLL
    for (int n = 0; n < 8; ++n)
      UNROLL
      for (int half = 0; half < 2; ++half)
        COPY(wide_ring.at(at, stage + half, n), from + (n * stride + half) * PIECES + at.lane * PIECE);
  };
  const auto send_keys = [&](const int first) {
    if (first < frames) send(0, keys + first * HEAD, 2);
    COMMIT();
  };
  const auto send_values = [&](const int first) {
    if (first < frames) send(2, values + first / 64 * 2 * PIECES, frames / 32);
    COMMIT();
  };
  send_keys(0);
  send_values(0);
  for (int first = 0; first < frames; first += 64) {
    float logits[TILES][8][4] = {};
    WAIT_COPIES(1);
    UNROLL
    for (int j = 0; j < 8; ++j) {
      const uint4 k[2] = {*wide_ring.at(at, 0, j), *wide_ring.at(at, 1, j)};
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
    send_keys(first + 64);
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
    WAIT_COPIES(1);
    UNROLL
    for (int n = 0; n < 8; ++n) {
      const uint4 v[2] = {*wide_ring.at(at, 2, n), *wide_ring.at(at, 3, n)};
      UNROLL
      for (int m = 0; m < TILES; ++m)
        UNROLL
        for (int j = 0; j < 8; j += 2)
          MULTIPLY(
              sums[m][n], weights[m][j][0], weights[m][j][1], weights[m][j + 1][0], weights[m][j + 1][1],
              word(v[j / 4], j % 4), word(v[j / 4], j % 4 + 1)
          );
    }
    send_values(first + 64);
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
  constexpr int ROWS = 16 * TILES;
  const Stream<TILES> stream = {(float *)room};
  unsigned char *rest_of_room = (unsigned char *)stream.at(ROWS, 0);
  const Ring ring = {(uint4 *)rest_of_room, STAGES}, wide_ring = {(uint4 *)rest_of_room, 4};
  const Rows normal = rows_at(rest_of_room + RING_BYTES, CHANNELS, 1);
  const Rows inner = rows_at((unsigned char *)(normal.data + ROWS * normal.stride), WIDE, 1);
  // Attention's ring and its output lie where the feed-forward's rows will.
  const Rows mixed = rows_at(rest_of_room + 4 * RING_BYTES / STAGES, INNER, 1);
  const int row = block * ROWS;
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
          at, wide_ring, of.queries + (row * INNER + head * HEAD), of.keys + own, of.values + own, of.mask, frames,
          mixed.data + head * HEAD, mixed.stride
      );
    }
    SYNC();
    Feed feed = start(at, ring, of.out, CHANNELS, INNER);
    product<TILES>(at, mixed, feed, add(of.out_bias));
    feed = start(at, ring, of.fc1, WIDE, CHANNELS);
    SYNC();
    normalize<TILES>(
        at, stream.data, of.gain2, of.shift2, [&](const int r, const int c, const float a, const float b) {
          *(uint *)(normal.data + (r * normal.stride + c)) = PACKED(a, b);
        }
    );
    SYNC();
    product<TILES>(at, normal, feed, [&](const int r, const int c, const float a, const float b) {
      const uint both = *(const uint *)(of.fc1_bias + c);
      const float x = a + low(both), y = b + high(both);
      *(uint *)(inner.data + (r * inner.stride + c)) =
          PACKED(0.5f * x * (1 + erff(x * 0.70710678f)), 0.5f * y * (1 + erff(y * 0.70710678f)));
    });
    feed = start(at, ring, of.fc2, CHANNELS, WIDE);
    SYNC();
    product<TILES>(at, inner, feed, add(of.fc2_bias));
  }
  SYNC();
  if (rest) stream.store(thread, to.x + row * CHANNELS);
  if (ahead) project<TILES>(at, stream.data, normal, ring, row, frames, of.gain1, of.shift1, of.qkv, to);
}
