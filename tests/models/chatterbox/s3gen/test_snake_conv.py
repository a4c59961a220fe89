"""The kernels of the vocoder's residual blocks, their own source run by an emulated GPU, against plain blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.s3gen import vocoder
from models.chatterbox.s3gen.kernels import cuda, snake_conv
from models.chatterbox.s3gen.vocoder import LAST_SLOPE, MeanOfBlocks, ResBlock
from models.layers.conv import PaddingMask
from models.layers.kernels import agreement
from models.layers.kernels.device import Kernel, Output, read
from models.native import kernels
from tests.models import emulator
from tests.models.emulator import Run, emulate

pytestmark = pytest.mark.slow

WIDTH = 64
TAPS = (3, 7, 11)
# Products are of bfloat16s: each rounds by 2^-9 at most. The residual hides some of it.
TOLERANCE = 8e-3

Launched = list[tuple[int, int, int]]


@pytest.fixture(params=[False, True], ids=["forward", "backward"])
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launched]:
    """Turns the emulated GPU on, its source changed if asked; notes the launches' blocks of threads."""

    def start(words: str = "", instead: str = "", processors: int = 3) -> Launched:
        launched = Launched()
        folder = Path(snake_conv.__file__).parent

        def launch(
            kernel: Kernel,
            inputs: Sequence[mx.array],
            outputs: Sequence[Output],
            blocks: tuple[int, int, int],
            template: Mapping[str, Any],
            threads: int,
        ) -> list[mx.array]:
            launched.append(blocks)
            device = f"#define LATE {int(request.param)}\n#define CLUSTER 1\n"
            device += Path(__file__).with_name("tensor_cores.h").read_text()
            header = kernel.header.replace(read(folder / "cuda.h"), device)
            assert header != kernel.header
            body = kernel.body.replace(cuda.ROOM, f"unsigned char *room = begun({kernel.shared_bytes});")
            given, made = (dict(zip(names, arrays, strict=True)) for names, arrays in (
                (kernel.inputs, inputs), (kernel.outputs, outputs)
            ))  # fmt: skip
            return emulate(
                header.replace(words or "\0", instead), body, given, made, blocks, dict(template),
                backward=request.param, run=Run(threads=threads),
            )  # fmt: skip

        monkeypatch.setattr(snake_conv, "launch", launch)
        monkeypatch.setattr(snake_conv, "gpu", lambda: "cuda")
        monkeypatch.setattr(snake_conv, "processors", lambda: processors)
        monkeypatch.setattr(snake_conv, "usable", lambda *_: True)
        monkeypatch.setitem(emulator.SHARED_LIMIT, "cuda", 227 << 10)  # asked for at the launch
        # Layers in the order of a GPU.
        monkeypatch.setattr(kernels, "module", lambda: None)
        for module in ("models.layers.conv", "models.layers.vocoder", "models.chatterbox.s3gen.vocoder"):
            monkeypatch.setattr(f"{module}.on_cpu", lambda: False)
        return launched

    return start


def blocks(taps: Sequence[int] = TAPS, width: int = WIDTH) -> MeanOfBlocks:
    """Blocks with every array such that it matters, lowered."""
    draw = np.random.default_rng(0)
    made = []
    for each in taps:
        block = ResBlock(width, each, (1, 3, 5))
        for conv in (*block.convs1, *block.convs2):
            conv.weight = mx.array(draw.standard_normal(conv.weight.shape, dtype=np.float32) / np.sqrt(each * width))
            conv.bias = mx.array(draw.standard_normal(width, dtype=np.float32))
            conv.bfloat16 = True
        for snake in (*block.activations1, *block.activations2):
            snake.alpha = mx.array(draw.uniform(0.5, 2, width).astype(np.float32))
        block.lower()
        made.append(block)
    mean = MeanOfBlocks(made)
    mean.lower()
    return mean


def given(rows: int, valid: int, width: int = WIDTH) -> tuple[mx.array, PaddingMask]:
    """Rows of which the last are padding; no activation is to hear what stands there."""
    x = mx.random.normal((1, rows, width), key=mx.random.key(rows))
    mask = PaddingMask.of(mx.array(valid).reshape(1, 1, 1), rows)
    return mx.where(mask.mask == 0, 1e3, x), mask


def difference(mean: MeanOfBlocks, rows: int, valid: int, width: int = WIDTH) -> float:
    """Norm of the kernels' difference from plain blocks on valid rows, over that of the plain result."""
    assert mean.uses_kernels
    x, mask = given(rows, valid, width)
    found = mean(x, mask, LAST_SLOPE)[:, :valid]
    prepared, mean._prepared = mean._prepared, None
    wanted = mean(x, mask, LAST_SLOPE)[:, :valid]
    mean._prepared = prepared
    return agreement.relative_difference(found, wanted)


# A row alone, less than a tile, tiles of 16, of 32 and of 64 rows with a rest, and a block alone.
@pytest.mark.parametrize(
    ("rows", "valid", "taps", "tiles"),
    [(1, 1, TAPS, 1), (13, 9, TAPS, 1), (41, 40, TAPS, 1), (70, 61, TAPS, 2), (140, 131, TAPS, 4), (41, 41, (7,), 1)],
)
def test_equals_plain_blocks(
    gpu: Callable[..., Launched], rows: int, valid: int, taps: tuple[int, ...], tiles: int
) -> None:
    launched = gpu(processors={1: 1 << 20, 2: 9, 4: 9}[tiles])
    assert difference(blocks(taps), rows, valid) < TOLERANCE
    assert launched == [(-(-rows // (16 * tiles)), 1, len(taps))] * 6


def test_wide_blocks_share_their_columns(gpu: Callable[..., Launched]) -> None:
    launched = gpu(processors=1 << 20)
    assert difference(blocks((11,), 256), 21, 20, 256) < TOLERANCE
    assert launched == [(2, 2, 1)] * 6


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("row == safe && of.mask[safe] != 0.0f", "of.mask[safe] != 0.0f"),
        ("row == safe && of.mask[safe] != 0.0f", "row == safe"),
        ("const float moved = v[i] + shift[i];", "const float moved = v[i];"),
        ("moved * rate[i], inverse[i]", "moved * rate[i], inverse[0]"),
        ("tap * rows.dilation", "tap"),
        ("first - reach / 2, heard", "first - reach, heard"),
        ("const float2 start = of.onto ?", "const float2 start = false ?"),
        ("(r + j * AT_ONCE >= count)", "(r + j * AT_ONCE >= count - 1)"),
    ],
)
def test_a_mistake_shows(gpu: Callable[..., Launched], words: str, instead: str) -> None:
    headers = snake_conv.kernel(WIDTH, 1).header
    assert words in headers
    gpu(words, instead, processors=1 << 20)
    assert not difference(blocks(), 41, 36) < 2 * TOLERANCE


def test_a_mistake_of_columns_shows(gpu: Callable[..., Launched]) -> None:
    words = "of.weights, part * COLUMNS,"
    assert words in snake_conv.kernel(256, 1).header
    gpu(words, "of.weights, 0,", processors=1 << 20)
    assert not difference(blocks((3,), 256), 21, 20, 256) < 2 * TOLERANCE


def test_the_kernels_are_compared_with_the_blocks(gpu: Callable[..., Launched]) -> None:
    gpu(processors=2)
    mean = blocks()
    assert mean.uses_kernels
    found = snake_conv.differences(mean._prepared, mean._plain)
    assert len(found) == len(snake_conv._TILES)
    assert max(found) < TOLERANCE
    mean._blocks[1].convs1[1].weight = mean._blocks[1].convs1[1].weight * 1.5
    assert min(snake_conv.differences(mean._prepared, mean._plain)) > TOLERANCE


def test_others_are_left_to_plain_operations(gpu: Callable[..., Launched], monkeypatch: pytest.MonkeyPatch) -> None:
    gpu()
    assert blocks().uses_kernels
    assert not blocks(width=48).uses_kernels  # no whole runs of 64 terms
    other = ResBlock(WIDTH, 3, (1, 3, 7))
    other.lower()
    same = blocks((3,))
    assert snake_conv.fits([block.units for block in same._blocks])
    assert not snake_conv.fits([*(block.units for block in same._blocks), other.units])
    exact = MeanOfBlocks([other])
    exact.lower()
    assert not exact.uses_kernels  # not marked for bfloat16
    launched = gpu()
    x, _ = given(41, 41)
    whole = same(x, PaddingMask(), LAST_SLOPE)  # nothing is padded
    mx.eval(whole)
    assert launched == []
    monkeypatch.setattr(snake_conv, "usable", lambda *_: False)
    assert not blocks().uses_kernels


def test_a_vocoder_prepares_its_blocks(gpu: Callable[..., Launched]) -> None:
    """Those of a narrow network that is told to multiply in bfloat16, and only then."""
    config = vocoder.VocoderConfig(width=128, rates=(2,), kernels=(4,), source_kernels=(7,), f0_width=32, f0_layers=2)
    launched = gpu()
    networks = [vocoder.HiFT(config, 16) for _ in range(2)]
    networks[0].multiply_in_bfloat16()
    for network in networks:
        network.lower()
    prepared, exact = networks
    assert prepared.uses_kernels
    assert not any(mean.uses_kernels for mean in (*exact._excite, *exact._stages))
    exact.update(prepared.parameters())
    source, mel = mx.random.normal((1, 32 * 8)), mx.random.normal((1, 32, 16))
    found = prepared.decode(mel, source, mx.array(30).reshape(1, 1, 1))
    assert found.shape == (1, 32 * 8)
    assert len(launched) == 12
