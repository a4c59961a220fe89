"""Chatterbox's vocoder on this machine's GPU: with the kernels of its residual blocks, and by plain operations.

    python -m loadtest.vocoder_kernels [--rounds 30] [--frames 32,64,256,512]

Weights are random, at full size. The kernels multiply in float16, the plain operations in float32 (with TF32, where
MLX uses it). A time is the median of rounds, in which the two take turns: from the mel to samples that are there.
Prints a table in Markdown. The times of kernels that differ from plain operations mean nothing.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import numpy as np
from mlx.utils import tree_map_with_path

from models.backend import device_name, mx
from models.chatterbox.config import ENGLISH
from models.chatterbox.s3gen.noise import Draw, frame_noise, random_phases
from models.chatterbox.s3gen.vocoder import HiFT, Vocoder
from models.layers.kernels.agreement import relative_difference
from models.layers.kernels.device import gpu

MAX_RELATIVE_ERROR = 0.05  # of samples: rounding in 36 products, one after the other


def network(*, half: bool) -> HiFT:
    """Return the vocoder with random weights, the same each time, such that samples are neither silent nor cut off."""
    draw = np.random.default_rng(0)
    made = HiFT(ENGLISH.vocoder, ENGLISH.mels)

    def random(name: str, array: mx.array) -> mx.array:
        values = draw.standard_normal(array.shape, dtype=np.float32)
        if name.endswith("alpha"):
            return mx.array(0.5 + 0.5 * np.abs(values))
        return mx.array(values * (0.8 / np.sqrt(np.prod(array.shape[1:])) if array.ndim > 1 else 0.05))

    made.update(tree_map_with_path(random, made.parameters()))
    if half:
        made.multiply_in_bfloat16()
    made.lower()
    return made


def milliseconds(vocoder: Vocoder, mel: mx.array) -> tuple[float, mx.array]:
    """Return the time that the samples of mel [1, F, mels] take, and the samples."""
    frames, size = mel.shape[1], vocoder.samples_per_frame
    noise = frame_noise(0, Draw.EXCITATION, 0, frames, size)
    phases = random_phases(0, vocoder.harmonics)
    mx.eval(noise, phases)
    start = time.perf_counter()
    pcm = vocoder(mel, phases, noise).pcm
    mx.eval(pcm)
    return (time.perf_counter() - start) * 1e3, pcm


def table(rounds: int, sizes: Sequence[int]) -> str:
    """Return all measurements in Markdown."""
    networks = [network(half=True), network(half=False)]
    fast, plain = (Vocoder(each, padded=True) for each in networks)
    lines = [
        f"{device_name()}, {gpu()}; kernels in use: {networks[0].uses_kernels}",
        "",
        "| frames | kernels, ms | plain, ms | ratio | difference |",
        "|---|---|---|---|---|",
    ]
    for frames in sizes:
        mel = mx.random.normal((1, frames, ENGLISH.mels), key=mx.random.key(frames)) - 2.0
        mx.eval(mel)
        rows = [(milliseconds(fast, mel), milliseconds(plain, mel)) for _ in range(rounds + 3)][3:]
        ours, theirs = (statistics.median(row[which][0] for row in rows) for which in (0, 1))
        apart = relative_difference(rows[0][0][1], rows[0][1][1])
        found = f"{apart:.1e}" if apart <= MAX_RELATIVE_ERROR else f"DIFFERS by {apart:.1e}"
        lines.append(f"| {frames} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.2f} | {found} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--frames", default="32,64,256,512")
    options = parser.parse_args()
    if gpu() != "cuda":
        parser.error("no NVIDIA GPU here: the vocoder has no such kernels elsewhere")
    print(table(options.rounds, [int(each) for each in options.frames.split(",")]))


if __name__ == "__main__":
    main()
