// A transformer block of the flow's estimator for 16 * TILES rows, and the next block's queries, keys and values.

// Attention of one head, of a warp's part of the keys: queries [rows, INNER] to keys and values, which are pieces.
// `mask` [frames] is added to the logits. `merge` [16 * TILES, MERGED], the warp's own, may lie in its ring: the products
// with the values, then the largest logit and the sum of the weights.
#define ATTEND_PIECES 32
#define MERGED (HEAD + 8)  // so that the rows of four lanes each lie in different banks

template <int TILES>
INLINE void attend(
    const At &at, const Ring &ring, const ushort *queries, const ushort *keys, const ushort *values, const ushort *mask,
    const int frames, const int part, const int parts, float *merge
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
        COPY(ring.at(at, 8 * (stage + half) + n), from + (n * stride + half) * PIECES + at.lane * PIECE);
  };
  const auto send_keys = [&](const int first) {
    if (first < frames) send(0, keys + first * HEAD, 2);
    COMMIT();
  };
  const auto send_values = [&](const int first) {
    if (first < frames) send(2, values + first / 64 * 2 * PIECES, frames / 32);
    COMMIT();
  };
  send_keys(64 * part);
  send_values(64 * part);
  ROLLED
  for (int first = 64 * part; first < frames; first += 64 * parts) {
    float logits[TILES][8][4] = {};
    WAIT_COPIES(1);
    UNROLL
    for (int j = 0; j < 8; ++j) {
      const uint4 k[2] = {*ring.at(at, j), *ring.at(at, 8 + j)};
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
    send_keys(first + 64 * parts);
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
        const float fade = EXP(most[m][k] - highest);
        most[m][k] = highest;
        total[m][k] *= fade;
        UNROLL
        for (int n = 0; n < 8; ++n) {
          sums[m][n][2 * k] *= fade;
          sums[m][n][2 * k + 1] *= fade;
        }
        UNROLL
        for (int j = 0; j < 8; ++j) {
          const float a = EXP(logits[m][j][2 * k] - highest), b = EXP(logits[m][j][2 * k + 1] - highest);
          total[m][k] += a + b;
          weights[m][j][k] = PACKED(a, b);
        }
      }
    WAIT_COPIES(1);
    UNROLL
    for (int n = 0; n < 8; ++n) {
      const uint4 v[2] = {*ring.at(at, 16 + n), *ring.at(at, 24 + n)};
      UNROLL
      for (int m = 0; m < TILES; ++m)
        UNROLL
        for (int j = 0; j < 8; j += 2)
          MULTIPLY(
              sums[m][n], weights[m][j][0], weights[m][j][1], weights[m][j + 1][0], weights[m][j + 1][1],
              word(v[j / 4], j % 4), word(v[j / 4], j % 4 + 1)
          );
    }
    send_values(first + 64 * parts);
  }
  WAIT_COPIES(0);
  WARP_SYNC();  // the ring is read
  UNROLL
  for (int m = 0; m < TILES; ++m)
    UNROLL
    for (int k = 0; k < 2; ++k) {
      total[m][k] += LANE_XOR(total[m][k], 1);
      total[m][k] += LANE_XOR(total[m][k], 2);
      float *row = merge + (16 * m + 8 * k + at.group) * MERGED;
      UNROLL
      for (int n = 0; n < 8; ++n) *(float2 *)(row + (8 * n + 2 * at.quad)) = {sums[m][n][2 * k], sums[m][n][2 * k + 1]};
      if (at.quad == 0) *(float2 *)(row + HEAD) = {most[m][k], total[m][k]};
    }
}

// The parts of a head's attention, `apart` floats from each other, put together in all blocks of the cluster: into `out`
// [16 * TILES, stride], by `threads` threads.
template <int TILES, int SHARE, int PARTS>
INLINE void combine(
    const int thread, const int threads, const float *merge, const int apart, ushort *out, const int stride
) {
  ROLLED
  for (int i = thread; i < 16 * TILES * HEAD / 2; i += threads) {
    const int row = i / (HEAD / 2), c = i % (HEAD / 2) * 2;
    const float *from = merge + row * MERGED;
    float most = FAR, total = 0, first = 0, second = 0;
    UNROLL
    for (int p = 0; p < PARTS; ++p) most = fmaxf(most, from[p * apart + HEAD]);
    UNROLL
    for (int p = 0; p < PARTS; ++p) {
      const float scale = EXP(from[p * apart + HEAD] - most);
      total += scale * from[p * apart + HEAD + 1];
      first += scale * from[p * apart + c];
      second += scale * from[p * apart + c + 1];
    }
    tell<SHARE>((uint *)(out + (row * stride + c)), PACKED(DIVIDE(first, total), DIVIDE(second, total)));
  }
}

struct Given {
  const ushort *x, *queries, *keys, *values, *mask;
  const ushort *out, *out_bias, *gain2, *shift2, *fc1, *fc1_bias, *fc2, *fc2_bias;  // of this block
  const ushort *gain1, *shift1, *qkv;                                              // of the next
};

// Weights lie one after the other: the block's own, unless there is only what follows, then the next one's.
INLINE Given given_of(const ushort *state, const ushort *mask, const ushort *weights, const int rows, const bool rest) {
  const Made from = made((ushort *)state, rows);
  const ushort *bias = weights + CHANNELS * INNER, *fc1 = bias + 3 * CHANNELS, *fc1_bias = fc1 + WIDE * CHANNELS;
  const ushort *fc2 = fc1_bias + WIDE, *fc2_bias = fc2 + CHANNELS * WIDE;
  const ushort *next = rest ? fc2_bias + CHANNELS : weights;
  return {from.x, from.queries, from.keys, from.values, mask,
          weights, bias, bias + CHANNELS, bias + 2 * CHANNELS, fc1, fc1_bias, fc2, fc2_bias,
          next, next + CHANNELS, next + 2 * CHANNELS};
}

// Rows of x [.., frames, CHANNELS], 16 * TILES for each cluster. `rest`: there is a block to compute, and not only what
// follows; `ahead`: there is a next block.
template <int TILES, int SHARE>
INLINE void block(
    const int thread, const int block, const int frames, const bool rest, const bool ahead, const Given &of,
    const Made &to, unsigned char *room
) {
  const At at = {thread / 32, thread % 32, thread % 4, thread % 32 / 4};
  constexpr int ROWS = 16 * TILES, OWN = CHANNELS / SHARE, OWN_WIDE = WIDE / SHARE, OWN_NEXT = 3 * INNER / SHARE;
  constexpr int OWN_HEADS = HEADS / SHARE, PARTS = OWN_HEADS < WARPS ? WARPS / OWN_HEADS : 1;
  const int rank = block % SHARE, row = block / SHARE * ROWS;
  if (rest) enter<SHARE>();  // the others are there before they are told anything
  const Stream<TILES> stream = {(float *)room};
  unsigned char *rest_of_room = (unsigned char *)stream.at(ROWS, 0);
  const Ring ring = {(uint4 *)rest_of_room, PRODUCT_PIECES}, wide_ring = {(uint4 *)rest_of_room, ATTEND_PIECES};
  const Rows normal = rows_at(rest_of_room + RING_BYTES(PRODUCT_PIECES), CHANNELS, 1);
  const Rows inner = rows_at((unsigned char *)(normal.data + ROWS * normal.stride), WIDE, 1);
  // Attention's ring and its output lie where the feed-forward's rows will.
  const Rows mixed = rows_at(rest_of_room + RING_BYTES(ATTEND_PIECES), INNER, 1);
  uint4 held[Stream<TILES>::HELD];
  stream.fetch(thread, of.x + row * CHANNELS, held);
  const auto add = [&](const int r, const int c, const float a, const float b) {
    float2 *here = (float2 *)stream.at(r, c);
    tell<SHARE>(here, {here->x + a, here->y + b});
  };
  if (!rest) stream.put(thread, held);
  if (rest) {
    constexpr int APART = ATTEND_PIECES * 32 * 4;  // floats of a warp's ring
    float *merge = (float *)rest_of_room;
    UNROLL
    for (int first = 0; first < OWN_HEADS; first += WARPS / PARTS) {
      const int head = rank * OWN_HEADS + first + at.warp / PARTS;
      const int own = (row / frames * HEADS + head) * frames * HEAD;
      if (first) SYNC();
      attend<TILES>(
          at, wide_ring, of.queries + (row * INNER + head * HEAD), of.keys + own, of.values + own, of.mask, frames,
          at.warp % PARTS, PARTS, merge + at.warp * APART
      );
      if (first == 0) stream.put(thread, held);
      SYNC();
      if (SHARE > 1 && first == 0) meet<SHARE>();
      combine<TILES, SHARE, PARTS>(
          thread % (32 * PARTS), 32 * PARTS, merge + at.warp / PARTS * PARTS * APART, APART, mixed.data + head * HEAD,
          mixed.stride
      );
    }
    SYNC();
    arrive<SHARE>();
    auto narrow = start<OWN>(at, ring, of.out, rank * OWN, INNER);
    meet<SHARE>();
    product<TILES>(at, mixed, narrow, of.out_bias, add);
    arrive<SHARE>();
    auto wide = start<OWN_WIDE>(at, ring, of.fc1, rank * OWN_WIDE, CHANNELS);
    meet<SHARE>();
    normalize<TILES>(
        at, stream.data, of.gain2, of.shift2, [&](const int r, const int c, const float a, const float b) {
          *(uint *)(normal.data + (r * normal.stride + c)) = PACKED(a, b);
        }
    );
    SYNC();
    product<TILES>(at, normal, wide, of.fc1_bias, [&](const int r, const int c, const float a, const float b) {
      tell<SHARE>((uint *)(inner.data + (r * inner.stride + c)), PACKED(gelu(a), gelu(b)));
    });
    arrive<SHARE>();
    narrow = start<OWN>(at, ring, of.fc2, rank * OWN, WIDE);
    meet<SHARE>();
    product<TILES>(at, inner, narrow, of.fc2_bias, add);
    arrive<SHARE>();
  }
  auto next = ahead ? start<OWN_NEXT>(at, ring, of.qkv, rank * OWN_NEXT, CHANNELS) : Feed<at_once(OWN_NEXT)>{};
  if (rest) meet<SHARE>();
  else SYNC();
  stream.template store<OWN>(thread, rank * OWN, to.x + row * CHANNELS);
  if (ahead) project<TILES, SHARE>(at, next, stream.data, normal, row, frames, of.gain1, of.shift1, to);
}
