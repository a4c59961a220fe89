"""Dense layer whose columns the CPU streams compute in parallel."""

from __future__ import annotations

from itertools import pairwise

from mlx import nn

from models.backend import cpu_streams, mx, on_cpu

_LEAST_COLUMNS = 128  # narrower products finish before a second stream would have started


def column_chunks(weight: mx.array) -> list[mx.array]:
    """Cut weight [..., I, O] along O into one contiguous piece a CPU stream; a narrow weight stays one piece."""
    count = max(1, min(len(cpu_streams()), weight.shape[-1] // _LEAST_COLUMNS)) if on_cpu() else 1
    edges = [weight.shape[-1] * k // count for k in range(count + 1)]
    return [mx.contiguous(weight[..., a:b]) for a, b in pairwise(edges)]


class Linear(nn.Module):
    """y = x W^T + b for x [..., I]; `weight` is [O, I], `bias` [O]. Call `lower()` once after loading."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = mx.zeros((outputs, inputs))
        self.bias = mx.zeros((outputs,))
        self._columns: list[mx.array] = []

    def lower(self) -> None:
        """Cut the weight into one piece a CPU stream (CPU); frees the loaded order."""
        if on_cpu() and not self._columns:
            self._columns = column_chunks(self.weight.T)
            self.weight = self._columns[0]

    def __call__(self, x: mx.array) -> mx.array:
        if not self._columns:
            return mx.addmm(self.bias, x, self.weight.T)
        parts = []
        for chunk, stream in zip(self._columns, cpu_streams(), strict=False):
            with mx.stream(stream):
                parts.append(x @ chunk)
        return (parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=-1)) + self.bias
