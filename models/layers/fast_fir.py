"""Convolution along time with a quarter of the products saved: the two-parallel fast FIR algorithm.

Winograd 1980; Parhi, VLSI Digital Signal Processing Systems, section 9.2. Even and odd outputs of
y[i] = sum_k x[i + k d] W_k share three half-rate convolutions instead of four. With E, O the even and odd rows of x,
He, Ho the even and odd taps, h = (d - 1) / 2 for odd dilation d, and * a convolution of dilation d at half rate:

    A = He * E      B = Ho * O      R = (He + Ho) * (O + E[. + h + 1])
    y[2n] = A[n] + B[n + h]         y[2n + 1] = R[n] - A[n + h + 1] - B[n]

Rows of E beyond the input cancel in y; they are zero here. On the CPU it is faster from seven taps and 128 channels on.
Below, the sums cost as much as the products save.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.backend import mx
from models.layers.conv import shift_sum

MIN_KERNEL, MIN_CHANNELS = 7, 128


def pays(kernel: int, dilation: int, channels: int) -> bool:
    """Return whether this algorithm can compute a dense convolution of stride 1, and is faster."""
    return kernel >= MIN_KERNEL and kernel % 2 == 1 and dilation % 2 == 1 and channels >= MIN_CHANNELS


def summed_taps(taps: mx.array) -> mx.array:
    """Return He + Ho, [ceil(K / 2), I, O], from taps [K, I, O]."""
    return taps[0::2] + mx.pad(taps[1::2], [(0, 1), (0, 0), (0, 0)])


def split_rows(total: int, left: int) -> tuple[slice, slice, int, int]:
    """Return slices of the even and odd of `total` rows behind `left` zero rows, and the zeros before each."""
    even, odd = slice(left % 2, total, 2), slice(1 - left % 2, total, 2)
    return even, odd, (left + 1) // 2, left // 2


def fast_fir(
    even: mx.array,
    odd: mx.array,
    before: Sequence[int],
    taps: mx.array,
    summed: mx.array,
    dilation: int,
    rows: int,
    start: mx.array | None = None,
) -> mx.array:
    """Return y [B, rows, O].

    Args:
        even: Even rows of x, [B, ., I].
        odd: Odd rows of x.
        before: Rows of zero before each of the two; zeros follow them.
        taps: Weights [K, I, O].
        summed: `summed_taps` of `taps`.
        dilation: Odd number of rows.
        rows: Number of rows of the result.
        start: Array [B, rows, O] to add.
    """
    half, h = -(-rows // 2), (dilation - 1) // 2
    reach, reach_odd = (taps.shape[0] - 1) // 2 * dilation, (taps.shape[0] - 3) // 2 * dilation
    even = _between_zeros(even, before[0], half + h + 1 + reach)
    odd = _between_zeros(odd, before[1], half + max(reach, h + reach_odd))
    a = shift_sum(even, taps[0::2], dilation)
    b = shift_sum(odd[:, : half + h + reach_odd], taps[1::2], dilation)
    r = shift_sum(odd[:, : half + reach] + even[:, h + 1 : h + 1 + half + reach], summed, dilation)
    zero = mx.array(0.0)
    if start is not None and rows % 2:
        start = mx.concatenate([start, mx.zeros_like(start[:, :1])], axis=1)
    onto_even, onto_odd = (zero, zero) if start is None else (start[:, 0::2], start[:, 1::2])
    y_even = a[:, :half] + b[:, h : h + half] + onto_even
    y_odd = r - a[:, h + 1 : h + 1 + half] - b[:, :half] + onto_odd
    y = mx.stack([y_even, y_odd], axis=2)
    return y.reshape(y.shape[0], 2 * half, y.shape[3])[:, :rows]


def _between_zeros(x: mx.array, before: int, total: int) -> mx.array:
    after = total - before - x.shape[1]
    if after < 0:
        x, after = x[:, : total - before], 0
    if before == after == 0:
        return x
    batch, _, channels = x.shape
    parts = [mx.zeros((batch, n, channels)) for n in (before, after)]
    return mx.concatenate([parts[0], x, parts[1]], axis=1)
