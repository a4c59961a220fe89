"""Decoder of speech tokens: it reads the prompt in one pass, then draws a token at a time, or verifies guesses.

On a GPU the host sends the next step before it reads the last token: the device never waits for the host. All arrays
of a step stay on the device: the token, its place, the tokens seen, the cache. Shapes are rounded up to buckets there,
since each new one is compiled. Padding changes no token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from models.backend import bucket, mx, note_shape, on_cpu
from models.chatterbox.t3 import cache as caches
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.cache import Cache
from models.chatterbox.t3.drafts import Draft, Guess, accept
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.sampling import DRAW, NextToken, SamplingMode
from models.chatterbox.t3.state import MAX_TOKENS, DecodeRequest, DecodeState, SamplerState, VoicePrompt
from models.contract import Cancelled, InputTooLongError, IsCancelled
from models.layers.transformer.step import checked
from models.timeline import Stage, Timeline

PROMPT_BUCKETS = (64, 128, 192, 256, 384, 448, 512, 768, 1024, 2048, 4096)
ROOM_BUCKETS = (256, 512, 768, 1024, 1536, 2048, 4096, 8192)
_UNPADDED_ROOM = 64  # positions by which a cache grows where shapes cost nothing

_STEPS_A_TURN = 4  # steps, after which the thread may do other work

Step = Callable[[mx.array, mx.array, Cache], tuple[mx.array, Cache]]
_Compiled = Callable[..., Any]


class T3Decoder:
    """Draws the speech tokens of one request after the other.

    Args:
        network: a loaded and lowered T3.
        cache_bits: 8 or 4 rounds keys and values; 0 does not.
        step: replaces the network's own step, (tokens [1], place [2], cache) -> (logits [B, 1, V], cache).
        next_token: replaces `sampling.next_token`, which draws from a step's logits.
        draft: guesses tokens, which one pass then verifies.
        ahead: number of guesses. With 3, the last token and guidance make eight rows, which BLAS multiplies faster
            than six or ten.
        padded: round shapes up to buckets; by default on a GPU.
        compiled: compile steps; by default on a GPU.
    """

    def __init__(
        self,
        network: T3,
        *,
        cache_bits: int = 0,
        step: Step | None = None,
        next_token: NextToken | None = None,
        draft: Draft | None = None,
        ahead: int = 3,
        padded: bool | None = None,
        compiled: bool | None = None,
    ) -> None:
        self.network, self.config, self.cache_bits = network, network.config, cache_bits
        self.draft, self.ahead = draft, ahead
        self._step = step or network.advance
        self._next_token = next_token or sampling.next_token
        self._padded = not on_cpu() if padded is None else padded
        self._compiled = not on_cpu() if compiled is None else compiled
        # A step too many at the end is cheap on a GPU. On a CPU it is not.
        self._early = not on_cpu()
        self._prefill = self.wrap(network.prefill)
        self._conditions = WeakKeyDictionary[VoicePrompt, tuple[float, mx.array]]()
        self._draws: dict[SamplingMode, _Compiled] = {}
        self._verifications: dict[tuple[SamplingMode, bool], _Compiled] = {}

    def wrap(self, function: _Compiled) -> _Compiled:
        """Compile `function` where that pays."""
        wrapped: _Compiled = mx.compile(function) if self._compiled else function
        return wrapped

    # These functions run on the device. Compiled functions get and return plain tuples of arrays.

    def _draw(self, mode: SamplingMode) -> _Compiled:
        """Return the step (sampler, cache) -> the next token [1], its place, seen and cache."""
        if mode not in self._draws:

            def draw(arrays: tuple[mx.array, ...], cache: Cache) -> Any:
                sampler = SamplerState(*arrays)
                logits, cache = self._step(sampler.place[2:3], sampler.place[:2], cache)
                token, place, seen = self._next_token(logits, *sampler, mode)
                return token, place, seen, cache

            self._draws[mode] = self.wrap(draw)
        return self._draws[mode]

    def _verification(self, mode: SamplingMode, known: bool) -> _Compiled:
        """Return the same step for a token and the guesses after it; see `_verify`. `known`: they have chances."""
        if (mode, known) not in self._verifications:

            def verify(
                tokens: mx.array, real: mx.array, chances: mx.array, arrays: tuple[mx.array, ...], cache: Cache
            ) -> Any:
                sampler = SamplerState(*arrays)
                logits, cache = self.network.advance(tokens, sampler.place[:2], cache)
                logits = sampling.guide(logits, sampler.params)
                accepted, token = accept(logits, tokens[1:], real, chances if known else None, sampler, mode)
                stood = mx.where(mx.arange(tokens.shape[0] - 1) < accepted, tokens[1:], token)
                seen = sampler.seen
                for k in range(tokens.shape[0] - 1):
                    seen = sampling.mark(seen, stood[k])
                seen = sampling.mark(seen, token)
                place = sampling.placed(sampler.place[:2] + accepted + 1, token)
                return accepted, token, place, seen, cache

            self._verifications[mode, known] = self.wrap(verify)
        return self._verifications[mode, known]

    # These functions run on the host.

    def check(self, text: Sequence[int], limit: int = MAX_TOKENS) -> None:
        """Raise InputTooLongError if the text, or `limit` tokens of speech, pass the model's positions."""
        if len(text) > self.config.max_text:
            raise InputTooLongError(
                f"{len(text)} text tokens in one utterance; at most {self.config.max_text} are read"
            )
        most = self.config.max_speech - (self.ahead if self.draft else 0)  # guesses have positions too
        if not 0 < limit <= most:
            raise InputTooLongError(f"{limit} speech tokens; at most {most} can be said at once")

    def decode(self, request: DecodeRequest, timeline: Timeline, cancelled: IsCancelled) -> Iterator[int | None]:
        """Yield each speech token (below the begin's id, 6561) as it is known, and None every few steps.

        Equal requests give equal tokens on one device. Raises InputTooLongError at once, Cancelled between steps, and
        RuntimeError if a step has no result.
        """
        self.check(request.text, request.limit)
        items = self._items(request, timeline, cancelled)
        stage = Stage.T3_PREFILL
        while True:
            # Time only the work here: the reader of the tokens has work of its own between two of them.
            try:
                with timeline.measure(stage):
                    item = next(items)
            except StopIteration:
                return
            stage = Stage.T3_DECODE
            yield item

    def _items(self, request: DecodeRequest, timeline: Timeline, cancelled: IsCancelled) -> Iterator[int | None]:
        if cancelled():
            raise Cancelled("cancelled before the text was read")
        state = self.begin(request)
        rounds = self._speculative(state, request, timeline) if self.draft else self._plain(state, request)
        stop = self.config.stop_speech
        for count, drawn in enumerate(rounds, 1):
            for token in drawn:
                state.said.append(token)
                timeline.tokens += 1
                if token == stop and not request.rules.exact:
                    return
                if token < self.config.start_speech:
                    yield token
                if len(state.said) == request.limit:
                    return
            if count % _STEPS_A_TURN == 0:
                yield None
            if cancelled():
                raise Cancelled("cancelled between speech tokens")

    def room(self, positions: int) -> int:
        """Return the number of positions to allocate for at least `positions`."""
        return bucket(positions, ROOM_BUCKETS) if self._padded else positions + -positions % _UNPADDED_ROOM

    def begin(self, request: DecodeRequest) -> DecodeState:
        """Read the prompt and send the draw of the first token."""
        network, rules, config = self.network, request.rules, self.config
        condition = self._condition(request.voice, rules.exaggeration)
        embeddings = network.prompt(condition, request.text, rules.guided)
        batch, count, _ = embeddings.shape
        size = bucket(count, PROMPT_BUCKETS) if self._padded else count
        if not self._padded:
            note_shape("t3", batch, size)
        embeddings = mx.pad(embeddings, [(0, 0), (0, size - count), (0, 0)])
        cache = network.allocate(batch, self.room(size + 1), self.cache_bits)
        mode, params, seed = rules.mode(config), rules.params(), sampling.seed_array(request.seed)
        logits, cache = self._prefill(embeddings, mx.array([count]), cache)
        logits = sampling.guide(logits[:, None], params)
        scores = sampling.process(logits, sampling.first_seen(config)[None], params, mode)
        token = sampling.draw(scores, sampling.key(seed, DRAW, mx.zeros(1, dtype=mx.int32)), mode)
        place = sampling.placed(mx.array([count, 1], dtype=mx.int32), token)
        sampler = SamplerState(place, sampling.after_first(config, token), params, seed)
        state = DecodeState(token, sampler, cache, count, mode)
        mx.async_eval(state.token, sampler.seen, state.cache)
        return state

    def _condition(self, voice: VoicePrompt, exaggeration: float) -> mx.array:
        """Return the rows before the text; those of a voice's last request are kept as long as the voice is."""
        kept, rows = self._conditions.get(voice, (None, None))
        if rows is None or kept != exaggeration:
            rows = self.network.condition(voice.speaker, voice.prompt, exaggeration)
            self._conditions[voice] = exaggeration, rows
        return rows

    def fit(self, state: DecodeState, more: int) -> None:
        """Make room for the next `more` tokens."""
        if state.at + more > caches.capacity(state.cache):
            state.cache = caches.grow(state.cache, self.room(state.at + more))

    def advance(self, state: DecodeState) -> None:
        """Send the step that reads the last token and draws the next."""
        self.fit(state, 1)
        state.token, place, seen, state.cache = self._draw(state.mode)(state.sampler, state.cache)
        state.sampler = state.sampler._replace(place=place, seen=seen)
        state.at += 1
        mx.async_eval(state.token, seen, state.cache)

    def _plain(self, state: DecodeState, request: DecodeRequest) -> Iterator[list[int]]:
        for number in range(1, request.limit + 1):
            token = state.token
            if self._early and number < request.limit:
                self.advance(state)
            yield [_number(token)]
            if not self._early:
                self.advance(state)

    def _speculative(self, state: DecodeState, request: DecodeRequest, timeline: Timeline) -> Iterator[list[int]]:
        assert self.draft is not None  # noqa: S101  (the caller looked)
        guesser = self.draft.begin(request)
        last = _number(state.token)
        yield [last]
        while True:
            guess = guesser.propose(state.said, self.ahead)
            timeline.drafted += guess.count
            drawn = self._verify(state, guess)
            timeline.accepted += len(drawn) - 1
            yield drawn

    def _verify(self, state: DecodeState, guess: Guess) -> list[int]:
        """Read the last token and the guesses in one pass. Return the guesses that stood, and the token after them.

        Keys and values of rejected guesses lie at later places: they are masked until written over.
        """
        size = guess.tokens.shape[0]
        self.fit(state, size + 1)
        known = guess.chances is not None
        chances = guess.chances if guess.chances is not None else mx.zeros(1)
        tokens = mx.concatenate([state.token, guess.tokens])
        accepted, state.token, place, seen, state.cache = self._verification(state.mode, known)(
            tokens, mx.array([guess.count]), chances, state.sampler, state.cache
        )
        mx.async_eval(seen, state.cache)
        state.sampler = state.sampler._replace(place=place, seen=seen)
        stood = _number(accepted)
        state.at += stood + 1
        return [*np.array(guess.tokens)[:stood].tolist(), _number(state.token)]

    def warm(self, request: DecodeRequest, room: int = 0) -> None:
        """Run the prefill and a step of `request` with a cache of at least `room` positions, and guesses if any."""
        state = self.begin(request)
        if room > caches.capacity(state.cache):
            state.cache = caches.grow(state.cache, room)
        if self.draft:
            rounds = self._speculative(state, request, Timeline())
            for _ in range(3):  # a draft reads one or two tokens, as its last guess stood or not
                state.said += next(rounds)
        else:
            self.advance(state)
        mx.eval(state.token, state.cache)

    def warm_shapes(self) -> list[tuple[int, int]]:
        """Return (positions, rows) of every cache that requests need, smallest first."""
        before = self.config.perceiver_queries + 2 if self.config.perceiver else 1 + self.config.prompt_tokens
        most = self.room(before + 512 + 4 + MAX_TOKENS)  # a long sentence (512 text tokens) spoken in full
        rooms = [size for size in ROOM_BUCKETS if size <= most] if self._padded else [self.room(1)]
        return [(size, rows) for rows in ((2, 1) if self.config.guided else (1,)) for size in rooms]


def _number(array: mx.array) -> int:
    """Wait for the one number in `array`. Raises RuntimeError if it is the token of a step that was given up."""
    return int(checked(np.array(array))[0])
