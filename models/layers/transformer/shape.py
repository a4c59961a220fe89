"""Sizes of the layers that the kernels compute, and the sources of the kernels for these sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from models.layers.kernels.device import defines

HEAD = 64
_RUN = 64  # weights of a row that a warp multiplies at once
_MIN_WARPS = 8  # of a block with four groups of rows: a thread for each channel of their heads
MAX_WARPS = 16  # a block; with 20 threads had too few registers

_ACTIVATIONS = {"relu": "((x) > 0.0f ? (x) : 0.0f)", "gelu": "gelu(x)"}


@dataclass(frozen=True, slots=True)
class TransformerShape:
    """Pre-norm layers: self-attention, in a decoder also attention to an encoder's output, feed-forward.

    Attributes:
        width: Channels.
        heads: Of each attention.
        inner: Channels of the feed-forward part.
        layers: Of the encoder or the decoder.
        bits: Of the weights; 0 where they are bfloat16.
        activation: Of the feed-forward part; "gelu" is the exact one.
        scale: Of the token embeddings.
    """

    width: int
    heads: int
    inner: int
    layers: int
    bits: int = 0
    activation: Literal["relu", "gelu"] = "relu"
    scale: float = 1.0

    def warps(self, most: int = MAX_WARPS) -> int:
        """Return the warps of a block, at most `most`, which share the terms of every product evenly."""
        runs, inner = self.width // _RUN, self.inner // _RUN
        return next(count for count in range(most, 0, -1) if runs % count == 0 and inner % count == 0)

    def fits(self) -> bool:
        """Return whether there are kernels for these sizes: on Metal blocks may have fewer warps."""
        return self.width == HEAD * self.heads and self.inner % _RUN == 0 and self.width % (2 * _RUN) == 0

    def fits_cuda(self) -> bool:
        """Return whether the one CUDA kernel is for these sizes."""
        return self.fits() and self.warps() >= _MIN_WARPS

    def constants(self, tiles: int, count: int, memories: int = 0) -> str:
        """Return the definitions that products.h expects.

        Args:
            tiles: Groups of eight rows.
            count: Warps of a block.
            memories: Of an encoder: layers of the decoder that reads its output.
        """
        values: dict[str, object] = {
            "HIDDEN": self.width,
            "HEADS": self.heads,
            "INNER": self.inner,
            "LAYERS": self.layers,
            "EMBED_SCALE": f"{self.scale!r}f",
            "ACTIVATE(x)": _ACTIVATIONS[self.activation],
            "BITS": self.bits or 16,
            "TILES": tiles,
            "WARPS": count,
            "MEMORIES": memories,
        }
        return defines(values)

    def shared_bytes(self, tiles: int, count: int) -> int:
        """Return the bytes of SHARED_FLOATS in products.h."""
        columns = 8 * tiles
        return columns * (self.width + 32) * 2 + 4 * max(count * min(columns, 16) * 20, self.width)

    def encoder_floats(self, tiles: int) -> int:
        """Return the floats that blocks of an encoder exchange: see products.h, and keys and values."""
        return 8 * tiles * (3 * self.width + (self.width + self.inner) // 2)

    def exchange_floats(self, tiles: int, blocks: int) -> int:
        """Return the floats that blocks exchange: see products.h."""
        columns = 8 * tiles
        queries = (6 if tiles == 1 else 1) * self.width  # words have two numbers, and keys and values as well
        whole = columns * (self.width + queries + (self.width + self.inner) // 2 + 2 * blocks)
        return whole + max(blocks, 1) * tiles * (HEAD + 2)


def matrix(name: str, bits: int) -> str:
    """Return a Matrix of products.h of the arrays `name`."""
    shared = f"(GLOBAL const ushort*){name}_scales, (GLOBAL const ushort*){name}_offsets" if bits else "0, 0"
    return f"{{(GLOBAL const uint*){name}, {shared}}}"
