"""Residual blocks of the vocoder on an NVIDIA GPU: one CUDA kernel for each Snake with its convolution.

Launches bound the vocoder there. As operations a convolution is a launch for Snake, one or more for itself, and one for
the sum with the residual. Here the blocks of a stage, whose mean is taken, make them in one launch for all of them.
Products are bfloat16's; sums, residuals and Snake stay float32. The plain definition is `ResBlock`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from models.backend import mx
from models.chatterbox.s3gen.kernels.cuda import MOST_SHARED, PLACES, RING_BYTES, ROOM, THREADS, pieces
from models.layers.activation import SNAKE_WORD
from models.layers.kernels.agreement import relative_difference, usable
from models.layers.kernels.device import Kernel, gpu, launch, processors, read
from models.layers.vocoder import SnakeConv, Terms

_TILES = (4, 2, 1)  # of 16 rows, that a block of threads takes
_MOST_REACH = 64  # rows that a convolution spans beyond the first
_MOST_CHAINS = 8

Chain = Sequence[tuple[SnakeConv, Terms]]
"""A residual block: each Snake with its convolution and its terms. A pair's result is added to the pair's input."""
Plain = Callable[[mx.array, mx.array], mx.array]
"""x [1, L, C] and a mask [1, L, 1] through all blocks, plainly: [chains, L, C]."""

_BODY = f"""
  {ROOM}
  const int group = BLOCKS_Z - 1 - BLOCK_Z;  // those of the most taps, which come last, begin first
  const int rows = x_shape[1];
  const long plane = (long)rows * CHANNELS;
  int before = 0;
  for (int g = 0; g < group; ++g) before += geometry[2 + g];
  const Unit of = {{
      x + (x_shape[0] > 1 ? group * plane : 0), mask, geometry[1] ? onto + (onto_shape[0] > 1 ? group * plane : 0) : 0,
      (const ushort *)weights + (long)CHANNELS * CHANNELS * before, terms + 3 * CHANNELS * group, made + group * plane,
      rows, geometry[2 + group], geometry[0]}};
  snake_conv<TILES>(THREAD, BLOCK_X, BLOCK_Y, of, room);
"""


@cache
def kernel(channels: int, tiles: int) -> Kernel:
    """Return the kernel for tiles of 16 * `tiles` rows."""
    folder = Path(__file__).parent
    names = ("cuda.h", "products.h", "snake_conv.h")
    return Kernel(
        f"nightingale_snake_conv_{channels}",
        ("x", "mask", "onto", "weights", "terms", "geometry"),
        ("made",),
        _BODY,
        f"#define CHANNELS {channels}\n{SNAKE_WORD}" + "".join(read(folder / name) for name in names),
        bounded=True,
        shared_bytes=shared_bytes(channels, tiles),
    )


def shared_bytes(channels: int, tiles: int) -> int:
    """Return the bytes of shared memory: weights on their way, and the rows that a tile hears."""
    return RING_BYTES + (16 * tiles + _MOST_REACH) * (channels + 8) * 2


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Arrays of a launch: the convolutions' weights, one after the other, and terms of Snake [chains, 3, C].

    `geometry` int32 has the dilation, 1 if the result is added to the input of the pair, and each convolution's taps.
    """

    weights: mx.array
    terms: mx.array
    geometry: mx.array


@dataclass(frozen=True, slots=True)
class Prepared:
    """Launches of residual blocks of one width, side by side."""

    channels: int
    chains: int
    steps: Sequence[Step]


def prepare(chains: Sequence[Chain], plain: Plain) -> Prepared | None:
    """Bring the weights of blocks, which have the same dilations, into the kernels' order; None where none can run.

    They can where all convolutions are marked for bfloat16 and the kernels agree with `plain`. Arrays are evaluated.
    """
    convs = [unit.conv for chain in chains for unit, _ in chain]
    if gpu() != "cuda" or not fits(chains) or not all(conv.bfloat16 for conv in convs):
        return None
    steps = [_step([chain[at] for chain in chains], second=at % 2 == 1) for at in range(len(chains[0]))]
    made = Prepared(convs[0].weight.shape[0], len(chains), steps)
    name = f"the vocoder's kernels ({len(chains)} of {made.channels} channels)"
    return made if usable(name, lambda: differences(made, plain)) else None


def fits(chains: Sequence[Chain]) -> bool:
    """Return whether the kernels are written for such blocks."""
    first, *others = ([unit.conv for unit, _ in chain] for chain in chains)
    channels, dilations = first[0].weight.shape[0], [conv.dilation for conv in first]
    alike = all([conv.dilation for conv in chain] == dilations for chain in others) and len(first) % 2 == 0
    whole = channels % 64 == 0 and 8 * THREADS % channels == 0 and len(chains) <= _MOST_CHAINS
    reach = max(conv.reach for chain in (first, *others) for conv in chain)
    return alike and whole and reach <= _MOST_REACH and shared_bytes(channels, _TILES[0]) <= MOST_SHARED


def _step(units: Sequence[tuple[SnakeConv, Terms]], *, second: bool) -> Step:
    convs = [unit.conv for unit, _ in units]
    weights = mx.concatenate([pieces(conv.weight.astype(mx.bfloat16)).reshape(-1) for conv in convs])
    width = convs[0].weight.shape[0]
    each = [[mx.broadcast_to(shift, (width,)), rate, inverse] for _, (shift, rate, _, inverse) in units]
    terms = mx.stack([mx.stack(parts) for parts in each])
    given = [convs[0].dilation, int(second), *(conv.kernel for conv in convs)]
    geometry = mx.array(given + [0] * (PLACES - len(given)), dtype=mx.int32)
    mx.eval(weights, terms, geometry)
    return Step(weights, terms, geometry)


def tiles_of(rows: int, chains: int) -> int:
    """Return the tiles that a block of threads takes: the most with which all multiprocessors have work."""
    busy = (tiles for tiles in _TILES if -(-rows // (16 * tiles)) * chains >= processors())
    return next(busy, _TILES[-1])


def residual_blocks(prepared: Prepared, x: mx.array, mask: mx.array, tiles: int | None = None) -> mx.array:
    """Return the results of the blocks, [chains, L, C].

    Args:
        prepared: The blocks.
        x: What each takes, [1, L, C] float32.
        mask: [1, L, 1], 1 on valid rows, the first ones; a result's other rows are of no use.
        tiles: Of 16 rows, that a block of threads takes: `tiles_of` by default.
    """
    tiles = tiles or tiles_of(x.shape[1], prepared.chains)
    inner = state = x
    for number, step in enumerate(prepared.steps):
        if number % 2:
            state = _launched(prepared, step, inner, state, mask, tiles)
        else:
            inner = _launched(prepared, step, state, state, mask, tiles)
    return state


def _launched(prepared: Prepared, step: Step, x: mx.array, onto: mx.array, mask: mx.array, tiles: int) -> mx.array:
    rows, channels = x.shape[1:]
    halves = 2 if tiles == 1 and channels > 128 else 1  # `columns_of`
    made: mx.array = launch(
        kernel(channels, tiles),
        [x, mask, onto, step.weights, step.terms, step.geometry],
        [((prepared.chains, rows, channels), mx.float32)],
        (-(-rows // (16 * tiles)), halves, prepared.chains),
        {"TILES": tiles},
        threads=THREADS,
    )[0]
    return made


def differences(prepared: Prepared, plain: Plain) -> list[float]:
    """Return the kernels' differences from `plain` on valid rows, for tiles of each size."""
    rows, valid = 100, 93
    x = mx.random.normal((1, rows, prepared.channels), key=mx.random.key(0))
    mask = (mx.arange(rows) < valid).astype(mx.float32)[None, :, None]
    wanted = plain(x, mask)[:, :valid]
    return [relative_difference(residual_blocks(prepared, x, mask, tiles)[:, :valid], wanted) for tiles in _TILES]
