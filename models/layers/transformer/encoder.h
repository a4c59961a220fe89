// A whole encoder of few rows as one kernel, behind products.h and attention.h: embeddings, all layers, and the keys and
// values that a decoder's layers make of their output. As in step.h, barriers of the grid lie between the phases.

// A layer's vectors, bfloat16: two norms (gain, shift), and the biases of its four products.
#define AT_ENCODER_QKV (4 * HIDDEN)
#define AT_ENCODER_OUT (AT_ENCODER_QKV + 3 * HIDDEN)
#define AT_ENCODER_FC1 (AT_ENCODER_OUT + HIDDEN)
#define AT_ENCODER_FC2 (AT_ENCODER_FC1 + INNER)
#define ENCODER_VECTORS (AT_ENCODER_FC2 + HIDDEN)

#define AT_KEYS AT_BEST  // of what blocks exchange: a layer's keys and values

typedef struct {
  Matrix qkv, out, fc1, fc2;       // of all layers, [LAYERS, outputs, inputs]
  Matrix table, memory;            // embeddings; [MEMORIES, 2 HIDDEN, HIDDEN]
  GLOBAL const ushort *vectors;    // [LAYERS, ENCODER_VECTORS], the last norm's, the bias of `memory`
  GLOBAL const ushort *positions;  // [.., HIDDEN]
} EncoderWeights;

// Reads ids [sentences, each], `rows` in all. `mask` [sentences, each] is minus infinity on padding. `memory` gets
// [MEMORIES, sentences, 2 HEADS, each, HEAD]: no numbers after a barrier that had to be given up.
INLINE void encode(Where at, EncoderWeights of, GLOBAL const int *ids, GLOBAL const ushort *mask, int rows, int each,
                   GLOBAL ushort *memory, GLOBAL int *counters, GLOBAL float *x, SHARED float *shared) {
  GLOBAL const ushort *vectors = of.vectors, *last = of.vectors + LAYERS * ENCODER_VECTORS;
  SHARED ushort *normal = (SHARED ushort *)shared;
  Arrays to = {x, x, x + AT_QUERY, (GLOBAL ushort *)(x + AT_KEYS), (GLOBAL ushort *)(x + AT_MIXED),
               (GLOBAL ushort *)(x + AT_INNER), rows, 0, each, 0, each, 0};
  const Turn turn = {counters, 0, 0};
  Ahead ahead;
  int met = 0, failed = 0;
  embed(at, rows, each, ids, of.table, of.positions, x);
  MEET(NEXT_NORMED(QKV, of.qkv, AT_ENCODER_QKV, 0));
  for (int layer = 0; layer < LAYERS; ++layer) {
    const long square = (long)layer * HIDDEN * HIDDEN, wide = (long)layer * INNER * HIDDEN;
    vectors = of.vectors + layer * ENCODER_VECTORS;
    normalize(at, x, rows, &ahead, shared);
    product(at, QKV, moved(of.qkv, 3 * square), vectors + AT_ENCODER_QKV, to, &ahead, shared);
    MEET(NEXT(MIX, moved(of.out, square), AT_ENCODER_OUT));
    attend(at, 0, rows, each, each, each, to.query, to.cache, 0, mask, 1, turn, x, to.mixed, shared);
    MEET((void)0);
    product(at, MIX, moved(of.out, square), vectors + AT_ENCODER_OUT, to, &ahead, shared);
    MEET(NEXT_NORMED(FEED, moved(of.fc1, wide), AT_ENCODER_FC1, 2 * HIDDEN));
    normalize(at, x, rows, &ahead, shared);
    product(at, FEED, moved(of.fc1, wide), vectors + AT_ENCODER_FC1, to, &ahead, shared);
    MEET(NEXT(FEED_MIX, moved(of.fc2, wide), AT_ENCODER_FC2));
    product(at, FEED_MIX, moved(of.fc2, wide), vectors + AT_ENCODER_FC2, to, &ahead, shared);
    MEET(norm_load(at, vectors + ENCODER_VECTORS, &ahead); if (layer + 1 < LAYERS)
             NEXT(QKV, moved(of.qkv, 3 * square + 3L * HIDDEN * HIDDEN), ENCODER_VECTORS + AT_ENCODER_QKV);
         else product_load(at, MEMORY, of.memory, last + 2 * HIDDEN, to, &ahead));
  }
  normalize(at, x, rows, &ahead, shared);
  if (ANY(failed))
    for (int i = at.index; i < COLUMNS * STRIDE; i += THREADS) normal[i] = 0x7fc0;
  SYNC();
  to.cache = memory;
  product(at, MEMORY, of.memory, last + 2 * HIDDEN, to, &ahead, shared);
  PART(at.index, at.blocks, counters);
}
