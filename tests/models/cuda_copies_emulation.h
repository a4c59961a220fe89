// What models/layers/kernels/cuda_copies.h says, on the emulated GPU of tests/models/emulator.py. All blocks run at once.

#define ROLLED
#define PAIRED

struct alignas(8) float2 {
  float x, y;
};

// What is written too early shows when copies are made at once, what is read too early when they are made LATE.
struct Copy {
  void *to;
  const void *from;
  int group;
};
struct Copies {
  Copy all[256];
  int waiting, groups, clusters;
};
static Copies copies[MAX_BLOCKS / 64 * 256];
static Copies &own_copies() { return copies[now - fibers]; }

static void COPY(void *to, const void *from) {
  Copies &own = own_copies();
  if (LATE) own.all[own.waiting++] = {to, from, own.groups};
  else memcpy(to, from, 16);
}
static void COMMIT() { ++own_copies().groups; }
static void WAIT_COPIES(int but) {
  Copies &own = own_copies();
  int left = 0;
  for (int i = 0; i < own.waiting; ++i) {
    const Copy &one = own.all[i];
    if (one.group < own.groups - but) memcpy(one.to, one.from, 16);
    else own.all[left++] = one;
  }
  own.waiting = left;
}

static void READ_TILE(int lane, uint (&to)[4], const ushort *tile, int stride) {
  for (int i = 0; i < 4; ++i) memcpy(&to[i], tile + (lane / 4 + i % 2 * 8) * stride + lane % 4 * 2 + i / 2 * 8, 4);
}

// A block's shared memory; and the same place of another block's, which is lost while that block has not begun.
#define ROOM (MAX_ARRAYS - 1)
static unsigned char lost[1 << 20];
static unsigned char *begun(size_t bytes) {
  own_copies().waiting = 0;  // of an earlier launch
  return (unsigned char *)shared_room(ROOM, bytes);
}
template <typename Value>
static Value *PEER(Value *here, int rank) {
  unsigned char *peer = (unsigned char *)rooms[now->block / CLUSTER * CLUSTER + rank][ROOM];
  return (Value *)((peer ? peer : lost) + ((unsigned char *)here - (unsigned char *)rooms[now->block][ROOM]));
}

// Each thread counts the barriers that it met.
static int arrivals[MAX_BLOCKS];
static void CLUSTER_ARRIVE() {
  ++own_copies().clusters;
  ++arrivals[now->block / CLUSTER];
}
static void CLUSTER_ENTER() { CLUSTER_ARRIVE(); }
static void CLUSTER_WAIT() {
  while (arrivals[now->block / CLUSTER] < own_copies().clusters * CLUSTER * block_threads) yield_now();
}
