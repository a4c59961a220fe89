"""The kernel that attends within a prompt, its own source run on a CPU (emulator.py), against `backbone.attend`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.config import ENGLISH, TURBO, T3Config
from models.chatterbox.t3 import backbone, cache
from models.chatterbox.t3.backbone import Attend, ForwardPass
from models.chatterbox.t3.decoder import T3Decoder
from models.chatterbox.t3.kernels import choice, prefill
from models.layers.kernels import agreement
from models.layers.kernels.device import Device
from tests.models.chatterbox.t3.builder import CONFIGS, GPT2, LLAMA, network
from tests.models.chatterbox.t3.test_decoder import request, tokens
from tests.models.emulator import launcher
from tests.models.metal import checker

pytestmark = pytest.mark.slow
proof = pytest.mark.proof


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Attend]:
    """Return the kernel as it runs with these options of `launcher`."""

    def run(device: Device = "cuda", **options: Any) -> Attend:
        monkeypatch.setattr(prefill, "launch", launcher(device, **options))
        return prefill.attend

    return run


@pytest.fixture
def by_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """No native kernels of the CPU."""
    monkeypatch.setattr(backbone, "fits", lambda *_: False)


def reading(attend: Attend, length: int, room: int, rotary: bool) -> ForwardPass:
    place = mx.zeros(1, dtype=mx.int32)
    turns = mx.array(np.geomspace(1, 2000, 32).astype(np.float32)) if rotary else None
    return ForwardPass(place, backbone.causal(place, length, room, mx.bfloat16), attend, turns)


def results(attend: Attend, sizes: tuple[int, ...], rotary: bool) -> Iterator[np.ndarray]:
    """Attention and cache of random numbers; the cache that is given holds no numbers. Plain operations are exact."""
    heads, count, room, rows = sizes
    exact = attend is backbone.attend
    dtype, fill = (mx.float32, 0.0) if exact else (mx.bfloat16, mx.nan)
    qkv = mx.random.normal((rows, count, 3 * heads * 64), key=mx.random.key(3)).astype(mx.bfloat16).astype(dtype)
    empty = mx.full((rows, 2 * heads, room, 64), fill, dtype=dtype)
    found, (kept,) = attend(reading(attend, count, room, rotary), qkv, (empty,), heads)
    for each, shape in ((found, (rows, count, heads * 64)), (kept, empty.shape)):
        assert (each.shape, each.dtype) == (shape, dtype)
        yield np.array(each.astype(mx.float32))


def compare(attend: Attend, sizes: tuple[int, ...], rotary: bool) -> None:
    """Compare each row's results with those of float32, by the norm of the difference: the kernel rounds what turned,
    attention's weights and the results to bfloat16.
    """
    wanted = results(backbone.attend, sizes, rotary)
    for found, expected in zip(results(attend, sizes, rotary), wanted, strict=True):
        apart = np.linalg.norm(found - expected, axis=-1)
        assert (apart <= 0.01 * np.linalg.norm(expected, axis=-1)).all()


# Heads, n, the cache's room, rows.
@pytest.mark.parametrize(
    ("sizes", "rotary", "backward", "device"),
    [
        ((2, 150, 192, 2), True, False, "cuda"),
        ((3, 70, 128, 2), False, True, "metal"),
        pytest.param((2, 150, 192, 2), False, False, "cuda", marks=proof),
        pytest.param((3, 70, 128, 2), True, True, "cuda", marks=proof),
        pytest.param((1, 1, 64, 1), True, False, "metal", marks=proof),
        pytest.param((1, 1, 64, 1), False, True, "cuda", marks=proof),
        pytest.param((2, 64, 192, 2), True, True, "metal", marks=proof),
        pytest.param((2, 64, 192, 2), False, False, "metal", marks=proof),
    ],
)
def test_equals_plain_operations(
    emulated: Callable[..., Attend], sizes: tuple[int, ...], rotary: bool, backward: bool, device: Device
) -> None:
    """Whatever the given cache holds, and zeros behind the prompt. One launch."""
    seen = list[str]()
    compare(emulated(device, backward=backward, seen=seen), sizes, rotary)
    assert seen == [prefill.KERNEL.name]


@pytest.mark.parametrize("config", [ENGLISH.t3, TURBO.t3])
def test_it_is_metal(program: Callable[[str], str], config: T3Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """By clang's types and address spaces, with the signature that MLX writes."""
    seen = list[str]()
    monkeypatch.setattr(prefill, "launch", checker(program("clang"), seen))
    list(results(prefill.attend, (config.heads, 5, 64, 1), config.backbone == "llama"))
    assert seen == [prefill.KERNEL.name]


@pytest.mark.usefixtures("by_operations")
@pytest.mark.parametrize("kind", ["llama", pytest.param("gpt2", marks=proof)])
def test_the_decoder_says_the_same(emulated: Callable[..., Attend], kind: str) -> None:
    """A launch for each layer of the prompt, and none in the steps after it."""
    config = replace(CONFIGS[kind], hidden=128, heads=2)
    model, seen = network(config, seed=2, dtype=mx.bfloat16), list[str]()
    wanted = request(model.config, limit=12)
    expected = tokens(T3Decoder(model, padded=True), wanted)
    model.attend = emulated(seen=seen)
    assert tokens(T3Decoder(model, padded=True), wanted) == expected
    assert seen == [prefill.KERNEL.name] * model.config.layers


@pytest.mark.usefixtures("by_operations")
@pytest.mark.parametrize("bits", [8, 4])
def test_rounded_caches_take_plain_operations(emulated: Callable[..., Attend], bits: int) -> None:
    model, seen = network(LLAMA, seed=2), list[str]()
    wanted = request(model.config, limit=6)
    expected = tokens(T3Decoder(model, cache_bits=bits), wanted)
    model.attend = emulated(seen=seen)
    assert tokens(T3Decoder(model, cache_bits=bits), wanted) == expected
    assert seen == []


@pytest.mark.usefixtures("by_operations")
@pytest.mark.parametrize(
    ("count", "room", "size", "dtype"),
    [
        (prefill.MAX_POSITIONS + 1, 1088, 64, mx.bfloat16),
        (5, 80, 64, mx.bfloat16),
        (5, 64, 32, mx.bfloat16),
        (5, 64, 64, mx.float32),
    ],
)
def test_what_it_does_not_fit_takes_plain_operations(
    emulated: Callable[..., Attend], count: int, room: int, size: int, dtype: mx.Dtype
) -> None:
    seen = list[str]()
    attend = emulated(seen=seen)
    qkv, place = mx.ones((1, count, 3 * size), dtype=dtype), mx.zeros(1, dtype=mx.int32)
    given = ForwardPass(place, backbone.causal(place, count, room, dtype), attend)
    found, _ = attend(given, qkv, (mx.zeros((1, 2, room, size), dtype=dtype),), 1)
    np.testing.assert_allclose(np.array(found.astype(mx.float32)), 1, rtol=1e-2)
    assert seen == []


def test_the_given_cache_is_never_filled(emulated: Callable[..., Attend]) -> None:
    """It lends its shape: what is kept does not depend on it, and MLX does not compute it."""
    (empty,) = cache.allocate(1, 2, 2, 64, 1 << 16, mx.bfloat16)[0]
    before = mx.get_active_memory()
    attend = emulated()
    qkv = mx.zeros((2, 3, 384), dtype=mx.bfloat16)
    found, (kept,) = attend(reading(attend, 3, 64, False), qkv, (empty[:, :, :64],), 2)
    mx.eval(found, kept)
    assert mx.get_active_memory() - before < empty.nbytes // 2


@pytest.mark.parametrize("config", [pytest.param(LLAMA, marks=proof), GPT2])
def test_it_is_chosen_where_it_agrees(
    emulated: Callable[..., Attend], config: T3Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere plain operations are, with one warning."""
    monkeypatch.setattr(backbone, "fits", lambda *_: False)
    model = network(replace(config, hidden=128, heads=2), dtype=mx.bfloat16)
    assert model.attend is backbone.attend
    monkeypatch.setattr(choice, "gpu", lambda: "metal")
    assert choice.choose_attend(model) is backbone.attend
    monkeypatch.setattr(agreement, "_found", {})
    monkeypatch.setattr(choice, "gpu", lambda: "cuda")
    kernel = emulated()
    assert choice.choose_attend(model) is kernel
    assert [each.used for each in agreement.report()] == [True]
    emulated(change=("scores[n][i] * 0.125f", "scores[n][i]"))
    assert choice.choose_attend(model) is backbone.attend
    assert [each.used for each in agreement.report()] == [False]
