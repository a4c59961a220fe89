"""Kokoro's kernels on this machine's GPU beside plain operations: agreement, and time at the sizes of two sentences.

    python -m loadtest.kokoro_kernels [--rounds 50] [--dtype bfloat16]

A sentence of 4 phonemes has about 30 frames, one of 50 about 160. A time is the median of rounds of ten calls that are
evaluated together, for one call; kernel and plain operations alternate. Prints a table in Markdown. The times of
a kernel that differs from plain operations mean nothing.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mlx import nn
from mlx.utils import tree_flatten

from loadtest.official import KOKORO
from models.backend import device_name, mx
from models.kokoro import adain_kernels
from models.kokoro.adain_block import AdainResBlock
from models.kokoro.albert import AlbertEncoder
from models.kokoro.config import AlbertConfig
from models.kokoro.generator import AdaINResBlock, mean_bias
from models.kokoro.source import harmonics_kernel, harmonics_reference
from models.layers import residual_blocks
from models.layers.adain import adain_kernel, adain_leaky_reference, adain_snake_reference
from models.layers.conv import PaddingMask
from models.layers.kernels.agreement import relative_difference
from models.layers.kernels.device import gpu
from models.layers.lstm import bilstm_kernel, bilstm_reference, fits
from models.layers.norm import StyleBank
from models.layers.vocoder import merge

CALLS = 10  # evaluated together, so that the wait for the GPU is shared
HIDDEN, STEP = 256, 300  # an LSTM's units of a direction; samples of half a frame
STYLE = 128  # numbers of a voice's half
MAX_RELATIVE_ERROR = 0.02  # bfloat16's rounding; float32 is a hundred times closer
SENTENCES = {4: 30, 50: 160}
"""Frames by phonemes."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel at one size, with its plain definition, and the bytes that it moves to and from memory."""

    name: str
    kernel: Callable[[], mx.array]
    plain: Callable[[], mx.array]
    bytes: int


def cases(phonemes: int, frames: int, dtype: mx.Dtype) -> Iterator[Case]:
    """Yield the kernels at the sizes of a sentence, the generator's in `dtype`."""
    for name, rows in (("text", phonemes + 2), ("frames", frames)):
        if fits(HIDDEN):
            yield lstm_case(f"LSTM, {rows} rows ({name})", rows)
    # Predictor and decoder, then the generator's two stages.
    for length, channels, snake in ((frames, 512, False), (20 * frames, 256, True), (120 * frames + 1, 128, True)):
        yield adain_case(length, channels, dtype if snake else mx.float32, snake=snake)
    yield source_case(2 * frames)
    if gpu() == "cuda":
        yield encoder_case(16 if phonemes < 14 else 64)
        yield curves_case(frames)
        for length, channels in ((20 * frames, 256), (120 * frames + 1, 128)):
            yield stage_case(length, channels)


def encoder_case(rows: int) -> Case:
    """Return PL-BERT's layers over one padded sentence of so many rows."""
    official = KOKORO["plbert"]
    names = ("hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings", "num_hidden_layers")
    encoder = AlbertEncoder(AlbertConfig(*(official[name] for name in names)))
    encoder.apply(lambda array: mx.random.normal(array.shape) / max(array.shape[-1], 16) ** 0.5)
    encoder.lower()
    x = mx.random.normal((1, rows, official["hidden_size"]))
    valid = PaddingMask.of(mx.array([rows - 2])[:, None, None], rows)
    mx.eval(encoder.parameters(), x, valid.mask, valid.count)
    parameters: Any = tree_flatten(encoder.albert_layer_groups[0].parameters())
    return Case(
        f"PL-BERT, {rows} rows",
        lambda: valid.zero(encoder.encode_kernel(x, valid)),
        lambda: valid.zero(encoder.encode_reference(x, valid)),
        sum(array.nbytes for _, array in parameters),
    )


def curves_case(frames: int, width: int = 512) -> Case:
    """Return the blocks of F0 and energy over so many frames."""
    pairs = [
        [AdainResBlock(width, width, STYLE) for _ in range(2)],
        [AdainResBlock(width, width // 2, STYLE, upsample=True) for _ in range(2)],
        [AdainResBlock(width // 2, width // 2, STYLE) for _ in range(2)],
    ]
    for block in (block for pair in pairs for block in pair):
        drawn(block)
        block.lower()
    bank = StyleBank.of(*(block for pair in pairs for block in pair))
    prepared, valid = adain_kernels.prepared_levels(pairs, 0), PaddingMask()
    x, styled = mx.random.normal((1, frames, width)), bank(mx.random.normal((1, STYLE)))
    count = valid.number(x)
    mx.eval(x, styled, count)

    def plain() -> mx.array:
        chains = []
        for chain in zip(*pairs, strict=True):
            y = x
            for block in chain:
                y = block(y, styled, valid)
            chains.append(y)
        return mx.stack(chains)

    return Case(
        f"curves, {frames} frames",
        lambda: mx.stack(adain_kernels.compute(prepared, x, count, styled)),
        plain,
        sum(step.weights.nbytes for level in prepared.levels for step in (level.first, level.second)),
    )


def stage_case(length: int, channels: int) -> Case:
    """Return three residual blocks of the generator over x [1, length, channels]."""
    blocks = [AdaINResBlock(channels, taps, (1, 3, 5), STYLE) for taps in (3, 7, 11)]
    for block in blocks:
        drawn(block)
        block.lower()
    bank, valid = StyleBank.of(*blocks), PaddingMask()
    prepared = residual_blocks.prepared_blocks([block.units for block in blocks])
    x, styled = mx.random.normal((1, length, channels)), bank(mx.random.normal((1, STYLE)))
    count, ending = valid.number(x), residual_blocks.Ending(mean_bias(blocks), 0.1)
    mx.eval(x, styled, count, ending.bias)
    return Case(
        f"residual blocks, {length} x {channels}",
        lambda: residual_blocks.compute(prepared, x, count, ending, styled),
        lambda: merge([block(x, styled, valid) for block in blocks], ending.bias, ending.slope),
        (3 * len(prepared.steps) + 1) * x.nbytes,
    )


def drawn(module: nn.Module) -> None:
    """Draw a module's matrices and convolutions such that sums keep their size; vectors stay as they are."""

    def draw(array: mx.array) -> mx.array:
        return mx.random.normal(array.shape) / max(array[0].size, 1) ** 0.5 if array.ndim > 1 else array

    module.apply(draw)
    mx.eval(module.parameters())


def lstm_case(name: str, rows: int) -> Case:
    """Return the BiLSTM over so many rows of one sequence."""
    xp, wh = mx.random.normal((1, rows, 8 * HIDDEN)), mx.random.normal((2, HIDDEN, 4 * HIDDEN)) / 16
    count = mx.array([rows])
    mx.eval(xp, wh, count)
    return Case(
        name,
        lambda: bilstm_kernel(xp, wh, count),
        lambda: bilstm_reference(xp, wh, None),
        wh.nbytes + xp.nbytes + xp.nbytes // 4,
    )


def adain_case(length: int, channels: int, dtype: mx.Dtype, *, snake: bool) -> Case:
    """Return AdaIN with an activation over x [1, length, channels]."""
    x, affine = mx.random.normal((1, length, channels)).astype(dtype), mx.random.normal((1, 2 * channels)).astype(dtype)
    alpha, valid = mx.random.uniform(0.5, 2, (channels,)).astype(dtype), PaddingMask()
    count = valid.number(x)
    mx.eval(x, affine, alpha, count)

    def plain() -> mx.array:
        return adain_snake_reference(x, affine, alpha, valid) if snake else adain_leaky_reference(x, affine, valid)

    return Case(
        f"AdaIN and {'Snake' if snake else 'LeakyReLU'}, {length} x {channels}, {str(dtype).rpartition('.')[2]}",
        lambda: adain_kernel(x, affine, alpha if snake else None, count),
        plain,
        3 * x.nbytes,
    )


def source_case(steps: int) -> Case:
    """Return the harmonic source over so many steps."""
    f0, noise = mx.full((1, steps), 150.0), mx.random.normal((1, steps * STEP))
    weight, bias = mx.random.normal((1, 9)), mx.zeros((1,))
    mx.eval(f0, noise, weight, bias)
    given = (f0, noise, None, weight, bias, STEP)
    name = f"harmonic source, {steps} steps"
    return Case(name, lambda: harmonics_kernel(*given), lambda: harmonics_reference(*given), 2 * noise.nbytes)


def microseconds(run: Callable[[], mx.array]) -> float:
    """Return the time of one call among ten that are evaluated together."""
    start = time.perf_counter()
    mx.eval([run() for _ in range(CALLS)])
    return (time.perf_counter() - start) * 1e6 / CALLS


def row(case: Case, rounds: int) -> str:
    """Return a line of the table."""
    difference = relative_difference(case.kernel(), case.plain())
    times = [(microseconds(case.kernel), microseconds(case.plain)) for _ in range(rounds + 2)][2:]
    kernel, plain = (statistics.median(each) for each in zip(*times, strict=True))
    found = f"{difference:.1e}" if difference <= MAX_RELATIVE_ERROR else f"DIFFERS by {difference:.1e}"
    return f"| {case.name} | {kernel:.1f} | {plain:.1f} | {case.bytes / kernel / 1e3:.1f} | {found} |"


def table(rounds: int, dtype: mx.Dtype) -> str:
    """Return all measurements in Markdown."""
    lines = [
        f"{device_name()}, {gpu()}",
        "",
        "| kernel | us | plain, us | GB/s | difference |",
        "|---|---|---|---|---|",
    ]
    for phonemes, frames in SENTENCES.items():
        lines += [row(case, rounds) for case in cases(phonemes, frames, dtype)]
    return "\n".join(lines)


def main() -> None:
    """Measure and print; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
    options = parser.parse_args()
    if gpu() is None:
        parser.error("no GPU here: MLX computes on the CPU, which has kernels of its own")
    print(table(options.rounds, mx.bfloat16 if options.dtype == "bfloat16" else mx.float32))


if __name__ == "__main__":
    main()
