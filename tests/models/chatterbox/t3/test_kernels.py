"""The kernels' own source, run on a CPU (emulator.py), against `T3.advance`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from models.backend import mx, on_cpu
from models.chatterbox.config import ENGLISH, TURBO, T3Config
from models.chatterbox.t3 import backbone
from models.chatterbox.t3.kernels import choice, cuda, metal, source
from models.chatterbox.t3.kernels.cuda import T3CudaStep
from models.chatterbox.t3.kernels.metal import T3MetalStep
from models.chatterbox.t3.kernels.weights import pack
from models.chatterbox.t3.network import T3
from models.layers.kernels import agreement
from tests.models.chatterbox.t3 import emulator
from tests.models.chatterbox.t3.emulator import (
    GPT2_TOLERANCE,
    SMALL,
    SMALL_GPT2,
    TOLERANCE,
    both,
    eight_bits,
    emulated,
    error,
    phased,
    whole_bfloats,
)
from tests.models.metal import checker

pytestmark = pytest.mark.slow
proof = pytest.mark.proof


@pytest.fixture(autouse=True)
def round_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain step rounds keys and values to bfloat16, as the kernels' cache does."""
    monkeypatch.setattr(backbone, "write", emulator.rounding_write)


# Blocks that share rounds unevenly; one block; as many as two parts of the cache need, of which some make fewer queries
# than others and are ready first.
@pytest.mark.parametrize(
    ("config", "batch", "blocks", "warps", "backward"),
    [
        (SMALL, 2, 3, 8, False),
        (SMALL_GPT2, 1, 3, 8, False),
        pytest.param(SMALL, 1, 1, 4, True, marks=proof),
        pytest.param(replace(SMALL, layers=1), 2, 33, 8, False, marks=proof),
        pytest.param(SMALL, 1, 33, 4, True, marks=proof),
        pytest.param(SMALL_GPT2, 1, 1, 4, True, marks=proof),
        pytest.param(SMALL_GPT2, 1, 33, 4, True, marks=proof),
    ],
)
def test_fused_equals_the_plain_step(config: T3Config, batch: int, blocks: int, warps: int, backward: bool) -> None:
    model = whole_bfloats(config)
    found, wanted = both(emulated(model, blocks=blocks, warps=warps, backward=backward), model, batch)
    assert wanted.std(axis=0).max() > 0.1
    assert error(found, wanted) < (GPT2_TOLERANCE if config is SMALL_GPT2 else TOLERANCE)


@proof
@pytest.mark.parametrize(("config", "batch", "tolerance"), [(SMALL, 2, TOLERANCE), (SMALL_GPT2, 1, GPT2_TOLERANCE)])
def test_fused_with_8_bits(config: T3Config, batch: int, tolerance: float) -> None:
    """The plain step on the same weights of 8 bits is what the kernel's has to be; on those of 16 it is not."""
    model = eight_bits(config)
    assert pack(model, 96).out.shape == (2, 1024, 4, 272)
    found, wanted = both(emulated(model, blocks=3, warps=8, backward=batch == 2), model, batch)
    assert error(found, wanted) < tolerance
    _, others = both(lambda *_: found[0], whole_bfloats(config), batch, strict=False)
    assert error(others, wanted) > 2 * tolerance


@proof
@pytest.mark.parametrize(("config", "batch"), [(ENGLISH.t3, 2), (TURBO.t3, 1)])
def test_a_layer_at_full_size(config: T3Config, batch: int) -> None:
    config = replace(config, layers=1, text_vocabulary=300, max_text=60, max_speech=220, positions=400)
    model = whole_bfloats(config)
    found, wanted = both(emulated(model, blocks=4, warps=16), model, batch, said=[4000])
    assert found.shape == (1, batch, config.speech_vocabulary)
    assert error(found, wanted) < TOLERANCE


@proof
def test_no_row_left() -> None:
    """Beyond the last row of the cache nothing is written, and the logits are no numbers."""
    model = whole_bfloats(replace(SMALL, layers=1))
    cache = [np.zeros((1, 32, 8, 64), np.uint16)]
    assert np.isnan(emulated(model, blocks=2, warps=4)(3, 8, 1, cache)).all()
    assert not cache[0][:, :, 1:].any()


@proof
def test_after_a_step_without_a_result() -> None:
    """Its token of -1 gives logits that are no numbers. What lies before the table's first row is not read."""
    model = whole_bfloats(replace(SMALL, layers=1))
    cache = [np.zeros((1, 32, 8, 64), np.uint16)]
    assert np.isnan(emulated(model, blocks=2, warps=4)(-1, 3, 1, cache)).all()
    assert ((cache[0] & 0x7F80) < 0x7F80).all()


@pytest.mark.parametrize("rows", [pytest.param(1, marks=proof), 2])
def test_phased_equals_the_plain_step(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Metal's launches, their arrays and their order; the inner row in two pieces."""
    monkeypatch.setattr(metal, "_SHARED_BYTES", 5000 * rows)
    model = whole_bfloats(replace(SMALL, inner=2048))
    assert metal.pieces(model.config, rows) == 2
    found, wanted = both(phased(model, backward=rows == 1), model, rows, said=[4])
    assert error(found, wanted) < TOLERANCE


@pytest.mark.parametrize("rows", [pytest.param(1, marks=proof), 2])
def test_phases_are_metal(program: Callable[[str], str], rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By clang's types and address spaces, with the signatures that MLX writes."""
    model, seen = whole_bfloats(replace(SMALL, inner=4096)), list[str]()
    cache = [(mx.zeros((rows, 32, 16, 64), dtype=mx.bfloat16),) for _ in range(model.config.layers)]
    monkeypatch.setattr(metal, "launch", checker(program("clang"), seen))
    T3MetalStep(model, 96)(mx.array([3]), mx.array([4, 1]), cache)
    assert set(seen) == {f"nightingale_t3_{phase.name}_{rows}" for phase in metal.PHASES}


def test_what_fits() -> None:
    """Both models do; other mixtures of them, other heads and widths that no run of weights divides do not."""
    for rows in (1, 2):
        assert source.fits(ENGLISH.t3, rows)
        assert source.fits(TURBO.t3, rows)
    for config in (
        replace(ENGLISH.t3, head_bias=True),
        replace(TURBO.t3, learned_positions=True),
        replace(ENGLISH.t3, heads=8),
        replace(ENGLISH.t3, inner=4096 + 512),
        replace(ENGLISH.t3, inner=8192),
        replace(ENGLISH.t3, hidden=1024 + 512, heads=24),
    ):
        assert not source.fits(config, 2)


@pytest.mark.parametrize("config", [SMALL, SMALL_GPT2])
def test_which_networks_have_it_on_a_gpu(config: T3Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of bfloat16 whose weights have 16 bits or 8, where MLX launches directly."""
    monkeypatch.setattr(cuda, "processors", lambda: 132)
    monkeypatch.setenv("MLX_USE_CUDA_GRAPHS", "0")
    model = T3(config)
    assert not T3CudaStep.available(model)
    model.speech_emb.weight = model.speech_emb.weight.astype(mx.bfloat16)
    found = []
    for model.bits in (0, 8, 4):
        found.append(T3CudaStep.available(model))
    assert found == [True, True, False]
    monkeypatch.setenv("MLX_USE_CUDA_GRAPHS", "1")
    model.bits = 0
    assert not T3CudaStep.available(model)


@pytest.mark.parametrize("config", [SMALL, SMALL_GPT2])
def test_weights_are_held_once(config: T3Config) -> None:
    """A network in bfloat16 has slices of the kernel's arrays as its products."""
    model = whole_bfloats.__wrapped__(config)
    model.apply(lambda array: array.astype(mx.bfloat16))
    tfmr = model.tfmr
    outs = [layer.attn.c_proj for layer in tfmr.h] if "h" in tfmr else [each.self_attn.o_proj for each in tfmr.layers]
    for out in outs:
        out._parts = [(out.weight,)]  # as lowered on a GPU
    before = [np.array(out.weight.astype(mx.float32)) for out in outs]
    packed = pack(model, 16)
    assert packed.out.shape == (2, 1024, 1024)
    for i, out in enumerate(outs):
        np.testing.assert_array_equal(np.array(out.weight.astype(mx.float32)), before[i])
        np.testing.assert_array_equal(np.array(packed.out[i].astype(mx.float32)), before[i])
        assert out._parts[0][0] is out.weight


def test_positions_end_with_gpt2s_table() -> None:
    model = whole_bfloats(SMALL_GPT2)
    assert T3CudaStep(model, 8192).positions == SMALL_GPT2.positions == 320
    assert T3CudaStep(model, 96).positions == 96


def test_phases_are_llamas() -> None:
    with pytest.raises(ValueError, match="Llama"):
        T3MetalStep(whole_bfloats(SMALL_GPT2), 96)


def test_step_refuses_other_caches() -> None:
    model = whole_bfloats(replace(SMALL, layers=1))
    step = T3CudaStep(model, 16)
    place = mx.array([3, 1])
    for tokens, cache in (
        (mx.array([1, 2]), mx.zeros((1, 32, 16, 64), dtype=mx.bfloat16)),
        (mx.array([1]), mx.zeros((1, 32, 17, 64), dtype=mx.bfloat16)),
        (mx.array([1]), mx.zeros((1, 32, 16, 64))),
    ):
        with pytest.raises(ValueError, match="at most 16 rows"):
            step(tokens, place, [(cache,)])


def test_difference_tells_a_wrong_step() -> None:
    model = whole_bfloats(replace(SMALL, layers=1))
    assert choice.difference(model.advance, model, 2) < 1e-6
    later = lambda tokens, place, cache: model.advance(tokens, place + mx.array([0, 1]), cache)  # noqa: E731
    assert choice.difference(later, model, 2) > 0.1
    nothing = lambda tokens, place, cache: (mx.full((2, 1, 105), mx.nan), cache)  # noqa: E731
    assert not choice.difference(nothing, model, 2) <= 0.1
    assert choice.choose_step(model) is None or not on_cpu()


def test_a_step_is_chosen_where_it_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's, or Metal's; a plain step stands in for them."""
    model = whole_bfloats(replace(SMALL, layers=1))
    monkeypatch.setattr(agreement, "_found", {})
    for kind in (T3CudaStep, T3MetalStep):
        monkeypatch.setattr(kind, "available", staticmethod(lambda _, own=kind: own is kinds[0]))
        monkeypatch.setattr(kind, "__call__", lambda _, *given: model.advance(*given))
    for kinds in ((T3CudaStep, T3MetalStep), (T3MetalStep, T3CudaStep)):
        assert isinstance(choice.choose_step(model, 96), kinds[0])
    assert [each.used for each in agreement.report()] == [True]
    monkeypatch.setattr(T3MetalStep, "__call__", lambda _, *given: (mx.zeros((1, 1, 105)), given[2]))
    assert choice.choose_step(model, 96) is None
    assert [each.used for each in agreement.report()] == [False]
