"""The network against plain numpy: any length of audio, prompts and single tokens, rows that share a window."""

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
from tests.models.whisper.reference import Reference

DIMS = config(n_vocab=2000)
IDS = [1, 5, 1999, 7, 42]


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(DIMS, openai_arrays(DIMS))


@pytest.fixture(scope="module", params=[0, 8], ids=["float32", "8 bits"])
def pair(request: pytest.FixtureRequest) -> tuple[Whisper, float]:
    """A network, and how far it may be from the reference, relative to the largest number."""
    return network(DIMS, bits=request.param), 0.1 if request.param else 1e-5


def mels(count: int, frames: int) -> np.ndarray:
    found: np.ndarray = np.random.RandomState(3).standard_normal((count, frames, 80)).astype(np.float32)
    return found


def close(found: mx.array, wanted: np.ndarray, bound: float) -> bool:
    apart = np.abs(np.array(found) - wanted).max() / np.abs(wanted).max()
    return bool(apart < bound)


@pytest.mark.parametrize("frames", [200, 64, 2])
def test_encoder_of_any_length(pair: tuple[Whisper, float], reference: Reference, frames: int) -> None:
    given = mels(2, frames)
    found = pair[0].encoder(mx.array(given))
    assert found.shape == (2, frames // 2, 64)
    for row, one in enumerate(given):
        assert close(found[row], reference.encode(one), pair[1])


def test_prompt_then_single_tokens(pair: tuple[Whisper, float], reference: Reference) -> None:
    """Two windows, three rows of each: rows of a window differ by their tokens alone."""
    net, bound = pair
    given = mels(2, 80)
    memory = net.decoder.memories(net.encoder(mx.array(given)))
    ids = np.array([[*IDS[:-1], k] for k in range(6)])
    past = net.allocate(6, 16)
    hidden, past = net.decoder(mx.array(ids[:, :3]), mx.array([0]), past, memory)
    outputs = [net.decoder.token_embedding.logits(hidden)]
    for at in range(3, 5):
        hidden, past = net.decoder(mx.array(ids[:, at : at + 1]), mx.array([at]), past, memory)
        outputs.append(net.decoder.token_embedding.logits(hidden))
    logits = mx.concatenate(outputs, axis=1)
    for row in range(6):
        assert close(logits[row], reference.decode(ids[row].tolist(), reference.encode(given[row // 3]))[0], bound)


def test_logits_of_the_cross_attention(pair: tuple[Whisper, float], reference: Reference) -> None:
    net, bound = pair
    given = mels(1, 80)
    memory = net.decoder.memories(net.encoder(mx.array(given)))
    heads = [(1, 3), (0, 2), (1, 0)]
    hidden, found = net.decoder.align(mx.array([IDS]), net.allocate(1, 8), memory, heads)
    logits, crosses = reference.decode(IDS, reference.encode(given[0]))
    assert close(net.decoder.token_embedding.logits(hidden)[0], logits, bound)
    for number, (layer, head) in enumerate(heads):
        assert close(found[number], crosses[layer, head], bound)


def test_half_precision_keeps_logits_in_float32(reference: Reference) -> None:
    net = Whisper(DIMS)
    load_weights(net, rename(to_mx(openai_arrays(DIMS)), DIMS), "arrays", mx.float16)
    net.lower()
    given = mels(1, 40)
    memory = net.decoder.memories(net.encoder(mx.array(given)))
    hidden, _ = net.decoder(mx.array([IDS]), mx.array([0]), net.allocate(1, 8), memory)
    logits = net.decoder.token_embedding.logits(hidden)
    assert logits.dtype == mx.float32
    assert close(logits[0], reference.decode(IDS, reference.encode(given[0]))[0], 0.05)


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
    mels = [np.random.RandomState(0).standard_normal((2, length, 80)).astype(np.float32) for length in lengths]
    wanted = [drain(plain.encode(mel)) for mel in mels]
    monkeypatch.setattr(steps, "on_cpu", lambda: False)
    gpu = Steps(model, kernels=False)
    for mel, memory in zip(mels, wanted, strict=True):
        for one, other in zip(drain(gpu.encode(mel)), memory, strict=True):
            assert np.array_equal(np.array(one), np.array(other))
    assert compiled == [config().window]
