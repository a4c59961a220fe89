// One decoding step as one kernel: all layers' phases, between them a barrier of the whole grid, in two halves. Only
// attention needs no such barrier: it waits for the words of its own head.
//
// Every block must be resident at once: the grid is no larger than the device's processors. Between a block's arrival
// and the end of its wait it issues loads of its next weights: memory is read while blocks wait for each other. Not
// before it arrives: the fence of an arrival waits for what is under way. Nor all of them: what blocks exchange, and the
// word that they poll, queue behind what memory is still to deliver. On an H100 these cost more than they save, ms
// a token: hints that bring later weights into L2 (0.06), copies to shared memory a phase (0.02) or a layer ahead (0.1),
// and words that all threads poll in place of all barriers (0.3). PIECES is 1.

typedef struct {
  GLOBAL const ushort *speech, *learned;              // tables [VOCABULARY, HIDDEN], [positions, HIDDEN]
  GLOBAL const Chunk *qkv, *out, *gate_up, *down;     // products of all layers, [LAYERS, outputs, inputs]
  GLOBAL const Chunk *head;                           // [VOCABULARY, HIDDEN]
  GLOBAL const float *gains, *rope;                   // [2 LAYERS + 1, HIDDEN]; [positions, 64], cosines and sines
  GLOBAL const float *terms;                          // if BIASED, [LAYERS LAYER_TERMS + 2 VOCABULARY]
} Weights;

// Reads `token`, at row `place` of the caches (`length` rows) and position `position` of speech. `caches` points to one
// a layer, [BATCH, 2 HEADS, length, 64]; `x` to EXCHANGE_FLOATS of scratch. The logits are NaN without a free row, after
// a token below 0, which such logits give, and when a barrier had to be given up.
INLINE void step(Where at, Weights of, int token, int place, int position, int length, GLOBAL ushort *SHARED *caches,
                 GLOBAL int *counters, GLOBAL float *x, GLOBAL float *logits, SHARED float *shared) {
  GLOBAL float *words = x + AT_WORDS, *weights = x + AT_WEIGHTS;
  GLOBAL ushort *parts = (GLOBAL ushort *)(x + AT_PARTS), *inner = (GLOBAL ushort *)(x + AT_INNER);
  uint4 w[MAX_READS], kv[2];
  Terms of_pair;
  float4 gain[ROW_READS];
  float bias;
  int met = 0, failed = place >= length || token < 0;
  if (failed) token = place = position = 0;
  embed(at, of.speech + (long)token * HIDDEN, of.learned + (long)(ABSOLUTE ? place : position) * HIDDEN, x);
  forget(at, words);
  ARRIVE(at.index, counters, &met, &failed);
  gain_load(at, of.gains, gain);
  project_load(at, of.qkv, of.terms, 0, 0, PROJECT_AHEAD, w, &of_pair);
  WAIT(at.index, at.blocks, counters, &met, &failed);
  for (int layer = 0; layer < LAYERS; ++layer) {
    const int last = layer + 1 == LAYERS;
    GLOBAL const Chunk *qkv = of.qkv + (long)layer * 3 * HIDDEN * ROW;
    GLOBAL const Chunk *out = of.out + (long)layer * HIDDEN * ROW;
    GLOBAL const Chunk *gate_up = of.gate_up + (long)layer * 2 * GATE_PAIRS * ROW;
    GLOBAL const Chunk *down = of.down + (long)layer * HIDDEN * (INNER / CHUNK);
    GLOBAL const float *gains = of.gains + layer * 2 * HIDDEN, *terms = of.terms + (BIASED ? layer * LAYER_TERMS : 0);
    GLOBAL ushort *cache = caches[layer];
    project(at, w, &of_pair, qkv, terms, x, gain, of.rope + (ROTARY ? place * HEAD : 0), place, length, layer + 1,
            words, cache, shared);
    attend_load(at, cache, place, length, kv);
    mix_load(at, out, terms + AT_OUT_BIAS, HIDDEN, HIDDEN, 0, 0, PAIR, w, &bias);
    attend(at, kv, words, layer + 1, counters, failed, cache, place, length, parts, weights, shared);
    ARRIVE(at.index, counters, &met, &failed);
    WAIT(at.index, at.blocks, counters, &met, &failed);
    stash_attended(at, parts, weights, shared);
    mix(at, w, bias, out, terms + AT_OUT_BIAS, HIDDEN, HIDDEN, x, x, shared);
    ARRIVE(at.index, counters, &met, &failed);
    gain_load(at, gains + HIDDEN, gain);
    gate_load(at, gate_up, terms + AT_GATE_TERMS, 0, 0, GATE_AHEAD, w, &of_pair);
    WAIT(at.index, at.blocks, counters, &met, &failed);
    gate(at, w, &of_pair, gate_up, terms + AT_GATE_TERMS, x, gain, inner, shared);
    ARRIVE(at.index, counters, &met, &failed);
    mix_load(at, down, terms + AT_DOWN_BIAS, INNER, INNER, 0, 0, DOWN_AHEAD, w, &bias);
    WAIT(at.index, at.blocks, counters, &met, &failed);
    mix_inner(at, w, bias, down, terms + AT_DOWN_BIAS, inner, x, x, shared);
    ARRIVE(at.index, counters, &met, &failed);
    gain_load(at, gains + 2 * HIDDEN, gain);
    if (!last) {
      project_load(at, qkv + 3L * HIDDEN * ROW, terms + LAYER_TERMS, 0, 0, PROJECT_AHEAD, w, &of_pair);
    } else {
      logits_load(at, of.head, terms + LAYER_TERMS, 0, 0, HEAD_AHEAD, w, &of_pair);
    }
    WAIT(at.index, at.blocks, counters, &met, &failed);
  }
  const float spoilt = ANY(failed) ? BITS_FLOAT(0x7fc00000u) : 0.0f;
  logits_of(at, w, &of_pair, of.head, of.terms + (BIASED ? LAYERS * LAYER_TERMS : 0), x, gain,
            spoilt, logits, shared);
  PART(at.index, at.blocks, counters);
}
