"""AdaIN (`models.layers.norm`) with the activation behind it, LeakyReLU or Snake: plain, and as kernels.

Two kernels are bound by memory: the first reads x for the statistics, the second reads it again and writes the result.
Few rows are bound by launches: one kernel does both there, with a block for all rows of 32 channels.
"""

from __future__ import annotations

import math

from models.backend import compiled, mx
from models.layers.activation import SNAKE_WORD, leaky_relu, snake
from models.layers.conv import PaddingMask
from models.layers.kernels.agreement import MAX_RELATIVE_ERROR, MAX_RELATIVE_ERROR_FLOAT32, relative_difference, usable
from models.layers.kernels.device import LANES, THREADS, Kernel, gpu, launch
from models.layers.norm import affine_of, moments

SLOPE = 0.2  # of LeakyReLU


def adain_leaky(x: mx.array, affine: mx.array, valid: PaddingMask) -> mx.array:
    """Return LeakyReLU of AdaIN of x [B, L, C] by affine [B, 2C] (gamma, then beta); zero on padding."""
    if adain_fused(x.dtype):
        return adain_kernel(x, affine, None, valid.number(x))
    return adain_leaky_reference(x, affine, valid)


@compiled
def _affine_leaky(x: mx.array, scale: mx.array, shift: mx.array) -> mx.array:
    return leaky_relu(x * scale + shift, SLOPE)


def adain_leaky_reference(x: mx.array, affine: mx.array, valid: PaddingMask) -> mx.array:
    """Compute `adain_leaky` by plain operations."""
    gamma, beta = mx.split(affine[:, None], 2, axis=-1)
    scale, shift = affine_of([moments(x, valid.mask, valid.count)], gamma, beta)
    return valid.zero(_affine_leaky(x, scale, shift))


def adain_snake_reference(x: mx.array, affine: mx.array, alpha: mx.array, valid: PaddingMask) -> mx.array:
    """Return Snake, with rates alpha [C], of AdaIN of x. A network computes it with a convolution: `SnakeConv`."""
    gamma, beta = mx.split(affine[:, None], 2, axis=-1)
    scale, shift = affine_of([moments(x, valid.mask, valid.count)], gamma, beta)
    y = x * scale + shift
    return valid.zero(snake(y, y * (alpha / math.pi), 1 / alpha))


_ROWS = 64  # a block of the second
_MAX_SPLITS = 64  # runs of rows of the first
_FEW_ROWS = 1024  # for one kernel, which has no more blocks however many rows there are
_FEW_WARPS, _MAX_WARPS = 16, 32  # of its blocks; on Metal a kernel's registers may not be for the most
_AT_ONCE = 8  # rows that a warp reads before it uses them


# Sums over n rows from `start` on, shifted by the first of them against cancellation. A lane has one channel. The warps
# of a block take rows in turn, each several at once: a row takes longer to come than to add. GIVEN is what a row holds:
# x, or x + more, and KEEP then writes that to `total`.
_SUMS = r"""
    const bool live = c < C && n > 0;
    const long from = ((long)b * L + (live ? start : 0)) * C + (live ? c : 0);
    const float pivot = (float)(X)(GIVEN(from));
    float s1 = 0.0f, s2 = 0.0f;
    for (int r = warp; live && r < n; r += AT_ONCE * WARPS) {
      float d[AT_ONCE];
      UNROLL
      for (int j = 0; j < AT_ONCE; ++j) {
        const long at = from + (long)(r + j * WARPS) * C;
        d[j] = pivot;
        if (r + j * WARPS < n) d[j] = GIVEN(at);
      }
      UNROLL
      for (int j = 0; j < AT_ONCE; ++j) {
        if (r + j * WARPS < n) {
          KEEP(from + (long)(r + j * WARPS) * C, d[j]);
        }
        d[j] -= pivot;
        s1 += d[j];
        s2 = fmaf(d[j], d[j], s2);
      }
    }
    SHARED_ARRAY(float, sums, WARPS * 32);
    SHARED_ARRAY(float, squares, WARPS * 32);
    sums[THREAD] = s1;
    squares[THREAD] = s2;
    SYNC();
    s1 = s2 = 0.0f;
    for (int w = 0; w < WARPS; ++w) {
      s1 += sums[w * 32 + lane];
      s2 += squares[w * 32 + lane];
    }
"""

# Normalize the rows from `first` to `end` with style, and activate; rows beyond the valid ones are 0. Snake is that of
# `models.layers.activation`, reduced in cycles.
_STYLE = r"""
    if (c >= C) return;
    const float scale = (1.0f + (float)affine[b * 2 * C + c]) * RSQRT(m2 / fmaxf((float)valid, 1.0f) + 1e-5f);
    const float shift = (float)affine[b * 2 * C + C + c] - mean * scale;
    const float rate = SNAKE ? (float)alpha[c] * 0.3183098862f : 0.0f, inverse = SNAKE ? 1.0f / (float)alpha[c] : 0.0f;
    for (int r = first + warp; r < end; r += AT_ONCE * WARPS) {
      float given[AT_ONCE];
      UNROLL
      for (int j = 0; j < AT_ONCE; ++j) {
        const int row = r + j * WARPS;
        given[j] = row < end && row < valid ? READ : 0.0f;
      }
      UNROLL
      for (int j = 0; j < AT_ONCE; ++j) {
        const int row = r + j * WARPS;
        if (row >= end) break;
        float v = fmaf(given[j], scale, shift);
        if (SNAKE) v = snake(v, v * rate, inverse);
        else v = v > 0.0f ? v : 0.2f * v;
        y[((long)b * L + row) * C + c] = (X)(row < valid ? v : 0.0f);
      }
    }
"""

_PADDING = "for (int r = valid + warp; r < L; r += WARPS) { float zero = 0.0f; KEEP(((long)b * L + r) * C + c, zero); }"

_MOMENTS = f"""
    // Of SPLITS runs of rows.
    const int L = x_shape[1], C = x_shape[2], SPLITS = BLOCKS_Y, lane = THREAD % 32, warp = THREAD / 32;
    const int c = BLOCK_X * 32 + lane, split = BLOCK_Y, b = BLOCK_Z;
    const int valid = count[b], per = (valid + SPLITS - 1) / SPLITS;
    const int start = split * per, n = max(0, min(valid, start + per) - start);
    {_SUMS}
    if (warp == 0 && c < C) {{
      const int to = (b * SPLITS + split) * 2 * C + c;
      partial[to] = n > 0 ? pivot + s1 / n : 0.0f;
      partial[to + C] = n > 0 ? fmaxf(s2 - s1 * s1 / n, 0.0f) : 0.0f;
    }}
    if (split == SPLITS - 1 && c < C) {{ {_PADDING} }}
"""

_APPLY = f"""
    // Combine the runs' moments: the mean first, then the deviations from it. The warps share the runs.
    const int L = x_shape[1], C = x_shape[2], SPLITS = partial_shape[1], lane = THREAD % 32, warp = THREAD / 32;
    const int c = BLOCK_X * 32 + lane, b = BLOCK_Z, valid = count[b], per = (valid + SPLITS - 1) / SPLITS;
    const int first = BLOCK_Y * ROWS, end = min(L, (BLOCK_Y + 1) * ROWS);
    SHARED_ARRAY(float, sums, WARPS * 32);
    SHARED_ARRAY(float, squares, WARPS * 32);
    float means[RUNS], spreads[RUNS], counts[RUNS], mean = 0.0f, m2 = 0.0f;
    UNROLL
    for (int j = 0; j < RUNS; ++j) {{
      const int s = warp + j * WARPS, from = (b * SPLITS + s) * 2 * C + c;
      const bool live = s < SPLITS && c < C;
      counts[j] = live ? (float)max(0, min(valid, (s + 1) * per) - s * per) : 0.0f;
      means[j] = live ? partial[from] : 0.0f;
      spreads[j] = live ? partial[from + C] : 0.0f;
    }}
    UNROLL
    for (int j = 0; j < RUNS; ++j) mean = fmaf(counts[j], means[j], mean);
    sums[THREAD] = mean;
    SYNC();
    mean = 0.0f;
    for (int w = 0; w < WARPS; ++w) mean += sums[w * 32 + lane];
    mean /= fmaxf((float)valid, 1.0f);
    UNROLL
    for (int j = 0; j < RUNS; ++j) m2 += fmaf(counts[j] * (means[j] - mean), means[j] - mean, spreads[j]);
    squares[THREAD] = m2;
    SYNC();
    m2 = 0.0f;
    for (int w = 0; w < WARPS; ++w) m2 += squares[w * 32 + lane];
    {_STYLE.replace("READ", "(float)x[((long)b * L + row) * C + c]")}
"""

_WHOLE = f"""
    const int L = x_shape[1], C = x_shape[2], lane = THREAD % 32, warp = THREAD / 32;
    const int c = BLOCK_X * 32 + lane, b = BLOCK_Y, valid = count[b], start = 0, n = valid, first = 0, end = L;
    {_SUMS}
    const float seen = fmaxf((float)n, 1.0f), mean = pivot + s1 / seen, m2 = fmaxf(s2 - s1 * s1 / seen, 0.0f);
    {_STYLE.replace("READ", "(float)KEPT[((long)b * L + row) * C + c]")}
    {_PADDING}
"""
# Of x alone, and of a sum, which is one more input and one more output: each costs a launch some time.
_ALONE = """#define GIVEN(at) ((float)x[at])
#define KEEP(at, value)
#define KEPT x
"""
_SUMMED = """#define GIVEN(at) ((float)x[at] + (float)more[at])
#define KEEP(at, value) value = (float)(total[at] = (X)(value))
#define KEPT total
"""
_BOUND = f"#define THREADS {_MAX_WARPS * LANES}\n" + SNAKE_WORD
_STYLES = ("count", "affine", "alpha")
MOMENTS = Kernel("nightingale_moments", ("x", "count"), ("partial",), _MOMENTS, _ALONE)
SUM_MOMENTS = Kernel("nightingale_sum_moments", ("x", "more", "count"), ("partial", "total"), _MOMENTS, _SUMMED)
APPLY = Kernel("nightingale_adain", ("x", "count", "partial", "affine", "alpha"), ("y",), _APPLY, SNAKE_WORD)
WHOLE = Kernel("nightingale_adain_whole", ("x", *_STYLES), ("y",), _WHOLE, _ALONE + _BOUND, bounded=True)
SUM_WHOLE = Kernel(
    "nightingale_sum_adain_whole", ("x", "more", *_STYLES), ("y", "total"), _WHOLE, _SUMMED + _BOUND, bounded=True
)


def adain_kernel(
    x: mx.array, affine: mx.array, alpha: mx.array | None, count: mx.array, partial: mx.array | None = None
) -> mx.array:
    """Return AdaIN of x [B, L, C], then Snake or LeakyReLU.

    Args:
        x: Rows.
        affine: Gamma, then beta [B, 2C].
        alpha: Snake's rates [C]; None stands for LeakyReLU.
        count: Valid rows [B].
        partial: Moments of x (`adain_moments`), where several AdaINs share them.
    """
    return _launched([x], affine, alpha, count, partial)[0]


def adain_of_sum_kernel(
    x: mx.array, more: mx.array, affine: mx.array, alpha: mx.array | None, count: mx.array
) -> tuple[mx.array, mx.array]:
    """Return `adain_kernel` of x + more, both [B, L, C], and the sum, which is zero on padding."""
    y, total = _launched([x, more], affine, alpha, count)
    return y, total


def adain_moments(x: mx.array, count: mx.array) -> mx.array | None:
    """Return the moments of x [B, L, C] that `adain_kernel` takes; None where it is one kernel."""
    return None if x.shape[1] <= _FEW_ROWS else moments_kernel(x, count)


def moments_kernel(x: mx.array, count: mx.array) -> mx.array:
    """Return mean and sum of squared deviations of runs of the `count` [B] valid rows of x [B, L, C]: [B, runs, 2, C].

    A run has ceil(count / runs) rows.
    """
    return _moments([x], count)[0]


def _moments(terms: list[mx.array], count: mx.array) -> list[mx.array]:
    """Return the moments of the sum of `terms`; and the sum, where they are two."""
    x, several = terms[0], len(terms) > 1
    batch, length, channels = x.shape
    splits = max(1, min(_MAX_SPLITS, length // 128))
    return launch(
        SUM_MOMENTS if several else MOMENTS,
        [*terms, count],
        [((batch, splits, 2, channels), mx.float32), *([(x.shape, x.dtype)] if several else [])],
        (-(-channels // LANES), splits, batch),
        {"X": x.dtype, "WARPS": THREADS // LANES, "AT_ONCE": _AT_ONCE},
    )


def _launched(
    terms: list[mx.array], affine: mx.array, alpha: mx.array | None, count: mx.array, partial: mx.array | None = None
) -> list[mx.array]:
    """Return AdaIN of the sum of `terms`; and the sum, where they are two."""
    x, several = terms[0], len(terms) > 1
    batch, length, channels = x.shape
    tiles, same = -(-channels // LANES), [(x.shape, x.dtype)]
    template: dict[str, int | bool | mx.Dtype] = {"X": x.dtype, "WARPS": THREADS // LANES, "AT_ONCE": _AT_ONCE}
    rates, snaked = affine if alpha is None else alpha, {"SNAKE": alpha is not None}
    if length <= _FEW_ROWS:
        few = length <= _FEW_WARPS * 2 * _AT_ONCE or gpu() == "metal"
        warps = _FEW_WARPS if few else _MAX_WARPS
        kernel, inputs = SUM_WHOLE if several else WHOLE, [*terms, count, affine, rates]
        return launch(
            kernel, inputs, same * len(terms), (tiles, batch, 1), {**template, **snaked, "WARPS": warps}, warps * LANES
        )
    total: list[mx.array] = []
    if partial is None:
        partial, *total = _moments(terms, count)
    (y,) = launch(
        APPLY,
        [total[0] if several else x, count, partial, affine, rates],
        same,
        (tiles, -(-length // _ROWS), batch),
        {**template, **snaked, "ROWS": _ROWS, "RUNS": _MAX_SPLITS * LANES // THREADS},
    )
    return [y, *total]


def adain_fused(dtype: mx.Dtype) -> bool:
    """Return whether `adain_kernel` is for arrays of this type here."""
    name = f"AdaIN's kernels ({str(dtype).rpartition('.')[2]})"
    return usable(
        name, lambda: _differences(dtype), MAX_RELATIVE_ERROR_FLOAT32 if dtype == mx.float32 else MAX_RELATIVE_ERROR
    )


def _differences(dtype: mx.Dtype) -> list[float]:
    """Return the kernels' differences from plain operations: each number of rows, either activation, padding."""
    return [each for rows in (140, _FEW_ROWS, _FEW_ROWS + 44) for each in _difference(rows, dtype)]


def _difference(rows: int, dtype: mx.Dtype) -> list[float]:
    shapes = ((2, rows, 48), (2, 96), (48,))
    keys = mx.random.split(mx.random.key(0), len(shapes))
    exact = [mx.abs(mx.random.normal(shape, key=key)) + 0.5 for shape, key in zip(shapes, keys, strict=True)]
    x, affine, alpha = (each.astype(dtype) for each in exact)
    part = x * 0.25
    valid = PaddingMask.of(mx.array([rows, 53])[:, None, None], rows)
    count = valid.number(x)
    leaky = adain_leaky_reference(exact[0], exact[1], valid)
    curved = adain_snake_reference(exact[0], exact[1], exact[2], valid)
    summed, total = adain_of_sum_kernel(x - part, part, affine, alpha, count)
    return [
        relative_difference(adain_kernel(x, affine, None, count), leaky),
        relative_difference(adain_kernel(x, affine, alpha, count), curved),
        relative_difference(summed, curved),
        relative_difference(total, valid.zero(exact[0])),
    ]
