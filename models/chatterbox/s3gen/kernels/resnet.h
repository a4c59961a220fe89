// Half of a resnet block of the flow's estimator for 16 * TILES rows: a causal convolution of three taps, layer norm,
// Mish, and then the time's vector, or the map of the block's input and the first transformer block's queries, keys and
// values.

struct Half {
  const ushort *x, *conv, *conv_bias, *gain, *shift;
  const ushort *time;                     // of the first half
  const ushort *before, *res, *res_bias;  // of the second: the block's input and its map
  const ushort *gain1, *shift1, *qkv;     // of what comes after
};

// Weights of a half, one after the other: the convolution's, the map's, and those of the first transformer block.
INLINE Half half_of(
    const ushort *x, const ushort *before, const ushort *time, const ushort *weights, const int width,
    const int before_width
) {
  const ushort *bias = weights + 3 * CHANNELS * width, *res = bias + 3 * CHANNELS;
  const ushort *res_bias = res + CHANNELS * before_width, *next = res_bias + CHANNELS;
  return {x, weights, bias, bias + CHANNELS, bias + 2 * CHANNELS, time, before, res, res_bias,
          next, next + CHANNELS, next + 2 * CHANNELS};
}

// Rows first ... of a sequence x [frames, width] on their way to shared memory; zeros before its start.
INLINE void fetch(const int thread, const ushort *x, const int first, const int count, const Rows &rows) {
  const int pieces = rows.width / 8;
  const uint4 none = {0, 0, 0, 0};
  ROLLED
  for (int i = thread; i < count * pieces; i += THREADS) {
    const int r = i / pieces, c = i % pieces * 8;
    ushort *to = rows.data + (r * rows.stride + c);
    if (first + r < 0) {
      *(uint4 *)to = none;
    } else {
      COPY((uint4 *)to, x + ((first + r) * rows.width + c));
    }
  }
  COMMIT();
}

INLINE float mish(const float v) {
  const float e = EXP(fminf(v, 20.0f)), n = e * (e + 2);
  return v * DIVIDE(n, n + 2);
}

// Of x [.., frames, width], 16 * TILES rows for each cluster; `second`: the second half, of a block whose input has
// before_width channels.
template <int TILES, int SHARE>
INLINE void resnet(
    const int thread, const int block, const int frames, const int width, const int before_width, const bool second,
    const Half &of, const Made &to, unsigned char *room
) {
  constexpr int ROWS = 16 * TILES, OWN = CHANNELS / SHARE, OWN_NEXT = 3 * INNER / SHARE;
  const At at = {thread / 32, thread % 32, thread % 4, thread % 32 / 4};
  const int rank = block % SHARE, row = block / SHARE * ROWS, frame = row % frames;
  enter<SHARE>();
  const Stream<TILES> stream = {(float *)room};
  const Ring ring = {(uint4 *)stream.at(ROWS, 0), PRODUCT_PIECES};
  const Rows normal = rows_at((unsigned char *)ring.pieces + RING_BYTES(PRODUCT_PIECES), CHANNELS, 1);
  unsigned char *wide = (unsigned char *)(normal.data + ROWS * normal.stride);
  const Rows heard = rows_at(wide, width, 1), input = rows_at(wide, before_width, 1);
  fetch(thread, of.x + (row - frame) * width, frame - 2, ROWS + 2, heard);
  auto feed = start<OWN>(at, ring, of.conv, rank * OWN, 3 * width);
  WAIT_COPIES(decltype(feed)::STAGES - 1);
  SYNC();
  if (SHARE > 1) meet<SHARE>();  // the others are there
  product<TILES>(at, heard, feed, of.conv_bias, [&](const int r, const int c, const float a, const float b) {
    tell<SHARE>((float2 *)stream.at(r, c), {a, b});
  });
  arrive<SHARE>();
  if (second) feed = start<OWN>(at, ring, of.res, rank * OWN, before_width);
  meet<SHARE>();
  if (second) fetch(thread, of.before + row * before_width, 0, ROWS, input);
  normalize<TILES>(at, stream.data, of.gain, of.shift, [&](const int r, const int c, const float a, const float b) {
    const uint both = second ? 0 : *(const uint *)(of.time + c);
    float *here = stream.at(r, c);
    here[0] = mish(a) + low(both);
    here[1] = mish(b) + high(both);
  });
  if (second) WAIT_COPIES(0);
  arrive<SHARE>();
  meet<SHARE>();  // all have normalized the whole stream
  if (second) {
    product<TILES>(at, input, feed, of.res_bias, [&](const int r, const int c, const float a, const float b) {
      float2 *here = (float2 *)stream.at(r, c);
      tell<SHARE>(here, {here->x + a, here->y + b});
    });
    arrive<SHARE>();
  }
  auto next = second ? start<OWN_NEXT>(at, ring, of.qkv, rank * OWN_NEXT, CHANNELS) : Feed<at_once(OWN_NEXT)>{};
  if (second) meet<SHARE>();
  stream.template store<OWN>(thread, rank * OWN, to.x + row * CHANNELS);
  if (second) project<TILES, SHARE>(at, next, stream.data, normal, row, frames, of.gain1, of.shift1, to);
}
