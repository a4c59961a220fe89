"""A decoding step as one CUDA kernel: all layers and the search for the likeliest token, between barriers of the grid.

Launches bound a step of several kernels a layer. Here one launch reads all weights once, for up to 32 rows. A family
takes the kernel where it agrees with its plain step. They differ by rounding only: rows that products read are
bfloat16, and sums and the residual stream are float32.

The kernel writes keys and values in place: MLX has no way to say so (see `models.chatterbox.t3.kernels.cuda`, whose
reasons hold here). So the caches belong to one group, `steps` sends each launch before it asks for anything that reads
them, and MLX launches on one stream.
"""

from __future__ import annotations

from models.backend import mx
from models.layers.kernels import device
from models.layers.kernels.device import LANES, Kernel, counters, joined, launches_directly, processors
from models.layers.transformer.shape import TransformerShape, matrix
from models.layers.transformer.step import ENDINGS, OUTPUTS, StepInput
from models.layers.transformer.weights import DECODER_PRODUCTS, TransformerWeights, named, pack

MAX_ROWS = 32
_FEW, _MANY = 1, 4  # tiles of eight rows: two kernels are compiled
_PLACES = 16  # MLX keeps arrays of 8 bytes in host memory, where a read takes a kernel microseconds

ROOM = "extern __shared__ __align__(16) float shared[];"


class CudaStep:
    """A `Step` by one kernel. Make it only if `available`."""

    def __init__(self, family: str, given: TransformerWeights, blocks: int = 0) -> None:
        """Prepare for a lowered decoder of a `family`; its grid has `blocks`, or as many as the GPU has processors."""
        self.family, self.shape = family, given.shape
        self._weights = pack(given)
        self._blocks, self._warps = blocks or processors(), given.shape.warps()
        self._counters = counters()
        self._endings = [mx.full(_PLACES, ending, dtype=mx.int32) for ending in ENDINGS]
        mx.eval(self._endings)
        self._kernels = {tiles: self.kernel(tiles) for tiles in (_FEW, _MANY)}

    @staticmethod
    def available(given: TransformerShape, dtype: mx.Dtype) -> bool:
        """Return whether this step can replace the plain one: all in bfloat16."""
        return processors() > 0 and launches_directly() and dtype == mx.bfloat16 and given.fits_cuda()

    def kernel(self, tiles: int) -> Kernel:
        """Return the kernel for at most 8 * tiles rows."""
        shape, layers = self.shape, range(self.shape.layers)
        head = tuple(name.replace("table", "head") for name in self._weights if name.startswith("table"))
        given = ("banned", "entries", "ids", "place", "origin", "mask", "ending", "counters")
        caches = tuple(f"{kind}{layer}" for kind in ("past", "memory") for layer in layers)
        return Kernel(
            name=f"nightingale_{self.family}_step_{tiles}",
            inputs=(*self._weights, *head, *given, *caches),
            outputs=("result", "next", "exchange"),
            body=body(shape.layers, shape.bits),
            header=shape.constants(tiles, self._warps) + joined(__file__, "products.h", "attention.h", "step.h"),
            in_place=True,
            bounded=True,
            shared_bytes=shape.shared_bytes(tiles, self._warps),
        )

    def __call__(self, *given: *StepInput) -> tuple[mx.array, mx.array]:
        """Compute a `Step`. Raises ValueError for more than 32 rows."""
        ids, place, past, memory, mask, origin, head, ending = given
        rows = ids.size
        if rows > MAX_ROWS:
            raise ValueError(f"at most {MAX_ROWS} rows are expected, not {rows}")
        tiles = _FEW if rows <= 8 * _FEW else _MANY
        # Of one type for all endings: MLX would compile a kernel for each type.
        result = (*ids.shape, self.shape.width // 2) if ending == OUTPUTS else ids.shape
        floats = self.shape.exchange_floats(tiles, self._blocks)
        made, following, _ = device.launch(
            self._kernels[tiles],
            [
                *self._weights.values(), *named("head", head.part).values(), head.banned.astype(mx.bfloat16),
                head.entries, ids, place, origin, mask, self._endings[ending], self._counters, *past, *memory,
            ],
            [(result, mx.int32), ((_PLACES,), mx.int32), ((floats,), mx.float32)],
            (self._blocks, 1, 1),
            threads=self._warps * LANES,
        )  # fmt: skip
        return made.view(mx.bfloat16) if ending == OUTPUTS else made, following[:1]


def body(layers: int, bits: int) -> str:
    """Return the kernel's body, which names the arguments of `step` in step.h."""
    pointers = "\n".join(
        f"    past[{layer}] = (ushort*)past{layer};\n    memory[{layer}] = (ushort*)memory{layer};"
        for layer in range(layers)
    )
    matrices = ", ".join(matrix(name, bits) for name in (*DECODER_PRODUCTS, "table", "head"))
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
  const Given given = {{ids, origin, (const ushort*)mask, past, memory, (int)(ids_shape[0] * ids_shape[1]),
                       (int)ids_shape[1], (int)(ids_shape[0] * ids_shape[1] / memory0_shape[0]), place[0],
                       (int)past0_shape[2], (int)memory0_shape[2], ending[0]}};
  const Made made = {{result, next, (ushort*)result}};
  step(at, of, given, made, (int*)counters, exchange, shared);
"""
