"""What guesses speech tokens ahead of the model; the model looks at all guesses in one pass (`speculation.accept`).

A guess costs nothing but time: what is said is distributed as without it. Two kinds: `Lookup` proposes what followed
the last few tokens when they came before, in the reference or in what was said; `SmallT3` asks a smaller T3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from models.backend import mx
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.cache import Cache
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.sampling import PROPOSE, Kind

if TYPE_CHECKING:
    from models.chatterbox.t3.decoder import State, Utterance

_LONGEST, _SHORTEST = 4, 2  # tokens that must have come before


@dataclass(frozen=True, slots=True)
class Guess:
    """tokens [k] int32, of which the first `count` are guesses and the others padding.

    `chances` [k, V] are the probabilities they were drawn with; None: they were not drawn but looked up.
    """

    tokens: mx.array
    count: int
    chances: mx.array | None = None


class Guesser(Protocol):
    """Guesses tokens of one utterance."""

    def propose(self, said: Sequence[int], most: int) -> Guess:
        """Guess `most` tokens after `said` (or fewer, padded to as many)."""
        ...


class Draft(Protocol):
    """Makes the guesser of each utterance: several may be drawn in turns."""

    def begin(self, utterance: Utterance) -> Guesser:
        """Start an utterance."""
        ...


class Lookup:
    """Looks for the latest place where the last tokens came before, and proposes what followed there."""

    def begin(self, utterance: Utterance) -> Guesser:
        """Start an utterance: the reference's tokens are as good as said."""
        return LookupGuesser(np.array(utterance.voice.prompt).tolist())


class LookupGuesser:
    """`Lookup` in one utterance, after the tokens `before`."""

    def __init__(self, before: list[int]) -> None:
        self._before = before

    def propose(self, said: Sequence[int], most: int) -> Guess:
        """Guess up to `most` tokens after `said`."""
        found = self._continuation([*self._before, *said])[:most]
        padding = [0] * (most - len(found))
        return Guess(mx.array([*found, *padding], dtype=mx.int32), len(found))

    @staticmethod
    def _continuation(tokens: list[int]) -> list[int]:
        for length in range(_LONGEST, _SHORTEST - 1, -1):
            last = tokens[-length:]
            for start in range(len(tokens) - length - 1, -1, -1):
                if tokens[start : start + length] == last:
                    return tokens[start + length :]
        return []


class SmallT3:
    """A smaller T3 with the same two vocabularies, drawing by the same rules with lots of its own.

    It reads the same speaker vector and speech tokens of the voice, and goes through its own conditioning.
    """

    def __init__(self, network: T3, *, padded: bool | None = None, compiled: bool | None = None) -> None:
        # Imported here: decode knows drafts, and this draft decodes.
        from models.chatterbox.t3.decoder import Decoder

        self.network = network
        self._decoder = Decoder(network, padded=padded, compiled=compiled)
        self._guesses: dict[Kind, Callable[..., Any]] = {}

    def begin(self, utterance: Utterance) -> Guesser:
        """Read the prompt."""
        return SmallGuesser(self, self._decoder.begin(utterance))

    def fit(self, state: State, more: int) -> None:
        """Make room for the next `more` tokens."""
        self._decoder.fit(state, more)

    def guess(self, kind: Kind) -> Callable[..., Any]:
        """(tokens [n], place [2], number of the draw [1], seen, cache, knobs, words) -> a token and its chances [1, V].

        `seen` with the token, and the cache, come after them.
        """
        if kind not in self._guesses:

            def guess(
                tokens: mx.array,
                place: mx.array,
                number: mx.array,
                seen: mx.array,
                cache: Cache,
                knobs: mx.array,
                words: mx.array,
            ) -> Any:
                logits, cache = self.network.advance(tokens, place, cache)
                scores = sampling.process(sampling.guide(logits[:, -1:], knobs), seen[None], knobs, kind)
                token = sampling.draw(scores, sampling.key(words, PROPOSE, number), kind)
                return token, mx.softmax(scores, axis=-1, precise=True), sampling.mark(seen, token), cache

            self._guesses[kind] = self._decoder.wrap(guess)
        return self._guesses[kind]


class SmallGuesser:
    """`SmallT3` in one utterance."""

    def __init__(self, draft: SmallT3, state: State) -> None:
        self._draft, self._state = draft, state
        self._start = state.at  # position of the first speech token in the cache
        self._read: list[int] = []  # whose keys and values are in the cache
        self._guessed = mx.zeros(0, dtype=mx.int32)  # and what was read after them: not looked at before it must be

    def propose(self, said: Sequence[int], most: int) -> Guess:
        """Draw `most` tokens after `said`, one at a time."""
        state, draft = self._state, self._draft
        read = [*self._read, *np.array(self._guessed).tolist()]
        # What was guessed and did not stand is written over; of the rest only what is new is read.
        place = 0
        while place < min(len(read), len(said) - 1) and read[place] == said[place]:
            place += 1
        state.at = self._start + place
        draft.fit(state, len(said) - place + most)
        feed, seen = mx.array(list(said[place:]), dtype=mx.int32), sampling.after(draft.network.config, said)
        tokens, chances = list[mx.array](), list[mx.array]()
        for k in range(most):
            at = mx.array([self._start + place, 1 + place], dtype=mx.int32)
            number = mx.array([len(said) + k], dtype=mx.int32)
            place += feed.shape[0]
            feed, chance, seen, state.cache = draft.guess(state.kind)(
                feed, at, number, seen, state.cache, state.knobs, state.words
            )
            tokens.append(feed)
            chances.append(chance)
        guessed = mx.concatenate(tokens)
        self._read, self._guessed = list(said), guessed[:-1]
        return Guess(guessed, most, mx.concatenate(chances))
