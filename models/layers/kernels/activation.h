// Activations, in the words of both devices.

// x Phi(x). The polynomial of erf (Abramowitz and Stegun 7.1.26) is exact to 1.5e-7; Metal has none.
INLINE float gelu(float x) {
  const float z = (x < 0.0f ? -x : x) * 0.70710678f, t = DIVIDE(1.0f, 1.0f + 0.3275911f * z);
  const float sum =
      ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
  const float tail = 0.5f * sum * EXP(-z * z);
  return x * (x < 0.0f ? tail : 1.0f - tail);
}
