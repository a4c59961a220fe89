"""Dense layers: `Linear` for many rows of input, `Projection` for few, both shared out among the CPU streams.

The cost of a product of few rows is that of reading the weights. A `Projection` keeps them in the checkpoint's order
[O, I]: each output is then one run of memory. The CPU streams share the outputs, as one core cannot use all of the
memory's bandwidth. Weights of 8 or 4 bits have a scale and an offset for each group along I. On the CPU they go to the
native kernels, where there are any: see `models.native.transformer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mlx import nn

from models.backend import compiled, cpu_streams, mx, on_cpu
from models.layers.activation import exact_gelu, gelu_tanh
from models.native import kernels
from models.native.transformer import GROUP, Before, PackedMatrix

_MIN_COLUMNS = 128  # of a `Linear`; narrower products finish before a second stream would have started
_MIN_WEIGHTS = 1 << 18  # of a `Projection`; fewer are read before a second stream would have started

Part = tuple[mx.array, ...]  # weight; or weight, scales, offsets


def column_chunks(weight: mx.array) -> list[mx.array]:
    """Cut weight [..., I, O] along O into one contiguous piece a CPU stream; a narrow weight stays one piece."""
    count = max(1, min(len(cpu_streams()), weight.shape[-1] // _MIN_COLUMNS)) if on_cpu() else 1
    edges = [weight.shape[-1] * k // count for k in range(count + 1)]
    return [mx.contiguous(weight[..., a:b]) for a, b in pairwise(edges)]


class Linear(nn.Module):
    """Dense layer y = x W^T + b for x [..., I]; `weight` is [O, I], `bias` [O]. Call `lower()` once after loading.

    Set `exact` before it where BLAS's order of sums, which rounds less, counts.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = mx.zeros((outputs, inputs))
        self.bias = mx.zeros((outputs,))
        self.exact = False
        self._columns: list[mx.array] = []
        self.packed: kernels.PackedConv | None = None

    def lower(self) -> None:
        """Bring the weight into the native kernel's order, or cut it into one piece a CPU stream; frees the loaded."""
        if not on_cpu() or self._columns or self.packed is not None:
            return
        self.packed = None if self.exact else kernels.pack_conv(self.weight.T[None])
        if self.packed is None:
            self._columns = column_chunks(self.weight.T)
        self.weight = self._columns[0] if self.packed is None else self.packed.weights

    def __call__(self, x: mx.array) -> mx.array:
        if self.packed is not None:
            return kernels.linear(x, self.packed, self.bias)
        if not self._columns:
            return mx.addmm(self.bias, x, self.weight.T)
        parts = []
        for chunk, stream in zip(self._columns, cpu_streams(), strict=False):
            with mx.stream(stream):
                parts.append(x @ chunk)
        return (parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=-1)) + self.bias


def row_parts(weight: mx.array, bits: int = 0) -> list[Part]:
    """Cut weight [O, I] along O into one piece a CPU stream (views, no copies), quantized to `bits` unless 0."""
    count = len(cpu_streams()) if on_cpu() and weight.size >= _MIN_WEIGHTS else 1
    edges = [weight.shape[0] * k // count for k in range(count + 1)]
    pieces = [weight[a:b] for a, b in pairwise(edges)]
    return [tuple(mx.quantize(w, group_size=GROUP, bits=bits)) if bits else (w,) for w in pieces]


def multiply(x: mx.array, part: Part, bits: int = 0) -> mx.array:
    """Return x [..., I] times one piece's transpose: [..., rows of the piece]."""
    if bits:
        weight, scales, offsets = part
        return mx.quantized_matmul(x, weight, scales, offsets, transpose=True, group_size=GROUP, bits=bits)
    return x @ part[0].T


def triple(part: Part) -> tuple[mx.array, mx.array, mx.array]:
    """Return a piece's weight, scales and offsets, as kernels take them; unless quantized, three times the weight."""
    weight, scales, offsets = part if len(part) == 3 else (part[0], part[0], part[0])
    return weight, scales, offsets


@compiled
def _gated(gate: mx.array, up: mx.array) -> mx.array:
    gated: mx.array = nn.silu(gate) * up
    return gated


def swiglu(x: mx.array) -> mx.array:
    """Return silu(gate) * up for x [..., 2I], gates first. A bias would be one more launch on a GPU."""
    return _gated(*mx.split(x, 2, axis=-1))


def prepare(x: mx.array, before: Before) -> mx.array:
    """Return before(x), by MLX's operations."""
    if before == Before.RELU:
        return mx.maximum(x, 0)
    if before == Before.GELU:
        return gelu_tanh(x)
    if before == Before.EXACT_GELU:
        return exact_gelu(x)
    return swiglu(x) if before == Before.SWIGLU else x


class Projection(nn.Module):
    """Dense layer y = x W^T + b for x [..., I]; `weight` is [O, I], `bias` [O]. Call `lower()` once after loading."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = mx.zeros((outputs, inputs))
        self.bias = mx.zeros((outputs,))
        self._parts: list[Part] = []
        self._bits = 0
        self._native: PackedMatrix | None = None

    @staticmethod
    def join(parts: Sequence[Projection]) -> Projection:
        """Return the projection of one input to the outputs of all `parts`, none of them lowered."""
        joined = Projection(parts[0].weight.shape[1], 0)
        joined.weight = mx.concatenate([part.weight for part in parts])
        joined.bias = mx.concatenate([part.bias for part in parts])
        mx.eval(joined.parameters())
        return joined

    def lower(self, bits: int = 0) -> None:
        """Cut the weight into one piece a CPU stream (CPU) and quantize it to `bits` (4 or 8; 0 leaves it).

        The native kernels keep nothing but the quantized weights: `weight` is then empty.
        """
        self._native = PackedMatrix.pack(self.weight, self.get("bias"), bits=bits)
        if self._native is not None:
            self.weight = mx.zeros((0, self._native.inputs))
            return
        self._bits = bits
        self._parts = row_parts(self.weight, self._bits)
        mx.eval(self._parts)
        self.weight = self._parts[0][0]

    @property
    def bits(self) -> int:
        """Return the bits of the weights that the device reads, 0 where they are not quantized."""
        return self._bits

    @property
    def whole(self) -> tuple[mx.array, mx.array, mx.array]:
        """Return weight, scales and offsets in one piece (see `triple`), as on a GPU."""
        (part,) = self._parts
        return triple(part)

    def after(
        self,
        x: mx.array,
        *,
        norm: nn.LayerNorm | nn.RMSNorm | None = None,
        before: Before = Before.NONE,
        add: mx.array | None = None,
    ) -> mx.array:
        """Return add + W f(x) + b, where f is `norm` or `before`: one native kernel with quantized weights."""
        if self._native is not None:
            return self._native(x, before=before, norm=norm, add=add)
        x = prepare(x, before) if norm is None else norm(x)
        if add is not None and len(self._parts) == 1 and not self._bits and "bias" not in self:
            return mx.addmm(add, x, self._parts[0][0].T)
        y: mx.array = self(x)
        return y if add is None else add + y

    def __call__(self, x: mx.array) -> mx.array:
        if self._native is not None:
            return self._native(x)
        if not self._parts:
            return mx.addmm(self.bias, x, self.weight.T)
        if len(self._parts) == 1:
            if self._bits:
                return multiply(x, self._parts[0], self._bits) + self.bias
            return mx.addmm(self.bias, x, self._parts[0][0].T)
        outputs = []
        for part, stream in zip(self._parts, cpu_streams(), strict=False):
            with mx.stream(stream):
                outputs.append(multiply(x, part, self._bits))
        return mx.concatenate(outputs, axis=-1) + self.bias
