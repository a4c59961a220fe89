"""The kernel that writes a prompt's cache, its own source run on a CPU (emulator.py), against `backbone.extend`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.config import ENGLISH, TURBO, T3Config
from models.chatterbox.t3 import backbone, cache
from models.chatterbox.t3.backbone import Extend
from models.chatterbox.t3.decoder import Decoder
from models.chatterbox.t3.kernels import choice, prefill
from models.chatterbox.t3.network import T3
from models.layers.kernels import agreement
from models.layers.kernels.device import Device
from tests.models.chatterbox.t3.builder import CONFIGS, GPT2, LLAMA, network
from tests.models.chatterbox.t3.test_decoder import request, tokens
from tests.models.emulator import DEVICES, launcher
from tests.models.metal import checker

pytestmark = pytest.mark.slow

# Heads and their size, n, the cache's room, rows. The first is a model's.
SIZES = [(16, 64, 5, 8, 2), (3, 64, 9, 16, 1), (2, 32, 1, 2, 2), (9, 96, 4, 4, 1)]


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Extend]:
    """Return the kernel as it runs with these options of `launcher`."""

    def run(
        device: Device = "cuda",
        *,
        change: tuple[str, str] = ("", ""),
        backward: bool = False,
        seen: list[str] | None = None,
    ) -> Extend:
        assert change[0] in inspect.cleandoc(prefill.KERNEL.body)
        monkeypatch.setattr(prefill, "launch", launcher(device, change=change, backward=backward, seen=seen))
        return prefill.extend

    return run


@pytest.fixture
def by_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """No native kernels of the CPU."""
    monkeypatch.setattr(backbone, "fits", lambda *_: False)


def results(extend: Extend, sizes: tuple[int, ...], rotary: bool, dtype: mx.Dtype) -> Iterator[np.ndarray]:
    """Queries and cache of random numbers; the cache that is given holds no numbers."""
    heads, size, count, room, rows = sizes
    turns = mx.array(np.geomspace(1, 2000, size // 2).astype(np.float32)) if rotary else None
    qkv = mx.random.normal((rows, count, 3 * heads * size), key=mx.random.key(3)).astype(dtype)
    empty = mx.full((rows, 2 * heads, room, size), 0.0 if extend is backbone.extend else mx.nan, dtype=dtype)
    queries, (kept,) = extend(qkv, (empty,), mx.zeros(1, dtype=mx.int32), heads, turns)
    for each, shape in ((queries, (rows, heads, count, size)), (kept, empty.shape)):
        assert (each.shape, each.dtype) == (shape, dtype)
        yield np.array(each.astype(mx.float32))


def compare(extend: Extend, sizes: tuple[int, ...], rotary: bool, dtype: mx.Dtype) -> None:
    """Compare with plain operations. The last bit may differ: products and sums are rounded together or one by one."""
    close = 1e-5 if dtype == mx.float32 else 2**-7
    for found, wanted in zip(
        results(extend, sizes, rotary, dtype), results(backbone.extend, sizes, rotary, dtype), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=close, atol=close)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_equals_plain_operations(
    emulated: Callable[..., Extend],
    sizes: tuple[int, ...],
    rotary: bool,
    dtype: mx.Dtype,
    backward: bool,
    device: Device,
) -> None:
    """Whatever the given cache holds, and zeros behind the prompt. One launch."""
    seen = list[str]()
    compare(emulated(device, backward=backward, seen=seen), sizes, rotary, dtype)
    assert seen == [prefill.KERNEL.name]


MISTAKES = [
    (True, "qkv[key + HALF]", "qkv[key]"),
    (True, "1.0f / (float)wavelengths[i]", "(float)wavelengths[i]"),
    (True, "x * c - y * s", "x * c + y * s"),
    (True, "first * s + second * c", "second * c"),
    (True, "2L * rows * room + row", "2L * rows * room + place"),
    (False, "if (ROTARY && given) {\n      const float angle", "if (given) {\n      const float angle"),
    (False, "place < n", "place < room"),
    (False, "given ? (float)qkv[value] : 0.0f", "(float)qkv[value]"),
    (False, "behind = kept + width * room", "behind = kept + width * n"),
    (False, "(long)b * n + place", "(long)b * room + place"),
    (False, "h < HEADS; h += WARPS", "h < WARPS; h += WARPS"),
    (False, "i < HALF; i += 32", "i < HALF; i += 64"),
]


@pytest.mark.parametrize(("rotary", "words", "instead"), MISTAKES)
def test_a_mistake_shows(emulated: Callable[..., Extend], rotary: bool, words: str, instead: str) -> None:
    with pytest.raises(AssertionError):
        compare(emulated(change=(words, instead)), (9, 96, 5, 8, 2), rotary, mx.float32)


@pytest.mark.parametrize("config", [ENGLISH.t3, TURBO.t3])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_it_is_metal(
    program: Callable[[str], str], dtype: mx.Dtype, config: T3Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By clang's types and address spaces, with the signature that MLX writes."""
    seen = list[str]()
    monkeypatch.setattr(prefill, "launch", checker(program("clang"), seen))
    list(results(prefill.extend, (config.heads, 64, 5, 8, 1), config.backbone == "llama", dtype))
    assert seen == [prefill.KERNEL.name]


@pytest.mark.usefixtures("by_operations")
@pytest.mark.parametrize("kind", list(CONFIGS))
@pytest.mark.parametrize("padded", [False, True])
def test_the_decoder_says_the_same(emulated: Callable[..., Extend], kind: str, padded: bool) -> None:
    """A launch for each layer of the prompt, and none in the steps after it."""
    model, seen = network(CONFIGS[kind], seed=2), list[str]()
    wanted = request(model.config, limit=12)
    expected = tokens(Decoder(model, padded=padded), wanted)
    model.extend = emulated(seen=seen)
    assert tokens(Decoder(model, padded=padded), wanted) == expected
    assert seen == [prefill.KERNEL.name] * model.config.layers


@pytest.mark.usefixtures("by_operations")
@pytest.mark.parametrize("bits", [8, 4])
def test_rounded_caches_take_plain_operations(emulated: Callable[..., Extend], bits: int) -> None:
    model, seen = network(LLAMA, seed=2), list[str]()
    wanted = request(model.config, limit=6)
    expected = tokens(Decoder(model, cache_bits=bits), wanted)
    model.extend = emulated(seen=seen)
    assert tokens(Decoder(model, cache_bits=bits), wanted) == expected
    assert seen == []


def test_the_given_cache_is_never_filled(emulated: Callable[..., Extend]) -> None:
    """It lends its shape: what is kept does not depend on it, and MLX does not compute it."""
    (empty,) = cache.allocate(1, 2, 2, 32, 1 << 16, mx.float32)[0]
    before = mx.get_active_memory()
    given = mx.zeros((2, 3, 192)), (empty[:, :, :8],), mx.zeros(1, dtype=mx.int32), 2, None
    queries, (kept,) = emulated()(*given)
    mx.eval(queries, kept)
    assert mx.get_active_memory() - before < empty.nbytes // 2


@pytest.mark.parametrize("config", [LLAMA, GPT2])
def test_it_is_chosen_where_it_agrees(
    emulated: Callable[..., Extend], config: T3Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere plain operations are, with one warning."""
    model = T3(config)
    assert model.extend is backbone.extend
    monkeypatch.setattr(choice, "gpu", lambda: None)
    assert choice.choose_extend(model) is backbone.extend
    monkeypatch.setattr(agreement, "_found", {})
    monkeypatch.setattr(choice, "gpu", lambda: "cuda")
    kernel = emulated()
    assert choice.choose_extend(model) is kernel
    assert [each.used for each in agreement.report()] == [True]
    emulated(change=("behind = kept + width * room", "behind = kept"))
    assert choice.choose_extend(model) is backbone.extend
    assert [each.used for each in agreement.report()] == [False]
