"""Self-attention with relative positions: Transformer-XL's (Dai et al. 2019, arXiv:1901.02860), in ESPnet's order.

On a GPU one kernel does what lies between the two products: as operations these are ten launches a layer.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import cpu_streams, mx, on_cpu
from models.layers.attention import attend
from models.layers.kernels.agreement import MAX_RELATIVE_ERROR_FLOAT32, relative_difference, usable
from models.layers.kernels.device import Kernel, launch
from models.layers.linear import Linear

SIZE = 64  # of a head, in the kernel
MAX_ROWS = 1024  # of a sequence, in the kernel: it holds a tile's scores
_TILE = 4  # queries of a block
_THREADS = 128

_HEADER = f"""
#define SIZE {SIZE}
#define TILE {_TILE}
#define MAX_KEYS {MAX_ROWS}
#define THREADS {_THREADS}
"""

# Eight lanes share a key: each has eight dimensions of the block's queries in registers, once with u and once with v.
_BODY = """
  SHARED_ARRAY(float, scores, TILE * MAX_KEYS);
  SHARED_ARRAY(float, halves, 2 * TILE * SIZE);
  SHARED_ARRAY(float, sums, TILE);
  const int length = qkv_shape[1], heads = u_shape[0], width = heads * SIZE, middle = table_shape[1] / 2;
  const int first = BLOCK_X * TILE, h = BLOCK_Y, lane = THREAD % 32, warp = THREAD / 32, d = lane % 8 * 8;
  GLOBAL const float *from = qkv + (long)BLOCK_Z * length * 3 * width + h * SIZE;
  GLOBAL const float *near = table + ((long)h * table_shape[1] + middle) * SIZE + d;
  float content[TILE][8], position[TILE][8];
  UNROLL
  for (int i = 0; i < TILE; ++i) {
    UNROLL
    for (int e = 0; e < 8; ++e) {
      const float x = from[(long)min(first + i, length - 1) * 3 * width + d + e];
      content[i][e] = (x + u[h * SIZE + d + e]) * 0.125f;
      position[i][e] = (x + v[h * SIZE + d + e]) * 0.125f;
    }
  }
  for (int base = warp * 4; base < length; base += THREADS / 8) {
    const int key = base + lane / 8, near_key = min(key, length - 1);
    GLOBAL const float *k = from + (long)near_key * 3 * width + width + d;
    const float4 low = *(GLOBAL const float4 *)k, high = *(GLOBAL const float4 *)(k + 4);
    float score[TILE];
    UNROLL
    for (int i = 0; i < TILE; ++i) {
      GLOBAL const float *p = near + (long)(near_key - min(first + i, length - 1)) * SIZE;
      const float4 start = *(GLOBAL const float4 *)p, end = *(GLOBAL const float4 *)(p + 4);
      float sum = content[i][0] * low.x + content[i][1] * low.y + content[i][2] * low.z + content[i][3] * low.w;
      sum += content[i][4] * high.x + content[i][5] * high.y + content[i][6] * high.z + content[i][7] * high.w;
      sum += position[i][0] * start.x + position[i][1] * start.y + position[i][2] * start.z + position[i][3] * start.w;
      sum += position[i][4] * end.x + position[i][5] * end.y + position[i][6] * end.z + position[i][7] * end.w;
      sum += LANE_XOR(sum, 1);
      sum += LANE_XOR(sum, 2);
      sum += LANE_XOR(sum, 4);
      score[i] = sum;
    }
    if (d == 0 && key < length) {
      UNROLL
      for (int i = 0; i < TILE; ++i) scores[i * MAX_KEYS + key] = score[i] + bias[BLOCK_Z * length + key];
    }
  }
  SYNC();
  for (int i = warp; i < TILE; i += THREADS / 32) {
    SHARED float *row = scores + i * MAX_KEYS;
    float most = -1e30f, sum = 0.0f;
    for (int key = lane; key < length; key += 32) most = fmaxf(most, row[key]);
    UNROLL
    for (int mask = 16; mask > 0; mask >>= 1) most = fmaxf(most, LANE_XOR(most, mask));
    for (int key = lane; key < length; key += 32) {
      const float weight = EXP(row[key] - most);
      row[key] = weight;
      sum += weight;
    }
    UNROLL
    for (int mask = 16; mask > 0; mask >>= 1) sum += LANE_XOR(sum, mask);
    if (lane == 0) sums[i] = sum;
  }
  SYNC();
  const int column = THREAD % SIZE, part = THREAD / SIZE;
  float y[TILE];
  UNROLL
  for (int i = 0; i < TILE; ++i) y[i] = 0.0f;
  for (int key = part; key < length; key += THREADS / SIZE) {
    const float value = from[(long)key * 3 * width + 2 * width + column];
    UNROLL
    for (int i = 0; i < TILE; ++i) y[i] += scores[i * MAX_KEYS + key] * value;
  }
  UNROLL
  for (int i = 0; i < TILE; ++i) halves[(part * TILE + i) * SIZE + column] = y[i];
  SYNC();
  for (int i = part; i < TILE; i += THREADS / SIZE)
    if (first + i < length)
      made[((long)BLOCK_Z * length + first + i) * width + h * SIZE + column] =
          (halves[i * SIZE + column] + halves[(TILE + i) * SIZE + column]) / sums[i];
"""

KERNEL = Kernel(
    "nightingale_relative_attention", ("qkv", "table", "u", "v", "bias"), ("made",), _BODY, _HEADER, bounded=True
)


def relative_positions(reach: int, width: int) -> npt.NDArray[np.float32]:
    """Return rows [2 * reach - 1, width] for distances reach - 1, ..., 0, ..., 1 - reach: sine and cosine take turns.

    Frequencies are 10000^(-2i / width), in float32 as the checkpoints were trained.
    """
    steps = np.arange(0, width, 2, dtype=np.float32) * np.float32(-math.log(10_000) / width)
    phase = np.arange(reach - 1, -reach, -1, dtype=np.float32)[:, None] * np.exp(steps)
    return np.stack([np.sin(phase), np.cos(phase)], axis=-1).reshape(2 * reach - 1, width)


class RelativeAttention(nn.Module):
    """Softmax((q + u) k^T + (q + v) p^T) with p the projected distance between query and key.

    `linear_pos` projects the positions. u and v, `pos_bias_u` and `pos_bias_v`, are [heads, size].
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.linear_qkv = Linear(width, 3 * width)
        self.linear_out = Linear(width, width)
        self.linear_pos = nn.Linear(width, width, bias=False)
        self.pos_bias_u = mx.zeros((heads, width // heads))
        self.pos_bias_v = mx.zeros((heads, width // heads))
        self._table = mx.zeros((heads, 0, width // heads))

    def reserve(self, reach: int) -> None:
        """Project the positions of up to `reach` rows, once; and compare the kernel, outside of compiled functions."""
        _usable()
        weight = self.linear_pos.weight
        rows, size = 2 * reach - 1, weight.shape[0] // self.heads
        if self._table.shape[1] >= rows:
            return
        table = mx.array(relative_positions(reach, weight.shape[0])) @ weight.T
        self._table = mx.contiguous(table.reshape(rows, self.heads, size).transpose(1, 0, 2))
        mx.eval(self._table)

    def __call__(self, x: mx.array, bias: mx.array | None) -> mx.array:
        """x [B, T, C] -> [B, T, C]; `bias` [B, 1, 1, T] is minus infinity on padded keys, or None."""
        length = x.shape[1]
        if self._table.shape[1] // 2 < length - 1:
            raise ValueError(f"{length} rows, positions are reserved for {self._table.shape[1] // 2 + 1}")
        qkv, table, u, v = self.linear_qkv(x), self._table, self.pos_bias_u, self.pos_bias_v
        if bias is not None and fits(length, table) and _usable():
            return self.linear_out(relative_attention_kernel(qkv, table, u, v, bias))
        return self.linear_out(relative_attention_reference(qkv, table, u, v, bias))


def relative_attention_reference(
    qkv: mx.array, table: mx.array, u: mx.array, v: mx.array, bias: mx.array | None
) -> mx.array:
    """Return attention [B, T, C].

    Args:
        qkv: queries, keys and values [B, T, 3C].
        table: projected distances R, ..., 0, ..., -R, [heads, 2R + 1, size], R >= T - 1.
        u: what is added to queries for the keys [heads, size].
        v: what is added to them for the positions [heads, size].
        bias: added to the logits, [B, 1, 1, T], or None.
    """
    heads, rows, size = table.shape
    batch, length, middle = qkv.shape[0], qkv.shape[1], rows // 2
    near = table[:, middle - length + 1 : middle + length]
    q, k, values = qkv.reshape(batch, length, 3, heads, size).transpose(2, 0, 3, 1, 4)
    parts = []
    streams = cpu_streams() if on_cpu() else cpu_streams()[:1]
    for index, stream in enumerate(streams):
        some = slice(heads * index // len(streams), heads * (index + 1) // len(streams))
        if some.start == some.stop:
            continue
        with mx.stream(stream):
            distances = (q[:, some] + v[some, None]) * size**-0.5 @ near[some].swapaxes(-1, -2)
            shifted = _shift(distances, length)
            shifted = shifted if bias is None else shifted + bias
            parts.append(attend(q[:, some] + u[some, None], k[:, some], values[:, some], size**-0.5, shifted))
    y = parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=1)
    return y.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


def _shift(x: mx.array, length: int) -> mx.array:
    """Turn x [B, H, T, 2T - 1], by distance T - 1, ..., 1 - T, into [B, H, T, T], by key: a view."""
    batch, heads, _, columns = x.shape
    plane = length * columns
    strides = (heads * plane, plane, columns - 1, 1)
    return mx.as_strided(x, (batch, heads, length, length), strides, length - 1)


def relative_attention_kernel(qkv: mx.array, table: mx.array, u: mx.array, v: mx.array, bias: mx.array) -> mx.array:
    """Compute `relative_attention_reference` in one kernel, for what `fits`."""
    batch, length, width = qkv.shape
    made: mx.array = launch(
        KERNEL,
        [qkv, table, u, v, bias],
        [((batch, length, width // 3), mx.float32)],
        (-(-length // _TILE), table.shape[0], batch),
        threads=_THREADS,
    )[0]
    return made


def fits(length: int, table: mx.array) -> bool:
    """Return whether the kernel is for so many rows, and for this table of positions."""
    return length <= MAX_ROWS and table.shape[2] == SIZE and table.dtype == mx.float32


def _usable() -> bool:
    return usable(
        "the kernel of attention with relative positions", lambda: [_difference()], MAX_RELATIVE_ERROR_FLOAT32
    )


def _difference() -> float:
    """Return the kernel's difference from the plain operations, on two sequences, one of them padded."""
    batch, length, heads, reach = 2, 70, 3, 80
    shapes = ((batch, length, 3 * heads * SIZE), (heads, 2 * reach - 1, SIZE), (heads, SIZE), (heads, SIZE))
    qkv, table, u, v = (mx.random.normal(shape, key=mx.random.key(number)) for number, shape in enumerate(shapes))
    valid = mx.arange(length) < mx.array([length, 50])[:, None, None, None]
    bias = mx.where(valid, 0.0, float("-inf"))
    wanted = relative_attention_reference(qkv, table, u, v, bias)
    return relative_difference(relative_attention_kernel(qkv, table, u, v, bias), wanted)
