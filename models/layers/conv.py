"""Convolutions along time, and the mask of the rows that padding adds.

MLX's CPU convolution takes a slow path for any dilation, stride of the input, or groups. On the CPU a convolution is
therefore the sum over its taps of one matrix product each, on shifted rows of the input: the rows are views, and
`addmm` accumulates in place, so it runs at the speed of BLAS. On GPUs it is MLX's own convolution. Transposed
convolutions are split into their phases, each an ordinary convolution, on every device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from mlx import nn

from models.backend import compiled, constant, cpu_streams, mx, on_cpu
from models.layers.linear import column_chunks
from models.native import kernels


@lru_cache(maxsize=64)
def places(rows: int) -> mx.array:
    """Return the numbers of the rows [1, rows, 1]."""
    return constant(mx.arange(rows)[None, :, None])


@dataclass(frozen=True, slots=True)
class PaddingMask:
    """`mask` [B, L, 1] is 1 on valid rows, the first ones, and 0 after; `count` int32 [B, 1, 1] is their number.

    Both are None where nothing is padded.
    """

    mask: mx.array | None = None
    count: mx.array | None = None

    @staticmethod
    def of(count: mx.array | None, rows: int) -> PaddingMask:
        """Return the mask of the first `count` [B, 1, 1] of `rows` rows; all rows where count is None."""
        if count is None:
            return PaddingMask()
        return PaddingMask((places(rows) < count).astype(mx.float32), count.astype(mx.int32))

    @property
    def counts(self) -> mx.array | None:
        """Return the number of valid rows, int32 [B], or None where nothing is padded."""
        return None if self.count is None else self.count[:, 0, 0]

    def number(self, x: mx.array) -> mx.array:
        """Return the number of valid rows of x [B, L, C], int32 [B]."""
        if self.count is None:
            return mx.full((x.shape[0],), x.shape[1], dtype=mx.int32)
        return self.count[:, 0, 0]

    def zero(self, x: mx.array) -> mx.array:
        """Return x [B, L, C] with its padding set to zero."""
        return x if self.mask is None else x * self.mask.astype(x.dtype)

    def doubled(self, rows: int) -> PaddingMask:
        """Return the mask after the length has doubled to `rows`."""
        return self if self.count is None else PaddingMask.of(self.count * 2, rows)


def with_zeros(x: mx.array, axis: int, size: int) -> mx.array:
    """Return x with zeros behind it along `axis`, up to `size`."""
    return mx.pad(x, [(0, size - x.shape[k] if k == axis else 0) for k in range(x.ndim)])


def tap(taps: mx.array, k: int) -> mx.array:
    """Return taps[k] as a view: MLX copies what a number selects, by a launch of its own."""
    return taps[k : k + 1].reshape(taps.shape[1:])


def shift_sum(x: mx.array, taps: mx.array, dilation: int, start: mx.array | None = None) -> mx.array:
    """Return the valid convolution of x [B, L, I] by taps [K, I, O]: [B, L - (K-1) * dilation, O], plus `start`."""
    kernel = taps.shape[0]
    rows = x.shape[1] - (kernel - 1) * dilation
    y = start
    for k in range(kernel):
        row = x[:, k * dilation : k * dilation + rows]
        y = row @ tap(taps, k) if y is None else mx.addmm(y, row, tap(taps, k))
    assert y is not None  # noqa: S101  (kernel >= 1)
    return y


def spread_sum(x: mx.array, chunks: list[mx.array], dilation: int) -> mx.array:
    """Return `shift_sum` with the taps' output channels in `chunks`, one a CPU stream."""
    parts = []
    for taps, stream in zip(chunks, cpu_streams(), strict=False):
        with mx.stream(stream):
            parts.append(shift_sum(x, taps, dilation))
    return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=-1)


# Taps of a depthwise convolution that one fused kernel adds. With five, MLX makes several kernels, five times as slow.
_TAPS = 4


@compiled
def _multiply_add(y: mx.array, rows: list[mx.array], taps: list[mx.array]) -> mx.array:
    for row, tap in zip(rows, taps, strict=True):
        y = y + row * tap
    return y


def _pad_rows(x: mx.array, left: int, right: int) -> mx.array:
    return mx.pad(x, [(0, 0), (left, right), (0, 0)]) if left or right else x


class _Convolution(nn.Module):
    """Arrays of a convolution: `weight`, `bias` [O] or None, and what `lower` makes of the weight.

    Set `bfloat16` before it for such products on a CPU that has them.
    """

    def __init__(self, shape: tuple[int, int, int], outputs: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = mx.zeros(shape)
        if bias:
            self.bias = mx.zeros((outputs,))
        self._taps: mx.array | None = None
        self.packed: kernels.PackedConv | None = None
        self.bfloat16 = False
        self._columns: list[mx.array] = []

    def relower(self) -> None:
        """Follow a change of the weight's type."""
        if self._taps is not None:
            self._taps = self.weight


class Conv1d(_Convolution):
    """1-D cross-correlation, as torch.nn.Conv1d but channels-last: x [B, L, I] -> [B, L', O].

    `weight` is [O, K, I / groups] (MLX's order), `bias` [O] or None. Zero padding on both sides; any stride,
    dilation and groups. `spread` divides the output channels among the CPU streams, for wide and short layers that do
    not run on a stream of their own. Call `lower()` once after loading.

    Set `exact` before it where three more roundings would count (the native kernels of several taps multiply
    transformed rows, `models/native/src/convolution.h`).
    """

    def __init__(  # noqa: PLR0913  (the options of torch.nn.Conv1d)
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        spread: bool = False,
    ) -> None:
        super().__init__((outputs, kernel, inputs // groups), outputs, bias=bias)
        self.kernel, self.stride, self.padding = kernel, stride, padding
        self.dilation, self.groups = dilation, groups
        self._spread, self.exact = spread, False

    def lower(self) -> None:
        """Bring the weight into the device's order. Frees the loaded order where it is not used."""
        if self._taps is not None or not on_cpu() or self.groups != 1:
            return
        taps = self.weight.transpose(1, 2, 0)
        if self.stride > 1:
            # `stride` rows fold into one: a strided convolution is a dense one on wider rows. Zeros fill the gaps of a
            # dilated kernel.
            spread = mx.zeros((self._folds * self.stride, *taps.shape[1:]))
            spread[: self.reach + 1 : self.dilation] = taps
            taps = spread.reshape(self._folds, self.stride * taps.shape[1], -1)
        if not self.exact:
            self.packed = kernels.pack_conv(taps, bfloat16=self.bfloat16)
        if self.packed is not None:
            self.weight = self._taps = self.packed.weights
            return
        self._taps = mx.contiguous(taps)
        if self._spread and self.stride == 1:
            self._columns = column_chunks(self._taps)
            self._taps = self._columns[0]
        self.weight = self._taps

    @property
    def _folds(self) -> int:
        """Return the rows of `stride` samples that the kernel touches."""
        return -(-(self.reach + 1) // self.stride)

    @property
    def reach(self) -> int:
        """Return the rows that the kernel spans beyond the first."""
        return (self.kernel - 1) * self.dilation

    def __call__(self, x: mx.array, start: mx.array | None = None) -> mx.array:
        """Convolve, and add `start` [B, L', O] if given (in place where MLX can)."""
        bias = self.get("bias")
        if self.packed is not None:
            return self._by_kernel(x, self.padding, self.padding, start, bias)
        y = self.valid(x, self.padding, self.padding, start)
        return y if bias is None else y + bias

    def _by_kernel(
        self, x: mx.array, left: int, right: int, start: mx.array | None, bias: mx.array | None = None
    ) -> mx.array:
        """Convolve by the native kernel."""
        assert self.packed is not None  # noqa: S101
        if self.stride > 1:
            return kernels.conv1d(self._fold(x, left, right), self.packed, start=start, bias=bias)
        shape = {"dilation": self.dilation, "left": left, "right": right}
        return kernels.conv1d(x, self.packed, start=start, bias=bias, **shape)

    def valid(self, x: mx.array, left: int, right: int, start: mx.array | None = None) -> mx.array:
        """Convolve without bias, with `left` and `right` rows of zero padding instead of the layer's own."""
        if self.packed is not None:
            return self._by_kernel(x, left, right, start)
        if self._taps is None:
            return self._native(x, left, right, start)
        if self.stride > 1:
            return shift_sum(self._fold(x, left, right), self._taps, 1, start)
        x = _pad_rows(x, left, right)
        if len(self._columns) < 2:
            return shift_sum(x, self._taps, self.dilation, start)
        y = spread_sum(x, self._columns, self.dilation)
        return y if start is None else y + start

    def _fold(self, x: mx.array, left: int, right: int) -> mx.array:
        batch, length, channels = x.shape
        rows = (length + left + right - self.reach - 1) // self.stride + 1
        total = (rows - 1 + self._folds) * self.stride
        x = _pad_rows(x, left, max(0, total - left - length))[:, :total]
        return x.reshape(batch, total // self.stride, self.stride * channels)

    def _native(self, x: mx.array, left: int, right: int, start: mx.array | None) -> mx.array:
        if self.kernel == self.stride == self.groups == 1 and not left and not right:
            weight = self.weight[:, 0].T
            return x @ weight if start is None else mx.addmm(start, x, weight)
        if self.groups == x.shape[2] == self.weight.shape[0] and self.stride == 1:
            y = self._depthwise(_pad_rows(x, left, right))
        elif left == right:
            y = mx.conv1d(x, self.weight, self.stride, left, self.dilation, self.groups)
        else:
            y = mx.conv1d(_pad_rows(x, left, right), self.weight, self.stride, 0, self.dilation, self.groups)
        return y if start is None else y + start

    def _depthwise(self, x: mx.array) -> mx.array:
        rows = x.shape[1] - self.reach
        taps = mx.contiguous(self.weight[:, :, 0].T)
        y = mx.zeros((x.shape[0], rows, x.shape[2]), dtype=x.dtype)
        for first in range(0, self.kernel, _TAPS):
            group = range(first, min(first + _TAPS, self.kernel))
            shifted = [x[:, k * self.dilation : k * self.dilation + rows] for k in group]
            y = _multiply_add(y, shifted, [tap(taps, k) for k in group])
        return y


class ConvTranspose1d(_Convolution):
    """Transposed convolution, as torch.nn.ConvTranspose1d but channels-last: x [B, L, I] -> [B, L', O].

    `weight` is [I, K, O / groups]; L' = (L - 1) * stride - 2 * padding + K + output_padding. `groups` is 1 or I.
    Output rows i * stride + r depend on inputs i, i-1, ... through taps r, r + stride, ... Each input row thus gives
    `stride` output rows, by a convolution of ceil(K / stride) taps.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int,
        padding: int = 0,
        output_padding: int = 0,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        if groups not in (1, inputs):
            raise ValueError(f"groups must be 1 or {inputs} (depthwise), not {groups}")
        super().__init__((inputs, kernel, outputs // groups), outputs, bias=bias)
        self.kernel, self.stride, self.padding, self.output_padding = kernel, stride, padding, output_padding
        self.depthwise = groups > 1

    def lower(self) -> None:
        """Fold the taps into phases: [folds, I, stride * O], last tap first."""
        if self._taps is not None:
            return
        folds = -(-self.kernel // self.stride)
        w = mx.pad(self.weight, [(0, 0), (0, folds * self.stride - self.kernel), (0, 0)])
        if self.depthwise:
            taps = w[:, :, 0].T.reshape(folds, self.stride, -1)[::-1]
        else:
            inputs, _, outputs = w.shape
            taps = w.reshape(inputs, folds, self.stride * outputs).transpose(1, 0, 2)[::-1]
            self.packed = kernels.pack_conv(taps, bfloat16=self.bfloat16) if on_cpu() else None
            if self.packed is not None:
                self.weight = self._taps = self.packed.weights
                return
            self._columns = column_chunks(taps)
        self._taps = mx.contiguous(taps)
        self.weight = self._taps

    def __call__(self, x: mx.array, valid: PaddingMask | None = None) -> mx.array:
        """Return the result, zero beyond its `valid` rows."""
        if self._taps is None:
            self.lower()
        taps, valid = self._taps, valid or PaddingMask()
        assert taps is not None  # noqa: S101
        batch, length, channels = x.shape
        folds = -(-self.kernel // self.stride)
        size = (length - 1) * self.stride - 2 * self.padding + self.kernel + self.output_padding
        # One more row where output padding reaches past the last full phase.
        right = max(0, -(-(self.padding + size) // self.stride) - (length + folds - 1))
        kept = slice(self.padding, self.padding + size)
        if self.packed is not None:
            bias = mx.tile(self.bias, self.stride) if "bias" in self else None
            y = kernels.conv1d(x, self.packed, left=folds - 1, right=folds - 1 + right, bias=bias)
            return valid.zero(y.reshape(batch, -1, self.packed.outputs // self.stride)[:, kept])
        x = _pad_rows(x, folds - 1, folds - 1 + right)
        if not self.depthwise:
            y = spread_sum(x, self._columns if len(self._columns) > 1 else [taps], 1)
            y = y.reshape(batch, -1, taps.shape[2] // self.stride)[:, kept]
            return valid.zero(y + self.bias if "bias" in self else y)
        # Bias and mask come before the rows are cut, so that all is one fused launch.
        rows = x.shape[1] - folds + 1
        parts = [x[:, k : k + rows, None] * tap(taps, k) for k in range(folds)]
        y = sum(parts[1:], parts[0])
        if "bias" in self:
            y = y + self.bias
        if valid.count is not None:
            at = places(rows * self.stride).reshape(1, rows, self.stride, 1)
            y = y * (at < valid.count[..., None] + self.padding).astype(y.dtype)
        return y.reshape(batch, -1, channels)[:, kept]


def reflect_left(x: mx.array) -> mx.array:
    """Prepend the row that reflects across the first: [B, L, C] -> [B, L + 1, C] (torch's ReflectionPad1d((1, 0)))."""
    return mx.concatenate([x[:, 1:2], x], axis=1)
