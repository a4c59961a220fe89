"""The fused step's own source, run on a CPU: each GPU thread is a fiber (emulation.h); against `T3.advance`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3 import backbone
from models.chatterbox.t3.cache import Layer, write
from models.chatterbox.t3.kernels import fused, source
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.weights import load_weights
from models.native import compile_c
from tests.models.chatterbox.t3.builder import LLAMA, conditioned, official_arrays

# Two reads of 256 weights a row, four a wide one; an odd vocabulary.
SMALL = replace(LLAMA, hidden=512, heads=8, inner=1024, layers=2, speech_vocabulary=105)
TEXT = [5, 9, 3]
SAID = [4, 77, 12, 30]

# Keys and values are rounded in both. The kernel also rounds attention's and the feed-forward's wide rows to bfloat16
# (2^-9 of each number); a wrong row, weight or rotation is tens of times that.
TOLERANCE = 5e-3

Logits = npt.NDArray[np.float32]
Step = Callable[[int, int, int, list[npt.NDArray[np.uint16]]], Logits]

_ENTRY = """
#define STRIDE ((SHARED_FLOATS + 15) / 16 * 16)

static Weights of;
static float *exchange, *logits, *shared;
static int token, place, position, length, grid;
static ushort **caches;

static void one(int thread, int block) {
  const Where at = {thread, thread % 32, thread / 32, block, grid};
  step(at, of, token, place, position, length, caches, NULL, exchange, logits, shared + block * STRIDE);
}

int exchange_floats(void) { return EXCHANGE_FLOATS; }

void run(const Weights *weights, const int *numbers, ushort **rows, float *x, float *l, int blocks, int backward) {
  of = *weights;
  token = numbers[0]; place = numbers[1]; position = numbers[2]; length = numbers[3];
  caches = rows; exchange = x; logits = l; grid = blocks;
  shared = aligned_alloc(64, (size_t)blocks * STRIDE * 4);
  for (long i = 0; i < (long)blocks * STRIDE; ++i) shared[i] = NAN;
  run_grid(blocks, THREADS, backward, one);
  free(shared);
}
"""
_FLAGS = ("-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-maybe-uninitialized")


def bits(array: mx.array) -> npt.NDArray[np.uint16]:
    return np.array(mx.view(array.astype(mx.bfloat16), mx.uint16))


def pointers(arrays: list[npt.NDArray[np.uint16]]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def emulated(model: T3, batch: int, *, blocks: int, warps: int, backward: bool = False, change: str = "") -> Step:
    """(token, place, position, caches) -> logits; writes into the caches as the kernel does."""
    text = source.constants(model.config, batch, blocks, warps=warps) + change
    text += Path(__file__).with_name("emulation.h").read_text()
    text += source.joined(("phases.h", "step.h")) + _ENTRY
    library = ctypes.CDLL(str(compile_c("t3-emulated", text, [_FLAGS], after=("-lm",))))
    packed = fused.pack(model, 96).arrays()
    raw = [bits(array) if array.dtype == mx.bfloat16 else np.array(array) for array in packed]
    floats = library.exchange_floats()
    assert floats == source.exchange_floats(model.config, batch, blocks)

    def step(token: int, place: int, position: int, caches: list[npt.NDArray[np.uint16]]) -> Logits:
        logits = np.full((batch, model.config.speech_vocabulary), np.inf, np.float32)
        exchange = np.full(floats, np.nan, np.float32)
        numbers = np.array([token, place, position, caches[0].shape[2]], np.int32)
        library.run(
            pointers(raw),
            ctypes.c_void_p(numbers.ctypes.data),
            pointers(caches),
            ctypes.c_void_p(exchange.ctypes.data),
            ctypes.c_void_p(logits.ctypes.data),
            blocks,
            int(backward),
        )
        return logits

    return step


def whole_bfloats(config: T3Config) -> T3:
    """A network whose weights are bfloat16's, computing in fp32."""
    model = T3(config)
    arrays = {name: array.astype(mx.bfloat16) for name, array in official_arrays(config, seed=1).items()}
    load_weights(model, arrays, "arrays")
    return model


def rounding_write(layer: Layer, kv: mx.array, place: mx.array) -> Layer:
    return write(layer, kv.astype(mx.bfloat16).astype(mx.float32), place)


@pytest.fixture(autouse=True)
def round_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain step rounds keys and values to bfloat16, as the kernel's cache does."""
    monkeypatch.setattr(backbone, "write", rounding_write)


def both(step: Step, model: T3, batch: int, said: list[int] = SAID, spare: int = 3) -> tuple[Logits, Logits]:
    """Logits [n, B, V] after each token of `said`: emulated, plain."""
    embeddings = model.prompt(conditioned(model), TEXT, batch == 2)
    count = embeddings.shape[1]
    _, room = model.prefill(embeddings, mx.array([count]), model.allocate(batch, count + len(said) + spare))
    caches = [bits(layer[0]) for layer in room]
    found, wanted = [], []
    for i, token in enumerate(said):
        logits, room = model.advance(mx.array([token]), mx.array([count + i, i + 1]), room)
        wanted.append(np.array(logits)[:, 0])
        found.append(step(token, count + i, i + 1, caches))
    for layer, cache in zip(room, caches, strict=True):
        assert error(np.array(mx.view(mx.array(cache), mx.bfloat16).astype(mx.float32)), np.array(layer[0])) < TOLERANCE
    return np.stack(found), np.stack(wanted)


def error(found: Logits, wanted: Logits) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


# Fewer tasks than warps, and many for each; heads attended whole and in parts.
GRIDS = [(1, 1, 2), (2, 3, 4), (2, 33, 2), (1, 20, 2)]


@pytest.mark.parametrize(("batch", "blocks", "warps"), GRIDS)
def test_equals_the_plain_step(batch: int, blocks: int, warps: int) -> None:
    """fp32 sums in another order, and now and then a number of the cache rounded the other way (2^-9 of it)."""
    model = whole_bfloats(SMALL)
    found, wanted = both(emulated(model, batch, blocks=blocks, warps=warps), model, batch)
    assert wanted.std(axis=0).max() > 0.1
    print(error(found, wanted))
    assert error(found, wanted) < TOLERANCE
