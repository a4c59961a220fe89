// Metal: what rows.h asks for. Each phase is a kernel of its own, so that blocks exchange by the barriers between
// kernels, which MLX puts there.

#define INLINE static inline __attribute__((always_inline))
#define GLOBAL device
#define SHARED threadgroup
#define LOCAL thread
#define UNROLL _Pragma("clang loop unroll(full)")
#define SYNC() threadgroup_barrier(metal::mem_flags::mem_threadgroup)
#define LANE_XOR(v, mask) metal::simd_shuffle_xor(v, (ushort)(mask))
#define BITS_FLOAT(bits) as_type<float>(bits)
#define FLOAT_BITS(value) as_type<uint>(value)
#define EXP(x) metal::exp(x)
#define RSQRT(x) metal::rsqrt(x)
#define FETCH(from) (*(from))
#define FETCH4(from) (*(device const float4 *)(from))
#define FETCH8(from) (*(device const uint4 *)(from))
#define WEIGHTS(from) (*(device const uint4 *)(from))
#define POST(to, value) (*(to) = (value))
#define POST_HALF(to, value) (*(to) = (value))
