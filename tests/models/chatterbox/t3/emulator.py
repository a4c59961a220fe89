"""Runs the kernels' source on a CPU: each GPU thread is a fiber (emulation.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3.cache import Layer, write
from models.chatterbox.t3.kernels import metal, source
from models.chatterbox.t3.kernels.metal import Launch, Phase
from models.chatterbox.t3.kernels.weights import pack
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.weights import load_weights
from models.layers.linear import Projection
from models.native import kernels as native
from models.native.process import compile_c
from tests.models.chatterbox.t3.builder import GPT2, LLAMA, conditioned, official_arrays

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
_HERE = Path(__file__)
_MACHINE = "".join(path.read_text() for path in (_HERE.parents[2] / "fibers.h", _HERE.with_name("emulation.h")))
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-maybe-uninitialized")


def bits(array: mx.array) -> npt.NDArray[np.uint16]:
    return np.array(mx.view(array.astype(mx.bfloat16), mx.uint16))


def pointers(arrays: Sequence[npt.NDArray[np.generic]]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def emulated(
    model: T3, batch: int, *, blocks: int, warps: int, backward: bool = False, change: tuple[str, str] = ("", "")
) -> Step:
    """(token, place, position, caches) -> logits; writes into the caches as the kernel does.

    `backward` runs the threads in the other order; `change` puts words in the place of others.
    """
    text = source.constants(model.config, batch, blocks, bits=model.bits, warps=warps)
    text += _MACHINE
    text += source.joined(*source.PHASES, "step.h") + _ENTRY
    assert change[0] in text
    text = text.replace(*change) if change[0] else text
    library = ctypes.CDLL(str(compile_c("t3-emulated", text, [_FLAGS], after=("-lm",))))
    packed = pack(model, 96).arrays()
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


_PHASE_ENTRY = """
static %(statics)s;
static float *shared;
static const int *cache_shape;
static int block_now, grid;

static void one(int thread, int block) {
  const Where at = {thread, thread %% 32, thread / 32, block_now + block, grid};
  %(locals)s
  %(body)s
}

void run(void **arrays, const int *shape, int blocks) {
  %(assignments)s
  cache_shape = shape; grid = blocks;
  shared = aligned_alloc(64, (SHARED_FLOATS + 15) / 16 * 64);
  for (block_now = 0; block_now < blocks; ++block_now) {
    for (int i = 0; i < SHARED_FLOATS; ++i) shared[i] = NAN;
    run_grid(1, THREADS, 0, one);
  }
  free(shared);
}
"""


def phase_launch(config: T3Config, caches: dict[int, npt.NDArray[np.uint16]]) -> Launch:
    """Stands in for Metal's launches. `caches`: by the id of the array that a step is given, the one it writes."""
    libraries: dict[tuple[str, int], ctypes.CDLL] = {}

    def built(phase: Phase, rows: int, inputs: list[npt.NDArray[np.generic]]) -> ctypes.CDLL:
        kinds = {"uint16": "ushort", "float32": "float", "int32": "int"}
        words, assignments = [], []
        for i, name in enumerate([*phase.inputs, *phase.outputs]):
            scalar = i < len(inputs) and inputs[i].ndim == 0
            kind = kinds[inputs[i].dtype.name] if i < len(inputs) else "float"
            words.append(f"{kind} {'' if scalar else '*'}{name}")
            assignments.append(f"{name} = {'*(int *)' if scalar else ''}arrays[{i}];")
        entry = _PHASE_ENTRY % {
            "statics": ";\nstatic ".join(words),
            "assignments": " ".join(assignments),
            "locals": metal.LOCALS,
            "body": phase.body,
        }
        text = metal.phase_constants(config, rows) + _MACHINE
        text += source.joined(*source.PHASES) + entry
        return ctypes.CDLL(
            str(compile_c(f"t3-{phase.name}", text, [(*_FLAGS, "-Wno-unused-variable")], after=("-lm",)))
        )

    def launch(
        phase: Phase, rows: int, blocks: int, inputs: list[mx.array], shapes: list[tuple[int, ...]]
    ) -> list[mx.array]:
        raw: list[npt.NDArray[np.generic]] = [
            caches[id(each)] if name == "cache" else bits(each) if each.dtype == mx.bfloat16 else np.array(each)
            for name, each in zip(phase.inputs, inputs, strict=True)
        ]
        outputs = [np.full(shape, np.nan, np.float32) for shape in shapes]
        if (phase.name, rows) not in libraries:
            libraries[phase.name, rows] = built(phase, rows, raw)
        shape = next((np.array(array.shape, np.int32) for array in raw if array.ndim == 4), np.zeros(4, np.int32))
        libraries[phase.name, rows].run(pointers([*raw, *outputs]), ctypes.c_void_p(shape.ctypes.data), blocks)
        return [mx.array(output) for output in outputs]

    return launch
