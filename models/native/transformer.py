"""The native kernels of Transformers: products with weights of 8 bits, the search for the likeliest token, attention.

A weight of 8 bits is scale * q, |q| <= 127, with one scale for each output. A product rounds each row of its input to 8
bits, too; sums are exact integers. `models.layers.int8` has the plain definitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import mx
from models.native import kernels


class Before(IntEnum):
    """Function of a product's input; the values are those of `BeforeKind` in kernels.h.

    SWIGLU takes rows of gates, then of as many factors. The norms are not named here: `Int8Matrix.__call__` takes them.
    """

    NONE = 0
    RELU = 1
    GELU = 2
    SWIGLU = 3


_RMS_NORM, _LAYER_NORM = 4, 5
_PANEL = 16  # outputs that are packed side by side


def _padded(vector: mx.array, value: float = 0.0) -> mx.array:
    return mx.pad(vector, (0, -vector.size % _PANEL), constant_values=value)


@dataclass(frozen=True, slots=True)
class Int8Matrix:
    """Weights [outputs, inputs] of 8 bits in the kernels' order, with their scales and biases."""

    weights: mx.array
    scales: mx.array
    bias: mx.array | None
    outputs: int
    inputs: int

    @staticmethod
    def pack(weight: mx.array, bias: mx.array | None = None) -> Int8Matrix | None:
        """Return weight [O, I] and bias [O] packed; None where products stay with MLX. Evaluates `weight`."""
        if not kernels.available() or weight.dtype != mx.float32:
            return None
        weights, scales = kernels.module().pack_int8(weight)
        outputs, inputs = weight.shape
        padded = None if bias is None else _padded(bias.astype(mx.float32))
        mx.eval([] if padded is None else padded)
        return Int8Matrix(weights, scales, padded, outputs, inputs)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return self.weights.nbytes + self.scales.nbytes + (0 if self.bias is None else self.bias.nbytes)

    def __call__(
        self,
        x: mx.array,
        *,
        before: Before = Before.NONE,
        norm: nn.LayerNorm | nn.RMSNorm | None = None,
        add: mx.array | None = None,
    ) -> mx.array:
        """Return add + bias + weights applied to norm(x) or before(x), for x [..., I]: [..., O]."""
        kind, gain, shift, eps = int(before), None, None, 0.0
        if norm is not None:
            gain, eps = norm.weight, norm.eps
            shift = norm.bias if isinstance(norm, nn.LayerNorm) else None
            kind = _RMS_NORM if shift is None else _LAYER_NORM
        result: mx.array = kernels.module().int8_linear(
            x, self.weights, self.scales, self.bias, add, gain, shift, self.outputs, self.inputs, kind, eps
        )
        return result

    def rows(self, ids: mx.array, scale: float = 1.0) -> mx.array:
        """Return the weights' rows `ids` [...] times `scale`, float32 [..., I]."""
        result: mx.array = kernels.module().int8_rows(ids, self.weights, self.scales, self.inputs, scale)
        return result


class Int8Argmax:
    """Search for the largest of weights x + banned, exact, though only 8 bits of most weights are read.

    `whole` are the weights [O, I] in float32; without, those of 8 bits are all there is. `banned` [O] is added to the
    products; outputs with minus infinity are never chosen.
    """

    def __init__(self, matrix: Int8Matrix, banned: npt.NDArray[np.float32], whole: mx.array | None = None) -> None:
        self.matrix, self._whole = matrix, whole
        self._lengths = kernels.module().int8_lengths(
            matrix.weights, matrix.scales, whole, matrix.outputs, matrix.inputs
        )
        self._banned = _padded(mx.array(banned), float("-inf"))
        mx.eval(self._banned)
        self._counts: mx.array | None = None

    def largest(self, x: mx.array) -> mx.array:
        """Return the row of each input's largest product, int32 [...], for x [..., I]; of equal ones the first."""
        matrix = self.matrix
        places: mx.array
        places, self._counts = kernels.module().int8_argmax(
            x, matrix.weights, matrix.scales, *self._lengths, self._banned, self._whole, matrix.outputs, matrix.inputs
        )
        return places

    @property
    def full(self) -> int:
        """Return how many products the last search computed in full."""
        return 0 if self._counts is None else int(np.array(self._counts).sum())
