// Snake and a convolution of 16 * TILES rows: a step of the vocoder's residual blocks.
//
// Expected: CHANNELS, a multiple of 64 that divides 2048, `snake`, and products.h.

// Columns of a block of threads: half of them where there are few rows, so that each reads half of the weights.
constexpr int columns_of(const int tiles) { return tiles == 1 && CHANNELS > 128 ? CHANNELS / 2 : CHANNELS; }

struct Unit {
  const float *x, *mask;     // [rows, CHANNELS], and [rows], 0 where a row is padding
  const float *onto;         // what the result is added to, or null
  const ushort *weights;     // pieces of [CHANNELS, taps * CHANNELS]
  const float *terms;        // [3, CHANNELS]: what is added to x, cycles of the sine, and what it is multiplied by
  float *made;
  int rows, taps, dilation;
};

// Rows `first` ... of x, activated, to shared memory; zeros before the start and on padding.
INLINE void activate(const int thread, const Unit &of, const int first, const Rows &to, const int count) {
  constexpr int LANES_OF_ROW = CHANNELS / 8, AT_ONCE = THREADS / LANES_OF_ROW, AHEAD = 4;
  const int c = thread % LANES_OF_ROW * 8;
  float shift[8], rate[8], inverse[8];
  UNROLL
  for (int i = 0; i < 8; ++i) {
    shift[i] = of.terms[c + i];
    rate[i] = of.terms[CHANNELS + c + i];
    inverse[i] = of.terms[2 * CHANNELS + c + i];
  }
  ROLLED
  for (int r = thread / LANES_OF_ROW; r < count; r += AT_ONCE * AHEAD) {
    float4 given[AHEAD][2];
    bool valid[AHEAD];
    UNROLL
    for (int j = 0; j < AHEAD; ++j) {
      const int row = first + r + j * AT_ONCE, safe = min(max(row, 0), of.rows - 1);
      const float4 *from = (const float4 *)(of.x + ((long)safe * CHANNELS + c));
      given[j][0] = from[0];
      given[j][1] = from[1];
      valid[j] = row == safe && of.mask[safe] != 0.0f;
    }
    UNROLL
    for (int j = 0; j < AHEAD; ++j) {
      if (r + j * AT_ONCE >= count) break;
      const float v[8] = {given[j][0].x, given[j][0].y, given[j][0].z, given[j][0].w,
                          given[j][1].x, given[j][1].y, given[j][1].z, given[j][1].w};
      float y[8];
      UNROLL
      for (int i = 0; i < 8; ++i) {
        const float moved = v[i] + shift[i];
        y[i] = valid[j] ? snake(moved, moved * rate[i], inverse[i]) : 0.0f;
      }
      *(uint4 *)(to.data + ((r + j * AT_ONCE) * to.stride + c)) = {
          PACKED(y[0], y[1]), PACKED(y[2], y[3]), PACKED(y[4], y[5]), PACKED(y[6], y[7])};
    }
  }
}

// Rows from 16 * TILES * tile on, and part `part` of the columns.
template <int TILES>
INLINE void snake_conv(const int thread, const int tile, const int part, const Unit &of, unsigned char *room) {
  constexpr int ROWS = 16 * TILES, COLUMNS = columns_of(TILES);
  const At at = {thread / 32, thread % 32, thread % 4, thread % 32 / 4};
  const Ring ring = {(uint4 *)room, PRODUCT_PIECES};
  const Rows heard = rows_at(room + RING_BYTES(PRODUCT_PIECES), CHANNELS, of.dilation);
  const int first = tile * ROWS, reach = (of.taps - 1) * of.dilation;
  auto feed = start<COLUMNS>(at, ring, of.weights, part * COLUMNS, of.taps * CHANNELS);
  activate(thread, of, first - reach / 2, heard, ROWS + reach);
  SYNC();
  product<TILES>(at, heard, feed, nullptr, [&](const int r, const int c, const float a, const float b) {
    if (first + r >= of.rows) return;
    const long to = (long)(first + r) * CHANNELS + c;
    const float2 start = of.onto ? *(const float2 *)(of.onto + to) : float2{0.0f, 0.0f};
    *(float2 *)(of.made + to) = {start.x + a, start.y + b};
  });
}
