"""Kokoro's residual blocks with AdaIN on an NVIDIA GPU: two kernels a block, and one product for its shortcut.

Blocks follow each other in levels; those of a level, of parallel chains, are alike and share their launches. A step is
AdaIN, LeakyReLU, the doubling of the rows if the block has it, and a convolution (`models.layers.activated_conv`). The
second adds bias and shortcut, and what the next level takes, too. The plain definition is `AdainResBlock`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from models.backend import mx
from models.kokoro.adain_block import AdainResBlock
from models.layers.activated_conv import (
    Addend,
    Call,
    ConvStep,
    Form,
    InputSource,
    Options,
    available,
    prepare_step,
    run,
    tiles_of,
)
from models.layers.adain import moments_kernel
from models.layers.conv import PaddingMask
from models.layers.kernels.agreement import relative_difference, usable

Levels = Sequence[Sequence[AdainResBlock]]
Plain = Callable[[mx.array, mx.array, PaddingMask, mx.array], Sequence[mx.array]]
"""x [B, L, I], a style bank's result, the mask of x, and what is added between levels: each chain's [B, L', O]."""


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Launches of blocks that are alike; `shortcut` [chains, I, O] is the product on the way around them, if any."""

    first: ConvStep
    second: ConvStep
    shortcut: mx.array | None


@dataclass(frozen=True, slots=True, eq=False)
class ChainPlan:
    """Levels of so many chains; `after` is the width of what is added between them, or 0."""

    levels: Sequence[Level]
    chains: int
    after: int
    tiles: Sequence[int]


def prepare(name: str, levels: Levels, style: int, plain: Plain, *, after: int = 0) -> ChainPlan | None:
    """Bring the weights of blocks into the kernels' order. Arrays are evaluated.

    Args:
        name: For `agreement.report`.
        levels: The blocks; all levels have as many chains.
        style: Width of the style bank's result.
        plain: Their plain definition.
        after: Width of an array that is added to the result of each level but the last; 0 if there is none.

    Returns:
        None where no kernel can run, or where one differs from `plain`.
    """
    if not available() or not all(form.fits for level in levels for form in forms(level)):
        return None
    made = prepared_levels(levels, after)
    name = f"{name} ({made.chains} of {made.levels[0].first.form.inputs} channels)"
    return made if usable(name, lambda: differences(made, plain, style)) else None


def forms(level: Sequence[AdainResBlock]) -> tuple[Form, Form]:
    """Return the forms of a level's convolutions."""
    inner, _, inputs = level[0].conv1.weight.shape
    outputs = level[0].conv2.weight.shape[0]
    return Form(inputs, inner, "pooled" if "pool" in level[0] else "leaky"), Form(inner, outputs, "leaky")


def prepared_levels(levels: Levels, after: int) -> ChainPlan:
    """Return the launches of blocks that fit."""
    made, twice = [], False
    for number, level in enumerate(levels):
        last, doubled, short = number + 1 == len(levels), "pool" in level[0], "conv1x1" in level[0]
        source = InputSource.STATE if number else InputSource.X
        adds = Addend.ONTO if number or short else Addend.X
        place = Options(measures=True, doubled=doubled, twice=twice)
        end = replace(place, adds=adds, measures=not last, ends=bool(after) and not last)
        first = prepare_step(
            forms(level)[0],
            [block.conv1.weight for block in level],
            replace(place, source=source),
            [block.norm1.fc.start for block in level],
            terms=mx.stack([_pooling(block) for block in level]) if doubled else None,
        )
        second = prepare_step(
            forms(level)[1],
            [block.conv2.weight for block in level],
            end,
            [block.norm2.fc.start for block in level],
            bias=mx.stack([block.conv2.bias for block in level]),
        )
        shortcut = mx.stack([block.conv1x1.weight[:, 0].T for block in level]) if short else None
        mx.eval([] if shortcut is None else shortcut)
        made.append(Level(first, second, shortcut))
        twice = twice or doubled
    fitting = [set(step.form.tiles) for level in made for step in (level.first, level.second)]
    return ChainPlan(made, len(levels[0]), after, sorted(set.intersection(*fitting), reverse=True))


def _pooling(block: AdainResBlock) -> mx.array:
    """Return the three taps and the bias of a lowered block's transposed convolution, [4, I]."""
    folded = block.pool.weight  # [2, 2, I]: taps 2 and 3 (of which there is none), then 0 and 1
    return mx.stack([folded[1, 0], folded[1, 1], folded[0, 0], block.pool.bias])


def compute(
    prepared: ChainPlan,
    x: mx.array,
    count: mx.array,
    style: mx.array,
    after: mx.array | None = None,
    tiles: int | None = None,
) -> list[mx.array]:
    """Return the chains' results, each [B, L', O] float32, zero on padding.

    Args:
        prepared: The blocks.
        x: What the first level takes, [B, L, I].
        count: Valid rows of each sequence, the first ones, int32 [B].
        style: Result of the style bank [B, W].
        after: What is added to the result of each level but the last, [B, L, C]; for one chain.
        tiles: Of 16 rows, that a block of threads takes; by default as `tiles_of` says.
    """
    batch, rows, _ = x.shape
    chains, levels = prepared.chains, prepared.levels
    tiles = tiles or min(tiles_of(levels[0].first.form, rows, chains * batch), prepared.tiles[0])
    x, count, style = (mx.contiguous(each) for each in (x.astype(mx.float32), count, style.astype(mx.float32)))
    after = None if after is None else mx.contiguous(after.astype(mx.float32))
    call = Call(x, count, moments_kernel(x, count), style, batch, tiles)
    state: mx.array | None = None
    for level in levels:
        onto = None if state is None else call.x
        if level.shortcut is not None:
            onto = call.x.reshape(-1, batch * rows, call.x.shape[2]) @ level.shortcut
            onto = onto.reshape(chains * batch, rows, -1)
        inner = run(level.first, call, state)
        state = run(level.second, call, inner, onto, after if level.second.options.ends else None)
        rows = rows * 2 if level.second.options.doubled else rows
        width = level.second.form.outputs
        made = state.reshape(-1)[: chains * batch * rows * width].reshape(chains * batch, rows, width)
        call = replace(call, x=made)
    return [each.reshape(batch, rows, -1) for each in mx.split(call.x, chains)]


def differences(prepared: ChainPlan, plain: Plain, style: int) -> list[float]:
    """Return the kernels' differences from `plain` on valid rows, for tiles of each size."""
    rows, valid = 37, [35, 18]
    x = mx.random.normal((len(valid), rows, prepared.levels[0].first.form.inputs), key=mx.random.key(0))
    styled = mx.random.normal((len(valid), style), key=mx.random.key(1)) * 0.5
    after = mx.random.normal((len(valid), rows, max(prepared.after, 1)), key=mx.random.key(2))
    mask = PaddingMask.of(mx.array(valid, dtype=mx.int32)[:, None, None], rows)
    wanted = mx.stack(list(plain(x, styled, mask, after)))
    longer = mask.doubled(wanted.shape[2]) if wanted.shape[2] != rows else mask
    apart = []
    for tiles in prepared.tiles:
        given = after if prepared.after else None
        found = mx.stack(compute(prepared, x, mask.number(x), styled, given, tiles))
        apart.append(relative_difference(found, mx.stack([longer.zero(each) for each in wanted])))
    return apart
