// What models/chatterbox/s3gen/kernels/cuda.h says, on the emulated GPU of tests/models/emulator.py.

// What is written too early shows when copies are made at once, what is read too early when they are made LATE.
struct Copy {
  void *to;
  const void *from;
  int group;
};
static Copy copies[1024][256];
static int waiting[1024], groups_sent[1024];

static void COPY(void *to, const void *from) {
  if (LATE) copies[now->thread][waiting[now->thread]++] = {to, from, groups_sent[now->thread]};
  else memcpy(to, from, 16);
}
static void COMMIT() { ++groups_sent[now->thread]; }
static void WAIT_COPIES(int but) {
  const int own = now->thread;
  int left = 0;
  for (int i = 0; i < waiting[own]; ++i) {
    const Copy &one = copies[own][i];
    if (one.group < groups_sent[own] - but) memcpy(one.to, one.from, 16);
    else copies[own][left++] = one;
  }
  waiting[own] = left;
}
