"""Parts of the network as functions of arrays alone, which a GPU compiles once per bucket; and their shapes.

The sentences of a group are decoded in one batch, all from prompts of one length on, at the same place. A row is a
sentence or, in beam search, a hypothesis. Copies pad a bucket; their results are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.backend import bucket, mx, note_shape, on_cpu
from models.layers.kernels.device import gpu
from models.layers.transformer.cuda import MAX_ROWS
from models.layers.transformer.step import OUTPUTS, TOKENS, Step, own_rows
from models.nllb.kernels.choice import choose_encoder, choose_step, layers_agree, output_rows
from models.nllb.network import Nllb
from models.nllb.vocabulary import OutputProjection, Tree, argmax, best, logits

BATCH_BUCKETS = (1, 2, 4, 8, 16, 32)
SOURCE_BUCKETS = (16, 32, 64, 128, 256, 512, 1024)
DRAFT_BUCKETS = (8, 16, 32, 64, 128, 256, 512, 1024)  # a prompt and its draft
MAX_TOKENS = 4096  # padded source tokens of one group: a bound on the memory of keys and values
_LENGTH_RATIO, _LENGTH_ROOM = 1.5, 10  # most tokens of a translation: ratio to its source, plus room

CANDIDATES = 24  # twice the widest beam, and some more for banned n-grams

PAD, END = 1, 2


def length_cap(source_tokens: int, positions: int) -> int:
    """Return the most tokens that a translation of `source_tokens` may have, its end included."""
    return min(int(_LENGTH_RATIO * source_tokens) + _LENGTH_ROOM, positions - 2)


def _candidates(tree: Tree) -> int:
    return min(CANDIDATES, tree["table"][0][0].size - 1)


@dataclass(slots=True)
class EncodedBatch:
    """Sentences of one batch after encoding. `memory` is [B, 2 * heads, S, size] a layer, `bias` [B, 1, 1, S].

    `past` has the form of `memory`, over decoded tokens. `head` projects onto the tokens that may come out. `origin`
    [B, T], if there is one, is the row of `past` that has a row's keys and values at each place.
    """

    memory: list[mx.array]
    bias: mx.array
    past: list[mx.array]
    head: OutputProjection
    rows: int
    origin: mx.array | None = None

    def wait(self) -> None:
        """Wait until the sentences are encoded."""
        mx.eval(self.memory, self.bias)

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order."""
        index = mx.array(list(rows), dtype=mx.int32)
        if self.origin is not None:
            at = self.origin[:, None, :, None]
            self.past, self.origin = [mx.take_along_axis(part, at, axis=0) for part in self.past], None
        self.memory = [mx.take(part, index, axis=0) for part in self.memory]
        self.bias = mx.take(self.bias, index, axis=0)
        self.past = [mx.take(part, index, axis=0) for part in self.past]
        self.rows = len(rows)


class CompiledM2M100:
    """Parts of `network`, compiled on a GPU. `padded` rounds every shape up to a bucket, for a GPU.

    Without `kernels` it runs MLX's alone. Those that differ from plain operations on this device are left out.
    """

    def __init__(self, network: Nllb, *, padded: bool, kernels: bool = True) -> None:
        self.network, self.padded, self._bits = network, padded, network.bits
        # A GPU gets the next step before the host has read the last one's tokens, or it would wait for the host. One
        # step too many at the end is cheap there, but not on a CPU.
        self.ahead = not on_cpu()
        if gpu() is not None:
            network.fused = kernels and layers_agree(network)
        self.kernel = choose_step(network) if kernels else None
        self.encoder = choose_encoder(network) if kernels else None
        self._identities: dict[tuple[int, int], mx.array] = {}
        wrap: Callable[[Any], Any] = (lambda f: f) if on_cpu() else mx.compile
        self._encode, self._step = wrap(self._encode_), wrap(self._step_)
        self._verify, self._best, self._rank = wrap(self._verify_), wrap(self._best_), wrap(self._rank_)

    def batch(self, rows: int) -> int:
        """Return the rows of a group for `rows` sentences or hypotheses."""
        return bucket(rows, BATCH_BUCKETS) if self.padded else rows

    def smaller(self, live: int, rows: int) -> int:
        """Return the rows to which a group of `rows` should shrink when `live` are unfinished."""
        return min(bucket(live, BATCH_BUCKETS), rows)

    def encode(
        self, sources: Sequence[Sequence[int]], head: OutputProjection, longest: int, copies: int = 1
    ) -> EncodedBatch:
        """Begin to encode token ids, each `copies` times in neighboring rows, with room to decode `longest` tokens."""
        limit = self.network.config.max_position_embeddings
        length = max(map(len, sources))
        room = longest + 2
        if self.padded:
            length = min(bucket(length, SOURCE_BUCKETS), limit)
            room = length_cap(length, limit) + 2
        room += -room % 8
        if not self.padded:
            note_shape("nllb", len(sources) * copies, length, room)
        batch = self.batch(len(sources))
        given = np.full(batch * (length + 1), PAD, np.int32)
        ids, counts = given[:-batch].reshape(batch, length), given[-batch:]
        counts[:] = 1
        for row, source in enumerate(sources):
            ids[row, : len(source)] = source
            counts[row] = len(source)
        *memory, bias = self._encode(mx.array(given), batch)
        rows = self.batch(len(sources) * copies)
        past = self.network.allocate(rows, room, written=self.kernel is not None)
        group = EncodedBatch(memory, bias, past, head, len(ids))
        if copies > 1:
            group.select([min(row // copies, len(ids) - 1) for row in range(rows)])
            group.past = past
        mx.async_eval(group.memory, group.bias)
        return group

    def step(self, ids: mx.array, place: mx.array, group: EncodedBatch) -> tuple[mx.array, mx.array]:
        """Decode ids [B, n] at `place` [1] on -> each row's next token, int32 [B], and the next place [1]."""
        if self.kernel is not None:
            said, place = self._launch(self.kernel, ids, place, group, TOKENS)
            return said[:, -1], place
        if group.head.search is None:
            tokens, place, *group.past = self._step(ids, place, group.past, group.memory, group.bias, group.head.tree)
            return tokens, place
        hidden, group.past = self.network.advance(ids, place, group.past, group.memory, group.bias)
        return group.head.likeliest(hidden[:, -1]), place + ids.shape[1]

    def verify(self, ids: mx.array, place: mx.array, group: EncodedBatch) -> mx.array:
        """Do the same for one row, but return the next token after each of the n: int32 [1, n]."""
        if self.kernel is not None and ids.size <= MAX_ROWS:
            return self._launch(self.kernel, ids, place, group, TOKENS)[0]
        if group.head.search is None:
            tokens, *group.past = self._verify(ids, place, group.past, group.memory, group.bias, group.head.tree)
            found: mx.array = tokens
            return found
        hidden, group.past = self.network.advance(ids, place, group.past, group.memory, group.bias)
        return group.head.likeliest(hidden)

    def best(self, ids: mx.array, place: mx.array, order: mx.array, group: EncodedBatch) -> tuple[mx.array, mx.array]:
        """Reorder the rows by `order` [B], decode ids [B, n] -> the likeliest next tokens and their log-probabilities.

        Both are [B, CANDIDATES], or fewer where the vocabulary is smaller.
        """
        head = group.head
        if self.kernel is not None:
            own = mx.arange(group.rows, dtype=mx.int32)[:, None]
            before = mx.take(self._own_rows(group), order, axis=0)
            group.origin = mx.slice_update(before, mx.broadcast_to(own, ids.shape), place, (1,))
            hidden, _ = self._launch(self.kernel, ids, place, group, OUTPUTS)
            found: tuple[mx.array, mx.array] = self._rank(head.tree, hidden[:, -1])
            return found
        if head.matrix is None:
            tree = head.tree
            tokens, scores, *group.past = self._best(ids, place, order, group.past, group.memory, group.bias, tree)
            return tokens, scores
        group.past = [mx.take(part, order, axis=0) for part in group.past]
        hidden, group.past = self.network.advance(ids, place, group.past, group.memory, group.bias)
        return best(head.tree, head.matrix(hidden[:, -1]), _candidates(head.tree))

    def _launch(
        self, kernel: Step, ids: mx.array, place: mx.array, group: EncodedBatch, ending: int
    ) -> tuple[mx.array, mx.array]:
        """Decode ids [B, n] by a kernel that may have so many rows at once; otherwise a column at a time.

        All is sent at once: the kernel writes into `past`, and MLX knows of nothing that later readers wait for.
        """
        parts = [ids] if ids.size <= MAX_ROWS else mx.split(ids, ids.shape[1], axis=1)
        origin, head = self._own_rows(group), output_rows(group.head.tree)
        for part in parts:
            one = mx.contiguous(part)  # a column of tokens is not
            made, place = kernel(one, place, group.past, group.memory, group.bias, origin, head, ending)
            mx.async_eval(made, place)
        return made, place

    def _own_rows(self, group: EncodedBatch) -> mx.array:
        """Return the group's `origin`; unless it has one, every row's is the row itself."""
        if group.origin is not None:
            return group.origin
        shape = group.rows, group.past[0].shape[2]
        if shape not in self._identities:
            self._identities[shape] = own_rows(*shape)
        return self._identities[shape]

    def _rank_(self, tree: Tree, hidden: mx.array) -> tuple[mx.array, mx.array]:
        return best(tree, logits(tree, hidden, self._bits), _candidates(tree))

    def _encode_(self, given: mx.array, batch: int) -> list[mx.array]:
        """Encode ids [batch, S], and behind them the counts of each row: a GPU waits for each array of the host's."""
        ids, counts = given[:-batch].reshape(batch, -1), given[-batch:]
        if self.encoder is not None and ids.size <= MAX_ROWS:
            bias = self.network.padding(ids, counts)
            return [*self.encoder(ids, bias), bias]
        encoded, bias = self.network.encode(ids, counts)
        return [*self.network.decoder.memories(encoded), bias]

    def _step_(
        self, ids: mx.array, place: mx.array, past: list[mx.array], memory: list[mx.array], bias: mx.array, tree: Tree
    ) -> list[mx.array]:
        hidden, past = self.network.advance(ids, place, past, memory, bias)
        return [argmax(tree, hidden[:, -1], self._bits, fused=self.network.fused), place + ids.shape[1], *past]

    def _verify_(
        self, ids: mx.array, place: mx.array, past: list[mx.array], memory: list[mx.array], bias: mx.array, tree: Tree
    ) -> list[mx.array]:
        hidden, past = self.network.advance(ids, place, past, memory, bias)
        return [argmax(tree, hidden, self._bits, fused=self.network.fused), *past]

    def _best_(
        self,
        ids: mx.array,
        place: mx.array,
        order: mx.array,
        past: list[mx.array],
        memory: list[mx.array],
        bias: mx.array,
        tree: Tree,
    ) -> list[mx.array]:
        past = [mx.take(part, order, axis=0) for part in past]
        hidden, past = self.network.advance(ids, place, past, memory, bias)
        return [*best(tree, logits(tree, hidden[:, -1], self._bits), _candidates(tree)), *past]
