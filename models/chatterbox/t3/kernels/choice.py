"""The plain step of T3, and the choice of the kernels that compute it on this device."""

from __future__ import annotations

from collections.abc import Callable

from models.backend import mx
from models.chatterbox.t3.cache import Cache
from models.chatterbox.t3.kernels.cuda import CudaStep
from models.chatterbox.t3.kernels.metal import MetalStep
from models.chatterbox.t3.network import T3
from models.layers.kernels.agreement import agree, relative_difference

Step = Callable[[mx.array, mx.array, Cache], tuple[mx.array, Cache]]


def step_ops(network: T3) -> Step:
    """Return the plain step, in MLX's operations: the definition that every kernel must agree with."""
    return network.advance


def choose_step(network: T3, positions: int = 8192) -> Step | None:
    """Return a kernel step that agrees with `step_ops` on this device; None if there is none.

    Compiles its kernels (seconds each). A warning tells if they do not build or do not agree.
    """
    kind = next((kind for kind in (CudaStep, MetalStep) if kind.available(network)), None)
    if kind is None:
        return None
    step = kind(network, positions)
    rows = (1, 2) if network.config.guided else (1,)
    agreed = agree("the kernels of T3's step", lambda: [difference(step, network, count) for count in rows])
    return step if agreed else None


def difference(step: Step, network: T3, rows: int, length: int = 64, place: int = 40) -> float:
    """Return the norm of the difference of `step`'s logits from `step_ops`'s, over the norm of the latter.

    Keys and values are random. `place` is that of the token in caches of `length` rows.
    """
    key = mx.random.key(0)
    shape = network.allocate(rows, length)[0][0].shape
    cache: Cache = [
        (mx.random.normal(shape, key=each).astype(network.dtype),)
        for each in mx.random.split(key, network.config.layers)
    ]
    token, at = mx.array([network.config.start_speech]), mx.array([place, 1])
    wanted, _ = step_ops(network)(token, at, cache)
    mx.eval(wanted, cache)  # before `step` writes into the cache
    found, _ = step(token, at, cache)
    return relative_difference(found, wanted)
