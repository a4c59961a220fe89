"""The decoding step's kernels on the emulated GPU, and the plain step on the same arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from models.backend import mx
from models.layers.kernels.device import Device, Kernel
from models.layers.transformer import cuda
from models.layers.transformer.step import OUTPUTS, TOKENS, Step, StepInput
from models.nllb.config import NllbConfig
from models.nllb.kernels.choice import FAMILY, decoder_weights, output_rows
from models.nllb.network import Nllb
from models.nllb.vocabulary import Tree
from models.nllb.weights import load_weights
from tests.models import emulator
from tests.models.nllb.builder import official_arrays, tiny_config, to_mx

# The least that fits: a block of eight warps, each with one run of 64 weights of a row, or two of the inner rows.
SMALL = tiny_config(d_model=512, decoder_attention_heads=8, decoder_ffn_dim=1024, encoder_layers=1, decoder_layers=2)
ENCODER = replace(SMALL, encoder_attention_heads=8, encoder_ffn_dim=1024, encoder_layers=2)

# Rows that products read are rounded to bfloat16 (2^-9 of each number), as are keys and values. A wrong row, weight or
# norm is tens of times that.
TOLERANCE = 1e-2


@cache
def network(config: NllbConfig = SMALL, bits: int = 0) -> Nllb:
    """A network whose weights are bfloat16's, or of fewer bits, computing in float32. Shared: leave it as it is."""
    model = Nllb(config)
    arrays = {name: array.astype(mx.bfloat16) for name, array in to_mx(official_arrays(config, 0, 1.5)).items()}
    load_weights(model, arrays, "arrays")
    model.lower()
    model._positions = model._positions.astype(mx.bfloat16).astype(mx.float32)
    for _, module in model.named_modules() if bits else ():  # on the CPU `lower` leaves 8 bits to the native kernels
        if hasattr(module, "_parts"):
            module._parts, module._bits = [_quantized(mx.concatenate([part[0] for part in module._parts]), bits)], bits
        elif hasattr(module, "_packed"):
            module._packed, module.bits = _quantized(module.weight, bits), bits
            module.weight = module._packed[0]
    return model


def _quantized(weight: mx.array, bits: int) -> tuple[mx.array, ...]:
    """Scales and offsets are bfloat16's."""
    packed, *shared = mx.quantize(weight.astype(mx.bfloat16), group_size=64, bits=bits)
    return packed, *(array.astype(mx.float32) for array in shared)


def gpu(monkeypatch: Any, device: Device = "cuda", *, backward: bool = False) -> list[str]:
    """Turn the emulated GPU on. Return the names of what is launched."""
    launched: list[str] = []
    monkeypatch.setitem(emulator.SHARED_LIMIT, "cuda", 227 << 10)  # asked for at the launch
    run = emulator.launcher(device, backward=backward, seen=launched)

    def launch(kernel: Kernel, *given: Any, **more: Any) -> list[mx.array]:
        own = "SHARED_ARRAY(float4, room_, SHARED_FLOATS / 4); float *shared = (float *)room_;"
        result: list[mx.array] = run(replace(kernel, body=kernel.body.replace(cuda.ROOM, own)), *given, **more)
        return result

    monkeypatch.setattr(cuda.device, "launch", launch)
    return launched


def cuda_step(model: Nllb, blocks: int = 3) -> Step:
    """The one CUDA kernel."""
    return cuda.CudaStep(FAMILY, decoder_weights(model), blocks)


@dataclass
class Case:
    """Arrays of a step at `place`: random keys and values, in bfloat16; some of the source is padding."""

    model: Nllb
    rows: int
    each: int = 1
    place: int = 5
    length: int = 12
    source: int = 9
    counts: Sequence[int] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        rng = np.random.RandomState(self.seed)
        config, layers = self.model.config, range(self.model.config.decoder_layers)

        def caches(length: int) -> list[mx.array]:
            shape = (self.rows, 2 * config.decoder_attention_heads, length, 64)
            return [mx.array(rng.standard_normal(shape).astype(np.float32)).astype(mx.bfloat16) for _ in layers]

        self.past, self.memory = caches(self.length), caches(self.source)
        counts = mx.array([*self.counts, *[self.source] * self.rows][: self.rows])
        self.mask = mx.where(mx.arange(self.source) < counts[:, None], 0.0, float("-inf"))[:, None, None]
        self.origin = mx.array(np.repeat(np.arange(self.rows, dtype=np.int32)[:, None], self.length, axis=1))
        self.ids = mx.array(rng.randint(4, config.vocab_size, (self.rows, self.each)).astype(np.int32))

    def plain(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Outputs [B, C] of `Nllb.advance` in float32, and keys and values afterwards."""
        at = mx.broadcast_to(self.origin[:, None, :, None], self.past[0].shape)
        past = [mx.take_along_axis(part.astype(mx.float32), at, axis=0) for part in self.past]
        memory = [part.astype(mx.float32) for part in self.memory]
        hidden, past = self.model.advance(self.ids, mx.array([self.place]), past, memory, self.mask)
        return np.array(hidden), [np.array(part) for part in past]

    def outputs(self, step: Step, place: int | None = None) -> tuple[np.ndarray, list[np.ndarray]]:
        """The same of a kernel, whose `past` is a copy."""
        found, past = self._run(step, self.model.shared.head().tree, OUTPUTS, place)
        return np.array(found.astype(mx.float32)), [np.array(part.astype(mx.float32)) for part in past]

    def tokens(self, step: Step, tree: Tree) -> list[int]:
        """The likeliest tokens of a kernel."""
        found: list[int] = np.array(self._run(step, tree, TOKENS)[0]).ravel().tolist()
        return found

    def _run(self, step: Step, tree: Tree, ending: int, place: int | None = None) -> tuple[mx.array, list[mx.array]]:
        past = [mx.array(np.array(part.view(mx.uint16))).view(mx.bfloat16) for part in self.past]
        at, mask = self.place if place is None else place, self.mask.astype(mx.bfloat16)
        rows = output_rows(tree)
        made, following = step(self.ids, mx.array([at]), past, self.memory, mask, self.origin, rows, ending)
        # Without room for this step there is none for the next.
        assert np.array(following).tolist() == [min(at + self.each, self.length)]
        return made, past


class PlainStep:
    """A `Step` in the plain network's operations, which writes into `past` as the kernels do."""

    def __init__(self, model: Nllb) -> None:
        self.model = model

    def __call__(self, *given: *StepInput) -> tuple[mx.array, mx.array]:
        ids, place, past, memory, mask, origin, head, ending = given
        gathered = [mx.take_along_axis(part, origin[:, None, :, None], axis=0) for part in past]
        hidden, after = self.model.advance(ids, place, gathered, memory, mask)
        mx.eval(hidden, after, past)
        at = slice(int(place.item()), int(place.item()) + ids.shape[1])
        for kept, new in zip(past, after, strict=True):
            half = kept.dtype == mx.bfloat16
            own, made = (np.array(each.view(mx.uint16) if half else each, copy=False) for each in (kept, new))
            own[:, :, at] = made[:, :, at]
        found = head.entries[mx.argmax(hidden @ head.part[0].T + head.banned, axis=-1)] if ending == TOKENS else hidden
        return found, place + ids.shape[1]


def error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Norm of the difference by norm."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
