"""The kernels of models/layers/activated_conv.py on an emulated GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from models.backend import mx
from models.layers import activated_conv, residual_blocks
from models.layers.kernels.device import Kernel, Output
from models.layers.kernels.tensor_product import COPIES, ROOM
from models.native import kernels
from tests.models import emulator
from tests.models.emulator import Run, emulate

Launched = list[tuple[int, int, int]]


def emulated(
    monkeypatch: pytest.MonkeyPatch, user: ModuleType, *, processors: int = 3, backward: bool = False
) -> Launched:
    """Turns the emulated GPU on for a `user` of the kernels; notes the launches."""
    launched = Launched()
    activated_conv._kept.cache_clear()  # a test that failed may have left its counters

    def launch(
        kernel: Kernel,
        inputs: Sequence[mx.array],
        outputs: Sequence[Output],
        blocks: tuple[int, int, int],
        template: Mapping[str, Any],
        threads: int,
    ) -> list[mx.array]:
        launched.append(blocks)
        header = kernel.header.replace(COPIES, f"#define LATE {int(backward)}\n#define CLUSTER 1\n{emulator.copies()}")
        assert header != kernel.header
        body = kernel.body.replace(ROOM, f"unsigned char *room = begun({kernel.shared_bytes});")
        for name, array in zip(kernel.inputs, inputs, strict=True):
            assert np.array(array, copy=False).flags.c_contiguous, f"{name} is not contiguous"
        given = dict(zip(kernel.inputs, inputs, strict=True))
        made = dict(zip(kernel.outputs, outputs, strict=True))
        run = Run(threads=threads)
        result = emulate(header, body, given, made, blocks, dict(template), backward=backward, run=run)
        assert not np.array(given["counters"]).any(), "a counter is not 0 as before"
        return result

    monkeypatch.setattr(activated_conv, "launch", launch)
    monkeypatch.setattr(residual_blocks, "launch", emulator.launcher("cuda", backward=backward))
    monkeypatch.setattr(activated_conv, "gpu", lambda: "cuda")
    monkeypatch.setattr(activated_conv, "launches_directly", lambda: True)
    monkeypatch.setattr(activated_conv, "processors", lambda: processors)
    monkeypatch.setattr(user, "usable", lambda *_: True)
    monkeypatch.setattr(user, "moments_kernel", moments_of_runs)
    monkeypatch.setitem(emulator.SHARED_LIMIT, "cuda", 227 << 10)  # asked for at the launch
    # Layers in the order of a GPU.
    monkeypatch.setattr(kernels, "module", lambda: None)
    for module in ("models.layers.conv", "models.layers.vocoder", "models.chatterbox.s3gen.vocoder"):
        monkeypatch.setattr(f"{module}.on_cpu", lambda: False)
    return launched


def moments_of_runs(x: mx.array, count: mx.array, runs: int = 3) -> mx.array:
    """The moments that `adain.moments_kernel` makes (its own tests run it)."""
    found = []
    for rows, valid in zip(np.array(x), np.array(count), strict=True):
        each = -(-int(valid) // runs)
        parts = [rows[:valid][run * each : (run + 1) * each] for run in range(runs)]
        none = np.zeros((2, x.shape[2]), np.float32)
        found.append([np.stack([p.mean(0), ((p - p.mean(0)) ** 2).sum(0)]) if len(p) else none for p in parts])
    return mx.array(np.array(found, np.float32))
