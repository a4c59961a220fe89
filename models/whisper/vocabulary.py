"""Token embeddings and, tied to them, the output projection."""

from __future__ import annotations

from mlx import nn

from models.backend import cpu_streams, mx
from models.layers.linear import Part, multiply, row_parts
from models.native.transformer import GROUP, PackedMatrix


class TokenEmbedding(nn.Module):
    """Embedding table `weight` [V, C]. Call `lower()` once after loading."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.weight = mx.zeros((size, width))
        self._parts: list[Part] = []
        self._bits = 0
        self._native: PackedMatrix | None = None

    def lower(self, bits: int = 0) -> None:
        """Round to `bits` (0 leaves the weights as they are). `weight` is empty where native kernels have them."""
        self._native = PackedMatrix.pack(self.weight, bits=bits)
        if self._native is not None:
            self.weight = mx.zeros((0, self._native.inputs))
            return
        self._bits = bits
        self._parts = row_parts(self.weight, bits)
        mx.eval(self._parts)
        if bits:
            self.weight = self._parts[0][0]

    @property
    def part(self) -> Part:
        """Return the table in one piece, as on a GPU."""
        (part,) = self._parts
        return part

    def embed(self, ids: mx.array) -> mx.array:
        """Return the embeddings [B, T, C] of ids [B, T]."""
        if self._native is not None:
            return self._native.rows(ids)
        if self._bits:
            whole = [mx.concatenate(list(pieces)) for pieces in zip(*self._parts, strict=True)]
            weight, scales, offsets = (part[ids] for part in whole)
            return mx.dequantize(weight, scales, offsets, group_size=GROUP, bits=self._bits)
        return self.weight[ids]

    def logits(self, x: mx.array) -> mx.array:
        """Return the products [..., V] of x [..., C] with all tokens, in float32."""
        if self._native is not None:
            return self._native(x)
        if not self._parts:
            return (x @ self.weight.T).astype(mx.float32)
        outputs = []
        for part, stream in zip(self._parts, cpu_streams(), strict=False):
            with mx.stream(stream):
                outputs.append(multiply(x, part, self._bits))
        whole = outputs[0] if len(outputs) == 1 else mx.concatenate(outputs, axis=-1)
        return whole.astype(mx.float32)
