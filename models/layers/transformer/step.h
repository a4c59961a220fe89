// One decoding step as one kernel: all layers' phases, between them a barrier of the whole grid, in two halves. With few
// rows attention needs no such barrier: it waits for the words of its own head.
//
// Every block must be resident at once: the grid is no larger than the device's processors. Between a block's arrival
// and the end of its wait it issues the loads of its next weights: memory is read while blocks wait for each other.

// What a step ends with: each row's likeliest token, or each row's normalized output. A step without a free place, or
// with a barrier that had to be given up, ends with -1 or NaN, and without a place for the next.
#define TOKENS 0
#define OUTPUTS 1

#define MIN_SHARED 256  // keys, of which it pays to share out a row's; each layer has one more barrier then

typedef struct {
  Matrix qkv, out, query, cross, fc1, fc2;  // of all layers, [LAYERS, outputs, inputs]
  Matrix table, head;                       // embeddings; output rows
  GLOBAL const ushort *vectors;             // [LAYERS, LAYER_VECTORS], then the last norm's
  GLOBAL const ushort *positions;           // [.., HIDDEN]
  GLOBAL const ushort *banned;              // [count]
  GLOBAL const int *entries;                // [count], tokens of the output rows
  int count;                                // output rows
} Weights;

typedef struct {
  GLOBAL const int *ids, *origin;           // [sentences, each]; [sentences, length]
  GLOBAL const ushort *mask;                // [sentences, source]
  GLOBAL ushort *SHARED *past, *SHARED *memory;  // keys and values of each layer
  int rows, each, readers, place, length, source, ending;  // `readers`: rows that read the same memory
} Given;

typedef struct {
  GLOBAL int *tokens, *next;  // [rows]; the place after the last
  GLOBAL ushort *hidden;      // [rows, HIDDEN]
} Made;

// Blocks need not meet for words. But rows of one sentence see each other's keys, which are none.
#define BEFORE_ATTENTION(needed, loads) \
  if (!WORDS || (needed)) {             \
    MEET(loads);                        \
  } else {                              \
    loads;                              \
  }

INLINE void step(Where at, Weights of, Given given, Made made, GLOBAL int *counters, GLOBAL float *x,
                 SHARED float *shared) {
  GLOBAL const ushort *vectors = of.vectors;
  SHARED ushort *normal = (SHARED ushort *)shared;
  Arrays to = {x, x, x + AT_QUERY, given.past[0], (GLOBAL ushort *)(x + AT_MIXED), (GLOBAL ushort *)(x + AT_INNER),
               given.rows, 0, given.each, given.place, given.length, 0};
  // Parts of a row's attention to the encoder's output: as many as there are blocks for, where it is long.
  const int most_parts = at.blocks * TILES / (given.rows * HEADS);
  const int parts = given.source > MIN_SHARED && most_parts > 1 ? most_parts : 1;
  GLOBAL float *partial = x + AT_PARTIAL(at.blocks);
  Turn turn = {counters, 0, 0};
  Ahead ahead;
  int met = 0, failed = given.place + given.each > given.length;
  if (failed) to.place = 0;
  turn.failed = failed;
  for (int i = at.block * THREADS + at.index; WORDS && i < WORD(given.rows, 0, 0); i += at.blocks * THREADS)
    POST(to.query + i, 0.0f);
  embed(at, given.rows, given.each, given.ids, of.table, of.positions + (long)to.place * HIDDEN, x);
  MEET(NEXT_NORMED(QKV, of.qkv, AT_BIAS_QKV, 0));
  for (int layer = 0; layer < LAYERS; ++layer) {
    const long square = (long)layer * HIDDEN * HIDDEN, wide = (long)layer * INNER * HIDDEN;
    vectors = of.vectors + layer * LAYER_VECTORS;
    to.cache = given.past[layer];
    normalize(at, x, given.rows, &ahead, shared);
    turn.number = to.turn = 2 * layer + 1;
    product(at, QKV, moved(of.qkv, 3 * square), vectors + AT_BIAS_QKV, to, &ahead, shared);
    BEFORE_ATTENTION(given.each > 1, NEXT(MIX, moved(of.out, square), AT_BIAS_OUT));
    attend(at, 0, given.rows, given.each, to.place + 1, given.length, to.query, to.cache, given.origin, 0, 1, turn,
           x, to.mixed, shared);
    MEET((void)0);
    product(at, MIX, moved(of.out, square), vectors + AT_BIAS_OUT, to, &ahead, shared);
    MEET(NEXT_NORMED(QUERY, moved(of.query, square), AT_BIAS_QUERY, 2 * HIDDEN));
    normalize(at, x, given.rows, &ahead, shared);
    turn.number = to.turn = 2 * layer + 2;
    product(at, QUERY, moved(of.query, square), vectors + AT_BIAS_QUERY, to, &ahead, shared);
    BEFORE_ATTENTION(0, NEXT(MIX, moved(of.cross, square), AT_BIAS_CROSS));
    attend(at, 0, given.rows, given.readers, given.source, given.source, to.query, given.memory[layer], 0, given.mask,
           parts, turn, partial, to.mixed, shared);
    if (parts > 1) {
      MEET((void)0);
      combine(at, given.rows, parts, partial, to.mixed);
    }
    MEET((void)0);
    product(at, MIX, moved(of.cross, square), vectors + AT_BIAS_CROSS, to, &ahead, shared);
    MEET(NEXT_NORMED(FEED, moved(of.fc1, wide), AT_BIAS_FC1, 4 * HIDDEN));
    normalize(at, x, given.rows, &ahead, shared);
    product(at, FEED, moved(of.fc1, wide), vectors + AT_BIAS_FC1, to, &ahead, shared);
    MEET(NEXT(FEED_MIX, moved(of.fc2, wide), AT_BIAS_FC2));
    product(at, FEED_MIX, moved(of.fc2, wide), vectors + AT_BIAS_FC2, to, &ahead, shared);
    MEET(norm_load(at, vectors + LAYER_VECTORS, &ahead); if (layer + 1 < LAYERS)
             NEXT(QKV, moved(of.qkv, 3 * square + 3L * HIDDEN * HIDDEN), LAYER_VECTORS + AT_BIAS_QKV);
         else if (given.ending == TOKENS) search_start(at, of.head, of.count, &ahead));
  }
  normalize(at, x, given.rows, &ahead, shared);
  if (given.ending == OUTPUTS) {
    const ushort spoilt = ANY(failed) ? 0x7fc0 : 0;  // no number
    for (int row = at.block; row < given.rows; row += at.blocks)
      for (int i = at.index; i < HIDDEN; i += THREADS)
        made.hidden[row * HIDDEN + i] = spoilt | normal[row * STRIDE + i];
  }
  if (given.ending == TOKENS) {
    search(at, given.rows, of.count, of.head, of.banned, &ahead, x + AT_BEST, shared);
    MEET((void)0);
    choose(at, given.rows, at.blocks, x + AT_BEST, of.entries, ANY(failed), made.tokens);
  }
  if (at.block == 0) {
    const int next = ANY(failed) ? given.length : given.place + given.each;
    if (at.index < 16) made.next[at.index] = next;
  }
  PART(at.index, at.blocks, counters);
}
