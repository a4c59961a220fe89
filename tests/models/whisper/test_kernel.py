"""Whisper's decoding step by the kernels, run by an emulated GPU in both dialects, against the plain step."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from models.backend import mx
from models.layers.transformer import metal
from models.layers.transformer.cuda import CudaStep
from models.layers.transformer.metal import MetalStep
from models.layers.transformer.step import OUTPUTS, Step, own_rows
from models.whisper.kernels.choice import decoder_weights, output_rows
from models.whisper.network import Whisper
from models.whisper.steps import Steps
from models.whisper.weights import load_weights, rename
from tests.models.nllb.kernels.emulated import TOLERANCE, error, gpu
from tests.models.whisper.builder import config, openai_arrays

pytestmark = pytest.mark.slow

PLACE, LENGTH = 5, 12


@cache
def network() -> Whisper:
    """A network whose weights are bfloat16's, computing in float32; a block has 12 warps, as in small."""
    dims = config(n_audio_state=768, n_text_state=768, n_audio_head=12, n_text_head=12, n_audio_layer=1, n_vocab=200)
    model = Whisper(dims)
    arrays = {name: mx.array(array).astype(mx.bfloat16) for name, array in openai_arrays(dims, 3).items()}
    load_weights(model, rename(arrays, dims), "arrays")
    model.lower()
    return model


def caches(batch: int, length: int, seed: int) -> list[mx.array]:
    draw, shape = np.random.RandomState(seed), (batch, 24, length, 64)
    return [mx.array(draw.standard_normal(shape).astype(np.float32)).astype(mx.bfloat16) for _ in range(2)]


def compare(step: Step, windows: int, rows: int, each: int, positions: int) -> float:
    """The largest difference of outputs, keys and values, for `rows` of each window, of `each` tokens."""
    count = windows * rows
    ids = mx.array(np.random.RandomState(0).randint(0, 200, (count, each)).astype(np.int32))
    past, memory = caches(count, LENGTH, 1), caches(windows, positions, 2)
    wide = [[part.astype(mx.float32) for part in parts] for parts in (past, memory)]
    wanted, kept = network().decoder(ids, mx.array([PLACE]), *wide)
    mx.eval(wanted, kept, past, memory)  # before the kernel writes into the caches
    mask = mx.zeros((windows, 1, 1, positions), dtype=mx.bfloat16)
    origin = own_rows(count, LENGTH)
    found, place = step(ids, mx.array([PLACE]), past, memory, mask, origin, output_rows(network()), OUTPUTS)
    mx.eval(found)
    assert np.array(place).tolist() == [PLACE + each]
    pairs = [(found, wanted), *zip(past, kept, strict=True)]
    return max(error(np.array(one.astype(mx.float32)), np.array(other)) for one, other in pairs)


# Windows, rows of each, tokens of each, positions: hypotheses share a window's memory, and blocks a row's where it is
# long.
MORE_CASES = [(2, 3, 1, 300), (1, 2, 3, 20), (3, 3, 1, 20)]
CASES = [(1, 1, 1, 20), *(pytest.param(each, marks=pytest.mark.proof) for each in MORE_CASES)]


@pytest.mark.parametrize("case", CASES)
def test_one_kernel_equals_the_plain_step(case: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch)
    assert compare(CudaStep("whisper", decoder_weights(network()), 150 if case[3] > 256 else 3), *case) < TOLERANCE


@pytest.mark.parametrize("case", CASES)
def test_phases_equal_the_plain_step(case: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metal, "_BLOCKS", 3)
    gpu(monkeypatch, "metal")
    step = MetalStep("whisper", decoder_weights(network()), network().decoder.token_embedding.embed)
    assert compare(step, *case) < TOLERANCE


@pytest.mark.proof
def test_samples_have_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that go on by themselves from one prompt: nothing selects them, which would copy what they begin with."""
    gpu(monkeypatch)
    plain, fused = Steps(network()), Steps(network())
    fused.kernel, fused._head = CudaStep("whisper", decoder_weights(network()), 3), output_rows(network())
    memory = caches(1, 20, 2)
    wanted = plain.begin([[7, 8, 9]], [part.astype(mx.float32) for part in memory], 3, 8, 0)[0]
    shape = (1, 24, 8, 64)
    monkeypatch.setattr(network(), "allocate", lambda *_: [mx.zeros(shape, dtype=mx.bfloat16) for _ in memory])
    found = fused.begin([[7, 8, 9]], memory, 3, 8, 0)[0]
    for tokens in ([1, 2, 3], [9, 4, 30], [5, 5, 6]):
        one, other = fused.step(tokens, found), plain.step(tokens, wanted)
        assert error(one.astype(np.float32), other) < TOLERANCE
