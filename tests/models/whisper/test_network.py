"""The network against itself: any length of audio, prompts and single tokens, rows that share a window, fewer bits.

Its numbers are compared with openai-whisper's by `make parity`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mlx.utils import tree_flatten

from models.backend import mx
from models.whisper import steps
from models.whisper.network import Whisper
from models.whisper.steps import Steps
from models.whisper.weights import load_weights, rename
from tests.models.whisper.builder import config, drain, network, openai_arrays, to_mx

DIMS = config(n_vocab=2000)
IDS = [1, 5, 1999, 7, 42]


@pytest.fixture(scope="module")
def exact() -> Whisper:
    return network(DIMS)


@pytest.fixture(scope="module", params=[0, 8], ids=["float32", "8 bits"])
def pair(request: pytest.FixtureRequest) -> tuple[Whisper, float]:
    """A network, and how far it may be from the exact one, relative to the largest number."""
    return network(DIMS, bits=request.param), 0.1 if request.param else 1e-5


def mels(count: int, frames: int) -> mx.array:
    return mx.array(np.random.RandomState(3).standard_normal((count, frames, 80)).astype(np.float32))


def close(found: mx.array, wanted: mx.array, bound: float) -> bool:
    assert found.shape == wanted.shape
    return float(mx.abs(found - wanted).max() / mx.abs(wanted).max()) < bound


def logits(net: Whisper, ids: np.ndarray, memory: list[mx.array], parts: list[int]) -> mx.array:
    """Logits after each of `ids`, which are read in parts of these lengths."""
    past, place, found = net.allocate(len(ids), 16), 0, []
    for count in parts:
        given = mx.array(ids[:, place : place + count])
        hidden, past = net.decoder(given, mx.array([place]), past, memory)
        found.append(net.decoder.token_embedding.logits(hidden))
        place += count
    return mx.concatenate(found, axis=1)


@pytest.mark.parametrize("frames", [200, 64, 2])
def test_encoder_of_any_length(pair: tuple[Whisper, float], exact: Whisper, frames: int) -> None:
    net, bound = pair
    given = mels(2, frames)
    found = net.encoder(given)
    assert found.shape == (2, frames // 2, 64)
    for row in range(2):
        assert close(found[row], exact.encoder(given[row : row + 1])[0], bound)


def test_prompt_then_single_tokens(pair: tuple[Whisper, float], exact: Whisper) -> None:
    """Two windows, three rows of each: rows of a window differ by their tokens alone."""
    net, bound = pair
    heard = exact.encoder(mels(2, 80))
    ids = np.array([[*IDS[:-1], k] for k in range(6)])
    found = logits(net, ids, net.decoder.memories(heard), [3, 1, 1])
    for row in range(6):
        memory = exact.decoder.memories(heard[row // 3 : row // 3 + 1])
        assert close(found[row], logits(exact, ids[row : row + 1], memory, [5])[0], bound)


def test_half_precision_keeps_logits_in_float32(exact: Whisper) -> None:
    net = Whisper(DIMS)
    load_weights(net, rename(to_mx(openai_arrays(DIMS)), DIMS), "arrays", mx.float16)
    net.lower()
    given = mels(1, 40)
    found, wanted = (
        logits(each, np.array([IDS]), each.decoder.memories(each.encoder(given)), [5]) for each in (net, exact)
    )
    assert found.dtype == mx.float32
    assert close(found, wanted, 0.05)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_no_parameter_is_wider_than_asked(dtype: mx.Dtype) -> None:
    """One float32 array, such as the keys' zeros in place of a bias, makes a GPU compute all blocks in float32."""
    net = Whisper(DIMS)
    load_weights(net, rename(to_mx(openai_arrays(DIMS)), DIMS), "arrays", dtype)
    assert {array.dtype for _, array in tree_flatten(net.parameters())} == {dtype}
    net.lower()
    assert net.encoder.blocks[0].attn.qkv.bias.dtype == dtype


def test_a_gpu_compiles_the_encoder_of_whole_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other lengths, which are many, are not traced."""
    model, compiled = network(config(), 3), list[int]()

    def compile_(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(mel: mx.array) -> Any:
            compiled.append(mel.shape[1])
            return function(mel)

        return run

    plain = Steps(model)
    monkeypatch.setattr(steps.mx, "compile", compile_)
    lengths = (config().window, 40)
    windows = [np.random.RandomState(0).standard_normal((2, length, 80)).astype(np.float32) for length in lengths]
    wanted = [drain(plain.encode(mel)) for mel in windows]
    monkeypatch.setattr(steps, "on_cpu", lambda: False)
    gpu = Steps(model, kernels=False)
    for mel, memory in zip(windows, wanted, strict=True):
        for one, other in zip(drain(gpu.encode(mel)), memory, strict=True):
            assert np.array_equal(np.array(one), np.array(other))
    assert compiled == [config().window]
