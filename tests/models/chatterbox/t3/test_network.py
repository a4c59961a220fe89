"""T3's network against itself: cached steps, rows, padding, rounded caches. `make parity` has its numbers."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.t3 import cache
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.weights import load_weights
from models.native import kernels
from tests.models.chatterbox.t3.builder import CONFIGS, GPT2, LLAMA, conditioned, network, official_arrays

TEXT = [5, 9, 3, 17, 2]
SAID = [4, 77, 12, 4, 30, 61, 8, 89, 1]


@pytest.fixture(params=list(CONFIGS))
def model(request: pytest.FixtureRequest) -> T3:
    return network(CONFIGS[request.param], seed=1)


def run(
    model: T3,
    *,
    guided: bool = False,
    padding: int = 0,
    at_once: int = 1,
    bits: int = 0,
    spare: int = 0,
    condition: mx.array | None = None,
) -> np.ndarray:
    """Logits [1 + len(SAID), B, V] of the prefill and the steps, `at_once` tokens a step."""
    embeddings = model.prompt(conditioned(model) if condition is None else condition, TEXT, guided)
    batch, count, _ = embeddings.shape
    embeddings = mx.pad(embeddings, [(0, 0), (0, padding), (0, 0)], constant_values=1.0)
    room = model.allocate(batch, count + padding + len(SAID) + spare, bits)
    logits, room = model.prefill(embeddings, mx.array([count]), room)
    found = [np.array(logits)[None]]
    for i in range(0, len(SAID), at_once):
        said = mx.array(SAID[i : i + at_once])
        logits, room = model.advance(said, mx.array([count + i, i + 1]), room)
        found.append(np.array(logits.swapaxes(0, 1)))
    return np.concatenate(found)


def test_steps_equal_the_whole(model: T3) -> None:
    """One at a time, three at a time, all in one pass."""
    steps = run(model)
    assert steps.std(axis=0).max() > 0.1
    for at_once in (3, len(SAID)):
        np.testing.assert_allclose(run(model, at_once=at_once), steps, atol=2e-5)


def test_guided_rows_are_single_runs() -> None:
    model = network(LLAMA, seed=1)
    both = run(model, guided=True)
    np.testing.assert_allclose(both[:, :1], run(model), atol=2e-5)
    blind = network(LLAMA, seed=1)
    blind.text_emb.weight = mx.zeros_like(blind.text_emb.weight)
    np.testing.assert_allclose(both[:, 1:], run(blind), atol=2e-5)
    assert np.abs(both[:, 0] - both[:, 1]).max() > 0.05


@pytest.mark.parametrize(("padding", "spare"), [(1, 0), (11, 7), (0, 64)])
def test_padding_changes_nothing(model: T3, padding: int, spare: int) -> None:
    np.testing.assert_allclose(run(model, padding=padding, spare=spare), run(model), atol=2e-5)


def test_grown_cache_goes_on(model: T3) -> None:
    embeddings = model.prompt(conditioned(model), TEXT)
    count = embeddings.shape[1]
    _, room = model.prefill(embeddings, mx.array([count]), model.allocate(1, count))
    room = cache.grow(room, count + 5)
    assert cache.capacity(room) == count + 5
    logits, _ = model.advance(mx.array(SAID[:1]), mx.array([count, 1]), room)
    np.testing.assert_allclose(np.array(logits)[:, 0], run(model)[1], atol=2e-5)


@pytest.mark.parametrize(("bits", "most"), [(8, 0.02), (4, 0.3)])
def test_rounded_cache(model: T3, bits: int, most: float) -> None:
    """Near what a whole cache gives, not equal to it, and smaller."""
    whole, rounded = run(model), run(model, bits=bits)
    error = np.abs(whole - rounded).max() / np.abs(whole).max()
    assert 1e-5 < error < most
    held, whole = (sum(array.nbytes for layer in model.allocate(1, 64, each) for array in layer) for each in (bits, 0))
    assert held < whole * (bits + 4) / 32


@pytest.mark.parametrize(("bits", "most"), [(8, 0.1), (4, 0.8)])
@pytest.mark.parametrize("kind", list(CONFIGS))
def test_rounded_weights(monkeypatch: pytest.MonkeyPatch, kind: str, bits: int, most: float) -> None:
    monkeypatch.setattr("models.layers.linear._MIN_WEIGHTS", 1)
    whole, rounded = run(network(CONFIGS[kind], seed=1)), run(network(CONFIGS[kind], seed=1, bits=bits))
    assert 1e-5 < np.abs(whole - rounded).max() / np.abs(whole).max() < most


@pytest.mark.skipif(not kernels.available(), reason="a GPU computes in bfloat16; without native kernels nothing does")
@pytest.mark.parametrize("kind", list(CONFIGS))
def test_weights_in_bfloat16(kind: str) -> None:
    whole, rounded = run(network(CONFIGS[kind], seed=1)), run(network(CONFIGS[kind], seed=1, bits=16))
    assert 1e-5 < np.abs(whole - rounded).max() / np.abs(whole).max() < 0.02


@pytest.mark.parametrize("prefix", ["", "model."])
def test_what_no_inference_reads_may_be_there(prefix: str) -> None:
    """The text head, and the backbone's own token table; everything may lie below "model."."""
    arrays = official_arrays(LLAMA)
    arrays["text_head.weight"] = mx.zeros((LLAMA.text_vocabulary, LLAMA.hidden))
    arrays["tfmr.embed_tokens.weight"] = mx.zeros((8, LLAMA.hidden))
    load_weights(T3(LLAMA), {prefix + name: array for name, array in arrays.items()}, "file")
    arrays = official_arrays(GPT2)
    arrays["tfmr.wte.weight"] = mx.zeros((GPT2.text_vocabulary, GPT2.hidden))
    load_weights(T3(GPT2), {prefix + name: array for name, array in arrays.items()}, "file")


def test_other_precision() -> None:
    model = T3(LLAMA)
    load_weights(model, official_arrays(LLAMA), "file", mx.bfloat16)
    assert model.dtype == mx.bfloat16 and model.tfmr.layers[0].self_attn.qkv_proj.weight.dtype == mx.bfloat16
