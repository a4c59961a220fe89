"""The kernel of the estimator's transformer blocks, its own source run by an emulated GPU, against the plain blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.config import ENGLISH, FlowConfig
from models.chatterbox.s3gen.estimator import Estimator, TransformerBlock
from models.chatterbox.s3gen.kernels import blocks as kernels
from tests.models.emulator import emulate

CONFIG = replace(ENGLISH.flow, width=64, heads=2)
# Products of bfloat16s are summed in float32 here and there; intermediate results are rounded to bfloat16 in different
# places. The plain blocks in bfloat16 are as far from those in float32.
TOLERANCE = 0.02


@pytest.fixture(params=[False, True], ids=["forward", "backward"])
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Turns the emulated GPU on, its source changed if asked; notes the launches' blocks of threads."""

    def start(words: str = "", instead: str = "") -> list[int]:
        launched = []

        def launch(
            inputs: Mapping[str, mx.array],
            outputs: Mapping[str, tuple[int, ...]],
            blocks: int,
            sizes: tuple[int, int, int],
            tiles: int,
        ) -> list[mx.array]:
            launched.append(blocks)
            header = Path(__file__).with_name("tensor_cores.h").read_text()
            source = header + kernels.header(*sizes)
            assert words in source
            made = {name: (shape, mx.bfloat16) for name, shape in outputs.items()}
            body = kernels.body().replace("extern __shared__ __align__(16) unsigned char room[];", "")
            shared = kernels.shared_bytes(tiles, sizes[0], sizes[1] * kernels.HEAD, sizes[2])
            source = source.replace(words, instead) + f"alignas(16) static unsigned char room[{shared}];\n"
            return emulate(source, body, dict(inputs), made, (blocks, 1, 1), {"TILES": tiles}, backward=request.param)

        monkeypatch.setattr(kernels, "_launch", launch)
        return launched

    return start


def blocks(count: int = 2, config: FlowConfig = CONFIG) -> list[TransformerBlock]:
    """Random ones whose layers all matter, in bfloat16."""
    draw = np.random.default_rng(0)
    made = []
    for _ in range(count):
        block = TransformerBlock(config)
        for part in (block, block.norm1, block.norm2):
            for name, array in list(part.items()):
                if isinstance(array, mx.array):
                    values = draw.standard_normal(array.shape, dtype=np.float32)
                    scale = 2 / np.sqrt(array.shape[-1]) if array.ndim == 2 else 0.5
                    part[name] = mx.array(values * scale + (1 if name == "weight" else 0)).astype(mx.bfloat16)
        made.append(block)
    return made


def plain(given: list[TransformerBlock], config: FlowConfig = CONFIG) -> Callable[[mx.array, mx.array], mx.array]:
    """The same blocks in float32."""

    def run(x: mx.array, mask: mx.array) -> mx.array:
        streams = [mx.default_stream(mx.default_device())]
        x, mask = x.astype(mx.float32), mask.astype(mx.float32)
        for block in given:
            copy = TransformerBlock(config)
            copy.update(block.parameters())
            copy.set_dtype(mx.float32)
            (x,) = copy([x], mask, streams)
        return x

    return run


# A tile of 16 rows, tiles of 32, and keys in more than one run of 64.
@pytest.mark.parametrize(("frames", "few"), [(64, 10_000), (64, 0), (128, 0)])
def test_blocks_equal_the_plain_ones(
    gpu: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch, frames: int, few: int
) -> None:
    monkeypatch.setattr(kernels, "_FEW_ROWS", few)
    launched = gpu()
    given = blocks()
    assert kernels.difference(given, plain(given), frames) < TOLERANCE
    assert launched == [2 * frames // (16 if few else 32)] * 3


def test_a_block_at_full_size(gpu: Callable[..., list[int]]) -> None:
    gpu()
    given = blocks(1, ENGLISH.flow)
    assert kernels.difference(given, plain(given, ENGLISH.flow), 64) < TOLERANCE


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("highest = fmaxf(highest, LANE_XOR(highest, 2));", ""),
        ("batch = row / frames", "batch = 0 * frames"),
        ("here[frames] = (ushort)(both >> 16);", "here[frames] = (ushort)both;"),
        ("b = b * 0.125f + high(both);", "b = b * 0.125f;"),
        ("here[1] += b + high(both);", "here[1] += b;"),
        ("of.gain1, of.shift1", "of.gain2, of.shift1"),
    ],
)
def test_a_mistake_shows(gpu: Callable[..., list[int]], words: str, instead: str) -> None:
    gpu(words, instead)
    given = blocks()
    assert not kernels.difference(given, plain(given), 64) < 2 * TOLERANCE


def test_a_kernel_that_differs_is_not_used(
    gpu: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = blocks(1)
    monkeypatch.setattr(kernels, "_CHECKED", (64,))
    gpu()
    assert kernels.checked(given, plain(given))
    gpu("here[1] += b + high(both);", "")
    assert not kernels.checked(given, plain(given))
    assert "differ from plain ones" in caplog.text


def test_the_estimator_uses_them(gpu: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole estimator, three stages of two blocks: nine launches, and the same result."""
    monkeypatch.setattr(kernels, "available", lambda *_: True)
    monkeypatch.setattr(kernels, "_CHECKED", (64,))
    mx.random.seed(3)
    estimator = Estimator(replace(CONFIG, blocks=2, middle=1), 80)
    estimator.apply(lambda array: mx.random.normal(array.shape) * (1 / max(1, array.shape[-1]) ** 0.5))
    estimator.lower()
    estimator.to_bfloat16()
    x = mx.random.normal((2, 64, 80))
    given = estimator.condition(x, x[:, 0], x)
    shifts = estimator.times(np.zeros(1, np.float32))[0]
    bias = mx.where(mx.arange(64) < 50, 0.0, float("-inf")).astype(mx.bfloat16)[None, None, None]
    wanted = np.array(estimator(x, given, shifts, bias).astype(mx.float32))[:, :50]
    launched = gpu()
    estimator.fuse()
    launched.clear()
    found = np.array(estimator(x, given, shifts, bias).astype(mx.float32))[:, :50]
    assert len(launched) == 9
    assert np.linalg.norm(found - wanted) < 0.05 * np.linalg.norm(wanted)


def test_what_fits() -> None:
    flow = ENGLISH.flow
    assert kernels.fits(flow.width, flow.heads, flow.head_size, mx.bfloat16)
    for width, heads, size, dtype in (
        (256, 8, 64, mx.float32),
        (256, 8, 32, mx.bfloat16),
        (96, 8, 64, mx.bfloat16),
        (1024, 8, 64, mx.bfloat16),
    ):
        assert not kernels.fits(width, heads, size, dtype)
    assert not kernels.available(flow.width, flow.heads, flow.head_size, mx.bfloat16)
    assert kernels.fits_rows(128)
    assert not kernels.fits_rows(96)
