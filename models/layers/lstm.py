"""LSTM in one direction and in both (Hochreiter and Schmidhuber 1997; gate order i, f, g, o as torch.nn.LSTM).

Both directions advance together: step t reads row t for the forward and row T-1-t for the backward one. Under
padding the backward state is held at zero until the true end, so that it starts there.
"""

from __future__ import annotations

from mlx import nn

from models.backend import mx
from models.layers.compiled import compiled_cache
from models.layers.kernels import cuda
from models.layers.mask import PaddingMask


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


class BiLSTM(nn.Module):
    """One bidirectional layer: x [B, T, I] -> [B, T, 2H], forward half first; parameters by torch.nn.LSTM's names.

    `lower()`, once after loading, joins both directions: `wx` [I, 8H] holds their input weights, `wh` [2, H, 4H] their
    recurrent ones, `bias` [8H] the sum of the two biases that torch keeps.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
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

    def __call__(self, x: mx.array, valid: PaddingMask) -> mx.array:
        """Return zero on padded rows."""
        batch, length, _ = x.shape
        hidden = self.hidden
        xp = mx.addmm(self.bias, x, self.wx)
        if cuda.available() and hidden % cuda.UNITS == 0:
            return cuda.lstm(xp, self.wh, valid.number(x))
        xp = xp.reshape(batch, length, 2, 4 * hidden)
        steps = mx.stack([xp[:, :, 0], xp[:, ::-1, 1]]).transpose(2, 0, 1, 3)  # [T, 2, B, 4H]
        keep = None
        if valid.mask is not None:
            keep = mx.stack([valid.mask, valid.mask[:, ::-1]]).transpose(2, 0, 1, 3)
        h = c = mx.zeros((2, batch, hidden))
        gates = _gates()
        out = []
        for t in range(length):
            h, c = gates(mx.addmm(steps[t], h, self.wh), c)
            if keep is not None:
                h, c = h * keep[t], c * keep[t]
            out.append(h)
        y = mx.stack(out)
        return mx.concatenate([y[:, 0], y[::-1, 1]], axis=-1).transpose(1, 0, 2)
