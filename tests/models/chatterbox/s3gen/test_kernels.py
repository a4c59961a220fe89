"""The kernels of the estimator's stages, their own source run by an emulated GPU, against the plain stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_map_with_path

from models.backend import mx
from models.chatterbox.config import ENGLISH, FlowConfig
from models.chatterbox.s3gen.estimator import Estimator, UNetBlock
from models.chatterbox.s3gen.kernels import cuda
from models.native import nvidia
from tests.models import emulator
from tests.models.emulator import Run, emulate

pytestmark = pytest.mark.slow
proof = pytest.mark.proof

CONFIG = replace(ENGLISH.flow, width=64, heads=2)
# Products of bfloat16s are summed in float32 here and there; intermediate results are rounded to bfloat16 in different
# places. The plain blocks in bfloat16 are as far from those in float32.
TOLERANCE = 0.02


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Turns the emulated GPU on; notes the launches' blocks of threads.

    `backward`: later threads run first, and copies are made late. `share`: so many blocks share a tile.
    """

    def start(*, backward: bool = False, share: int = 1) -> list[int]:
        launched = []
        monkeypatch.setattr(nvidia, "clusters", lambda: share > 1)
        monkeypatch.setattr(cuda, "_SHARE", share)

        def launch(
            name: str,
            inputs: Mapping[str, mx.array],
            numbers: int,
            blocks: int,
            sizes: cuda.Sizes,
            tiles: int,
            share: int,
        ) -> mx.array:
            launched.append(blocks)
            given = f"#define LATE {int(backward)}\n#define CLUSTER {share}\n"
            source = given + emulator.copies() + cuda.header(name, sizes)
            room = f"unsigned char *room = begun({cuda.shared_bytes(name, tiles, sizes)});"
            body = cuda.body(name).replace(cuda.ROOM, room)
            (result,) = emulate(
                source, body, dict(inputs), {"state_made": ((numbers,), mx.bfloat16)}, (blocks, 1, 1),
                {"TILES": tiles, "SHARE": share}, backward=backward, run=Run(together=True),
            )  # fmt: skip
            return result

        monkeypatch.setattr(cuda, "_launch", launch)
        monkeypatch.setitem(emulator.SHARED_LIMIT, "cuda", 227 << 10)  # asked for at the launch
        return launched

    return start


def randomized(module: nn.Module) -> nn.Module:
    """Every array of `module` such that it matters, in bfloat16."""
    draw = np.random.default_rng(0)

    def random(name: str, array: mx.array) -> mx.array:
        values = draw.standard_normal(array.shape, dtype=np.float32)
        if array.ndim > 1:
            return mx.array(values * 2 / np.sqrt(np.prod(array.shape[1:])))
        return mx.array(values * 0.5 + ("norm" in name and name.endswith("weight")))

    module.update(tree_map_with_path(random, module.parameters()))
    module.set_dtype(mx.bfloat16)
    return module


def stage(inputs: int = 128, count: int = 2, config: FlowConfig = CONFIG) -> UNetBlock:
    """A stage whose input is as wide as its stream, or twice so, with `count` blocks."""
    made = randomized(UNetBlock(inputs, replace(config, blocks=count)))
    assert isinstance(made, UNetBlock)
    return made


def plain(given: UNetBlock, config: FlowConfig = CONFIG) -> cuda.Plain:
    """The same in float32, in MLX's operations."""
    copy = UNetBlock(given.resnet.res_conv.weight.shape[1], replace(config, blocks=len(given.transformers)))
    copy.update(given.parameters())
    copy.set_dtype(mx.float32)
    streams = [mx.default_stream(mx.default_device())]

    def run(x: mx.array, shift: mx.array, mask: mx.array) -> mx.array:
        x, shift, mask = (array.astype(mx.float32) for array in (x, shift, mask))
        return copy([x], shift, mask, streams)[0]

    return run


def difference(given: UNetBlock, frames: int, config: FlowConfig = CONFIG) -> float:
    prepared = cuda.prepare(given.resnet, given.transformers)
    return cuda.difference(prepared, plain(given, config), given.resnet.res_conv.weight.shape[1], frames)


# Tiles of 16 rows, of 32, keys in more than one run of 64, an input as wide as the stream; in clusters a head for each
# block, or two.
@pytest.mark.parametrize(
    ("frames", "few", "inputs", "heads", "share", "backward"),
    [
        (64, 10_000, 128, 2, 1, True),
        pytest.param(64, 0, 128, 2, 1, False, marks=proof),
        pytest.param(128, 0, 64, 2, 1, True, marks=proof),
        pytest.param(128, 10_000, 128, 2, 2, False, marks=proof),
        pytest.param(192, 0, 64, 8, 4, True, marks=proof),
    ],
)
def test_a_stage_equals_the_plain_one(
    gpu: Callable[..., list[int]],
    monkeypatch: pytest.MonkeyPatch,
    frames: int,
    few: int,
    inputs: int,
    heads: int,
    share: int,
    backward: bool,
) -> None:
    monkeypatch.setattr(cuda, "_FEW_ROWS", few)
    launched = gpu(backward=backward, share=share)
    config = replace(CONFIG, heads=heads)
    assert difference(stage(inputs, config=config), frames, config) < TOLERANCE
    assert launched == [2 * frames // (16 if few else 32) * share] * 4


def test_blocks_without_their_resnet(gpu: Callable[..., list[int]]) -> None:
    """As in the first stage, whose resnet block is computed otherwise."""
    gpu()
    given = stage()
    x = mx.random.normal((1, 64, 64), key=mx.random.key(0)).astype(mx.bfloat16)
    mask = mx.zeros((1, 1, 1, 64), dtype=mx.bfloat16)
    found = cuda.attend(cuda.prepare(None, given.transformers), x, mask)
    xs = [x.astype(mx.float32)]
    for block in given.transformers:
        block.set_dtype(mx.float32)
        xs = block(xs, None, [mx.default_stream(mx.default_device())])
    apart = np.linalg.norm(np.array(found.astype(mx.float32) - xs[0]))
    assert apart < TOLERANCE * np.linalg.norm(np.array(xs[0]))


@proof
@pytest.mark.parametrize("share", [1, 4])
def test_a_stage_at_full_size(gpu: Callable[..., list[int]], share: int) -> None:
    gpu(backward=share > 1, share=share)
    assert difference(stage(512, 1, ENGLISH.flow), 64, ENGLISH.flow) < TOLERANCE


def test_a_kernel_that_differs_is_not_used(
    gpu: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = stage(count=1)
    monkeypatch.setattr(cuda, "_CHECKED", (64,))
    gpu()
    prepared = cuda.prepare(given.resnet, given.transformers)
    assert cuda.agree(prepared, plain(given), 128)
    assert not cuda.agree(prepared, lambda *inputs: 1.5 * plain(given)(*inputs), 128)
    assert "differ from plain operations" in caplog.text


def test_the_estimator_uses_them(gpu: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole estimator, three stages of two blocks: eleven launches, and the same result."""
    monkeypatch.setattr(cuda, "available", lambda *_: True)
    monkeypatch.setattr(cuda, "_CHECKED", (64,))
    mx.random.seed(3)
    estimator = Estimator(replace(CONFIG, blocks=2, middle=1), 80)
    estimator.apply(lambda array: mx.random.normal(array.shape) * (1 / max(1, array.shape[-1]) ** 0.5))
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
    assert len(launched) == 3 + 4 + 4
    assert np.linalg.norm(found - wanted) < 0.05 * np.linalg.norm(wanted)


def test_what_fits() -> None:
    flow = ENGLISH.flow
    sizes = (flow.width, flow.heads, 4 * flow.width)
    assert cuda.fits(sizes, flow.head_size, mx.bfloat16)
    for other, size, dtype in (
        (sizes, 64, mx.float32),
        (sizes, 32, mx.bfloat16),
        ((96, 8, 384), 64, mx.bfloat16),
        ((1024, 16, 4096), 64, mx.bfloat16),
    ):
        assert not cuda.fits(other, size, dtype)
    assert not cuda.available(sizes, flow.head_size, mx.bfloat16)
    assert [cuda.fits((256, heads, 1024), 64, mx.bfloat16) for heads in (2, 3, 6, 8)] == [True, False, False, True]
    assert cuda.fits_rows(128)
    assert not cuda.fits_rows(96)
