"""CUDA sources of `step`. Blocks are 256 threads; all arithmetic is in float32 and stored as the arrays' type X.

Each lane of a warp takes eight neighboring channels, 256 a warp at a time: 16 bytes a lane of 16-bit weights. Weights
of 8 and 4 bits are packed as by `mx.quantize`, in groups of 64: w = scale * q + offset.
"""

from __future__ import annotations

HEADER = r"""
#define FAR __int_as_float(0x7f800000)

template <typename X> struct alignas(16) Eight { X v[8]; };

template <int BITS, typename X> struct Raw {
  struct alignas(BITS) Packed { unsigned word[BITS / 4]; };
  Packed w;
  X scale, offset;
  __device__ void load(const unsigned* weight, const X* scales, const X* offsets, long long at) {
    w = ((const Packed*)weight)[at / 8];
    scale = scales[at / 64];
    offset = offsets[at / 64];
  }
  __device__ float operator[](int j) const {
    const unsigned q = (w.word[j * BITS / 32] >> (j * BITS % 32)) & ((1u << BITS) - 1);
    return fmaf((float)q, (float)scale, (float)offset);
  }
};
template <typename X> struct Raw<0, X> {
  Eight<X> w;
  __device__ void load(const X* weight, const X*, const X*, long long at) { w = *(const Eight<X>*)(weight + at); }
  __device__ float operator[](int j) const { return (float)w.v[j]; }
};

__device__ inline float warp_sum(float x) {
  for (int d = 16; d; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}

// A lane's share of a row of K channels, normalized unless the row is taken as it is.
template <int K, typename X> struct Row {
  static constexpr int PIECES = (K + 255) / 256;
  float v[PIECES * 8];
  __device__ void load(const X* row, int lane) {
    #pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      const int k = p * 256 + lane * 8;
      if (k < K) {
        const Eight<X> piece = *(const Eight<X>*)(row + k);
        #pragma unroll
        for (int j = 0; j < 8; ++j) v[p * 8 + j] = (float)piece.v[j];
      } else {
        #pragma unroll
        for (int j = 0; j < 8; ++j) v[p * 8 + j] = 0.0f;
      }
    }
  }
  __device__ void store(X* row, int lane) const {
    #pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      const int k = p * 256 + lane * 8;
      Eight<X> piece;
      #pragma unroll
      for (int j = 0; j < 8; ++j) piece.v[j] = (X)v[p * 8 + j];
      if (k < K) *(Eight<X>*)(row + k) = piece;
    }
  }
  __device__ void normalize(const Row& gain, const Row& shift, int lane) {
    float total = 0.0f, spread = 0.0f;
    #pragma unroll
    for (int i = 0; i < PIECES * 8; ++i) total += v[i];
    const float mean = warp_sum(total) / K;
    #pragma unroll
    for (int p = 0; p < PIECES; ++p)
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int i = p * 8 + j;
        v[i] = p * 256 + lane * 8 < K ? v[i] - mean : 0.0f;
        spread = fmaf(v[i], v[i], spread);
      }
    const float inverse = rsqrtf(warp_sum(spread) / K + 1e-5f);
    #pragma unroll
    for (int i = 0; i < PIECES * 8; ++i) v[i] = fmaf(v[i] * inverse, gain.v[i], shift.v[i]);
  }
};

// A lane's share of one row of weights.
template <int K, int BITS, typename X> struct Weights {
  static constexpr int PIECES = (K + 255) / 256;
  Raw<BITS, X> w[PIECES];
  template <typename W> __device__ void load(const W* weight, const X* scales, const X* offsets, int row, int lane) {
    #pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      const int k = p * 256 + lane * 8;
      if (k < K) w[p].load(weight, scales, offsets, (long long)row * K + k);
    }
  }
  __device__ float dot(const Row<K, X>& x, int lane) const {
    float sum = 0.0f;
    #pragma unroll
    for (int p = 0; p < PIECES; ++p)
      if (p * 256 + lane * 8 < K) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) sum = fmaf(w[p][j], x.v[p * 8 + j], sum);
      }
    return warp_sum(sum);
  }
  // The same of a row in memory, for rows that would not fit in registers beside the weights.
  __device__ float dot_from(const X* row, int lane) const {
    float sum = 0.0f;
    #pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      const int k = p * 256 + lane * 8;
      if (k < K) {
        const Eight<X> in = *(const Eight<X>*)(row + k);
        #pragma unroll
        for (int j = 0; j < 8; ++j) sum = fmaf(w[p][j], (float)in.v[j], sum);
      }
    }
    return warp_sum(sum);
  }
};

// Softmax attention of one query, computed by the whole block: LANES neighboring threads a key of D channels, each
// with a running maximum, sum and output of the keys it has seen.
template <int D, typename X> struct Attention {
  static constexpr int LANES = D <= 8 ? 1 : D <= 16 ? 2 : D <= 32 ? 4 : D <= 64 ? 8 : D <= 128 ? 16 : 32;
  static constexpr int KEYS = 256 / LANES;  // that the block sees at once
  float q[8], most, sum, acc[8];
  __device__ int channel() const { return threadIdx.x % LANES * 8; }
  __device__ int key() const { return threadIdx.x / LANES; }
  template <typename Q> __device__ void start(const Q* query) {
    most = -FAR;
    sum = 0.0f;
    for (int j = 0; j < 8; ++j) {
      q[j] = channel() < D ? (float)query[channel() + j] * rsqrtf((float)D) : 0.0f;
      acc[j] = 0.0f;
    }
  }
  // All threads come here together; `seen` says whether this one's key is there at all.
  __device__ void see(const X* key, const X* value, bool seen, float mask) {
    Eight<X> k, v;
    float s = 0.0f;
    if (seen && channel() < D) {
      k = *(const Eight<X>*)(key + channel());
      v = *(const Eight<X>*)(value + channel());
      #pragma unroll
      for (int j = 0; j < 8; ++j) s = fmaf(q[j], (float)k.v[j], s);
    }
    #pragma unroll
    for (int d = LANES / 2; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
    s += mask;
    if (!seen || channel() >= D || s == -FAR) return;
    const float top = fmaxf(most, s), keep = expf(most - top), p = expf(s - top);
    most = top;
    sum = fmaf(sum, keep, p);
    #pragma unroll
    for (int j = 0; j < 8; ++j) acc[j] = fmaf(acc[j], keep, p * (float)v.v[j]);
  }
  // Combine what the lanes of a warp have seen.
  __device__ void merge() {
    #pragma unroll
    for (int d = LANES; d < 32; d <<= 1) {
      const float other = __shfl_xor_sync(0xffffffffu, most, d), top = fmaxf(most, other);
      const float mine = most == -FAR ? 0.0f : expf(most - top);
      const float theirs = other == -FAR ? 0.0f : expf(other - top);
      sum = sum * mine + __shfl_xor_sync(0xffffffffu, sum, d) * theirs;
      #pragma unroll
      for (int j = 0; j < 8; ++j) acc[j] = acc[j] * mine + __shfl_xor_sync(0xffffffffu, acc[j], d) * theirs;
      most = top;
    }
  }
  // Combine what the threads have seen; y [D].
  __device__ void finish(X* y) {
    __shared__ float tops[8], sums[8], outs[8][LANES * 8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    merge();
    if (lane < LANES) {
      if (lane == 0) {
        tops[warp] = most;
        sums[warp] = sum;
      }
      for (int j = 0; j < 8; ++j) outs[warp][lane * 8 + j] = acc[j];
    }
    __syncthreads();
    if (threadIdx.x < D) {
      float top = -FAR, total = 0.0f, out = 0.0f;
      for (int i = 0; i < 8; ++i) top = fmaxf(top, tops[i]);
      for (int i = 0; i < 8; ++i) {
        const float share = tops[i] == -FAR ? 0.0f : expf(tops[i] - top);
        total = fmaf(sums[i], share, total);
        out = fmaf(outs[i][threadIdx.x], share, out);
      }
      y[threadIdx.x] = (X)(out / total);
    }
    __syncthreads();
  }
};
"""

BODIES = {
    "dense": r"""
  // A warp computes PER outputs: their weights are on their way before the input is looked at.
  const int lane = threadIdx.x % 32, o = (blockIdx.x * 8 + threadIdx.x / 32) * PER, outputs = gridDim.x * 8 * PER;
  const int rows = x_shape[0] * x_shape[1];
  Weights<K, BITS, X> w[PER];
  #pragma unroll
  for (int i = 0; i < PER; ++i) w[i].load(weight, scales, offsets, o + i, lane);
  Row<K, X> g, s;
  if (NORM) {
    g.load(gain, lane);
    s.load(shift, lane);
  }
  for (int r = 0; r < rows; ++r) {
    float out[PER];
    if (NORM) {
      Row<K, X> in;
      in.load(x + r * K, lane);
      in.normalize(g, s, lane);
      #pragma unroll
      for (int i = 0; i < PER; ++i) out[i] = w[i].dot(in, lane);
    } else {
      #pragma unroll
      for (int i = 0; i < PER; ++i) out[i] = w[i].dot_from(x + r * K, lane);
    }
    #pragma unroll
    for (int i = 0; i < PER; ++i) {
      out[i] += (float)bias[o + i];
      if (RELU) out[i] = fmaxf(out[i], 0.0f);
      if (ADD) out[i] += (float)sum[r * outputs + o + i];
      if (lane == 0) y[r * outputs + o + i] = (X)out[i];
    }
  }
""",
    "embed": r"""
  const int row = blockIdx.x, position = place[0] + row % ids_shape[1];
  const float scale = SCALED ? sqrtf((float)K) : 1.0f;
  for (int k = threadIdx.x * 8; k < K; k += 256 * 8) {
    Raw<BITS, X> w;
    w.load(weight, scales, offsets, (long long)ids[row] * K + k);
    for (int j = 0; j < 8; ++j) {
      // The product is rounded to X by itself, as in MLX.
      const float token = (float)(X)(w[j] * scale);
      y[(long long)row * K + k + j] = (X)(token + (float)positions[(long long)position * K + k + j]);
    }
  }
  if (row == 0 && threadIdx.x < 16) at[threadIdx.x] = place[0];
""",
    "self_attend": r"""
  // A block has one head of one row of the batch; those of the same head share its queries.
  const int h = blockIdx.x, b = blockIdx.y, heads = gridDim.x;
  const int count = qkv_shape[1], width = heads * D, length = past_shape[2], first = at[0];
  const long long keys = (((long long)b * 2 * heads) + h) * length * D, values = keys + (long long)heads * length * D;
  const X* fresh = qkv + (long long)b * count * 3 * width + h * D;
  Attention<D, X> attention;
  for (int i = blockIdx.z; i < count; i += gridDim.z) {
    attention.start(fresh + (long long)i * 3 * width);
    for (int begin = 0; begin <= first + i; begin += attention.KEYS) {
      const int t = begin + attention.key();
      const bool seen = t <= first + i;
      const X* made = fresh + (long long)(t - first) * 3 * width;
      const X* key = t < first ? past + keys + (long long)t * D : made + width;
      const X* value = t < first ? past + values + (long long)t * D : made + 2 * width;
      attention.see(key, value, seen, 0.0f);
    }
    attention.finish(y + ((long long)b * count + i) * width + h * D);
  }
  if (blockIdx.z) return;
  for (int i = threadIdx.x; i < length * (D / 8); i += 256) {
    const int t = i / (D / 8), c = i % (D / 8) * 8;
    const bool made = t >= first && t < first + count;
    const X* from = fresh + (long long)(t - first) * 3 * width + c;
    const long long to = (long long)t * D + c;
    *(Eight<X>*)(after + keys + to) = *(const Eight<X>*)(made ? from + width : past + keys + to);
    *(Eight<X>*)(after + values + to) = *(const Eight<X>*)(made ? from + 2 * width : past + values + to);
  }
""",
    "cross_attend": r"""
  // As in `self_attend`; the queries are the block's own to project where there are few.
  const int h = blockIdx.x, b = blockIdx.y, heads = gridDim.x, lane = threadIdx.x % 32;
  const int count = x_shape[1], width = heads * D, length = memory_shape[2];
  const X* keys = memory + (((long long)b * 2 * heads) + h) * length * D;
  const X* values = keys + (long long)heads * length * D;
  Attention<D, X> attention;
  __shared__ float query[PROJECT ? D : 1];
  for (int i = blockIdx.z; i < count; i += gridDim.z) {
    const long long row = ((long long)b * count + i) * width;
    if constexpr (PROJECT) {
      Row<K, X> in, g, s;
      in.load(x + row, lane);
      g.load(gain, lane);
      s.load(shift, lane);
      in.normalize(g, s, lane);
      for (int o = threadIdx.x / 32; o < D; o += 4 * 8) {
        Weights<K, BITS, X> w[4];
        #pragma unroll
        for (int j = 0; j < 4; ++j)
          if (o + j * 8 < D) w[j].load(weight, scales, offsets, h * D + o + j * 8, lane);
        #pragma unroll
        for (int j = 0; j < 4; ++j)
          if (o + j * 8 < D) {
            const float out = w[j].dot(in, lane) + (float)bias[h * D + o + j * 8];
            if (lane == 0) query[o + j * 8] = (float)(X)out;
          }
      }
      __syncthreads();
      attention.start(query);
    } else {
      attention.start(x + row + h * D);
    }
    for (int begin = 0; begin < length; begin += attention.KEYS) {
      const int t = begin + attention.key();
      const bool seen = t < length;
      const float m = seen ? (float)mask[(long long)b * length + t] : 0.0f;
      attention.see(keys + (long long)t * D, values + (long long)t * D, seen, m);
    }
    attention.finish(y + row + h * D);
  }
""",
    "attend": r"""
  // A warp has one query of one head.
  const int h = blockIdx.x, b = blockIdx.y, i = blockIdx.z * 8 + threadIdx.x / 32, heads = gridDim.x;
  const int count = qkv_shape[1], width = heads * D;
  const X* row = qkv + (long long)b * count * 3 * width + h * D;
  Attention<D, X> attention;
  attention.start(row + (long long)min(i, count - 1) * 3 * width);
  #pragma unroll 4
  for (int begin = 0; begin < count; begin += 32 / attention.LANES) {
    const int t = begin + threadIdx.x % 32 / attention.LANES;
    const bool seen = t < count;
    const float m = seen ? (float)mask[(long long)b * count + t] : 0.0f;
    const X* key = row + (long long)t * 3 * width + width;
    attention.see(key, key + width, seen, m);
  }
  attention.merge();
  const int c = attention.channel();
  if (i >= count || threadIdx.x % 32 >= attention.LANES || c >= D) return;
  X* to = y + ((long long)b * count + i) * width + h * D + c;
  for (int j = 0; j < 8; ++j) to[j] = (X)(attention.acc[j] / attention.sum);
""",
    "add_norm": r"""
  // A warp has one row. The sum is rounded to X before it is normalized, as in MLX.
  const int lane = threadIdx.x % 32;
  const long long row = blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= (long long)x_shape[0] * x_shape[1]) return;
  Row<K, X> in, more, g, s;
  in.load(x + row * K, lane);
  more.load(part + row * K, lane);
  g.load(gain, lane);
  s.load(shift, lane);
  #pragma unroll
  for (int i = 0; i < in.PIECES * 8; ++i) in.v[i] = (float)(X)(in.v[i] + more.v[i]);
  in.store(y + row * K, lane);
  in.normalize(g, s, lane);
  in.store(normal + row * K, lane);
""",
    "argmax_blocks": r"""
  // Every warp walks through the rows of weights, two at a time, and keeps the best product with each of R inputs.
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rows = banned_shape[0], stride = gridDim.x * 8;
  Row<K, X> in[R];
  float best[R];
  int where[R];
  for (int r = 0; r < R; ++r) {
    in[r].load(x + r * K, lane);
    best[r] = -FAR;
    where[r] = 0x7fffffff;
  }
  for (int row = blockIdx.x * 8 + warp; row < rows; row += 2 * stride) {
    const int other = row + stride < rows ? row + stride : row;
    Weights<K, BITS, X> w, v;
    w.load(weight, scales, offsets, row, lane);
    v.load(weight, scales, offsets, other, lane);
    const float ban = (float)banned[row], bar = (float)banned[other];
    #pragma unroll
    for (int r = 0; r < R; ++r) {
      const float one = w.dot(in[r], lane) + ban, two = v.dot(in[r], lane) + bar;
      if (one > best[r]) {
        best[r] = one;
        where[r] = row;
      }
      if (two > best[r]) {
        best[r] = two;
        where[r] = other;
      }
    }
  }
  __shared__ float tops[8][R];
  __shared__ int found[8][R];
  if (lane == 0)
    for (int r = 0; r < R; ++r) {
      tops[warp][r] = best[r];
      found[warp][r] = where[r];
    }
  __syncthreads();
  if (threadIdx.x < R) {
    const int r = threadIdx.x;
    float top = -FAR;
    int at = 0x7fffffff;
    for (int i = 0; i < 8; ++i)
      if (tops[i][r] > top || (tops[i][r] == top && found[i][r] < at)) {
        top = tops[i][r];
        at = found[i][r];
      }
    values[r * gridDim.x + blockIdx.x] = top;
    places[r * gridDim.x + blockIdx.x] = at;
  }
""",
    "argmax": r"""
  // The best of a row's N, found by one block.
  const int r = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float top = -FAR;
  int at = 0x7fffffff;
  for (int i = threadIdx.x; i < N; i += 256) {
    const float value = values[r * N + i];
    const int place = places[r * N + i];
    if (value > top || (value == top && place < at)) {
      top = value;
      at = place;
    }
  }
  __shared__ float tops[8];
  __shared__ int found[8];
  for (int d = 16; d; d >>= 1) {
    const float value = __shfl_xor_sync(0xffffffffu, top, d);
    const int place = __shfl_xor_sync(0xffffffffu, at, d);
    if (value > top || (value == top && place < at)) {
      top = value;
      at = place;
    }
  }
  if (lane == 0) {
    tops[warp] = top;
    found[warp] = at;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 8; ++i)
      if (tops[i] > top || (tops[i] == top && found[i] < at)) {
        top = tops[i];
        at = found[i];
      }
    y[r] = table[at == 0x7fffffff ? 0 : at];
  }
""",
}
