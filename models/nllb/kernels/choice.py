"""The kernels of a decoding step, where they agree with the plain step on the device there is."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from models.backend import mx
from models.layers.kernels.agreement import agree, relative_difference
from models.nllb.kernels.cuda import MOST_ROWS, CudaStep
from models.nllb.kernels.headers import OUTPUTS, TOKENS
from models.nllb.kernels.metal import MetalStep
from models.nllb.network import Nllb
from models.nllb.vocabulary import Tree, argmax

_COMPARED = (3, MOST_ROWS)  # rows: each kernel once
_TOKENS = 4096


class Step(Protocol):
    """A decoding step of one token a row."""

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
        """Read each row's token, and write its keys and values into `past`.

        Args:
            ids: int32 [B], at most 32 of them.
            place: int32 [1], the position of all.
            past: As in `Decoder.step_reference`, bfloat16; each array belongs to the caller alone.
            memory: As there.
            mask: [B, 1, 1, S], minus infinity on padding.
            origin: int32 [B, T], the row of `past` that has a row's keys and values at each place.
            tree: Of the head.
            ending: NOTHING, TOKENS or OUTPUTS.

        Returns:
            The likeliest tokens int32 [B], -1 where the step failed; or the last layer's output [B, C]; and the next
            place [1].
        """


def choose_step(network: Nllb) -> Step | None:
    """Return a kernel step for a lowered network that agrees with the plain one on this device; None if there is none.

    Compiles its kernels (seconds each). A warning tells if they do not build or do not agree.
    """
    made: list[Step] = []

    def compare() -> list[float]:
        made.append(CudaStep(network) if CudaStep.available(network) else MetalStep(network))
        return [each for rows in _COMPARED for each in differences(made[0], network, rows)]

    if not (CudaStep.available(network) or MetalStep.available(network)):
        return None
    return made[0] if agree("NLLB's step", compare) else None


def differences(step: Step, network: Nllb, rows: int, place: int = 9, source: int = 16) -> tuple[float, float]:
    """Return how far `step` is from `Nllb.advance`: in its output, relatively; and in the logit of the token it takes.

    Keys and values are random, and some of the source is padding.
    """
    heads, config = network.config.decoder_attention_heads, network.config
    draw = iter(mx.random.split(mx.random.key(0), 2 * config.decoder_layers))

    def caches(length: int) -> list[mx.array]:
        shape = (rows, 2 * heads, length, config.d_model // heads)
        return [mx.random.normal(shape, key=next(draw)).astype(network.dtype) for _ in range(config.decoder_layers)]

    past, memory = caches(place + 7), caches(source)
    mask = mx.where(mx.arange(source) < source - 3, 0.0, float("-inf")).astype(network.dtype)
    mask = mx.contiguous(mx.broadcast_to(mask, (rows, 1, 1, source)))
    ids, at = mx.arange(4, 4 + rows, dtype=mx.int32), mx.array([place])
    origin = mx.contiguous(mx.broadcast_to(mx.arange(rows, dtype=mx.int32)[:, None], (rows, place + 7)))
    tree = network.shared.head(np.arange(min(_TOKENS, config.vocab_size), dtype=np.int32)).tree
    wanted, _ = network.advance(ids[:, None], at, past, memory, mask)
    wanted = wanted[:, 0]
    mx.eval(wanted, past)  # before `step` writes into the caches
    found, _ = step(ids, at, past, memory, mask, origin, tree, OUTPUTS)
    tokens, _ = step(ids, at, past, memory, mask, origin, tree, TOKENS)
    best, taken = (logits_of(network, wanted, each) for each in (argmax(tree, wanted, network.shared.bits), tokens))
    return relative_difference(found, wanted), float(np.max((best - taken) / np.abs(best)))


def logits_of(network: Nllb, hidden: mx.array, tokens: mx.array) -> Any:
    """Return the logits [B] of each row's token, for its output [B, C]."""
    rows = network.shared._rows(mx.maximum(tokens, 0)).astype(mx.float32)
    return np.array(mx.sum(rows * hidden.astype(mx.float32), axis=-1))
