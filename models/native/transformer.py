"""The native kernels of Transformers: products with small weights, search for the likeliest token, attention.

A weight of 8 bits is scale * q, |q| <= 127, with one scale for each output. One of 4 bits has -8 <= q <= 7, with one
scale for each group of 64 inputs. A product rounds each row of its input to 8 bits, too; sums are exact integers.
One of 16 bits is a bfloat16: its products are in float32. tests/models/native/checks.py has the plain definitions.
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

    GELU is the form of tanh. SWIGLU takes rows of gates, then of as many factors. `PackedMatrix.__call__` takes the
    norms, not named here.
    """

    NONE = 0
    RELU = 1
    GELU = 2
    SWIGLU = 3
    EXACT_GELU = 6


_RMS_NORM, _LAYER_NORM = 4, 5
_PANEL = 16  # outputs that are packed side by side
GROUP = 64  # inputs that share a scale with weights of 4 bits
_MIN_ROUGH = 8192  # outputs; fewer are found as fast without a copy of 4 bits


def _padded(vector: mx.array, value: float = 0.0) -> mx.array:
    return mx.pad(vector, (0, -vector.size % _PANEL), constant_values=value)


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """Weights [outputs, inputs] of 16, 8 or 4 bits in the kernels' order, with their scales and biases."""

    weights: mx.array
    scales: mx.array
    bias: mx.array | None
    outputs: int
    inputs: int
    bits: int

    @staticmethod
    def pack(weight: mx.array, bias: mx.array | None = None, *, bits: int = 8) -> PackedMatrix | None:
        """Return weight [O, I] and bias [O] packed to `bits`; None where products stay with MLX. Evaluates `weight`.

        These are other `bits` than 16 (bfloat16), 8 and 4, other types than float32, and 4 bits of inputs that are no
        whole groups.
        """
        outputs, inputs = weight.shape
        if bits not in (4, 8, 16) or (bits == 4 and inputs % GROUP) or not fits(weight):
            return None
        weights, scales = kernels.module().pack_int8(weight, bits)
        padded = None if bias is None else _padded(bias.astype(mx.float32))
        mx.eval([] if padded is None else padded)
        return PackedMatrix(weights, scales, padded, outputs, inputs, bits)

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
        given = (self.weights, self.scales, self.bias, add, gain, shift)
        return kernels.compute("int8_linear", x, *given, self.outputs, self.inputs, kind, eps)

    def rows(self, ids: mx.array, scale: float = 1.0) -> mx.array:
        """Return the weights' rows `ids` [...] times `scale`, float32 [..., I]."""
        return kernels.compute("int8_rows", ids, self.weights, self.scales, self.outputs, self.inputs, scale)


class Int8Argmax:
    """Search for the largest of weights x + banned, though only 8 bits of most weights are read.

    `whole` are the weights [O, I] in float32; without, those of 8 or 4 bits are all there is. `banned` [O] is added to
    the products; outputs with minus infinity are never chosen. The search is exact, with one exception: of many weights
    of 8 bits, most are read as a copy of 4 bits, whose bounds hold but once in 10^14 (see Int8Search in kernels.h).
    """

    def __init__(self, matrix: PackedMatrix, banned: npt.NDArray[np.float32], whole: mx.array | None = None) -> None:
        self.matrix, self._whole = matrix, whole
        self._lengths = kernels.module().int8_lengths(
            matrix.weights, matrix.scales, whole, matrix.outputs, matrix.inputs
        )
        self._rough: list[mx.array] = []
        if whole is None and matrix.bits == 8 and matrix.inputs % GROUP == 0 and matrix.outputs >= _MIN_ROUGH:
            self._rough = kernels.module().int8_rough(matrix.weights, matrix.scales, matrix.outputs, matrix.inputs)
        self._banned = _padded(mx.array(banned), float("-inf"))
        mx.eval(self._banned)
        self._found: mx.array | None = None

    def largest(self, x: mx.array) -> mx.array:
        """Return the row of each input's largest product, int32 [...], for x [..., I]; of equal ones the first."""
        matrix = self.matrix
        given = (x, matrix.weights, matrix.scales, *self._lengths, self._banned, self._whole, self._rough)
        self._found = kernels.module().int8_argmax(*given, matrix.outputs, matrix.inputs)
        places: mx.array = self._found[0]
        return places

    @property
    def full(self) -> int:
        """Return how many products the last search computed in full."""
        return 0 if self._found is None else int(np.array(self._found[1]).sum())


class PlainArgmax:
    """The same search by all products, for weights in bfloat16."""

    def __init__(self, matrix: PackedMatrix, banned: npt.NDArray[np.float32]) -> None:
        self.matrix, self._banned = matrix, mx.array(banned)

    def largest(self, x: mx.array) -> mx.array:
        """Return the row of each input's largest product, as `Int8Argmax.largest`."""
        return mx.argmax(self.matrix(x) + self._banned, axis=-1).astype(mx.int32)


def weight_bits(dtype: str, bits: int) -> int:
    """Return `bits`, or 16 where these are 0, `dtype` is "bfloat16" and the native kernels are in use."""
    return 16 if dtype == "bfloat16" and not bits and kernels.available() else bits


def fits(x: mx.array) -> bool:
    """Return whether the kernels compute x: float32, and native kernels in use."""
    return x.dtype == mx.float32 and kernels.available()


def log_sum_exp(x: mx.array) -> mx.array:
    """Return log(sum(exp(x))) of x [..., N]: [..., 1]. MLX's computes one exponential at a time."""
    return kernels.compute("log_sum_exp", x)


def gelu(x: mx.array) -> mx.array:
    """Return x Phi(x) of x [...], by an erf with an absolute error of 2e-7."""
    return kernels.compute("gelu", x)


def to_heads(x: mx.array, parts: int, size: int) -> mx.array:
    """Return rows x [B, S, parts * heads * size] as [parts, B, heads, S, size]."""
    return kernels.compute("to_heads", x, parts, size)


def attend(q: mx.array, memory: mx.array | None, bias: mx.array | None, heads: int) -> mx.array:
    """Return softmax attention [B, n, C] of q [B, n, C] to memory [B, 2 * heads, S, C / heads], keys, then values.

    `memory` is in float32 or bfloat16; products and sums are in float32. Without it, q [B, n, 3C] holds queries, keys
    and values. `bias` [B, 1, 1, S] adds to the logits.
    """
    return kernels.compute("attend", q, memory, bias, heads)


def step_attend(
    qkv: mx.array, past: mx.array, place: mx.array, heads: int, wavelengths: mx.array | None = None
) -> tuple[mx.array, mx.array]:
    """Return causal attention [B, n, C] of n new tokens to a cache and themselves, and the cache with them in it.

    Args:
        qkv: Queries, keys and values [B, n, 3C].
        past: Keys, then values [B, 2 * heads, T, C / heads]. Its memory is reused where nothing else refers to it.
        place: int32 [1], the first token's position.
        heads: Of the attention.
        wavelengths: Positions a radian [C / heads / 2] of rotary positions, which then turn queries and keys.
    """
    found: tuple[mx.array, mx.array] = kernels.module().step_attend(qkv, past, place, heads, wavelengths)
    return found
