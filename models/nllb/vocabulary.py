"""Token embeddings and, tied to them, the output projection: three fifths of the weights that a step reads.

An `OutputProjection` covers the whole vocabulary or a shortlist of it. It never returns `<unk>`, which
translates nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import cpu_streams, mx, on_cpu
from models.layers.linear import Part, multiply, row_parts, triple
from models.native import transformer
from models.native.transformer import GROUP, Int8Argmax, PackedMatrix, PlainArgmax
from models.nllb.config import NllbConfig
from models.nllb.kernels import step

ROW_MULTIPLE = 128  # GPUs' fast kernels need a multiple of so many rows (256206 -> 256256)
_INT8_ARGMAX_TOKENS = 8192  # fewer are multiplied in float32
_CHUNK = 256  # logits; only the largest of each chunk is compared, until the best chunks are known

Ids = npt.NDArray[np.int32]
Tree = dict[str, list[list[mx.array]]]


class Vocabulary(nn.Module):
    """Embedding table `weight` [V, C]."""

    def __init__(self, config: NllbConfig) -> None:
        super().__init__()
        self.weight = mx.zeros((config.vocab_size, config.d_model))
        self._size, self._scale, self._unknown = config.vocab_size, config.embedding_scale, config.unk_token_id
        self._packed: Part = ()
        self.bits = 0  # of the weights that a GPU reads; 0 where they are not quantized
        self._native: PackedMatrix | None = None

    def lower(self, bits: int = 0) -> None:
        """Round to `bits` (0 leaves the weights as they are). `weight` is empty where native kernels have them."""
        self._native = PackedMatrix.pack(self.weight, bits=bits)
        if self._native is not None:
            self.weight = mx.zeros((0, self._native.inputs))
            return
        self.bits = bits
        if bits:
            self._packed = tuple(mx.quantize(self.weight, group_size=GROUP, bits=bits))
            mx.eval(self._packed)
            self.weight = self._packed[0]

    @property
    def part(self) -> Part:
        """Return the table as a GPU has it: weight; or weight, scales, offsets."""
        return self._packed or (self.weight,)

    def embed(self, ids: mx.array) -> mx.array:
        """Return the embeddings [B, T, C] of ids [B, T], times the configuration's scale."""
        return self.rows(ids) * self._scale if self._native is None else self._native.rows(ids, self._scale)

    def embed_at(self, ids: mx.array, place: mx.array, positions: mx.array) -> tuple[mx.array, mx.array]:
        """`embed` plus `positions` [P, C] from place [1] on, by a CUDA kernel; and `place` in the GPU's memory."""
        return step.embed_cuda(ids, place, triple(self.part), self.bits, positions, scaled=self._scale != 1)

    def rows(self, ids: mx.array) -> mx.array:
        """Return the rows of the table for ids [...]: embeddings without the scale."""
        if self._native is not None:
            return self._native.rows(ids)
        if self.bits:
            weight, scales, offsets = (part[ids] for part in self._packed)
            return mx.dequantize(weight, scales, offsets, group_size=GROUP, bits=self.bits)
        return self.weight[ids]

    def head(self, ids: Ids | None = None, rows: int = 0, unused: Sequence[int] = ()) -> OutputProjection:
        """Return the projection onto `ids`, ascending, or onto all tokens, with at least `rows` rows.

        On GPUs rows are padded to a multiple of 128. Neither padding nor tokens of `unused` come out.
        """
        if ids is None and self._native is not None:
            table = np.arange(self._size, dtype=np.int32)
            return OutputProjection(self.weight, table, self._unknown, matrix=self._native, unused=unused)
        if ids is None and not self.bits:
            weight = self.weight
        else:
            weight = self.rows(mx.arange(self._size) if ids is None else mx.array(ids))
        count = weight.shape[0]
        spare = max(rows - count, 0)
        if not on_cpu():
            spare += -(count + spare) % ROW_MULTIPLE
        if spare:
            weight = mx.concatenate([weight, mx.zeros((spare, weight.shape[1]), dtype=weight.dtype)])
        table = np.full(count + spare, self._unknown, np.int32)
        table[:count] = np.arange(count) if ids is None else ids
        matrix = None if self._native is None else PackedMatrix.pack(weight, bits=self._native.bits)
        return OutputProjection(weight, table, self._unknown, self.bits, matrix=matrix, unused=unused)


class OutputProjection:
    """Scores of the tokens in `table` [rows], for hidden states. `unknown`, `unused` and padding never come out.

    On the CPU `search` finds the likeliest token from an 8-bit copy of the weights and a few rows of the weights
    themselves: the same token as `argmax`, for a quarter of the memory read. With a `matrix`, its weights are all there
    is.

    `tree` holds all arrays. Compiled functions take it as an argument, so that heads of one size share one function.
    """

    def __init__(
        self,
        weight: mx.array,
        table: Ids,
        unknown: int,
        bits: int = 0,
        *,
        matrix: PackedMatrix | None = None,
        unused: Sequence[int] = (),
    ) -> None:
        self.size, self.bits, self.matrix = len(table), bits, matrix
        # A second array on the same memory: compiled functions take the head as an argument and the embeddings as a
        # constant, and MLX would confuse the two.
        parts = row_parts(mx.stop_gradient(weight), bits) if matrix is None else []
        edges = np.cumsum([part[0].shape[0] for part in parts]).tolist()
        banned = np.where(np.isin(table, [unknown, *unused]), -np.inf, 0).astype(np.float32)
        place = int(np.searchsorted(table[: np.count_nonzero(table != unknown) + 1], unknown))
        self.tree: Tree = {
            "parts": [list(part) for part in parts],
            "banned": [[mx.array(piece).astype(weight.dtype)] for piece in np.split(banned, edges[:-1])],
            "starts": [[mx.array(start)] for start in (0, *edges[:-1])],
            "table": [[mx.array(table)]],
            "unknown": [[mx.array([place])]],
        }
        mx.eval(self.tree)
        self.search: Int8Argmax | PlainArgmax | None = None
        if matrix is not None:
            self.search = (PlainArgmax if matrix.bits == 16 else Int8Argmax)(matrix, banned)
        elif not bits and self.size >= _INT8_ARGMAX_TOKENS and (copy := PackedMatrix.pack(weight)) is not None:
            self.search = Int8Argmax(copy, banned, weight)

    def likeliest(self, x: mx.array) -> mx.array:
        """Return the likeliest tokens, int32 [...], for x [..., C], by `search`."""
        assert self.search is not None  # noqa: S101  (the callers checked)
        found: mx.array = self.tree["table"][0][0][self.search.largest(x)]
        return found


def logits(tree: Tree, x: mx.array, bits: int = 0) -> mx.array:
    """Return the logits [..., rows] for x [..., C], banned tokens included."""
    outputs = []
    for part, stream in zip(tree["parts"], cpu_streams(), strict=False):
        with mx.stream(stream):
            outputs.append(multiply(x, tuple(part), bits))
    return outputs[0] if len(outputs) == 1 else mx.concatenate(outputs, axis=-1)


def argmax(tree: Tree, x: mx.array, bits: int = 0, *, fused: bool = False) -> mx.array:
    """Return the likeliest tokens, int32 [...], for x [..., C]. A softmax would not change them: none is computed.

    `fused` takes CUDA kernels where there are few rows.
    """
    if fused and x.size // x.shape[-1] <= step.FEW:
        (part,), (banned,), (table,) = tree["parts"], tree["banned"][0], tree["table"][0]
        found = step.argmax_cuda(x.reshape(-1, x.shape[-1]), triple(tuple(part)), bits, banned, table)
        return found.reshape(x.shape[:-1])
    values, places = [], []
    for part, (banned,), (start,), stream in zip(
        tree["parts"], tree["banned"], tree["starts"], cpu_streams(), strict=False
    ):
        with mx.stream(stream):
            y = multiply(x, tuple(part), bits) + banned
            place = mx.argmax(y, axis=-1, keepdims=True)
            places.append(place + start)
            values.append(mx.take_along_axis(y, place, axis=-1))
    found = places[0]
    if len(places) > 1:
        which = mx.argmax(mx.concatenate(values, axis=-1), axis=-1, keepdims=True)
        found = mx.take_along_axis(mx.concatenate(places, axis=-1), which, axis=-1)
    return tree["table"][0][0][found[..., 0]]


def best(tree: Tree, scores: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """Return the `count` likeliest tokens, int32 [R, count] in no order, of logits [R, rows], and log-probabilities.

    The probabilities are of all tokens, the unknown one included, as in transformers, which suppresses it after the
    softmax.
    """
    raw = scores.astype(mx.float32)
    scores = raw + mx.concatenate([banned for (banned,) in tree["banned"]]).astype(mx.float32)
    native = transformer.fits(scores)
    offered = transformer.log_sum_exp(scores) if native else mx.logsumexp(scores, axis=-1, keepdims=True)
    total = mx.logaddexp(offered, mx.take(raw, tree["unknown"][0][0], axis=-1))
    places = _largest(scores, count)
    return tree["table"][0][0][places], mx.take_along_axis(scores, places, axis=-1) - total


def _largest(x: mx.array, count: int) -> mx.array:
    """Return the places [R, count] of the largest of x [R, N], in no order.

    To sort a quarter of a million values for eight of them is slow on every device. The largest `count` values lie in
    the `count` chunks with the largest maxima: only those are sorted.
    """
    rows, width = x.shape
    if width <= max(4096, 4 * _CHUNK * count):
        return mx.argpartition(-x, count - 1, axis=-1)[:, :count]
    chunks = mx.pad(x, [(0, 0), (0, -width % _CHUNK)], constant_values=float("-inf")).reshape(rows, -1, _CHUNK)
    where = mx.argpartition(-mx.max(chunks, axis=-1), count - 1, axis=-1)[:, :count]
    kept = mx.take_along_axis(chunks, where[..., None], axis=1).reshape(rows, count * _CHUNK)
    inner = mx.argpartition(-kept, count - 1, axis=-1)[:, :count]
    return mx.take_along_axis(where, inner // _CHUNK, axis=-1) * _CHUNK + inner % _CHUNK
