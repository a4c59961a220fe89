// What CUDA's and Metal's emulation share: blocks, their shared memory, types. Behind fibers.h.
#include <algorithm>
#include <cmath>
#include <cstdint>

struct Dim {
  int x, y, z;
};
static Dim grid_size;
static int first_block;
static Dim block_at() {
  const int block = first_block + now->block;
  return {block % grid_size.x, block / grid_size.x % grid_size.y, block / (grid_size.x * grid_size.y)};
}

template <typename To, typename From>
static To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  memcpy(&to, &value, sizeof to);
  return to;
}

typedef unsigned uint;
typedef unsigned short ushort;
struct alignas(16) uint4 {
  uint x, y, z, w;
  uint4() = default;
  uint4(uint x, uint y, uint z, uint w) : x(x), y(y), z(z), w(w) {}
};
struct alignas(16) float4 {
  float x, y, z, w;
};

struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  explicit bfloat16(float f) {
    const uint32_t u = bits_as<uint32_t>(f);
    bits = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  }
  operator float() const { return bits_as<float>((uint32_t)bits << 16); }
};

// Each block's arrays of shared memory, by the place of their declaration: NaN before they are written.
#define MAX_BLOCKS 4096
#define MAX_ARRAYS 64
static void *rooms[MAX_BLOCKS][MAX_ARRAYS];
static size_t room_bytes[MAX_ARRAYS];
static void *shared_room(int number, size_t bytes) {
  void *&room = rooms[now->block][number];
  if (!room) {
    room = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(room, 0xff, bytes);
    room_bytes[number] = bytes;
  }
  return room;
}

static void (*kernel_body)();
static void one(int, int) { kernel_body(); }

// Blocks run one after the other, or all at once if they meet. Returns the bytes of shared memory that one block takes.
static long run(int x, int y, int z, int threads, int backward, int together, void (*of)()) {
  kernel_body = of;
  grid_size = {x, y, z};
  const int each = together ? x * y * z : 1;
  passes = together ? 16 : 1;
  for (first_block = 0; first_block < x * y * z; first_block += each) {
    run_grid(each, threads, backward, one);
    for (int block = 0; block < each; ++block)
      for (void *&room : rooms[block]) free(room), room = NULL;
  }
  long bytes = 0;
  for (size_t each_bytes : room_bytes) bytes += (each_bytes + 15) / 16 * 16;
  return bytes;
}
