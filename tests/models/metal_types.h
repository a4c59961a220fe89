// Metal's types and address spaces for clang, which checks the kernels' Metal sources with it as C++. No machine of Apple
// has a part in that: what is here is what the kernels use, by the Metal Shading Language Specification, version 3.
#pragma clang diagnostic ignored "-Wunknown-attributes"
#pragma clang diagnostic ignored "-Wignored-attributes"

#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#define thread

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __fp16 half;
typedef _Float16 bfloat;  // another arithmetic type of 16 bits
typedef bfloat bfloat16_t;
typedef half float16_t;
typedef int int32_t;
typedef uint uint32_t;
static_assert(sizeof(long) == 8, "");

// Vectors: aligned to their size. Constructors are macros: clang's own vectors have none.
typedef float float2 __attribute__((ext_vector_type(2)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef uint uint2 __attribute__((ext_vector_type(2)));
typedef uint uint3 __attribute__((ext_vector_type(3)));
typedef uint uint4 __attribute__((ext_vector_type(4)));
typedef ushort ushort4 __attribute__((ext_vector_type(4)));

template <typename To, typename From>
To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  return __builtin_bit_cast(To, value);
}

namespace metal {
enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };

// Metal's functions are overloaded for these types: no argument is converted to another type.
#define OF_FLOAT_1(name) float name(float); half name(half);
#define OF_FLOAT_2(name) float name(float, float); half name(half, half);
OF_FLOAT_1(exp) OF_FLOAT_1(rsqrt) OF_FLOAT_1(floor) OF_FLOAT_2(fmax) OF_FLOAT_2(fmin)
float fma(float, float, float);
half fma(half, half, half);
namespace precise {
float exp(float);
float tanh(float);
float sin(float);
float cos(float);
float sqrt(float);
}  // namespace precise
template <typename T> T max(T, T);
template <typename T> T min(T, T);
uint simd_shuffle(uint, ushort);
float simd_shuffle_xor(float, ushort);
int simd_shuffle_xor(int, ushort);
uint simd_shuffle_xor(uint, ushort);
half simd_shuffle_xor(half, ushort);
template <typename T> T simd_shuffle_xor(T, ushort) = delete;  // none for 64 bits
}  // namespace metal

void threadgroup_barrier(metal::mem_flags);
void simdgroup_barrier(metal::mem_flags);
using namespace metal;

#pragma clang poison double
