"""The CUDA kernels' sources, run by an emulated GPU, against the plain network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from models.backend import mx
from models.native import kernels as native
from models.nllb.kernels import source as cuda
from models.nllb.kernels import step
from models.nllb.network import Nllb
from models.nllb.steps import CompiledM2M100
from models.nllb.vocabulary import argmax, logits
from tests.models.emulator import Launch, Outputs, emulate
from tests.models.nllb.builder import network, tiny_config

pytestmark = pytest.mark.slow
proof = pytest.mark.proof

# Head sizes 32 and 48 (the phrase book's); rows of weights shorter and longer than a warp reads at once.
CONFIGS = {
    "tiny": tiny_config(),
    "phrasebook": tiny_config(d_model=192, decoder_attention_heads=4, decoder_ffn_dim=320),
}


class Emulator:
    """Stands in for `step._launch`. Notes what was launched."""

    def __init__(self, *, backward: bool = False) -> None:
        self.backward = backward
        self.launched: list[str] = []

    def __call__(
        self, name: str, inputs: dict[str, mx.array], outputs: Outputs, blocks: Launch, template: dict[str, Any]
    ) -> list[mx.array]:
        self.launched.append(name)
        return emulate(cuda.HEADER, cuda.BODIES[name], inputs, outputs, blocks, template, backward=self.backward)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Emulator]:
    """Turns the emulated GPU on, for a network."""

    def start(model: Nllb | None = None, *, backward: bool = False) -> Emulator:
        emulator = Emulator(backward=backward)
        if model is not None:
            model.fused = True
        monkeypatch.setattr(step, "_launch", emulator)
        return emulator

    return start


def decode(model: Nllb, ids: list[np.ndarray], counts: list[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Hidden states of each call of `advance`, one after the other, and the keys and values at the end."""
    rng = np.random.RandomState(3)
    batch = len(counts)
    source = mx.array(rng.randint(4, 190, (batch, 11)).astype(np.int32))
    encoded, bias = model.encode(source, mx.array(counts))
    memory = model.decoder.memories(encoded)
    past, place, found = model.allocate(batch, 40), 0, []
    for part in ids:
        hidden, past = model.advance(mx.array(part), mx.array([place]), past, memory, bias)
        found.append(np.array(hidden.astype(mx.float32)))
        place += part.shape[1]
    return found, [np.array(part.astype(mx.float32)) for part in past]


def tokens(batch: int, lengths: list[int]) -> list[np.ndarray]:
    rng = np.random.RandomState(5)
    return [rng.randint(4, 190, (batch, length)).astype(np.int32) for length in lengths]


@pytest.mark.parametrize(
    ("shape", "batch", "bits", "backward"),
    [
        ("tiny", 3, 0, True),
        pytest.param("tiny", 1, 8, True, marks=proof),
        pytest.param("phrasebook", 2, 4, False, marks=proof),
    ],
)
def test_steps_equal_the_plain_network(
    shape: str, batch: int, bits: int, backward: bool, gpu: Callable[..., Emulator]
) -> None:
    """A prompt and steps: by the kernels alone for few rows, with products by BLAS for more (a prompt of 3 times 2)."""
    model = network(CONFIGS[shape])
    for _, module in model.named_modules():  # on the CPU `lower` would leave 8 bits to the native kernels
        if bits and hasattr(module, "lower") and module is not model:
            monkey_lower(module, bits)
    ids, counts = tokens(batch, [2, 1, 1, 1]), [11, 6, 1][:batch]
    wanted, kept = decode(model, ids, counts)
    emulator = gpu(model, backward=backward)
    found, held = decode(model, ids, counts)
    assert set(emulator.launched) == {"embed", "dense", "self_attend", "cross_attend", "attend", "add_norm"}
    for one, other in zip((*wanted, *kept), (*found, *held), strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=2e-5 * np.abs(one).max())


def monkey_lower(module: Any, bits: int) -> None:
    """Quantize as a GPU would: `mx.quantize`, one piece."""
    if hasattr(module, "_packed"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "module", lambda: None)
            module.lower(bits)
        return
    weight = module._parts[0][0] if len(module._parts) == 1 else mx.concatenate([part[0] for part in module._parts])
    module._parts = [tuple(mx.quantize(weight, group_size=64, bits=bits))]
    module._bits = bits


@proof
def test_a_draft_is_verified_in_one_pass(gpu: Callable[..., Emulator]) -> None:
    """More queries a row than one block takes, and keys at many places."""
    model = network(CONFIGS["tiny"])
    ids = tokens(1, [3, 21, 1])
    wanted, kept = decode(model, ids, [7])
    gpu(model, backward=True)
    found, held = decode(model, ids, [7])
    for one, other in zip((*wanted, *kept), (*found, *held), strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=2e-5 * np.abs(one).max())


@proof
def test_bfloat16(gpu: Callable[..., Emulator]) -> None:
    """Weights and activations of 16 bits: as far from float32 as the plain network is, or less."""
    exact = network(CONFIGS["tiny"])
    ids, counts = tokens(2, [2, 1, 1]), [11, 6]
    wanted, _ = decode(exact, ids, counts)
    model = network(CONFIGS["tiny"])
    half(model)
    plain, _ = decode(model, ids, counts)
    gpu(model)
    found, _ = decode(model, ids, counts)

    def error(given: list[np.ndarray]) -> float:
        return float(max(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(given, wanted, strict=True)))

    assert error(found) < 1.2 * error(plain) < 0.05


def half(model: Nllb) -> None:
    """Everything in bfloat16."""
    for _, module in model.named_modules():
        for key, value in list(module.items()):
            if isinstance(value, mx.array):
                module[key] = value.astype(mx.bfloat16)
        if hasattr(module, "_parts"):
            module._parts = [tuple(part.astype(mx.bfloat16) for part in piece) for piece in module._parts]
    model._positions = model._positions.astype(mx.bfloat16)


@pytest.mark.parametrize(("rows", "bits"), [(4, 0), pytest.param(1, 8, marks=proof), pytest.param(2, 4, marks=proof)])
def test_the_likeliest_token(rows: int, bits: int, gpu: Callable[..., Emulator]) -> None:
    """More rows of weights than the warps that look at them, not a multiple; unknown and padding never come out."""
    rng = np.random.RandomState(rows)
    size, width = 5003, 192
    weight = mx.array(rng.standard_normal((size, width)).astype(np.float32))
    banned = np.zeros(size, np.float32)
    banned[:2000] = -np.inf
    part = list(mx.quantize(weight, group_size=64, bits=bits)) if bits else [weight]
    table = rng.permutation(size).astype(np.int32)
    tree = {"parts": [part], "banned": [[mx.array(banned)]], "starts": [[mx.array(0)]], "table": [[mx.array(table)]]}
    x = mx.array(rng.standard_normal((rows, width)).astype(np.float32))
    wanted = table[np.argmax(np.array(logits(tree, x, bits)) + banned, axis=1)]
    emulator = gpu(backward=rows > 1)
    np.testing.assert_array_equal(np.array(argmax(tree, x, bits, fused=True)), wanted)
    assert emulator.launched == ["argmax_blocks", "argmax"]


@proof
def test_of_equal_tokens_the_first_comes_out(gpu: Callable[..., Emulator]) -> None:
    weight = mx.zeros((4099, 64))
    banned = np.zeros(4099, np.float32)
    banned[:17] = -np.inf
    tree = {"parts": [[weight]], "banned": [[mx.array(banned)]], "starts": [[]], "table": [[mx.arange(4099)]]}
    gpu(backward=True)
    assert np.array(argmax(tree, mx.ones((1, 1, 64)), fused=True)).tolist() == [[17]]


@proof
def test_greedy_steps_give_the_plain_tokens(gpu: Callable[..., Emulator]) -> None:
    """The whole step as the search calls it, over the real `CompiledM2M100`."""
    model = network(CONFIGS["tiny"])
    head = model.shared.head()

    def run() -> list[list[int]]:
        stages = CompiledM2M100(model, padded=True)
        group = stages.encode([[5, 6, 7, 8, 2]], head, 12)
        said, place = stages.step(mx.array([[2, 150]], dtype=mx.int32), mx.array([0]), group)
        found = []
        for _ in range(10):
            found.append(np.array(said).tolist())
            said, place = stages.step(said[:, None], place, group)
        return found

    wanted = run()
    emulator = gpu(model)
    assert run() == wanted
    assert emulator.launched.count("argmax") == 11


def test_what_does_not_fit_is_left_to_the_plain_network() -> None:
    assert step.fits(1024, 16, 4096)
    assert step.fits(192, 4, 768)
    assert not step.fits(4096, 16, 4096)
    assert not step.fits(1024, 16, 8192)
    assert not step.fits(96, 4, 128)
