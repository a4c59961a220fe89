"""The choice of the kernels of T3: of its step, of the draw behind it and of the prompt's attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3 import backbone, sampling
from models.chatterbox.t3.backbone import Attend, ForwardPass, rope_wavelengths
from models.chatterbox.t3.cache import Cache
from models.chatterbox.t3.kernels import draw, prefill
from models.chatterbox.t3.kernels.cuda import T3CudaStep
from models.chatterbox.t3.kernels.metal import T3MetalStep
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.sampling import NextToken, Rules
from models.contract import Sampling
from models.layers.kernels.agreement import choose, relative_difference
from models.layers.kernels.device import gpu

Step = Callable[[mx.array, mx.array, Cache], tuple[mx.array, Cache]]


def choose_step(network: T3, positions: int = 8192) -> Step | None:
    """Return a kernel step that agrees with `T3.advance` on this device; None if there is none.

    Compiles its kernels (seconds each). A warning tells if they do not build or do not agree.
    """
    kinds, rows = (T3CudaStep, T3MetalStep), (1, 2) if network.config.guided else (1,)
    found: Iterator[Step] = (kind(network, positions) for kind in kinds if kind.available(network))
    return choose(
        "the kernels of T3's step", next(found, None), lambda step: [difference(step, network, each) for each in rows]
    )


def difference(step: Step, network: T3, rows: int, length: int = 64, place: int = 40) -> float:
    """Return the norm of the difference of `step`'s logits from the plain step's, over the norm of the latter.

    Keys and values are random. `place` is that of the token in caches of `length` rows.
    """
    key = mx.random.key(0)
    shape = network.allocate(rows, length)[0][0].shape
    cache: Cache = [
        (mx.random.normal(shape, key=each).astype(network.dtype),)
        for each in mx.random.split(key, network.config.layers)
    ]
    token, at = mx.array([network.config.start_speech]), mx.array([place, 1])
    wanted, _ = network.advance(token, at, cache)
    mx.eval(wanted, cache)  # before `step` writes into the cache
    found, _ = step(token, at, cache)
    return relative_difference(found, wanted)


def choose_draw(config: T3Config) -> NextToken | None:
    """Return the kernel of `sampling.next_token` if this device has a GPU, and it agrees there; None otherwise.

    Compiles it for each mode (parts of a second each). A warning tells if it does not build or does not agree.
    """
    kernel = None if gpu() is None else draw.next_token
    return choose("the kernel that draws T3's tokens", kernel, lambda found: draw_differences(found, config))


def draw_differences(next_token: NextToken, config: T3Config, steps: int = 8) -> list[float]:
    """Return the share of `steps` draws in which `next_token` differs from `sampling.next_token`, for each mode."""
    rng, size = np.random.RandomState(0), config.speech_vocabulary

    def share(rules: Rules, rows: int) -> float:
        differ = 0
        for step in range(steps):
            logits = mx.array(3 * rng.standard_normal((rows, 1, size)).astype(np.float32))
            place, seen = mx.array([40 + step, step, 9, 0]), mx.array(rng.rand(size) < 0.5)
            given = (logits, place, seen, rules.params(), sampling.seed_array(step), rules.mode(config))
            pairs = zip(next_token(*given), sampling.next_token(*given), strict=True)
            differ += not all(np.array_equal(np.array(one), np.array(other)) for one, other in pairs)
        return differ / steps

    return [
        share(sampling.rules(config, given, exact=exact), rows)
        for given, exact in ((Sampling(), False), (Sampling(top_p=0.8), True), (Sampling(temperature=0.0), False))
        for rows in ((1, 2) if config.guided else (1,))
    ]


def choose_attend(network: T3) -> Attend:
    """Return the kernel of `backbone.attend` for prompts if this device has CUDA, and it agrees there; else that one.

    A warning tells if it does not build or does not agree. On Metal plain operations stay: a launch costs less there,
    and MLX's attention has the device's products of matrices.
    """
    kernel = prefill.attend if gpu() == "cuda" and network.dtype == mx.bfloat16 else None
    name = "the kernel that reads T3's prompt"
    return choose(name, kernel, lambda found: attend_differences(found, network)) or backbone.attend


def attend_differences(attend: Attend, network: T3, length: int = 300, room: int = 320) -> list[float]:
    """Return the differences of `attend`'s result, and of its cache, from those of `backbone.attend`, for each batch.

    The numbers are random. `room` is the cache's, which is empty before.
    """
    config = network.config
    wavelengths = mx.array(rope_wavelengths(config)) if config.backbone == "llama" else None
    place = mx.zeros(1, dtype=mx.int32)
    reading = ForwardPass(place, backbone.causal(place, length, room, network.dtype), attend, wavelengths)
    found = []
    for rows in (1, 2) if config.guided else (1,):
        qkv = mx.random.normal((rows, length, 3 * config.hidden), key=mx.random.key(rows)).astype(network.dtype)
        given = (reading, qkv, network.allocate(rows, room)[0], config.heads)
        (result, (cache,)), (wanted, (whole,)) = attend(*given), backbone.attend(*given)
        found += [relative_difference(result, wanted), relative_difference(cache, whole)]
    return found
