"""A decoding step as one CUDA kernel: all layers and the search for the likeliest token, between barriers of the grid.

Launches bound a step of seven kernels a layer (`step`). Here one launch reads all weights once, for up to 32 rows.
`Nllb.advance` is the plain step; `choice` takes the kernel where both agree. They differ by rounding only: rows
that products read are bfloat16, and sums and the residual stream are float32.

The kernel writes keys and values in place: MLX has no way to say so (see `models.chatterbox.t3.kernels.cuda`, whose
reasons hold here). So the caches belong to one group, `steps` sends each launch before it asks for anything that reads
them, and MLX launches on one stream.
"""

from __future__ import annotations

import os

from models.backend import mx
from models.layers.kernels import device
from models.layers.kernels.device import LANES, Kernel, processors
from models.nllb.kernels.headers import (
    ENDINGS,
    OUTPUTS,
    constants,
    exchange_floats,
    fits,
    joined,
    matrix,
    shared_bytes,
    warps,
)
from models.nllb.kernels.weights import PRODUCTS, named, pack
from models.nllb.network import Nllb
from models.nllb.vocabulary import Tree

MOST_ROWS = 32
_FEW, _MANY = 1, 4  # tiles of eight rows: two kernels are compiled
_PLACES = 16  # MLX keeps arrays of 8 bytes in host memory, where a read takes a kernel microseconds
_COUNTERS = 32  # ints

ROOM = "extern __shared__ __align__(16) float shared[];"


class CudaStep:
    """A `Step` by one kernel. Make it only if `available`."""

    def __init__(self, network: Nllb, blocks: int = 0) -> None:
        """Prepare for a lowered network; its grid has `blocks`, or as many as the GPU has processors."""
        self.config, self._bits = network.config, network.shared.bits
        self._weights = pack(network)
        self._blocks, self._warps = blocks or processors(), warps(network.config)
        self._counters = mx.zeros(_COUNTERS, dtype=mx.int32)
        self._endings = [mx.full(_PLACES, ending, dtype=mx.int32) for ending in ENDINGS]
        mx.eval(self._counters, self._endings)
        self._kernels = {tiles: self.kernel(tiles) for tiles in (_FEW, _MANY)}

    @staticmethod
    def available(network: Nllb) -> bool:
        """Return whether this step can replace `network.advance` for one token: all in bfloat16.

        MLX must launch directly (`models.backend` has it so): within a graph two kernels might run side by side, each
        holding processors that the other waits for.
        """
        direct = processors() > 0 and os.environ.get("MLX_USE_CUDA_GRAPHS") == "0"
        return direct and network.dtype == mx.bfloat16 and fits(network.config)

    def kernel(self, tiles: int) -> Kernel:
        """Return the kernel for at most 8 * tiles rows."""
        config, layers = self.config, range(self.config.decoder_layers)
        head = tuple(name.replace("table", "head") for name in self._weights if name.startswith("table"))
        given = ("banned", "entries", "ids", "place", "origin", "mask", "ending", "counters")
        caches = tuple(f"{kind}{layer}" for kind in ("past", "memory") for layer in layers)
        return Kernel(
            name=f"nightingale_nllb_step_{tiles}",
            inputs=(*self._weights, *head, *given, *caches),
            outputs=("result", "next", "exchange"),
            body=body(config.decoder_layers, self._bits),
            header=constants(config, self._bits, tiles, self._warps) + joined("products.h", "attention.h", "step.h"),
            in_place=True,
            bounded=True,
            shared_bytes=shared_bytes(config, tiles, self._warps),
        )

    def __call__(
        self,
        ids: mx.array,
        place: mx.array,
        past: list[mx.array],
        memory: list[mx.array],
        mask: mx.array,
        origin: mx.array,
        tree: Tree,
        ending: int,
    ) -> tuple[mx.array, mx.array]:
        """Compute a `Step`. Raises ValueError for more than 32 rows."""
        rows = ids.shape[0]
        if rows > MOST_ROWS:
            raise ValueError(f"at most {MOST_ROWS} rows are expected, not {rows}")
        tiles = _FEW if rows <= 8 * _FEW else _MANY
        ((part,), ((banned,),), ((table,),)) = tree["parts"], tree["banned"], tree["table"]
        head = named("head", tuple(part))
        result = ((rows, self.config.d_model), mx.bfloat16) if ending == OUTPUTS else ((rows,), mx.int32)
        floats = exchange_floats(self.config, tiles, self._blocks)
        made, following, _ = device.launch(
            self._kernels[tiles],
            [
                *self._weights.values(), *head.values(), banned.astype(mx.bfloat16), table, ids, place, origin, mask,
                self._endings[ending], self._counters, *past, *memory,
            ],
            [result, ((_PLACES,), mx.int32), ((floats,), mx.float32)],
            (self._blocks, 1, 1),
            threads=self._warps * LANES,
        )  # fmt: skip
        return made, following[:1]


def body(layers: int, bits: int) -> str:
    """Return the kernel's body, which names the arguments of `step` in step.h."""
    pointers = "\n".join(
        f"    past[{layer}] = (ushort*)past{layer};\n    memory[{layer}] = (ushort*)memory{layer};"
        for layer in range(layers)
    )
    matrices = ", ".join(matrix(name, bits) for name in (*PRODUCTS, "table", "head"))
    return f"""
  {ROOM}
  SHARED_ARRAY(ushort*, past, LAYERS);
  SHARED_ARRAY(ushort*, memory, LAYERS);
  if (THREAD == 0) {{
{pointers}
  }}
  SYNC();
  const Where at = {{THREAD, THREAD % LANES, THREAD / LANES, BLOCK_X, BLOCKS_X}};
  const Weights of = {{{matrices}, (const ushort*)vectors, (const ushort*)positions, (const ushort*)banned, entries,
                      (int)banned_shape[0]}};
  const Given given = {{ids, origin, (const ushort*)mask, past, memory, (int)ids_shape[0], place[0],
                       (int)past0_shape[2], (int)memory0_shape[2], ending[0]}};
  const Made made = {{(int*)result, next, (ushort*)result}};
  step(at, of, given, made, (int*)counters, exchange, shared);
"""
