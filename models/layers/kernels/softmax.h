// A softmax over keys that lanes and warps share, in the words of both devices. Each has a largest score, the sum of its
// weights relative to that, and eight numbers of its values' weighted sum.

// Puts together what lanes have that are a multiple of eight apart.
INLINE void merge_lanes(LOCAL float *most, LOCAL float *sum, LOCAL float *y) {
  UNROLL
  for (int mask = 8; mask < 32; mask *= 2) {
    const float other = LANE_XOR(*most, mask), top = other > *most ? other : *most, keep = EXP(*most - top);
    *most = top;
    *sum *= keep;
    *sum += LANE_XOR(*sum, mask);
    UNROLL
    for (int j = 0; j < 8; ++j) {
      y[j] *= keep;
      y[j] += LANE_XOR(y[j], mask);
    }
  }
}

// Puts together number `d` of `width` of `count` warps from `first` on; returns the values' sum.
INLINE float merge_warps(SHARED const float *most_of, SHARED const float *sum_of, SHARED const float *values, int first,
                         const int count, const int width, int d, LOCAL float *most, LOCAL float *sum) {
  float value = 0.0f;
  *most = most_of[first];
  *sum = 0.0f;
  UNROLL
  for (int w = first + 1; w < first + count; ++w) *most = most_of[w] > *most ? most_of[w] : *most;
  UNROLL
  for (int w = first; w < first + count; ++w) {
    const float scale = EXP(most_of[w] - *most);
    *sum += scale * sum_of[w];
    value += scale * values[w * width + d];
  }
  return value;
}
