// models/layers/kernels/cuda_memory.h for the tests. The barrier counts as the GPU's does: a block that goes on too early
// is seen. It never fails.
static uint4 WEIGHTS(const ushort *from) { return *(const uint4 *)from; }
static uint4 WEIGHTS_OF_8(const uint *from) { return {from[0], from[1], 0, 0}; }
static uint SCALE(const uint *from) { return *from; }
static float FETCH(const float *from) { return *from; }
static float4 FETCH4(const float *from) { return *(const float4 *)from; }
static uint4 FETCH8(const ushort *from) { return *(const uint4 *)from; }
static void POST(float *to, float value) { *to = value; }
static void POST_HALF(ushort *to, ushort value) { *to = value; }

static void ARRIVE(int thread, int *counters, int *met, int *failed) {
  SYNC();
  ++*met;
  if (thread == 0) ++counters[0];
}
static void WAIT(int thread, int blocks, int *counters, int *met, int *failed) {
  if (thread == 0)
    while (counters[0] < *met * blocks) yield_now();
  SYNC();
}
static int ANY(int v) {
  static int any[MOST_BLOCKS];
  if (now->thread == 0) any[now->block] = 0;
  SYNC();
  any[now->block] |= v;
  SYNC();
  return any[now->block];
}
static void PART(int thread, int blocks, int *counters) {
  SYNC();
  if (thread == 0 && ++counters[1] == blocks) counters[0] = counters[1] = counters[2] = 0;
}
