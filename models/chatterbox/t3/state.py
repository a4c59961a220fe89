"""Requests to T3's decoder, and the state of one that is being decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from models.backend import mx
from models.chatterbox.t3.cache import Cache
from models.chatterbox.t3.sampling import Rules, SamplingMode

MAX_TOKENS = 1000  # speech tokens of one request, as in the reference: 40 seconds


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class VoicePrompt:
    """A speaker as T3 knows one: the vector [256] and the recording's speech tokens [P], int32."""

    speaker: mx.array
    prompt: mx.array


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """One text to decode. `text` holds ids without start and stop.

    The decoder draws at most `limit` tokens, the end included. With `rules.exact` it draws only speech: there are then
    `limit` tokens, and all are spoken.
    """

    text: Sequence[int]
    voice: VoicePrompt
    rules: Rules
    seed: int = 0
    limit: int = MAX_TOKENS


class SamplerState(NamedTuple):
    """Arrays that decide the next draw.

    `place` [4] int32 is of `sampling.placed`. `seen` [V] bool marks the tokens that the repetition penalty counts.
    `params` and `seed` are of `Rules.params` and `sampling.seed_array`.
    """

    place: mx.array
    seen: mx.array
    params: mx.array
    seed: mx.array


@dataclass(slots=True)
class DecodeState:
    """One request that is being decoded; its arrays are on the device.

    `token` [1] is the last token drawn, which the network has not read. `at` is the host's copy of its position in the
    cache.
    """

    token: mx.array
    sampler: SamplerState
    cache: Cache
    at: int
    mode: SamplingMode
    said: list[int] = field(default_factory=list)
