"""Runs the kernels on an emulated GPU (tests/models/emulator.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3.cache import Layer, write
from models.chatterbox.t3.kernels import cuda, metal
from models.chatterbox.t3.kernels.cuda import T3CudaStep
from models.chatterbox.t3.kernels.metal import T3MetalStep
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.weights import load_weights
from models.layers.kernels.device import Device
from models.layers.linear import Projection
from models.native import kernels as native
from tests.models.chatterbox.t3.builder import GPT2, LLAMA, conditioned, official_arrays
from tests.models.emulator import launcher

# The least that fits: four reads of 256 weights a row; an odd vocabulary.
SMALL = replace(LLAMA, hidden=1024, heads=16, inner=1024, layers=2, speech_vocabulary=105)
SMALL_GPT2 = replace(GPT2, hidden=1024, heads=16, inner=1024, layers=2, speech_vocabulary=105)
TEXT = [5, 9, 3]
SAID = [4, 77]

# Keys and values are rounded in both. The kernel also rounds attention's and the feed-forward's wide rows to bfloat16
# (2^-9 of each number); a wrong row, weight or rotation is tens of times that.
TOLERANCE = 5e-3
GPT2_TOLERANCE = 1.5e-3  # half of what GELU's cubic term makes

Logits = npt.NDArray[np.float32]
Step = Callable[[int, int, int, list[npt.NDArray[np.uint16]]], Logits]


def bits(array: mx.array) -> npt.NDArray[np.uint16]:
    return np.array(mx.view(array.astype(mx.bfloat16), mx.uint16))


def kernel_step(kind: ModuleType, fused: Callable[..., Any], device: Device, *, backward: bool) -> Step:
    """(token, place, position, caches) -> logits; writes into the caches as the kernels of module `kind` do."""

    def step(token: int, place: int, position: int, caches: list[npt.NDArray[np.uint16]]) -> Logits:
        given = [mx.zeros(array.shape, dtype=mx.bfloat16) for array in caches]
        written = {id(each): array for each, array in zip(given, caches, strict=True)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, "launch", launcher(device, written=written, backward=backward))
            logits, _ = fused(mx.array([token]), mx.array([place, position]), [(each,) for each in given])
        return np.array(logits)[:, 0]

    return step


def emulated(model: T3, *, blocks: int, warps: int, backward: bool = False) -> Step:
    """The step as one CUDA kernel of `blocks` of `warps`."""
    return kernel_step(cuda, T3CudaStep(model, 512, blocks, warps), "cuda", backward=backward)


def phased(model: T3, *, backward: bool = False) -> Step:
    """The step as Metal's kernels."""
    return kernel_step(metal, T3MetalStep(model, 512), "metal", backward=backward)


@cache
def whole_bfloats(config: T3Config) -> T3:
    """A network whose weights are bfloat16's, computing in fp32. Shared: leave it as it is.

    GPT-2's biases are as large as its products, its stream is far from a mean of zero, its feed-forward loud: each has
    to matter.
    """
    model, arrays = T3(config), official_arrays(config, seed=1)
    for name in arrays:
        if name.endswith("bias"):
            arrays[name] *= 20
        if name == "tfmr.wpe.weight":
            arrays[name] += 1
        if name.endswith(".mlp.c_proj.weight"):
            arrays[name] *= 5
    load_weights(model, {name: array.astype(mx.bfloat16) for name, array in arrays.items()}, "arrays")
    return model


def eight_bits(config: T3Config) -> T3:
    """`whole_bfloats` with products of 8 bits, by MLX's quantization; scales and offsets are bfloat16's, as a GPU's."""
    model = whole_bfloats.__wrapped__(config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "module", lambda: None)  # the CPU's own form
        model.lower(8)
    for _, module in model.named_modules():
        if isinstance(module, Projection) and module.bits:
            module._parts = [
                (packed, *(each.astype(mx.bfloat16).astype(mx.float32) for each in rest))
                for packed, *rest in module._parts
            ]
    return model


def rounding_write(layer: Layer, kv: mx.array, place: mx.array) -> Layer:
    return write(layer, kv.astype(mx.bfloat16).astype(mx.float32), place)


def both(step: Step, model: T3, batch: int, said: list[int] = SAID, strict: bool = True) -> tuple[Logits, Logits]:
    """Logits [n, B, V] after each token of `said`: emulated, plain. `strict`: the caches have to agree too."""
    embeddings = model.prompt(conditioned(model), TEXT, batch == 2)
    count = embeddings.shape[1]
    _, room = model.prefill(embeddings, mx.array([count]), model.allocate(batch, count + len(said) + 3))
    caches = [bits(layer[0]) for layer in room]
    found, wanted = [], []
    for i, token in enumerate(said):
        logits, room = model.advance(mx.array([token]), mx.array([count + i, i + 1]), room)
        wanted.append(np.array(logits)[:, 0])
        found.append(step(token, count + i, i + 1, caches))
    for layer, written in zip(room, caches, strict=True):
        assert (
            not strict
            or error(np.array(mx.view(mx.array(written), mx.bfloat16).astype(mx.float32)), np.array(layer[0]))
            < TOLERANCE
        )
    return np.stack(found), np.stack(wanted)


def error(found: Logits, wanted: Logits) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
