"""Draft of a smaller T3 that guesses one token after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from models.backend import mx
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.cache import Cache
from models.chatterbox.t3.decoder import T3Decoder
from models.chatterbox.t3.drafts import Guess, Guesser
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.sampling import PROPOSE, SamplingMode
from models.chatterbox.t3.state import DecodeRequest, DecodeState, SamplerState


class SmallT3:
    """A smaller T3 with the same two vocabularies. It draws by the same rules, with random numbers of its own.

    It reads the same speaker vector and speech tokens of the voice, through its own conditioning.
    """

    def __init__(self, network: T3, *, padded: bool | None = None, compiled: bool | None = None) -> None:
        self.network = network
        self._decoder = T3Decoder(network, padded=padded, compiled=compiled)
        self._guesses: dict[SamplingMode, Callable[..., Any]] = {}

    def begin(self, request: DecodeRequest) -> Guesser:
        """Read the prompt."""
        return SmallGuesser(self, self._decoder.begin(request))

    def fit(self, state: DecodeState, more: int) -> None:
        """Make room for the next `more` tokens."""
        self._decoder.fit(state, more)

    def guess(self, mode: SamplingMode) -> Callable[..., Any]:
        """Return the compiled step of one guess.

        (tokens [n], number of the draw [1], sampler, cache) -> token [1], its chances [1, V], `seen` with the token,
        and the cache.
        """
        if mode not in self._guesses:

            def guess(tokens: mx.array, number: mx.array, arrays: tuple[mx.array, ...], cache: Cache) -> Any:
                sampler = SamplerState(*arrays)  # compiled functions get plain tuples
                logits, cache = self.network.advance(tokens, sampler.place[:2], cache)
                logits = sampling.guide(logits[:, -1:], sampler.params)
                scores = sampling.process(logits, sampler.seen[None], sampler.params, mode)
                token = sampling.draw(scores, sampling.key(sampler.seed, PROPOSE, number), mode)
                chances = mx.softmax(scores, axis=-1, precise=True)
                return token, chances, sampling.mark(sampler.seen, token), cache

            self._guesses[mode] = self._decoder.wrap(guess)
        return self._guesses[mode]


class SmallGuesser:
    """`SmallT3` in one request."""

    def __init__(self, draft: SmallT3, state: DecodeState) -> None:
        self._draft, self._state = draft, state
        self._start = state.at  # position of the first speech token in the cache
        self._read: list[int] = []  # tokens whose keys and values are in the cache
        self._guessed = mx.zeros(0, dtype=mx.int32)  # tokens read after them; the host reads these when it must

    def propose(self, said: Sequence[int], most: int) -> Guess:
        """Draw `most` tokens after `said`, one at a time."""
        state, draft = self._state, self._draft
        read = [*self._read, *np.array(self._guessed).tolist()]
        # Rejected guesses are written over. Of the other tokens only the new ones are read.
        position = 0
        while position < min(len(read), len(said) - 1) and read[position] == said[position]:
            position += 1
        state.at = self._start + position
        draft.fit(state, len(said) - position + most)
        feed, seen = mx.array(list(said[position:]), dtype=mx.int32), sampling.after(draft.network.config, said)
        tokens, chances = list[mx.array](), list[mx.array]()
        for k in range(most):
            place = mx.array([self._start + position, 1 + position], dtype=mx.int32)
            number = mx.array([len(said) + k], dtype=mx.int32)
            position += feed.shape[0]
            sampler = state.sampler._replace(place=place, seen=seen)
            feed, chance, seen, state.cache = draft.guess(state.mode)(feed, number, sampler, state.cache)
            tokens.append(feed)
            chances.append(chance)
        guessed = mx.concatenate(tokens)
        self._read, self._guessed = list(said), guessed[:-1]
        return Guess(guessed, most, mx.concatenate(chances))
