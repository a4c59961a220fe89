"""Residual blocks of a vocoder on an NVIDIA GPU: all blocks of a stage in one kernel a step, and their mean in one.

A step is Snake, after AdaIN where the network has it, with its convolution (`models.layers.activated_conv`). The plain
definition is the owner's, that of the mean `models.layers.vocoder.merge`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from models.backend import constant, mx
from models.layers import activated_conv
from models.layers.activated_conv import Addend, ConvStep, Form, InputSource, Options
from models.layers.adain import moments_kernel
from models.layers.conv import Conv1d
from models.layers.kernels.agreement import relative_difference, usable
from models.layers.kernels.device import LANES, THREADS, Kernel, launch
from models.layers.vocoder import merge, split


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """An activation with its convolution: Snake of x * scale + shift.

    Attributes:
        conv: The convolution, lowered, of stride 1; its bias is the owner's matter.
        rate: Cycles of the sine, alpha / pi [C].
        inverse: What its square is multiplied by, 1 / alpha [C].
        shift: What is added to x, [C] or a number, where there is no AdaIN.
        start: Where gamma and beta of AdaIN begin in the result of a style bank; None without AdaIN.
    """

    conv: Conv1d
    rate: mx.array
    inverse: mx.array
    shift: mx.array | None = None
    start: int | None = None


Chain = Sequence[Unit]
"""A residual block: two units a pair. A pair's result is added to the pair's input."""
Plain = Callable[[mx.array, mx.array, mx.array | None], Sequence[mx.array]]
"""x [B, L, C], valid rows int32 [B] and a style bank's result through all blocks, plainly: each [B, L, C]."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Launches of residual blocks of one width, side by side."""

    form: Form
    chains: int
    styled: bool
    steps: Sequence[ConvStep]


def prepare(name: str, chains: Sequence[Chain], plain: Plain, style: int = 0) -> Prepared | None:
    """Bring the weights of blocks, which have the same dilations, into the kernels' order. Arrays are evaluated.

    Args:
        name: For `agreement.report`.
        chains: The blocks.
        plain: Their plain definition.
        style: Width of the style bank's result, with AdaIN.

    Returns:
        None where no kernel can run, or where one differs from `plain`.
    """
    if not activated_conv.available() or not fits(chains):
        return None
    made = prepared_blocks(chains)
    name = f"{name} ({made.chains} of {made.form.inputs} channels)"
    return made if usable(name, lambda: differences(made, plain, style)) else None


def fits(chains: Sequence[Chain]) -> bool:
    """Return whether the kernels are written for such blocks."""
    if not chains[0] or len(chains) > activated_conv.MAX_CHAINS:
        return False
    first, *others = ([unit.conv for unit in chain] for chain in chains)
    dilations, form = [conv.dilation for conv in first], _form(chains)
    alike = all([conv.dilation for conv in chain] == dilations for chain in others) and len(first) % 2 == 0
    return alike and form.fits and max(conv.reach for chain in (first, *others) for conv in chain) <= form.reach


def _form(chains: Sequence[Chain]) -> Form:
    outputs, _, inputs = chains[0][0].conv.weight.shape
    return Form(inputs, outputs, "snake")


def prepared_blocks(chains: Sequence[Chain]) -> Prepared:
    """Return the launches of blocks that fit."""
    form, styled, steps = _form(chains), chains[0][0].start is not None, []
    for at in range(len(chains[0])):
        units = [chain[at] for chain in chains]
        each = [[0.0 if unit.shift is None else unit.shift, unit.rate * math.pi, unit.inverse] for unit in units]
        terms = mx.stack([mx.stack([mx.broadcast_to(part, (form.inputs,)) for part in parts]) for parts in each])
        options = Options(
            dilation=units[0].conv.dilation,
            source=InputSource.X if at == 0 else InputSource.STATE,
            adds=Addend.NONE if at % 2 == 0 else Addend.X if at == 1 else Addend.ONTO,
            measures=styled and at + 1 < len(chains[0]),
        )
        starts = [unit.start or 0 for unit in units] if styled else None
        steps.append(activated_conv.prepare_step(form, [unit.conv.weight for unit in units], options, starts, terms))
    return Prepared(form, len(chains), styled, steps)


_MEAN = r"""
    // Four neighboring columns of a row by a thread.
    const int rows = state_shape[1], columns = state_shape[2], chains = state_shape[0] / BLOCKS_Y, b = BLOCK_Y;
    const int quads = columns / 4, i = BLOCK_X * WARPS * 32 + THREAD, row = i / quads, c = i % quads * 4;
    if (row >= rows) return;
    const long at = ((long)b * rows + row) * columns + c;
    float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (row < min(count[b], rows)) {
      for (int chain = 0; chain < chains; ++chain) {
        const long place = at + (long)chain * BLOCKS_Y * rows * columns;
        UNROLL
        for (int j = 0; j < 4; ++j) v[j] += state[place + j];
      }
      UNROLL
      for (int j = 0; j < 4; ++j) {
        const float mean = v[j] / (float)chains + bias[c + j];
        v[j] = (mean > 0.0f ? mean : slope[0] * mean) + (ADDS ? onto[at + j] : 0.0f);
      }
    }
    UNROLL
    for (int j = 0; j < 4; ++j) y[at + j] = v[j];
"""
MEAN = Kernel("nightingale_mean_of_blocks", ("state", "bias", "slope", "onto", "count"), ("y",), _MEAN)


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """Operations on the mean of the blocks' results: LeakyReLU of mean and bias, and a sum.

    Attributes:
        bias: Added to the mean [C], float32.
        slope: Of LeakyReLU; 1 for none.
        onto: Added in the end [B, L, C], float32, or None.
    """

    bias: mx.array
    slope: float = 1.0
    onto: mx.array | None = None


def compute(
    prepared: Prepared,
    x: mx.array,
    count: mx.array,
    ending: Ending,
    style: mx.array | None = None,
    tiles: int | None = None,
) -> mx.array:
    """Return LeakyReLU of the mean of the blocks' results [B, L, C] float32, zero on padding: `vocoder.merge`.

    Args:
        prepared: The blocks.
        x: What each takes, [B, L, C] float32.
        count: Valid rows of each sequence, the first ones, int32 [B] or longer.
        ending: What is done with their mean.
        style: Result of the style bank [B, W] float32, with AdaIN.
        tiles: Of 16 rows, that a block of threads takes: `tiles_of` by default.
    """
    batch, rows, _ = x.shape
    tiles = tiles or activated_conv.tiles_of(prepared.form, rows, prepared.chains * batch)
    x, count = mx.contiguous(x), mx.contiguous(count)
    moments = moments_kernel(x, count) if prepared.styled else None
    call = activated_conv.Call(x, count, moments, None if style is None else mx.contiguous(style), batch, tiles)
    state: mx.array | None = None
    for first, second in zip(prepared.steps[::2], prepared.steps[1::2], strict=True):
        state = activated_conv.run(second, call, activated_conv.run(first, call, state), state)
    assert state is not None  # noqa: S101  (blocks have a pair)
    return mean(state, batch, count, ending)


def mean(state: mx.array, batch: int, count: mx.array, ending: Ending) -> mx.array:
    """Return `vocoder.merge` of the blocks' results [chains * batch, L, C] by a kernel, [batch, L, C] float32."""
    _, rows, columns = state.shape
    slope = _number(ending.slope)
    return launch(
        MEAN,
        [state, ending.bias, slope, slope if ending.onto is None else ending.onto, count],
        [((batch, rows, columns), mx.float32)],
        (-(-rows * columns // (4 * THREADS)), batch, 1),
        {"ADDS": ending.onto is not None, "WARPS": THREADS // LANES},
    )[0]


@cache
def _number(value: float) -> mx.array:
    return constant(mx.array([value]))


def differences(prepared: Prepared, plain: Plain, style: int = 0) -> list[float]:
    """Return the kernels' differences from `plain` on valid rows, for tiles of each size."""
    rows, valid, columns = 100, [93, 57] if prepared.styled else [93], prepared.form.outputs
    shape = (len(valid), rows, columns)
    x, onto = (mx.random.normal(shape, key=mx.random.key(seed)) for seed in (0, 2))
    styled = mx.random.normal((len(valid), style), key=mx.random.key(1)) * 0.5 if style else None
    count = mx.array(valid, dtype=mx.int32)
    mask = (mx.arange(rows)[None, :, None] < count[:, None, None]).astype(mx.float32)
    results, found = [split(each, 0, 1) for each in plain(x, count, styled)], []
    for ending in (Ending(mx.arange(columns) / columns, 0.1), Ending(mx.zeros(columns), onto=onto)):
        wanted = merge(results, ending.bias, ending.slope, mask, ending.onto)
        made = (compute(prepared, x, count, ending, styled, tiles) for tiles in prepared.form.tiles)
        found += [relative_difference(each, wanted) for each in made]
    return found
