"""LSTM in one direction and in both (Hochreiter and Schmidhuber 1997; gate order i, f, g, o as torch.nn.LSTM).

Both directions advance in one step: step t reads row t for the forward and row T-1-t for the backward one. On padding
the state is set to zero, so that the backward direction starts at the true end.
"""

from __future__ import annotations

from mlx import nn

from models.backend import compiled_cache, mx
from models.layers.conv import PaddingMask
from models.layers.kernels.device import Kernel, build, gpu
from models.native import kernels


@compiled_cache
def _gates():  # type: ignore[no-untyped-def]
    def step(g: mx.array, c: mx.array) -> tuple[mx.array, mx.array]:
        i, f, u, o = mx.split(g, 4, axis=-1)
        c = mx.sigmoid(f) * c + mx.sigmoid(i) * mx.tanh(u)
        return mx.sigmoid(o) * mx.tanh(c), c

    return mx.compile(step)


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
        gates = _gates()
        out = []
        for t in range(x.shape[1]):
            h, c = gates(mx.addmm(steps[t], h, self.wh), c)
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
    gates = _gates()
    out = []
    for t in range(length):
        h, c = gates(mx.addmm(steps[t], h, wh), c)
        if keep is not None:
            h, c = h * keep[t], c * keep[t]
        out.append(h)
    y = mx.stack(out)
    return mx.concatenate([y[:, 0], y[::-1, 1]], axis=-1).transpose(1, 0, 2)


UNITS = 16  # hidden units that a block of the kernel owns: 64 rows of weights, held in registers

_SOURCE = r"""
    // One block owns UNITS hidden units of one direction of one sequence: 4 * UNITS rows of weights, four threads a
    // row. Blocks of a direction exchange h through L2 and meet at a counter once a step; all are resident at once.
    constexpr int PER = H / 4;
    constexpr int BLOCKS = H / UNITS;
    const int b = blockIdx.z, dir = blockIdx.y, first = blockIdx.x * UNITS;
    const int T = xp_shape[1];
    const int slice = threadIdx.x & 3, row = threadIdx.x >> 2;
    const int gate = row / UNITS, unit = first + row % UNITS;
    const int valid = count[b];
    float w[PER];
    #pragma unroll
    for (int j = 0; j < PER; ++j) w[j] = wh[(dir * H + j * 4 + slice) * 4 * H + gate * H + unit];
    __shared__ float h[H];
    __shared__ float g[4 * UNITS];
    float* state = exchange + (b * 2 + dir) * 2 * H;
    int* meet = (int*)counter + (b * 2 + dir) * 32;
    float c = 0.0f;
    float x = xp[(b * T + (dir ? T - 1 : 0)) * 8 * H + dir * 4 * H + gate * H + unit];
    for (int t = 0; t < T; ++t) {
      for (int k = threadIdx.x; k < H; k += blockDim.x) h[k] = t ? __ldcg(state + (t & 1) * H + k) : 0.0f;
      __syncthreads();
      float sum = 0.0f;
      #pragma unroll
      for (int j = 0; j < PER; ++j) sum = fmaf(w[j], h[j * 4 + slice], sum);
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (slice == 0) g[row] = sum + x;
      const int at = dir ? T - 1 - t : t;
      if (t + 1 < T) {
        const int next = dir ? at - 1 : at + 1;
        x = xp[(b * T + next) * 8 * H + dir * 4 * H + gate * H + unit];
      }
      __syncthreads();
      if (threadIdx.x < UNITS) {
        const int u = threadIdx.x;
        const float i = 1.0f / (1.0f + expf(-g[u])), f = 1.0f / (1.0f + expf(-g[UNITS + u]));
        const float o = 1.0f / (1.0f + expf(-g[3 * UNITS + u]));
        c = f * c + i * tanhf(g[2 * UNITS + u]);
        float v = o * tanhf(c);
        if (at >= valid) { c = 0.0f; v = 0.0f; }
        y[(b * T + at) * 2 * H + dir * H + first + u] = v;
        __stcg(state + ((t + 1) & 1) * H + first + u, v);
        __threadfence();
      }
      __syncthreads();
      if (BLOCKS > 1 && threadIdx.x == 0) {
        atomicAdd(meet, 1);
        while (*((volatile int*)meet) < BLOCKS * (t + 1)) {}
        __threadfence();
      }
      __syncthreads();
    }
"""


def bilstm_cuda(xp: mx.array, wh: mx.array, count: mx.array) -> mx.array:
    """Compute `bilstm_reference` in one kernel; `count` int32 [B] are the valid rows. H is a multiple of UNITS."""
    batch, length, width = xp.shape
    hidden = width // 8
    kernel = build(Kernel("nightingale_lstm", ("xp", "wh", "count"), ("y", "exchange", "counter"), _SOURCE), "cuda")
    result = kernel(
        inputs=[xp, wh, count],
        # Counters a cache line apart; MLX keeps arrays of 8 bytes in host memory, where an atomic takes microseconds.
        output_shapes=[(batch, length, 2 * hidden), (batch, 2, 2, hidden), (batch, 2, 32)],
        output_dtypes=[mx.float32, mx.float32, mx.int32],
        grid=(hidden // UNITS * 256, 2, batch),
        threadgroup=(256, 1, 1),
        template=[("H", hidden), ("UNITS", UNITS)],
        init_value=0,
    )
    y: mx.array = result[0]
    return y


class BiLSTM(nn.Module):
    """One bidirectional layer: x [B, T, I] -> [B, T, 2H], forward half first; parameters by torch.nn.LSTM's names.

    `lower()`, once after loading, joins both directions: `wx` [I, 8H] holds their input weights, `wh` [2, H, 4H] their
    recurrent ones, `bias` [8H] the sum of the two biases that torch keeps.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
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
        self.wx = mx.concatenate([cell[0].T for cell in cells], axis=1)
        self.wh = mx.stack([cell[1].T for cell in cells])
        self.bias = mx.concatenate([cell[2] + cell[3] for cell in cells])
        self._packed = kernels.pack_bilstm(self.wh)
        self._inputs = kernels.pack_conv(self.wx[None])
        if self._inputs is not None:
            self.wx = self._inputs.weights
        if self._packed is not None:
            self.wh = self._packed

    def __call__(self, x: mx.array, valid: PaddingMask) -> mx.array:
        """Return the states of both directions, zero on padded rows."""
        packed = self._inputs
        xp = mx.addmm(self.bias, x, self.wx) if packed is None else kernels.linear(x, packed, self.bias)
        if gpu() == "cuda" and self.hidden % UNITS == 0:
            return bilstm_cuda(xp, self.wh, valid.number(x))
        if self._packed is not None:
            return kernels.bilstm(xp, self._packed, valid.counts)
        return bilstm_reference(xp, self.wh, valid.mask)
