"""A step of T3's Llama or GPT-2 as one CUDA kernel: every layer, between them barriers of the whole grid.

Launches bound a step in MLX's operations (about twenty a layer). Here one launch reads all weights once. `step_ops` is
the plain step, `CudaStep` the kernel, and `choose_step` takes the kernel where it agrees. They differ by rounding only:
between weights of bf16 or 8 bits and a bf16 cache the residual stream, queries and sums stay fp32; attention's output
and the feed-forward's inner row are bf16.

The kernel writes the cache in place. MLX has no way to say so: a kernel's outputs are new arrays, and `slice_update`
copies a whole array while an earlier reader of it is queued, as one always is when steps are sent ahead. So the kernel
casts away the constness of the caches. Three facts make that sound. The arrays come from a prefill and belong to one
request, whose state refers to them until it ends, so that MLX gives their memory to nobody else. Each step writes one
row that no step before it has read. MLX launches on one stream, so that steps run in the order they were sent. A slice
of a cache that was taken earlier sees rows appear behind the place up to which it was valid.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from models.backend import mx
from models.chatterbox.t3 import cache as caches
from models.chatterbox.t3.cache import Cache
from models.chatterbox.t3.kernels.source import PHASES, WARPS, constants, exchange_floats, fits, joined
from models.chatterbox.t3.kernels.weights import FLOATS, TABLES, Weights, pack
from models.chatterbox.t3.network import T3
from models.layers.kernels.agreement import agree, relative_difference
from models.layers.kernels.device import LANES, Kernel, build, processors

Step = Callable[[mx.array, mx.array, Cache], tuple[mx.array, Cache]]

_COUNTERS = 32  # ints: a cache line; MLX keeps arrays of 8 bytes in host memory, where an atomic takes microseconds


class CudaStep:
    """`T3.advance` for one token, as one kernel; a `step` for `Decoder`. Make it only if `available`."""

    def __init__(self, network: T3, positions: int = 8192) -> None:
        """Prepare for caches of at most `positions` rows, and no more than GPT-2's table has, and a lowered network."""
        self.config = network.config
        self.positions = min(positions, self.config.positions) if self.config.backbone == "gpt2" else positions
        self._bits, self._weights = network.bits, pack(network, positions)
        self._blocks = processors()
        self._counters = mx.zeros(_COUNTERS, dtype=mx.int32)
        mx.eval(self._counters)
        self._kernels: dict[int, Any] = {}

    @staticmethod
    def available(network: T3) -> bool:
        """True if this step can replace `network.advance`: one in bfloat16, whose weights have 16 bits or 8.

        MLX must launch directly (`models.backend` has it so): within a graph two requests' steps might run side by
        side, each holding processors that the other waits for.
        """
        return (
            processors() > 0
            and os.environ.get("MLX_USE_CUDA_GRAPHS") == "0"
            and network.dtype == mx.bfloat16
            and network.bits in (0, 8)
            and all(fits(network.config, batch) for batch in (1, 2))
        )

    def _kernel(self, batch: int) -> Any:
        if batch not in self._kernels:
            names = [field.name for field in fields(Weights)]
            layers = range(self.config.layers)
            kernel = Kernel(
                name=f"nightingale_t3_step_{batch}",
                inputs=(*names, "tokens", "place", "counters", *(f"cache{layer}" for layer in layers)),
                outputs=("logits", "exchange"),
                body=body(self.config.layers),
                header=constants(self.config, batch, self._blocks, bits=self._bits) + joined(*PHASES, "step.h"),
                in_place=True,
                bounded=True,
            )
            self._kernels[batch] = build(kernel, "cuda")
        return self._kernels[batch]

    def __call__(self, tokens: mx.array, place: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        """Read tokens [1] int32 at place [2] int32, as `T3.advance` -> logits [B, 1, V] fp32, and `cache`, now longer.

        The caches are whole bfloat16 arrays [B, 2 * heads, T, 64]. Beyond their last row logits are NaN. Raises
        ValueError for other caches, and for more rows than `positions`.
        """
        batch, length = caches.rows(cache), caches.capacity(cache)
        rows = [layer[0] for layer in cache]
        if tokens.shape != (1,) or length > self.positions or any(array.dtype != mx.bfloat16 for array in rows):
            raise ValueError(f"one token, and bfloat16 caches of at most {self.positions} rows, are expected")
        logits, _ = self._kernel(batch)(
            inputs=[*self._weights.arrays(), tokens, place, self._counters, *rows],
            output_shapes=[
                (batch, 1, self.config.speech_vocabulary),
                (exchange_floats(self.config, batch, self._blocks),),
            ],
            output_dtypes=[mx.float32, mx.float32],
            grid=(self._blocks * WARPS * LANES, 1, 1),
            threadgroup=(WARPS * LANES, 1, 1),
        )
        return logits, cache


def step_ops(network: T3) -> Step:
    """Return the plain step, in MLX's operations: the definition that every kernel must agree with."""
    return network.advance


def choose_step(network: T3, positions: int = 8192) -> CudaStep | None:
    """Return a kernel step that agrees with `step_ops` on this device; None if there is none.

    Compiles its kernels (seconds each). A warning tells if they do not build or do not agree.
    """
    if not CudaStep.available(network):
        return None
    step = CudaStep(network, positions)
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


def body(layers: int) -> str:
    """Return the kernel's body, which names the arguments of `step` in step.h."""
    weights = ", ".join(
        field.name if field.name in FLOATS else f"(const {'ushort' if field.name in TABLES else 'Chunk'}*){field.name}"
        for field in fields(Weights)
    )
    pointers = "\n".join(f"    caches[{layer}] = (ushort*)cache{layer};" for layer in range(layers))
    return f"""
  __shared__ __align__(16) float shared[SHARED_FLOATS];
  __shared__ ushort* caches[LAYERS];
  const int thread = threadIdx.x;
  if (thread == 0) {{
{pointers}
  }}
  __syncthreads();
  const Where at = {{thread, thread % LANES, thread / LANES, (int)blockIdx.x, (int)gridDim.x}};
  const Weights of = {{{weights}}};
  step(at, of, tokens[0], place[0], place[1], (int)cache0_shape[2], caches, (int*)counters, exchange, logits, shared);
"""
