"""A short encoding as one CUDA kernel: embeddings, all layers, and keys and values of their output for a decoder.

In MLX's operations and small kernels a layer is eight launches, which bound the encoding of a sentence. A family takes
this kernel where it agrees with its plain encoder. Rows that products read, keys and values are bfloat16, and sums and
the residual stream are float32.

Metal has no barrier of a grid: there is no such kernel for it.
"""

from __future__ import annotations

from models.backend import mx
from models.layers.kernels import device
from models.layers.kernels.device import LANES, Kernel, counters, joined, processors
from models.layers.transformer.cuda import MAX_ROWS, ROOM
from models.layers.transformer.shape import HEAD, matrix
from models.layers.transformer.weights import ENCODER_PRODUCTS, TransformerWeights, pack

_TILES = MAX_ROWS // 8


class CudaEncoder:
    """An encoder of at most 32 rows by one kernel. Make it only if a decoder of these sizes has one: `CudaStep`."""

    def __init__(self, family: str, given: TransformerWeights, memories: int, blocks: int = 0) -> None:
        """Prepare a kernel.

        Args:
            family: Of the model, for the kernel's name.
            given: A lowered encoder, with `memory`.
            memories: Layers of the decoder, which `memory` has keys and values for.
            blocks: Of the grid; 0: as many as the GPU has processors.
        """
        self.shape, self._memories = given.shape, memories
        self._weights = pack(given)
        self._blocks, self._warps = blocks or processors(), given.shape.warps()
        self._counters = counters()
        self._kernel = Kernel(
            name=f"nightingale_{family}_encoder",
            inputs=(*self._weights, "ids", "mask", "counters"),
            outputs=("kept", "exchange"),
            body=body(self.shape.bits),
            header=self.shape.constants(_TILES, self._warps, memories)
            + joined(__file__, "products.h", "attention.h", "encoder.h"),
            in_place=True,
            bounded=True,
            shared_bytes=self.shape.shared_bytes(_TILES, self._warps),
        )

    def __call__(self, ids: mx.array, mask: mx.array) -> list[mx.array]:
        """Encode a few short rows.

        Args:
            ids: int32 [B, S], at most 32 of them.
            mask: bfloat16 [B, 1, 1, S], minus infinity on padding.

        Returns:
            Keys and values [B, 2 * heads, S, C / heads] of each layer of the decoder; no numbers if the kernel was
            given up.

        Raises:
            ValueError: There are more ids.
        """
        if ids.size > MAX_ROWS:
            raise ValueError(f"at most {MAX_ROWS} rows are expected, not {ids.size}")
        batch, length = ids.shape
        shape = (self._memories, batch, 2 * self.shape.heads, length, HEAD)
        memory, _ = device.launch(
            self._kernel,
            [*self._weights.values(), mx.contiguous(ids), mx.contiguous(mask), self._counters],
            [(shape, mx.bfloat16), ((self.shape.encoder_floats(_TILES),), mx.float32)],
            (self._blocks, 1, 1),
            threads=self._warps * LANES,
        )
        return list(memory)


def body(bits: int) -> str:
    """Return the kernel's body, which names the arguments of `encode` in encoder.h."""
    matrices = ", ".join(matrix(name, bits) for name in (*ENCODER_PRODUCTS, "table", "memory"))
    return f"""
  {ROOM}
  const Where at = {{THREAD, THREAD % LANES, THREAD / LANES, BLOCK_X, BLOCKS_X}};
  const EncoderWeights of = {{{matrices}, (const ushort*)vectors, (const ushort*)positions}};
  encode(at, of, ids, (const ushort*)mask, (int)(ids_shape[0] * ids_shape[1]), (int)ids_shape[1], (ushort*)kept,
         (int*)counters, exchange, shared);
"""
