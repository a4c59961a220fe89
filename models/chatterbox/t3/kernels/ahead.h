// Weights that are copied to shared memory a layer ahead: those of the feed-forward, three quarters of a layer's. The
// processor's copy engine does it, which no barrier's fence waits for: memory is read while the blocks meet.
//
// Each warp has its own rows' copies and waits for them alone. GATE_ROUNDS and DOWN_ROUNDS: its tasks in the feed-forward's
// first product, and in the second.

#define GATE_CHUNKS (GATE_ROUNDS * PAIR)
#define AHEAD_CHUNKS (GATE_CHUNKS + DOWN_ROUNDS * 2 * QUARTER)
#define AHEAD_BYTES (WARPS * (AHEAD_CHUNKS * (int)sizeof(Chunk) + 16))

typedef struct {
  SHARED Chunk *gate, *down;     // of this warp
  SHARED Arrival *gates, *downs;  // that its copies have arrived
} Ahead;

INLINE Ahead ahead_in(Where at, SHARED unsigned char *room) {
  SHARED Chunk *own = (SHARED Chunk *)room + at.warp * AHEAD_CHUNKS;
  SHARED Arrival *arrivals = (SHARED Arrival *)((SHARED Chunk *)room + WARPS * AHEAD_CHUNKS) + at.warp * 2;
  const Ahead ahead = {own, own + GATE_CHUNKS, arrivals, arrivals + 1};
  if (at.lane == 0) {
    BEGIN_ARRIVALS(ahead.gates);
    BEGIN_ARRIVALS(ahead.downs);
  }
  return ahead;
}

// Sends the rows of a layer, which the warp has read the last ones of.
INLINE void send_gate(Where at, Ahead ahead, GLOBAL const Chunk *weight) {
  WARP_SYNC();
  if (at.lane) return;
  int rows = 0;
  UNROLL
  for (int round = 0; round < GATE_ROUNDS; ++round) rows += task(at, round) < GATE_PAIRS ? 2 : 0;
  EXPECT_BYTES(ahead.gates, rows * ROW * (int)sizeof(Chunk));
  UNROLL
  for (int round = 0; round < GATE_ROUNDS; ++round) {
    const int row = task(at, round);
    if (row >= GATE_PAIRS) continue;
    SHARED Chunk *to = ahead.gate + round * PAIR;
    COPY_BYTES(to, weight + (long)row * ROW, ROW * (int)sizeof(Chunk), ahead.gates);
    COPY_BYTES(to + ROW, weight + (long)(GATE_PAIRS + row) * ROW, ROW * (int)sizeof(Chunk), ahead.gates);
  }
}

INLINE void send_down(Where at, Ahead ahead, GLOBAL const Chunk *weight) {
  WARP_SYNC();
  if (at.lane) return;
  int rows = 0;
  UNROLL
  for (int round = 0; round < DOWN_ROUNDS; ++round) rows += mix_row(at, round) < HIDDEN ? 2 : 0;
  EXPECT_BYTES(ahead.downs, rows * QUARTER * (int)sizeof(Chunk));
  UNROLL
  for (int round = 0; round < DOWN_ROUNDS; ++round) {
    const int row = mix_row(at, round);
    if (row >= HIDDEN) continue;
    GLOBAL const Chunk *from = weight + (long)row * (INNER / CHUNK) + at.warp % 4 * QUARTER;
    SHARED Chunk *to = ahead.down + round * 2 * QUARTER;
    COPY_BYTES(to, from, QUARTER * (int)sizeof(Chunk), ahead.downs);
    COPY_BYTES(to + QUARTER, from + INNER / CHUNK, QUARTER * (int)sizeof(Chunk), ahead.downs);
  }
}

// `gate` with the weights of `layer` that were sent ahead; the terms of round 0 are there.
INLINE void gate_ahead(Where at, Ahead ahead, int layer, LOCAL uint4 *w, LOCAL Terms *of, GLOBAL const float *terms,
                       GLOBAL const float *x, GLOBAL const float *gain, GLOBAL ushort *inner, SHARED float *shared) {
  float4 v[ROW_READS];
  fetch_rows(at, x, v);
  stash_normed(at, v, gain, shared);
  const Moments row_of = moments(at, shared);
  WAIT_ARRIVALS(ahead.gates, layer & 1);
  for (int round = 0; round < GATE_ROUNDS && task(at, round) < GATE_PAIRS; ++round) {
    const int row = task(at, round);
    take(ahead.gate + round * PAIR, PAIR, at.lane, w);
    if (round) load_terms(terms, 2 * GATE_PAIRS, row, GATE_PAIRS + row, of);
    gate_rows(at, round, 1, w, of, shared, row_of, inner);
  }
}
