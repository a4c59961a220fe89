"""LSTM in one direction and in both (Hochreiter and Schmidhuber 1997; gate order i, f, g, o as torch.nn.LSTM).

Both directions advance in one step: step t reads row t for the forward and row T-1-t for the backward one. On padding
the state is set to zero, so that the backward direction starts at the true end.
"""

from __future__ import annotations

from functools import cache

from mlx import nn

from models.backend import compiled, constant, mx
from models.layers.conv import PaddingMask
from models.layers.kernels.agreement import MAX_RELATIVE_ERROR_FLOAT32, relative_difference, usable
from models.layers.kernels.device import THREADS, Kernel, gpu, launch, launches_directly
from models.layers.norm import StyleAffine
from models.native import kernels


@compiled
def _gates(g: mx.array, c: mx.array) -> tuple[mx.array, mx.array]:
    i, f, u, o = mx.split(g, 4, axis=-1)
    c = mx.sigmoid(f) * c + mx.sigmoid(i) * mx.tanh(u)
    return mx.sigmoid(o) * mx.tanh(c), c


_KINDS, _SIDES, _DIRECTIONS = ("weight", "bias"), ("ih", "hh"), ("_l0", "_l0_reverse")


class LSTM(nn.Module):
    """One forward layer: x [B, T, I] -> [B, T, H]; `wx` [I, 4H], `wh` [H, 4H], `bias` [4H] the sum of torch's two."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.wx = mx.zeros((inputs, 4 * hidden))
        self.wh = mx.zeros((hidden, 4 * hidden))
        self.bias = mx.zeros((4 * hidden,))

    def __call__(self, x: mx.array) -> mx.array:
        steps = mx.addmm(self.bias, x, self.wx).transpose(1, 0, 2)  # [T, B, 4H]
        h = c = mx.zeros((x.shape[0], self.wh.shape[0]))
        out = []
        for t in range(x.shape[1]):
            h, c = _gates(mx.addmm(steps[t], h, self.wh), c)
            out.append(h)
        return mx.stack(out, axis=1)


def bilstm_reference(xp: mx.array, wh: mx.array, mask: mx.array | None) -> mx.array:
    """Compute both directions from projected inputs xp [B, T, 8H] and recurrent weights wh [2, H, 4H]: [B, T, 2H].

    `mask` [B, T, 1] is 1 on valid rows; the others of the result are zero.
    """
    batch, length, width = xp.shape
    hidden = width // 8
    xp = xp.reshape(batch, length, 2, 4 * hidden)
    steps = mx.stack([xp[:, :, 0], xp[:, ::-1, 1]]).transpose(2, 0, 1, 3)  # [T, 2, B, 4H]
    keep = None if mask is None else mx.stack([mask, mask[:, ::-1]]).transpose(2, 0, 1, 3)
    h = c = mx.zeros((2, batch, hidden))
    out = []
    for t in range(length):
        h, c = _gates(mx.addmm(steps[t], h, wh), c)
        if keep is not None:
            h, c = h * keep[t], c * keep[t]
        out.append(h)
    y = mx.stack(out)
    return mx.concatenate([y[:, 0], y[::-1, 1]], axis=-1).transpose(1, 0, 2)


_SOURCE = r"""
    // A block computes UNITS hidden units of one direction of one sequence: 4 UNITS columns of the recurrent weights.
    // Four threads share COLUMNS neighbors of them, each with every fourth term of their sums. Steps are valid rows.
    const int b = BLOCK_Z, dir = BLOCK_Y, first = BLOCK_X * UNITS, T = xp_shape[1], valid = min(count[b], T);
    const int slice = THREAD & 3, column = (THREAD >> 2) * COLUMNS, place = column / UNITS * H + first + column % UNITS;
    GLOBAL const float *weights = wh + (dir * H + slice) * 4 * H + place;
    GLOBAL const float *given = xp + (long)b * T * 8 * H + dir * 4 * H + place;
    SHARED_ARRAY(float, h, H);
    SHARED_ARRAY(float, g, 4 * UNITS);
    float c = 0.0f, x[COLUMNS];
    UNROLL
    for (int i = 0; i < COLUMNS; ++i) x[i] = given[(long)(dir ? max(valid - 1, 0) : 0) * 8 * H + i];
    for (int k = THREAD; k < H; k += THREADS) h[k] = 0.0f;
    for (int k = THREAD; k < (T - valid) * UNITS; k += THREADS) {
      y[((long)b * T + valid + k / UNITS) * 2 * H + dir * H + first + k % UNITS] = 0.0f;
    }
#if GRID_BARRIER
    // Where blocks can meet, those of a direction hold its weights in registers (COLUMNS is 1) and exchange h.
    float held[H / 4];
    UNROLL
    for (int j = 0; j < H / 4; ++j) held[j] = weights[j * 16 * H];
    int *meeting = (int *)meetings + (b * 2 + dir) * (32 + 2 * H);
    float *state = (float *)(meeting + 32);
    int met = 0, failed = 0;
#endif
    for (int t = 0; t < valid; ++t) {
      const int at = dir ? valid - 1 - t : t;
      float sums[COLUMNS];
      UNROLL
      for (int i = 0; i < COLUMNS; ++i) sums[i] = 0.0f;
      SYNC();
#if GRID_BARRIER
      UNROLL
      for (int j = 0; j < H / 4; ++j) sums[0] = fmaf(held[j], h[j * 4 + slice], sums[0]);
#else
      for (int j = 0; j < H / 4; j += 8) {
        UNROLL
        for (int n = j; n < j + 8; ++n) {
          const float before = h[n * 4 + slice];
          UNROLL
          for (int i = 0; i < COLUMNS; i += 4) {
            const float4 w = *(GLOBAL const float4 *)(weights + n * 16 * H + i);
            sums[i] = fmaf(w.x, before, sums[i]);
            sums[i + 1] = fmaf(w.y, before, sums[i + 1]);
            sums[i + 2] = fmaf(w.z, before, sums[i + 2]);
            sums[i + 3] = fmaf(w.w, before, sums[i + 3]);
          }
        }
      }
#endif
      UNROLL
      for (int i = 0; i < COLUMNS; ++i) {
        sums[i] += LANE_XOR(sums[i], 1);
        sums[i] += LANE_XOR(sums[i], 2);
        if (slice == 0) g[column + i] = sums[i] + x[i];
        if (t + 1 < valid) x[i] = given[(long)(dir ? at - 1 : at + 1) * 8 * H + i];
      }
      SYNC();
      if (THREAD < UNITS) {
        const int u = THREAD;
        const float i = 1.0f / (1.0f + expf(-g[u])), f = 1.0f / (1.0f + expf(-g[UNITS + u]));
        const float o = 1.0f / (1.0f + expf(-g[3 * UNITS + u]));
        c = f * c + i * tanhf(g[2 * UNITS + u]);
        const float v = o * tanhf(c);
        y[((long)b * T + at) * 2 * H + dir * H + first + u] = v;
#if GRID_BARRIER
        POST(state + (t & 1) * H + first + u, v);
#else
        h[u] = v;
#endif
      }
#if GRID_BARRIER
      ARRIVE(THREAD, meeting, &met, &failed);
      WAIT(THREAD, H / UNITS, meeting, &met, &failed);
      for (int k = THREAD; k < H; k += THREADS) h[k] = FETCH(state + (t & 1) * H + k);
#endif
    }
#if GRID_BARRIER
    if (ANY(failed) && THREAD < UNITS) y[(long)b * T * 2 * H + dir * H + first + THREAD] = BITS_FLOAT(0x7fc00000u);
    PART(THREAD, H / UNITS, meeting);
#endif
"""
KERNEL = Kernel("nightingale_lstm", ("xp", "wh", "count", "meetings"), ("y",), _SOURCE)
_HELD_UNITS = 16  # of a block: 64 columns of weights in the registers of 256 threads
_MAX_THREADS = 512  # of a block that reads its weights anew: a kernel of many registers may have no more


@cache
def _meetings(barriers: int, room: int) -> mx.array:
    """Return a counter for each barrier, which a kernel leaves as it finds it, zero, and room for two states.

    Kernels share them, except within a CUDA graph, where two may run at once. As an output the room would cost each
    launch some time.
    """
    return constant(mx.zeros((barriers, room), dtype=mx.int32))


def bilstm_kernel(xp: mx.array, wh: mx.array, count: mx.array) -> mx.array:
    """Compute `bilstm_reference` in one kernel; `count` int32 [B] are the valid rows. Only for sizes that `fits`.

    On CUDA the blocks of a direction hold its weights in registers and meet at a counter once a step. Metal has no such
    barrier, and no threadgroup's memory and registers have room for the weights, 1 MB for H = 256. There one
    threadgroup a direction reads them from the cache at each step: 13 us at 80 GB/s, in place of two launches.
    """
    batch, length, width = xp.shape
    hidden = width // 8
    threads, units = (THREADS, _HELD_UNITS) if gpu() == "cuda" else (min(_MAX_THREADS, 4 * hidden), hidden)
    room = (2 * batch, 32 + 2 * hidden)  # a counter has a cache line of its own
    meetings = _meetings(*room) if launches_directly() else mx.zeros(room, dtype=mx.int32)
    return launch(
        KERNEL,
        [xp, wh, count, meetings],
        [((batch, length, 2 * hidden), mx.float32)],
        (hidden // units, 2, batch),
        {"H": hidden, "UNITS": units, "COLUMNS": 16 * units // threads, "THREADS": threads},
        threads,
    )[0]


def fits(hidden: int) -> bool:
    """Return whether `bilstm_kernel` is for so many hidden units on this device."""
    if gpu() == "cuda":
        return hidden % _HELD_UNITS == 0
    return hidden % 32 == 0 and hidden <= _MAX_THREADS and (4 * hidden <= _MAX_THREADS or hidden % 128 == 0)


def _difference(hidden: int) -> float:
    """Return the kernel's difference from the plain operations, on two sequences, one of them padded."""
    shapes = ((2, 5, 8 * hidden), (2, hidden, 4 * hidden))
    xp, wh = (mx.random.normal(shape, key=mx.random.key(number)) for number, shape in enumerate(shapes))
    wh = wh / hidden**0.5
    valid = PaddingMask.of(mx.array([5, 3])[:, None, None], 5)
    return relative_difference(bilstm_kernel(xp, wh, valid.number(xp)), bilstm_reference(xp, wh, valid.mask))


class BiLSTM(nn.Module):
    """One bidirectional layer: x [B, T, I] -> [B, T, 2H], forward half first; parameters by torch.nn.LSTM's names.

    `lower()`, once after loading, joins both directions: `wx` [I, 8H] holds their input weights, `wh` [2, H, 4H] their
    recurrent ones, `bias` [8H] the sum of the two biases that torch keeps.

    The last `style` inputs of torch's layer may be a style, the same in all rows: x [B, T, I - style] lacks it. Their
    product is a row that a `StyleBank` computes: `affine`, which then holds the bias too.
    """

    def __init__(self, inputs: int, hidden: int, *, style: int = 0) -> None:
        super().__init__()
        self.hidden, self.style = hidden, style
        self._packed: mx.array | None = None
        self._inputs: kernels.PackedConv | None = None
        shapes = {"weight_ih": (inputs,), "weight_hh": (hidden,), "bias_ih": (), "bias_hh": ()}
        for suffix in _DIRECTIONS:
            for name, columns in shapes.items():
                self[name + suffix] = mx.zeros((4 * hidden, *columns))

    def lower(self) -> None:
        """Replace torch's eight arrays by `wx`, `wh` and `bias`."""
        if "wx" in self:
            return
        cells = [[self.pop(f"{kind}_{side}{suffix}") for kind in _KINDS for side in _SIDES] for suffix in _DIRECTIONS]
        wx = mx.concatenate([cell[0] for cell in cells])  # [8H, I]
        self.wx = mx.contiguous(wx[:, : wx.shape[1] - self.style].T)
        self.wh = mx.stack([cell[1].T for cell in cells])
        self.bias = mx.concatenate([cell[2] + cell[3] for cell in cells])
        if self.style:
            self.affine = StyleAffine(self.style, 4 * self.hidden)
            self.affine.weight, self.affine.bias = mx.contiguous(wx[:, -self.style :]), self.pop("bias")
        self._packed = kernels.pack_bilstm(self.wh)
        self._inputs = kernels.pack_conv(self.wx[None])
        if self._inputs is not None:
            self.wx = self._inputs.weights
        if self._packed is not None:
            self.wh = self._packed

    def __call__(self, x: mx.array, valid: PaddingMask, styled: mx.array | None = None) -> mx.array:
        """Return the states of both directions, zero on padded rows; `styled` is the result of the style's bank."""
        row = self.bias if styled is None else self.affine(styled)[:, None]
        xp = mx.addmm(row, x, self.wx) if self._inputs is None else kernels.conv1d(x, self._inputs, start=row)
        name, compare = f"the LSTM's kernel (H = {self.hidden})", lambda: [_difference(self.hidden)]
        if fits(self.hidden) and usable(name, compare, MAX_RELATIVE_ERROR_FLOAT32):
            return bilstm_kernel(xp, self.wh, valid.number(x))
        if self._packed is not None:
            return kernels.bilstm(xp, self._packed, valid.counts)
        return bilstm_reference(xp, self.wh, valid.mask)
