"""The cache of a prompt as one kernel: `backbone.extend` at place 0, whose operations are six launches a layer.

It writes a whole new cache: the array that it is given lends its shape only, so that MLX never fills that one.
"""

from __future__ import annotations

from models.backend import mx
from models.chatterbox.t3 import backbone
from models.chatterbox.t3.cache import Layer
from models.layers.attention import split_heads
from models.layers.kernels.device import LANES, THREADS, Kernel, launch

# A block for each place of a row of the cache. Its warps share the heads, whose numbers i and i + HALF turn together.
_BODY = """
  const int n = qkv_shape[1], room = BLOCKS_X, rows = BLOCKS_Y, place = BLOCK_X, b = BLOCK_Y;
  const bool given = place < n;  // places behind the prompt's are 0: attention multiplies them by 0
  const long width = HEADS * 2 * HALF, row = (long)b * n + place;
  for (int i = THREAD % 32; i < HALF; i += 32) {
    float c = 1.0f, s = 0.0f;
    if (ROTARY && given) {
      const float angle = (float)place * (1.0f / (float)wavelengths[i]);
      c = cosf(angle);
      s = sinf(angle);
    }
    for (int h = THREAD / 32; h < HEADS; h += WARPS) {
      const long query = row * 3 * width + h * 2 * HALF + i, key = query + width, value = key + width;
      const long kept = (((long)b * 2 * HEADS + h) * room + place) * 2 * HALF + i, behind = kept + width * room;
      const float x = given ? (float)qkv[key] : 0.0f, y = given ? (float)qkv[key + HALF] : 0.0f;
      made[kept] = (X)(x * c - y * s);
      made[kept + HALF] = (X)(x * s + y * c);
      made[behind] = (X)(given ? (float)qkv[value] : 0.0f);
      made[behind + HALF] = (X)(given ? (float)qkv[value + HALF] : 0.0f);
      if (ROTARY && given) {
        const long turned = (2L * rows * room + row) * width + h * 2 * HALF + i;
        const float first = (float)qkv[query], second = (float)qkv[query + HALF];
        made[turned] = (X)(first * c - second * s);
        made[turned + HALF] = (X)(first * s + second * c);
      }
    }
  }
"""

# The cache [B, 2 * heads, T, size], and behind it, if they turn, the queries [B, n, heads, size]: attention's output
# takes their order. A further output would cost more than the rest of the launch.
KERNEL = Kernel("nightingale_t3_prefill", ("qkv", "wavelengths"), ("made",), _BODY)


def extend(
    qkv: mx.array, layer: Layer, place: mx.array, heads: int, wavelengths: mx.array | None = None
) -> tuple[mx.array, Layer]:
    """Compute `backbone.extend` for an empty cache, and `place` 0. This device must have a GPU."""
    if len(layer) > 1:  # rounded
        return backbone.extend(qkv, layer, place, heads, wavelengths)
    (empty,) = layer
    width = qkv.shape[2] // 3
    queries = qkv[..., :width]
    (made,) = launch(
        KERNEL,
        [qkv, qkv if wavelengths is None else wavelengths],
        [((empty.size + (0 if wavelengths is None else queries.size),), empty.dtype)],
        (empty.shape[2], empty.shape[0], 1),
        {
            "X": empty.dtype,
            "HEADS": heads,
            "HALF": width // heads // 2,
            "WARPS": THREADS // LANES,
            "ROTARY": wavelengths is not None,
        },
    )
    if wavelengths is not None:
        queries = made[empty.size :].reshape(queries.shape)
    return split_heads(queries, 1, heads), (made[: empty.size].reshape(empty.shape),)
