"""Text to speech tokens: the prompt in one pass, then a token at a time, or several guessed ahead.

On a GPU the next step is sent before the last one's token has been looked at: the host never makes the device wait.
Everything that a step needs stays on the device: the token, its place, what was said, the cache. Shapes are rounded up
to buckets there, as each new one is compiled; what pads them changes nothing that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from models.backend import mx, on_cpu
from models.chatterbox.t3 import cache as caches
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.cache import Cache
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.sampling import DRAW, Kind, Rules
from models.chatterbox.t3.speculation import accept
from models.contract import Cancelled, InputTooLongError, IsCancelled
from models.layers.compiled import note_shape
from models.timeline import Stage, Timeline

if TYPE_CHECKING:
    from models.chatterbox.t3.drafts import Draft, Guess

MOST_TOKENS = 1000  # of speech in one utterance, as in the reference: 40 seconds
PROMPT_BUCKETS = (64, 128, 192, 256, 384, 448, 512, 768, 1024, 2048, 4096)
ROOM_BUCKETS = (256, 512, 768, 1024, 1536, 2048, 4096, 8192)
_UNPADDED_ROOM = 64  # positions by which a cache grows where shapes cost nothing

_STEPS_A_TURN = 4  # after so many the thread may do other work

Step = Callable[[mx.array, mx.array, Cache], tuple[mx.array, Cache]]
_Turn = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Voice:
    """What T3 knows of a speaker: the vector [256] and the reference's speech tokens [P], int32."""

    speaker: mx.array
    prompt: mx.array


@dataclass(frozen=True, slots=True)
class Utterance:
    """What to say and how. `text` are ids without start and stop; at most `limit` tokens are drawn, the end included.

    With `rules.exact` nothing but speech is drawn: there are `limit` tokens, and all are spoken.
    """

    text: Sequence[int]
    voice: Voice
    rules: Rules
    seed: int = 0
    limit: int = MOST_TOKENS


@dataclass(slots=True)
class State:
    """Where an utterance stands, on the device: the last token [1], its place [2], what was said [V], the cache.

    `at` is the host's copy of the place: the position in the cache of `token`, which has not been read yet.
    """

    token: mx.array
    place: mx.array
    seen: mx.array
    cache: Cache
    at: int
    knobs: mx.array
    words: mx.array
    kind: Kind
    said: list[int] = field(default_factory=list)


def bucket(size: int, buckets: Sequence[int]) -> int:
    """The smallest bucket that holds `size`; the last of them if none does."""
    return next((candidate for candidate in buckets if size <= candidate), buckets[-1])


class Decoder:
    """Draws the speech tokens of one utterance after the other.

    `step` replaces the network's own: (tokens [n], place [2], cache) -> (logits [B, n, V], cache), called with n 1.
    `cache_bits` 8 or 4 rounds keys and values. `draft` guesses `ahead` tokens that are then verified in one pass
    (3: with the last token and guidance eight rows, which BLAS multiplies faster than six or ten).
    `padded` (by default on a GPU) rounds shapes up to buckets and compiles.
    """

    def __init__(
        self,
        network: T3,
        *,
        cache_bits: int = 0,
        step: Step | None = None,
        draft: Draft | None = None,
        ahead: int = 3,
        padded: bool | None = None,
        compiled: bool | None = None,
    ) -> None:
        self.network, self.config, self.cache_bits = network, network.config, cache_bits
        self.draft, self.ahead = draft, ahead
        self._step = step or network.advance
        self._padded = not on_cpu() if padded is None else padded
        self._compiled = not on_cpu() if compiled is None else compiled
        # A step too many at the end is cheap on a GPU. On a CPU it is not.
        self._early = not on_cpu()
        self._prefill = self.wrap(self._prefill_)
        self._turns: dict[Kind, _Turn] = {}
        self._verifications: dict[tuple[Kind, bool], _Turn] = {}

    def wrap(self, function: _Turn) -> _Turn:
        """Compiled where that pays."""
        wrapped: _Turn = mx.compile(function) if self._compiled else function
        return wrapped

    # What runs on the device.

    def _prefill_(self, embeddings: mx.array, count: mx.array, cache: Cache) -> Any:
        return self.network.prefill(embeddings, count, cache)

    def _turn(self, kind: Kind) -> _Turn:
        """(token [1], place [2], seen [V], cache, knobs, words) -> the next token, place, seen and cache."""
        if kind not in self._turns:

            def turn(
                token: mx.array, place: mx.array, seen: mx.array, cache: Cache, knobs: mx.array, words: mx.array
            ) -> Any:
                logits, cache = self._step(token, place, cache)
                scores = sampling.process(sampling.guide(logits, knobs), seen[None], knobs, kind)
                token = sampling.draw(scores, sampling.key(words, DRAW, place[1:]), kind)
                return token, place + 1, sampling.mark(seen, token), cache

            self._turns[kind] = self.wrap(turn)
        return self._turns[kind]

    def _verification(self, kind: Kind, known: bool) -> _Turn:
        """The same for a token and guesses after it; see `_verify`."""
        if (kind, known) not in self._verifications:

            def verify(
                tokens: mx.array,
                real: mx.array,
                chances: mx.array,
                place: mx.array,
                seen: mx.array,
                cache: Cache,
                knobs: mx.array,
                words: mx.array,
            ) -> Any:
                logits, cache = self.network.advance(tokens, place, cache)
                accepted, token = accept(
                    sampling.guide(logits, knobs),
                    tokens[1:],
                    real,
                    chances if known else None,
                    place,
                    seen,
                    knobs,
                    words,
                    kind,
                )
                stood = mx.where(mx.arange(tokens.shape[0] - 1) < accepted, tokens[1:], token)
                for k in range(tokens.shape[0] - 1):
                    seen = sampling.mark(seen, stood[k])
                seen = sampling.mark(seen, token)
                return accepted, token, place + accepted + 1, seen, cache

            self._verifications[kind, known] = self.wrap(verify)
        return self._verifications[kind, known]

    # What runs on the host.

    def check(self, text: Sequence[int], limit: int = MOST_TOKENS) -> None:
        """Raise InputTooLongError where the text, or what is to be said of it, passes the model's positions."""
        if len(text) > self.config.max_text:
            raise InputTooLongError(
                f"{len(text)} text tokens in one utterance; at most {self.config.max_text} are read"
            )
        most = self.config.max_speech - (self.ahead if self.draft else 0)  # guesses have positions too
        if not 0 < limit <= most:
            raise InputTooLongError(f"{limit} speech tokens; at most {most} can be said at once")

    def decode(self, utterance: Utterance, timeline: Timeline, cancelled: IsCancelled) -> Iterator[int | None]:
        """Yield each token that is speech (below the begin's id, 6561) as it is known, and None every few steps.

        Equal utterances give equal tokens on one device. Raises InputTooLongError at once, Cancelled between steps.
        """
        self.check(utterance.text, utterance.limit)
        items = self._items(utterance, timeline, cancelled)
        stage = Stage.T3_PREFILL
        while True:
            # Only what happens here is timed: whoever reads the tokens has work of its own between two of them.
            try:
                with timeline.measure(stage):
                    item = next(items)
            except StopIteration:
                return
            stage = Stage.T3_DECODE
            yield item

    def _items(self, utterance: Utterance, timeline: Timeline, cancelled: IsCancelled) -> Iterator[int | None]:
        if cancelled():
            raise Cancelled("cancelled before the text was read")
        state = self.begin(utterance)
        rounds = self._speculative(state, utterance, timeline) if self.draft else self._plain(state, utterance)
        stop = self.config.stop_speech
        for count, drawn in enumerate(rounds, 1):
            for token in drawn:
                state.said.append(token)
                timeline.tokens += 1
                if token == stop and not utterance.rules.exact:
                    return
                if token < self.config.start_speech:
                    yield token
                if len(state.said) == utterance.limit:
                    return
            if count % _STEPS_A_TURN == 0:
                yield None
            if cancelled():
                raise Cancelled("cancelled between speech tokens")

    def room(self, positions: int) -> int:
        """Positions to allocate for at least so many."""
        return bucket(positions, ROOM_BUCKETS) if self._padded else positions + -positions % _UNPADDED_ROOM

    def begin(self, utterance: Utterance) -> State:
        """Read the prompt and send the draw of the first token."""
        network, rules, config = self.network, utterance.rules, self.config
        condition = network.condition(utterance.voice.speaker, utterance.voice.prompt, rules.exaggeration)
        embeddings = network.prompt(condition, utterance.text, rules.guided)
        batch, count, _ = embeddings.shape
        size = bucket(count, PROMPT_BUCKETS) if self._padded else count
        if not self._padded:
            note_shape("t3", batch, size)
        embeddings = mx.pad(embeddings, [(0, 0), (0, size - count), (0, 0)])
        cache = network.allocate(batch, self.room(size + 1), self.cache_bits)
        kind, knobs, words = rules.kind(config), rules.knobs(), sampling.seed_words(utterance.seed)
        logits, cache = self._prefill(embeddings, mx.array([count]), cache)
        scores = sampling.process(
            sampling.guide(logits[:, None], knobs), sampling.first_seen(config)[None], knobs, kind
        )
        token = sampling.draw(scores, sampling.key(words, DRAW, mx.zeros(1, dtype=mx.int32)), kind)
        place = mx.array([count, 1], dtype=mx.int32)
        state = State(token, place, sampling.after_first(config, token), cache, count, knobs, words, kind)
        mx.async_eval(state.token, state.seen, state.cache)
        return state

    def fit(self, state: State, more: int) -> None:
        """Make room for the next `more` tokens."""
        if state.at + more > caches.capacity(state.cache):
            state.cache = caches.grow(state.cache, self.room(state.at + more))

    def advance(self, state: State) -> None:
        """Send the step that reads the last token and draws the next."""
        self.fit(state, 1)
        turn = self._turn(state.kind)
        state.token, state.place, state.seen, state.cache = turn(
            state.token, state.place, state.seen, state.cache, state.knobs, state.words
        )
        state.at += 1
        mx.async_eval(state.token, state.seen, state.cache)

    def _plain(self, state: State, utterance: Utterance) -> Iterator[list[int]]:
        for number in range(1, utterance.limit + 1):
            token = state.token
            if self._early and number < utterance.limit:
                self.advance(state)
            yield [_number(token)]
            if not self._early:
                self.advance(state)

    def _speculative(self, state: State, utterance: Utterance, timeline: Timeline) -> Iterator[list[int]]:
        assert self.draft is not None  # noqa: S101  (the caller looked)
        guesser = self.draft.begin(utterance)
        last = _number(state.token)
        yield [last]
        while True:
            guess = guesser.propose(state.said, self.ahead)
            timeline.drafted += guess.count
            drawn = self._verify(state, guess)
            timeline.accepted += len(drawn) - 1
            yield drawn

    def _verify(self, state: State, guess: Guess) -> list[int]:
        """Read the last token and the guesses in one pass -> the guesses that stood, and the token drawn after them.

        Keys and values of guesses that did not stand lie at later places: they are masked until written over.
        """
        size = guess.tokens.shape[0]
        self.fit(state, size + 1)
        known = guess.chances is not None
        chances = guess.chances if guess.chances is not None else mx.zeros(1)
        tokens = mx.concatenate([state.token, guess.tokens])
        accepted, token, state.place, state.seen, state.cache = self._verification(state.kind, known)(
            tokens,
            mx.array([guess.count]),
            chances,
            state.place,
            state.seen,
            state.cache,
            state.knobs,
            state.words,
        )
        mx.async_eval(state.seen, state.cache)
        state.token = token
        stood = _number(accepted)
        state.at += stood + 1
        return [*np.array(guess.tokens)[:stood].tolist(), _number(token)]

    def warm(self, utterance: Utterance, room: int = 0) -> None:
        """Run the prefill and a step of `utterance` with a cache of at least `room` positions; guesses, if any, too."""
        state = self.begin(utterance)
        if room > caches.capacity(state.cache):
            state.cache = caches.grow(state.cache, room)
        if self.draft:
            rounds = self._speculative(state, utterance, Timeline())
            for _ in range(3):  # a draft reads one or two tokens, as its last guess stood or not
                state.said += next(rounds)
        else:
            self.advance(state)
        mx.eval(state.token, state.cache)

    def warm_shapes(self) -> list[tuple[int, int]]:
        """(positions, rows) of every cache that is served, smallest first."""
        most = PROMPT_BUCKETS[-1] if not self._padded else self.room(self._longest())
        rooms = [size for size in ROOM_BUCKETS if size <= most] if self._padded else [self.room(1)]
        return [(size, rows) for rows in ((2, 1) if self.config.guided else (1,)) for size in rooms]

    def _longest(self) -> int:
        """Positions of a long sentence (512 text tokens) said in full."""
        before = self.config.perceiver_queries + 2 if self.config.perceiver else 1 + self.config.prompt_tokens
        return before + 512 + 4 + MOST_TOKENS


def _number(array: mx.array) -> int:
    """The one number in `array`: waits for it."""
    return int(np.array(array)[0])
