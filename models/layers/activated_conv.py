"""AdaIN, activation and convolution as one CUDA kernel: a step of a residual block on an NVIDIA GPU.

Launches bound such networks there. As operations a step is a launch or two for AdaIN and its activation, one or more
for the convolution, which cost the host three times as much as a kernel of our own, and one for the sum with the
residual. Here parallel blocks make their steps in one launch, and AdaIN's statistics are a part of the launch before.
Products are float16's, as exact as the TF32 of plain float32 convolutions; sums, residuals, statistics and activations
are float32. Users have the plain definitions: `models.layers.residual_blocks`, `models.kokoro.adain_kernels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Literal

from models.backend import mx
from models.layers.adain import SLOPE
from models.layers.kernels import device
from models.layers.kernels.device import THREADS, Kernel, counters, gpu, launch, launches_directly, processors
from models.layers.kernels.tensor_product import COPIES, MAX_SHARED_BYTES, PIECE_BYTES, PIECES, PRODUCT, ROOM, pieces
from models.layers.norm import EPS

MAX_CHAINS = 8
_MAX_RUNS, _MIN_RUN = 64, 8  # as activated_conv.h has them
_COUNTERS = 1 << 14
_SCRATCH = 2 * 4 * THREADS * 4  # bytes for partial sums of AdaIN's moments

Activated = Literal["snake", "leaky", "pooled"]

_BODY = f"""
  {ROOM}
  const int chains = geometry[0], source = geometry[2], adds = geometry[3], doubled = geometry[7];
  const int batch = BLOCKS_Z / chains, chain = chains - 1 - BLOCK_Z / batch, b = BLOCK_Z % batch;
  const long plane = chain * batch + b, planes = (long)chains * batch;
  const int given = x_shape[1], known = min(count[b] << geometry[8], given);
  const int rows = given << doubled, valid = known << doubled, tiles = parts(rows, 16 * TILES), each = run_of(tiles);
  const int runs = parts(tiles, each), x_runs = x_moments_shape[1];
  const int heard = POOLED ? given : rows, heard_each = run_of(parts(heard, 16 * TILES)) * 16 * TILES;
  const int heard_runs = parts(heard, heard_each), heard_valid = POOLED ? known : valid;
  int before = 0;
  for (int g = 0; g < chain; ++g) before += geometry[10 + g];
  const Moments own = {{x_moments + (long)b * x_runs * 2 * INPUTS, x_runs, parts(known, x_runs), known}};
  const Moments earlier = {{
      state + (planes * heard + 2 * plane * heard_runs) * INPUTS, heard_runs, heard_each, heard_valid}};
  float *measured = made + planes * rows * OUTPUTS;
  const Unit of = {{
      source ? x + (long)b * given * INPUTS : state + plane * heard * INPUTS,
      adds == 1 ? x + (long)b * given * OUTPUTS : adds == 2 ? onto + plane * given * OUTPUTS : 0,
      geometry[6] ? bias + OUTPUTS * chain : 0, geometry[9] ? after + plane * rows * OUTPUTS : 0,
      (const ushort *)weights + (long)OUTPUTS * INPUTS * before, terms + TERMS * INPUTS * chain,
      geometry[4] ? style + ((long)b * style_shape[1] + geometry[10 + MAX_CHAINS + chain]) : 0, source ? own : earlier,
      made + plane * rows * OUTPUTS, geometry[5] ? measured + 2 * plane * runs * OUTPUTS : 0,
      measured + 2 * (planes * runs + plane * tiles) * OUTPUTS, (int *)counters + plane * runs * PARTS,
      rows, valid, geometry[10 + chain], geometry[1], doubled}};
  activated_conv<TILES>(THREAD, BLOCK_X, BLOCK_Y, of, room);
"""
_INPUTS = (
    "x", "state", "onto", "after", "bias", "weights", "terms", "style", "x_moments", "count", "counters", "geometry",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Form:
    """Columns of a convolution, and the activation before it: Snake, or LeakyReLU, which may be pooled.

    Pooled is a depthwise transposed convolution between LeakyReLU and the convolution, which doubles the rows.
    """

    inputs: int
    outputs: int
    activation: Activated

    @property
    def columns(self) -> int:
        """Return the columns of a block of threads. Wide convolutions of few rows need many blocks."""
        return min(128 if self.activation == "snake" else 64, self.outputs)

    @property
    def reach(self) -> int:
        """Return the most rows that a convolution may span beyond the first."""
        return 50 if self.activation == "snake" else 2

    @property
    def resident(self) -> int:
        """Return the blocks of threads that a multiprocessor is to hold: a vocoder's hide each other's waits."""
        return 2 if self.activation == "snake" else 1

    @property
    def pieces(self) -> int:
        """Return the weights on their way to a warp, in pieces of 512 bytes."""
        return PIECES // self.resident

    @property
    def tiles(self) -> list[int]:
        """Return the numbers of 16 rows that a block of threads can take, the most first."""
        return [tiles for tiles in (4, 2, 1) if self.shared_bytes(tiles) <= MAX_SHARED_BYTES]

    def shared_bytes(self, tiles: int) -> int:
        """Return the bytes of shared memory: weights on their way, AdaIN's scale and shift, what a tile hears."""
        rows = max((16 * tiles + self.reach) * (self.inputs + 8) * 2, _SCRATCH)
        return self.pieces * PIECE_BYTES + 2 * self.inputs * 4 + rows

    @property
    def fits(self) -> bool:
        """Return whether the kernel is written for it."""
        whole = self.inputs % 64 == 0 and self.outputs % self.columns == 0 and self.columns % 64 == 0
        return whole and bool(self.tiles) and (self.activation != "snake" or 8 * THREADS % self.inputs == 0)


@cache
def kernel(form: Form, tiles: int) -> Kernel:
    """Return the kernel for tiles of 16 * `tiles` rows."""
    numbers: dict[str, object] = {
        "PRODUCT_PIECES": form.pieces, "MULTIPLY_TILES": "MULTIPLY_HALF", "EPS": f"{EPS}f",
        "PART_COLUMNS": form.columns,
        "INPUTS": form.inputs, "OUTPUTS": form.outputs,
        **({"SNAKE": 1, "TERMS": 3} if form.activation == "snake" else {"LEAKY": f"{SLOPE}f", "TERMS": 4}),
        "POOLED": int(form.activation == "pooled"),
    }  # fmt: skip
    return Kernel(
        f"nightingale_{form.activation}_conv_{form.inputs}_{form.outputs}",
        _INPUTS,
        ("made",),
        _BODY,
        device.defines(numbers) + COPIES + PRODUCT + device.joined(__file__, "activated_conv.h"),
        in_place=True,
        bounded=True,
        resident=form.resident,
        shared_bytes=form.shared_bytes(tiles),
    )


class InputSource(IntEnum):
    """Input of a step: the result of the step before, or x of each sequence, which all chains share."""

    STATE = 0
    X = 1


class Addend(IntEnum):
    """Array that a step adds: none, x of each sequence, or another one's rows of each chain and sequence."""

    NONE = 0
    X = 1
    ONTO = 2


@dataclass(frozen=True, slots=True)
class Options:
    """Place of a step in its block.

    Attributes:
        dilation: Of all convolutions.
        source: Input.
        adds: Addend.
        measures: True if the next step has AdaIN.
        doubled: True if the rows are twice those of x. Then x, or what is added, has one row for two.
        twice: True if x has twice as many valid rows as `count` says.
        ends: True if something is added after all else.
    """

    dilation: int = 1
    source: InputSource = InputSource.STATE
    adds: Addend = Addend.NONE
    measures: bool = False
    doubled: bool = False
    twice: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ConvStep:
    """Arrays of a launch for `chains` parallel convolutions of one form. Make it by `prepare_step`.

    `weights` are the convolutions' as bits of float16, one after the other; the kernel explains `terms` and `bias`.
    `geometry` int32 has the numbers of the body: the options, each convolution's taps, and where each AdaIN's gamma
    begins in the style.
    """

    form: Form
    chains: int
    weights: mx.array
    terms: mx.array
    bias: mx.array
    geometry: mx.array
    options: Options


def prepare_step(
    form: Form,
    weights: Sequence[mx.array],
    options: Options,
    starts: Sequence[int] | None = None,
    terms: mx.array | None = None,
    bias: mx.array | None = None,
) -> ConvStep:
    """Return a step; its arrays are evaluated.

    Args:
        form: The kernel's.
        weights: Of each chain's convolution [O, K, I].
        options: The step's place.
        starts: Where gamma and beta of each chain's AdaIN begin in the result of a style bank; None without AdaIN.
        terms: Of Snake [chains, 3, I], or of the pooling [chains, 4, I]; none for LeakyReLU.
        bias: [chains, O]. A step with a bias ends a block: the sum is divided by the root of two.
    """
    bits = [pieces(each.astype(mx.float16)).reshape(-1).view(mx.uint16) for each in weights]
    rest, (_, none) = [0] * (MAX_CHAINS - len(weights)), _kept()
    styled, biased = starts is not None, bias is not None
    flags = [int(flag) for flag in (styled, options.measures, biased, options.doubled, options.twice, options.ends)]
    taps, places = [each.shape[1] for each in weights], list(starts or [0] * len(weights))
    head = [len(weights), options.dilation, options.source, options.adds, *flags]
    geometry = mx.array([*head, *taps, *rest, *places, *rest], dtype=mx.int32)
    joined = mx.concatenate(bits)
    terms, bias = (none if each is None else each for each in (terms, bias))
    mx.eval(joined, terms, bias, geometry)
    return ConvStep(form, len(weights), joined, terms, bias, geometry, options)


@cache
def _kept() -> tuple[mx.array, mx.array]:
    """Return the counters, and what stands for arrays that a launch does not read."""
    none = mx.zeros((1, 16))
    mx.eval(none)
    return counters(_COUNTERS), none


def available() -> bool:
    """Return whether such kernels can run here. They share counters, so no two may run at once."""
    return gpu() == "cuda" and launches_directly()


def tiles_of(form: Form, rows: int, planes: int) -> int:
    """Return the tiles that a block of threads takes: the most with which most multiprocessors have work."""
    parts = planes * form.outputs // form.columns
    busy = (tiles for tiles in form.tiles if 4 * -(-rows // (16 * tiles)) * parts >= 3 * processors())
    return next(busy, form.tiles[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """Arrays of a block that all its steps take.

    Attributes:
        x: Input [B, L, I], float32, contiguous. Later steps read no more of it than the number of rows.
        count: Valid rows of each sequence, the first ones, int32 [B] or longer, contiguous.
        moments: Of x, as `adain.moments_kernel` gives them, for AdaIN.
        style: Result of a style bank [B, W], float32, contiguous, for AdaIN.
        batch: B.
        tiles: Of 16 rows, that a block of threads takes.
    """

    x: mx.array
    count: mx.array
    moments: mx.array | None
    style: mx.array | None
    batch: int
    tiles: int


def run(
    step: ConvStep,
    call: Call,
    state: mx.array | None = None,
    onto: mx.array | None = None,
    after: mx.array | None = None,
) -> mx.array:
    """Return the result [chains * B, L, O], zero on padding; with `measures` a flat array that has moments behind it.

    Args:
        step: The step.
        call: Arrays of the block.
        state: Result of the step before, if that is the source.
        onto: What is added, if that is not x: [chains * B, L, O], contiguous.
        after: What is added in the end [chains * B, L, O], contiguous.
    """
    form, rows = step.form, call.x.shape[1] * (2 if step.options.doubled else 1)
    planes, blocks, parts = step.chains * call.batch, -(-rows // (16 * call.tiles)), form.outputs // form.columns
    shape: tuple[int, ...] = (planes, rows, form.outputs)
    if step.options.measures:
        runs = -(-blocks // max(_MIN_RUN, -(-blocks // _MAX_RUNS)))  # `run_of`
        shape = (planes * form.outputs * (rows + 2 * (blocks + runs)),)
        if planes * runs * parts > _COUNTERS:
            raise ValueError(f"{planes} sequences of {rows} rows are too many")
    counted, none = _kept()
    given = [call.x, state, onto, after, step.bias, step.weights, step.terms, call.style, call.moments]
    inputs = [none if each is None else each for each in given]
    return launch(
        kernel(form, call.tiles),
        [*inputs, call.count, counted, step.geometry],
        [(shape, mx.float32)],
        (blocks, parts, planes),
        {"TILES": call.tiles},
        threads=THREADS,
    )[0]
