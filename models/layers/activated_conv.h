// A convolution of 16 * TILES rows after their activation, with AdaIN before it where the network has it: a step of a
// residual block.
//
// AdaIN needs the moments of all rows. A tile writes those of its own result, mean and sum of squared deviations, and
// the last tile of a run combines them; the next step combines the runs.
//
// Expected: tensor_product.h; INPUTS and OUTPUTS, multiples of 64; PART_COLUMNS of a block of threads, which divide
// OUTPUTS; EPS; and the activation: SNAKE, or LEAKY, a slope. POOLED is 1 if a depthwise transposed convolution doubles the
// activated rows, else 0.

#define MAX_CHAINS 8
#define MAX_RUNS 64
#define PARTS (OUTPUTS / PART_COLUMNS)

INLINE int parts(const int count, const int size) { return (count + size - 1) / size; }

// Tiles of a run: eight, and more where there would be more than MAX_RUNS runs.
INLINE int run_of(const int tiles) { return max(8, parts(tiles, MAX_RUNS)); }

// Moments of `valid` rows in runs of `each`: [runs, 2, INPUTS], the mean and the sum of squared deviations.
struct Moments {
  const float *data;
  int runs, each, valid;

  INLINE_MEMBER float count(const int run) const { return (float)max(0, min(each, valid - run * each)); }
};

struct Unit {
  const float *x;         // [rows, INPUTS], or half as many rows if POOLED
  const float *onto;      // what the result is added to [rows, OUTPUTS], or every second row of it; or null
  const float *bias;      // [OUTPUTS], or null. With a bias the result is divided by the root of two
  const float *after;     // what is added then [rows, OUTPUTS], or null
  const ushort *weights;  // pieces of [OUTPUTS, taps * INPUTS]
  const float *terms;     // SNAKE: [3, INPUTS], what is added to x, angle of the sine, and what it is multiplied by;
                          // POOLED: [4, INPUTS], three taps and the bias
  const float *affine;    // AdaIN's gamma and beta [2, INPUTS], or null: x is shifted by its term alone
  Moments moments;        // of x, for AdaIN
  float *made;            // [rows, OUTPUTS], zero on padding
  float *runs, *tiles;    // the result's moments, for the next AdaIN: of runs and of tiles; or null
  int *counters;          // [runs, PARTS], 0
  int rows, valid, taps, dilation, doubled;  // doubled: a row of `onto` is that of two
};

#define QUADS (INPUTS / 4)
#define TEAMS (THREADS / QUADS > 1 ? THREADS / QUADS : 1)  // of threads that share the runs of the same columns

// Scale and shift of the activation's inputs, [2, INPUTS], to shared memory. `scratch` has 2 * TEAMS * INPUTS places.
INLINE void affine_of(const int thread, const Unit &of, float *made, float *scratch) {
  constexpr int AHEAD = 4;
#ifdef SNAKE
  if (!of.affine) {
    for (int c = thread; c < INPUTS; c += THREADS) {
      made[c] = 1.0f;
      made[INPUTS + c] = of.terms[c];
    }
    return;
  }
#endif
  ROLLED
  for (int unit = thread; unit < QUADS * TEAMS; unit += THREADS) {
    const int quad = 4 * (unit % QUADS), team = unit / QUADS;
    const float4 pivot = *(const float4 *)(of.moments.data + quad);
    float4 first = {0.0f, 0.0f, 0.0f, 0.0f}, second = {0.0f, 0.0f, 0.0f, 0.0f};
    ROLLED
    for (int start = team; start < of.moments.runs; start += TEAMS * AHEAD) {
      float4 mean[AHEAD], square[AHEAD];
      UNROLL
      for (int j = 0; j < AHEAD; ++j) {
        const int run = min(start + j * TEAMS, of.moments.runs - 1);
        mean[j] = *(const float4 *)(of.moments.data + (2 * run * INPUTS + quad));
        square[j] = *(const float4 *)(of.moments.data + ((2 * run + 1) * INPUTS + quad));
      }
      UNROLL
      for (int j = 0; j < AHEAD; ++j) {
        const float count = start + j * TEAMS < of.moments.runs ? of.moments.count(start + j * TEAMS) : 0.0f;
        if (count == 0.0f) continue;  // nobody wrote this
        const float x = mean[j].x - pivot.x, y = mean[j].y - pivot.y, z = mean[j].z - pivot.z, w = mean[j].w - pivot.w;
        first = {fmaf(count, x, first.x), fmaf(count, y, first.y), fmaf(count, z, first.z), fmaf(count, w, first.w)};
        second = {second.x + fmaf(count * x, x, square[j].x), second.y + fmaf(count * y, y, square[j].y),
                  second.z + fmaf(count * z, z, square[j].z), second.w + fmaf(count * w, w, square[j].w)};
      }
    }
    *(float4 *)(scratch + (2 * team * INPUTS + quad)) = first;
    *(float4 *)(scratch + ((2 * team + 1) * INPUTS + quad)) = second;
  }
  SYNC();
  for (int c = thread; c < INPUTS; c += THREADS) {
    float sum = 0.0f, square = 0.0f;
    for (int i = 0; i < TEAMS; ++i) {
      sum += scratch[2 * i * INPUTS + c];
      square += scratch[(2 * i + 1) * INPUTS + c];
    }
    const float count = fmaxf((float)of.moments.valid, 1.0f), apart = sum / count, mean = of.moments.data[c] + apart;
    const float scale = (1.0f + of.affine[c]) * RSQRT(fmaxf(square / count - apart * apart, 0.0f) + EPS);
    made[c] = scale;
    made[INPUTS + c] = of.affine[INPUTS + c] - mean * scale;
  }
}

INLINE void eight(const float *from, float (&to)[8]) {
  const float4 a = ((const float4 *)from)[0], b = ((const float4 *)from)[1];
  to[0] = a.x; to[1] = a.y; to[2] = a.z; to[3] = a.w; to[4] = b.x; to[5] = b.y; to[6] = b.z; to[7] = b.w;
}

// Activates eight neighboring columns, whose terms it holds.
struct Activation {
  float scale[8], shift[8];
#ifdef SNAKE
  float angle[8], inverse[8];
#endif

  INLINE_MEMBER void read(const float *affine, const float *terms, const int c) {
    eight(affine + c, scale);
    eight(affine + INPUTS + c, shift);
#ifdef SNAKE
    eight(terms + INPUTS + c, angle);
    eight(terms + 2 * INPUTS + c, inverse);
#endif
  }

  INLINE_MEMBER float of(const float v, const int i) const {
    const float moved = fmaf(v, scale[i], shift[i]);
#ifdef SNAKE
    const float sine = SINE(moved * angle[i]);  // its error is far below that of the product's half precision
    return fmaf(sine * inverse[i], sine, moved);
#else
    return moved > 0.0f ? moved : LEAKY * moved;
#endif
  }
};

// Rows `first` ... of x, activated, to shared memory; zeros before the start and on padding.
INLINE void activate(
    const int thread, const Unit &of, const float *affine, const int first, const Rows &to, const int count
) {
  constexpr int LANES_OF_ROW = INPUTS / 8, AHEAD = 4;
  constexpr bool SAME = THREADS % LANES_OF_ROW == 0;  // columns of a thread, in all its rows
  Activation activation;
  if (SAME) activation.read(affine, of.terms, thread % LANES_OF_ROW * 8);
  ROLLED
  for (int start = thread; start < count * LANES_OF_ROW; start += THREADS * AHEAD) {
    float given[AHEAD][8];
#if POOLED
    float next[AHEAD][8];
#endif
    UNROLL
    for (int j = 0; j < AHEAD; ++j) {
      const int i = start + j * THREADS, row = first + i / LANES_OF_ROW, c = i % LANES_OF_ROW * 8;
#if POOLED
      const int own = min(max(row >> 1, 0), of.moments.valid - 1), after = min(own + 1, of.moments.valid - 1);
      eight(of.x + ((long)after * INPUTS + c), next[j]);
#else
      const int own = min(max(row, 0), of.valid - 1);
#endif
      eight(of.x + ((long)own * INPUTS + c), given[j]);
    }
    UNROLL
    for (int j = 0; j < AHEAD; ++j) {
      const int i = start + j * THREADS, r = i / LANES_OF_ROW, row = first + r, c = i % LANES_OF_ROW * 8;
      if (r >= count) break;
      if (!SAME) activation.read(affine, of.terms, c);
      float y[8];
      UNROLL
      for (int n = 0; n < 8; ++n) {
        y[n] = activation.of(given[j][n], n);
#if POOLED
        const float *taps = of.terms + c + n;
        const float more = (row >> 1) + 1 < of.moments.valid ? activation.of(next[j][n], n) : 0.0f;
        y[n] = taps[3 * INPUTS] + (row & 1 ? fmaf(y[n], taps[2 * INPUTS], more * taps[0]) : y[n] * taps[INPUTS]);
#endif
      }
      uint4 packed = {
          PACKED_HALF(y[0], y[1]), PACKED_HALF(y[2], y[3]), PACKED_HALF(y[4], y[5]), PACKED_HALF(y[6], y[7])};
      if (row < 0 || row >= of.valid) packed = {0, 0, 0, 0};
      *(uint4 *)(to.data + (r * to.stride + c)) = packed;
    }
  }
}

// Adds a lane's share of rows, eight of them `step` apart, to its sums. All are read before anything is written.
template <int TILES, int AT_ONCE>
INLINE void add(const float *from, const long step, const int alive, float (&sums)[TILES][AT_ONCE][4]) {
  UNROLL
  for (int n = 0; n < AT_ONCE; ++n)
    UNROLL
    for (int i = 0; i < 2 * TILES; ++i) {
      const float2 v = 8 * i < alive ? *(const float2 *)(from + (i * step + 8 * n)) : float2{0.0f, 0.0f};
      sums[i / 2][n][i % 2 * 2] += v.x;
      sums[i / 2][n][i % 2 * 2 + 1] += v.y;
    }
}

// Writes a lane's share of the moments of `count` rows, of which it holds every eighth, as far as they are `alive`.
template <int TILES, int AT_ONCE>
INLINE void post_moments(
    const At &at, float *to, const int count, const int alive, const float (&values)[TILES][AT_ONCE][4]
) {
  const float share = DIVIDE(1.0f, (float)count);
  float means[AT_ONCE][2] = {}, squares[AT_ONCE][2] = {};
  UNROLL
  for (int n = 0; n < AT_ONCE; ++n)
    UNROLL
    for (int side = 0; side < 2; ++side) {
      float &mean = means[n][side], &square = squares[n][side];
      UNROLL
      for (int i = 0; i < 2 * TILES; ++i) mean += values[i / 2][n][i % 2 * 2 + side];
      UNROLL
      for (int mask = 4; mask < 32; mask *= 2) mean += LANE_XOR(mean, mask);
      mean *= share;
      UNROLL
      for (int i = 0; i < 2 * TILES; ++i) {
        const float apart = 8 * i < alive ? values[i / 2][n][i % 2 * 2 + side] - mean : 0.0f;
        square = fmaf(apart, apart, square);
      }
      UNROLL
      for (int mask = 4; mask < 32; mask *= 2) square += LANE_XOR(square, mask);
    }
  if (at.group) return;
  UNROLL
  for (int n = 0; n < AT_ONCE; ++n)
    UNROLL
    for (int side = 0; side < 2; ++side) {
      POST(to + (8 * n + side), means[n][side]);
      POST(to + (OUTPUTS + 8 * n + side), squares[n][side]);
    }
}

// The last tile of a run combines the moments of all.
INLINE void combine(const int thread, const int run, const int first, const int rows, const Unit &of) {
  constexpr int AHEAD = 8;
  const int tiles = parts(of.rows, rows), each = run_of(tiles), begin = run * each;
  const int end = min(begin + each, parts(of.valid, rows));
  for (int c = first + thread; c < first + PART_COLUMNS; c += THREADS) {
    float pivot = 0.0f, sum = 0.0f, square = 0.0f, count = 0.0f;
    ROLLED
    for (int start = begin; start < end; start += AHEAD) {
      float mean[AHEAD], apart[AHEAD];
      UNROLL
      for (int j = 0; j < AHEAD; ++j) {
        const int tile = min(start + j, end - 1);
        mean[j] = FETCH(of.tiles + (2 * tile * OUTPUTS + c));
        apart[j] = FETCH(of.tiles + ((2 * tile + 1) * OUTPUTS + c));
      }
      if (start == begin) pivot = mean[0];
      UNROLL
      for (int j = 0; j < AHEAD; ++j) {
        if (start + j >= end) break;
        const float here = (float)min(rows, of.valid - (start + j) * rows), d = mean[j] - pivot;
        sum = fmaf(here, d, sum);
        square += fmaf(here * d, d, apart[j]);
        count += here;
      }
    }
    of.runs[2 * run * OUTPUTS + c] = pivot + sum / count;
    of.runs[(2 * run + 1) * OUTPUTS + c] = fmaxf(square - sum * sum / count, 0.0f);
  }
}

// Rows from 16 * TILES * tile on, and part `part` of the columns.
template <int TILES>
INLINE void activated_conv(const int thread, const int tile, const int part, const Unit &of, unsigned char *room) {
  constexpr int ROWS = 16 * TILES, AT_ONCE = at_once(PART_COLUMNS);
  const At at = {thread / 32, thread % 32, thread % 4, thread % 32 / 4};
  const Ring ring = {(uint4 *)room, PRODUCT_PIECES};
  float *affine = (float *)(room + RING_BYTES(PRODUCT_PIECES));
  const Rows heard = rows_at((unsigned char *)(affine + 2 * INPUTS), INPUTS, of.dilation);
  const int first = tile * ROWS, reach = (of.taps - 1) * of.dilation;
  if (first >= of.valid) {
    const float4 none = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = 4 * thread; i < min(ROWS, of.rows - first) * PART_COLUMNS; i += 4 * THREADS)
      *(float4 *)(of.made + ((long)(first + i / PART_COLUMNS) * OUTPUTS + part * PART_COLUMNS + i % PART_COLUMNS)) = none;
    return;
  }
  auto feed = start<PART_COLUMNS>(at, ring, of.weights, part * PART_COLUMNS, of.taps * INPUTS);
  affine_of(thread, of, affine, (float *)heard.data);
  SYNC();
  activate(thread, of, affine, first - reach / 2, heard, ROWS + reach);
  SYNC();
  int stage = 0;
  ROLLED
  for (int group = at.warp; group < feed.groups; group += WARPS) {
    float sums[TILES][AT_ONCE][4] = {};
    multiply(at, heard, feed, stage, sums);
    const int c = part * PART_COLUMNS + group * AT_ONCE * 8 + 2 * at.quad, row = first + at.group, alive = of.valid - row;
    const long to = (long)row * OUTPUTS + c, step = 8 * OUTPUTS;
    if (of.onto) add(of.onto + ((long)(row >> of.doubled) * OUTPUTS + c), step >> of.doubled, alive, sums);
    if (of.bias)
      UNROLL
      for (int n = 0; n < AT_ONCE; ++n) {
        const float2 bias = *(const float2 *)(of.bias + (c + 8 * n));
        UNROLL
        for (int i = 0; i < 4 * TILES; ++i) {
          float &sum = sums[i / 4][n][i % 4];
          sum = (sum + (i % 2 ? bias.y : bias.x)) * 0.70710678f;
        }
      }
    if (of.after) add(of.after + to, step, alive, sums);
    UNROLL
    for (int n = 0; n < AT_ONCE; ++n)
      UNROLL
      for (int i = 0; i < 2 * TILES; ++i) {
        float *both = sums[i / 2][n] + i % 2 * 2;
        if (8 * i >= alive) both[0] = both[1] = 0.0f;
        if (row + 8 * i < of.rows) *(float2 *)(of.made + (to + i * step + 8 * n)) = {both[0], both[1]};
      }
    if (of.runs) post_moments(at, of.tiles + (2 * tile * OUTPUTS + c), min(ROWS, of.valid - first), alive, sums);
  }
  if (!of.runs) return;
  const int each = run_of(parts(of.rows, ROWS)), run = tile / each;
  const int others = min(each, parts(of.valid, ROWS) - run * each);
  if (LAST(thread, of.counters + run * PARTS + part, others)) combine(thread, run, part * PART_COLUMNS, ROWS, of);
}
