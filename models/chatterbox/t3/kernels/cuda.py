"""A step of T3's Llama or GPT-2 as one CUDA kernel: every layer, between them barriers of the whole grid.

Launches bound a step in MLX's operations (about twenty a layer). Here one launch reads all weights once. It
differs from the plain step (choice.py) by rounding only: between weights of bf16 or 8 bits and a bf16 cache the stream,
queries and sums stay fp32; attention's output and the feed-forward's inner row are bf16.

The kernel writes the cache in place. MLX has no way to say so: a kernel's outputs are new arrays, and `slice_update`
copies a whole array while an earlier reader of it is queued, as one always is when steps are sent ahead. So the kernel
casts away the constness of the caches. Three facts make that sound. The arrays come from a prefill and belong to one
request, whose state refers to them until it ends, so that MLX gives their memory to nobody else. Each step writes one
row that no step before it has read. MLX launches on one stream, so that steps run in the order they were sent. A slice
of a cache that was taken earlier sees rows appear behind the place up to which it was valid.
"""

from __future__ import annotations

from models.backend import mx
from models.chatterbox.t3 import cache as caches
from models.chatterbox.t3.cache import Cache
from models.chatterbox.t3.kernels.source import PHASES, WARPS, constants, exchange_floats, fits
from models.chatterbox.t3.kernels.weights import FLOATS, TABLES, Weights, pack
from models.chatterbox.t3.network import T3
from models.layers.kernels.device import LANES, Kernel, counters, joined, launch, launches_directly, processors


class T3CudaStep:
    """`T3.advance` for one token, as one kernel; a `step` for `Decoder`. Make it only if `available`."""

    def __init__(self, network: T3, positions: int = 8192, blocks: int = 0, warps: int = WARPS) -> None:
        """Prepare for caches of at most `positions` rows, and no more than GPT-2's table has, and a lowered network.

        A grid has a block for each processor, unless `blocks` are given.
        """
        self.config = network.config
        self.positions = min(positions, self.config.positions) if self.config.backbone == "gpt2" else positions
        self._bits, self._weights = network.bits, pack(network, positions)
        self._blocks, self._warps = blocks or processors(), warps
        self._counters = counters()
        self._kernels: dict[int, Kernel] = {}

    @staticmethod
    def available(network: T3) -> bool:
        """True if this step can replace `network.advance`: one in bfloat16, whose weights have 16 bits or 8."""
        return (
            processors() > 0
            and launches_directly()
            and network.dtype == mx.bfloat16
            and network.bits in (0, 8)
            and all(fits(network.config, batch) for batch in (1, 2))
        )

    def _kernel(self, batch: int) -> Kernel:
        if batch not in self._kernels:
            layers = range(self.config.layers)
            sizes = constants(self.config, batch, self._blocks, bits=self._bits, warps=self._warps)
            checked = f'static_assert(EXCHANGE_FLOATS == {exchange_floats(self.config, batch, self._blocks)}, "");\n'
            self._kernels[batch] = Kernel(
                name=f"nightingale_t3_step_{batch}",
                inputs=(*Weights._fields, "tokens", "place", "counters", *(f"cache{layer}" for layer in layers)),
                outputs=("logits", "exchange"),
                body=body(self.config.layers),
                header=sizes + joined(__file__, *PHASES, "step.h") + checked,
                in_place=True,
                bounded=True,
            )
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
        logits, _ = launch(
            self._kernel(batch),
            [*self._weights, tokens, place, self._counters, *rows],
            [
                ((batch, 1, self.config.speech_vocabulary), mx.float32),
                ((exchange_floats(self.config, batch, self._blocks),), mx.float32),
            ],
            (self._blocks, 1, 1),
            threads=self._warps * LANES,
        )
        return logits, cache


def body(layers: int) -> str:
    """Return the kernel's body, which names the arguments of `step` in step.h."""
    weights = ", ".join(
        name if name in FLOATS else f"(const {'ushort' if name in TABLES else 'Chunk'}*){name}"
        for name in Weights._fields
    )
    pointers = "\n".join(f"    caches[{layer}] = (ushort*)cache{layer};" for layer in range(layers))
    return f"""
  SHARED_ARRAY(float, shared, SHARED_FLOATS);
  SHARED_ARRAY(ushort*, caches, LAYERS);
  if (THREAD == 0) {{
{pointers}
  }}
  SYNC();
  const Where at = {{THREAD, THREAD % LANES, THREAD / LANES, BLOCK_X, BLOCKS_X}};
  const Weights of = {{{weights}}};
  step(at, of, tokens[0], place[0], place[1], (int)cache0_shape[2], caches, (int*)counters, exchange, logits, shared);
"""
