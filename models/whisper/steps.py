"""Parts of the network as the search runs them: windows to memories, prompts, and single tokens of many rows.

A group decodes windows of equal prompt lengths, each in the same number of rows: hypotheses or samples.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from models.backend import mx, note_shape, on_cpu
from models.layers.mel import Floats
from models.layers.transformer.cuda import MAX_ROWS
from models.layers.transformer.step import OUTPUTS, checked, own_rows
from models.native import kernels as native_kernels
from models.whisper.kernels.choice import choose_step, output_rows
from models.whisper.network import Whisper

Memory = list[mx.array]


@dataclass(slots=True)
class WindowBatch:
    """Windows under way: `memory` [B, ...] and `past` [B * rows, ...] a layer, and the next place."""

    memory: Memory
    past: list[mx.array]
    place: int

    def select(self, windows: Sequence[int], rows: Sequence[int]) -> None:
        """Keep these windows, and these rows of the decoder, in this order."""
        if list(windows) != list(range(self.memory[0].shape[0])):
            kept = mx.array(list(windows), dtype=mx.int32)
            self.memory = [mx.take(part, kept, axis=0) for part in self.memory]
        if list(rows) != list(range(self.past[0].shape[0])):
            order = mx.array(list(rows), dtype=mx.int32)
            self.past = [mx.take(part, order, axis=0) for part in self.past]


def read(logits: mx.array) -> Floats:
    """Wait for logits [..., V]. Raises RuntimeError if a kernel gave their step up: then no column has a number."""
    found: Floats = np.array(logits)
    checked(found[..., 0])
    return found


class Steps:
    """Encoder and decoder of `network` over numpy's arrays."""

    def __init__(self, network: Whisper, *, kernels: bool = True) -> None:
        """Prepare for a lowered network. Without `kernels` the GPU runs MLX's own alone."""
        self.network = network
        self.config = network.config
        # A GPU gets the next step before the host has read the last one's tokens, or it would wait for the host.
        self.ahead = not on_cpu()
        self.kernel = choose_step(network) if kernels else None
        self._head = None if self.kernel is None else output_rows(network)
        self._hear = self._hear_ if on_cpu() else mx.compile(self._hear_)
        self._constants: dict[tuple[int, int, int, int], tuple[mx.array, mx.array]] = {}
        # Most of what a token reads are keys and values of the windows: with rounded weights they have 16 bits, too.
        native = native_kernels.available() and network.dtype == mx.float32
        self.memory_dtype = mx.bfloat16 if network.rounded and native else network.dtype
        # Scores that lie closer may change their order with the number of rows of a product.
        self.margin = 1e-3 if network.dtype == mx.float32 and not network.rounded else 0.25

    def encode(self, mel: Floats) -> Generator[None, None, Memory]:
        """Encode mel [B, frames, mels], an even number of frames -> memories [B, 2 * heads, frames / 2, size].

        On the CPU, where a layer takes long, it yields after each.
        """
        memory, _ = yield from self.hear(mel)
        return memory

    def encode_windows(self, mels: Sequence[Floats]) -> Generator[None, None, list[Memory]]:
        """Encode windows [frames, mels] of one length -> the memory of each.

        A GPU takes all in one pass, which hardly needs more launches than one window. A CPU, which gains nothing, takes
        them one by one, so that its turns and its memory are those of one.
        """
        if on_cpu():
            found = []
            for mel in mels:
                memory = yield from self.encode(mel[None])
                found.append(memory)
            return found
        memory = yield from self.encode(np.stack(mels))
        return [[part[at : at + 1] for part in memory] for at in range(len(mels))]

    def hear(self, mel: Floats) -> Generator[None, None, tuple[Memory, Floats | None]]:
        """Encode as `encode` -> memories, and log-probabilities [B, frames / 2, n_ctc] of the CTC head, if any."""
        note_shape("whisper", *mel.shape[:2])
        encoder = self.network.encoder
        if on_cpu():
            x = encoder.embed(mx.array(mel))
            for block in encoder.blocks:
                x = block(x)
                mx.eval(x)
                yield
            memory, scores = self._heard(encoder.ln_post(x))
        else:
            # Shorter windows have too many lengths to trace each.
            hear = self._hear if mel.shape[1] == self.config.window else self._hear_
            memory, scores = hear(mx.array(mel))
        mx.eval(memory, scores)
        return memory, None if scores is None else np.array(scores)

    def _hear_(self, mel: mx.array) -> tuple[Memory, mx.array | None]:
        return self._heard(self.network.encoder(mel))

    def _heard(self, encoded: mx.array) -> tuple[Memory, mx.array | None]:
        memory = [part.astype(self.memory_dtype) for part in self.network.decoder.memories(encoded)]
        if self.network.ctc is None:
            return memory, None
        logits = self.network.ctc(encoded)
        return memory, logits - mx.logsumexp(logits, axis=-1, keepdims=True)

    def begin(
        self, prompts: Sequence[Sequence[int]], memory: Memory, rows: int, room: int, start: int
    ) -> tuple[WindowBatch, Floats, Floats]:
        """Decode the prompts of all windows, of one length.

        Args:
            prompts: Tokens [B, n].
            memory: From `encode`.
            rows: Of each window in the group.
            room: Most tokens of a row, prompt and transcript.
            start: Place of the prompt whose logits are returned, too.

        Returns:
            The group; the logits [B * rows, V] of the next tokens; and those [B, V] after the place `start`.
        """
        length = min(room + -room % 8, self.config.n_text_ctx)
        count = len(prompts[0])
        past = self.network.allocate(len(prompts), length)
        hidden, _, past = self._decode(mx.array(np.array(prompts, np.int32)), mx.array([0]), past, memory)
        logits = self.network.decoder.token_embedding.logits(mx.take(hidden, mx.array([start, count - 1]), axis=1))
        if rows > 1:
            # A repeated row is a view of one, and a kernel writes each row in its own memory.
            past = [mx.contiguous(mx.repeat(part, rows, axis=0)) for part in past]
        mx.eval(logits, past)
        found = read(logits)
        return WindowBatch(memory, past, count), np.repeat(found[:, 1], rows, axis=0), found[:, 0]

    def begin_draft(
        self, ids: Sequence[int], memory: Memory, room: int, start: int
    ) -> tuple[WindowBatch, Floats, Floats]:
        """Decode a prompt and a draft of one window, as `begin` -> the logits [n, V] after each of `ids`."""
        length = min(room + -room % 8, self.config.n_text_ctx)
        group = WindowBatch(memory, self.network.allocate(1, length), 0)
        logits = self.extend(ids, group)
        return group, logits, logits[start].copy()

    def extend(self, tokens: Sequence[int], group: WindowBatch) -> Floats:
        """Decode several tokens [n] of a group's only row -> the logits [n, V] after each."""
        ids = mx.array(list(tokens), dtype=mx.int32)[None]
        hidden, _, group.past = self._decode(ids, mx.array([group.place]), group.past, group.memory)
        group.place += len(tokens)
        return read(self.network.decoder.token_embedding.logits(hidden[0]))

    def continuations(self, rows: Sequence[Sequence[int]], group: WindowBatch) -> Floats:
        """Decode tokens [R, n] of all rows of a group, which stays as it is -> the logits [R, n, V] after each."""
        ids = mx.array(np.array(rows, np.int32))
        hidden, _, _ = self._decode(ids, mx.array([group.place]), group.past, group.memory)
        return read(self.network.decoder.token_embedding.logits(hidden))

    def step(self, tokens: Sequence[int], group: WindowBatch) -> Floats:
        """Decode one token of each row -> the logits [R, V] of the next."""
        return read(self.send(tokens, group))

    def send(self, tokens: Sequence[int], group: WindowBatch) -> mx.array:
        """Decode as `step`, and do not wait for the logits."""
        ids = mx.array(list(tokens), dtype=mx.int32)[:, None]
        logits, _ = self.advance(ids, mx.array([group.place]), group)
        group.place += 1
        return logits

    def advance(self, ids: mx.array, place: mx.array, group: WindowBatch) -> tuple[mx.array, mx.array]:
        """Decode ids [R, 1] at `place` [1] -> the logits [R, V] of the next tokens, and the next place [1]."""
        hidden, place, group.past = self._decode(ids, place, group.past, group.memory)
        return self.network.decoder.token_embedding.logits(hidden[:, 0]), place

    def _decode(
        self, ids: mx.array, place: mx.array, past: list[mx.array], memory: Memory
    ) -> tuple[mx.array, mx.array, list[mx.array]]:
        """Decode ids [R, n] at `place` [1] on -> hidden states [R, n, C], the next place, keys and values.

        Where there is a kernel, it writes into `past` itself. So it is sent at once: MLX knows of nothing that later
        readers wait for. Tokens that are taken back are overwritten before anything sees them.
        """
        if self.kernel is None or self._head is None or ids.size > MAX_ROWS:
            hidden, past = self.network.decoder(ids, place, past, memory)
            return hidden, place + ids.shape[1], past
        sizes = (ids.shape[0], past[0].shape[2], memory[0].shape[0], memory[0].shape[2])
        if sizes not in self._constants:
            self._constants.clear()  # few are of use at a time
            mask = mx.zeros((sizes[2], 1, 1, sizes[3]), dtype=mx.bfloat16)
            self._constants[sizes] = own_rows(*sizes[:2]), mask
        origin, mask = self._constants[sizes]
        hidden, place = self.kernel(ids, place, past, memory, mask, origin, self._head, OUTPUTS)
        mx.async_eval(hidden, place)
        return hidden, place, past
