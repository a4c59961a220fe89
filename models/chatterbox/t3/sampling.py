"""Logits processors and a seeded draw of the next speech token, on the device.

The processors and their order are the reference's. Llama: repetition penalty, temperature, min_p, top_p. GPT-2:
temperature, top_k, top_p, and the penalty last. The formulas are those of transformers, on unnormalized logits.
Among equal logits at a cut all are kept; transformers keeps some.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.backend import mx
from models.chatterbox.config import T3Config
from models.contract import Sampling

TOP_K = 1000  # of GPT-2's variant; requests cannot change it

# Purposes of draws. Each has random numbers of its own.
DRAW, ACCEPT, PROPOSE = range(3)

_LLAMA = {
    "exaggeration": 0.5,
    "cfg_weight": 0.5,
    "temperature": 0.8,
    "min_p": 0.05,
    "top_p": 1.0,
    "repetition_penalty": 1.2,
}
_GPT2 = {"temperature": 0.8, "top_p": 0.95, "repetition_penalty": 1.2}


def defaults(config: T3Config) -> dict[str, float]:
    """Return the sampling parameters that a model knows, with the reference's values."""
    return dict(_LLAMA if config.guided else _GPT2)


@dataclass(frozen=True, slots=True)
class SamplingMode:
    """Choice of operations, compiled in. All other settings are `Rules.params`, so that one compilation serves them."""

    penalty_last: bool
    greedy: bool
    top_k: int
    truncates: bool
    exact: bool
    spoken: int


NextToken = Callable[
    [mx.array, mx.array, mx.array, mx.array, mx.array, SamplingMode], tuple[mx.array, mx.array, mx.array]
]
"""`next_token`, or a kernel for it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Sampling parameters of one request. `guidance` 0 needs one row only. `exact` draws only speech, no end."""

    exaggeration: float
    guidance: float
    temperature: float
    min_p: float
    top_p: float
    penalty: float
    exact: bool = False

    @property
    def guided(self) -> bool:
        """True if a second row runs, which has not read the text."""
        return self.guidance > 0

    def mode(self, config: T3Config) -> SamplingMode:
        """Return the operations that these rules need."""
        return SamplingMode(
            penalty_last=not config.guided,
            greedy=self.temperature == 0,
            top_k=0 if config.guided else TOP_K,
            truncates=self.top_p < 1,
            exact=self.exact,
            spoken=config.start_speech,
        )

    def params(self) -> mx.array:
        """Return guidance, temperature, log of min_p, top_p and penalty: float32 [5]."""
        least = math.log(self.min_p) if self.min_p > 0 else -math.inf
        return mx.array([self.guidance, self.temperature or 1.0, least, self.top_p, self.penalty], dtype=mx.float32)


def rules(config: T3Config, sampling: Sampling, *, exact: bool = False) -> Rules:
    """Return `sampling` with the model's defaults for all that it leaves open. Parameters unknown to it are ignored."""
    values = defaults(config)
    values |= {name: value for name, value in sampling.given().items() if name in values}
    return Rules(
        exaggeration=values.get("exaggeration", 0.0),
        guidance=values.get("cfg_weight", 0.0),
        temperature=values["temperature"],
        min_p=values.get("min_p", 0.0),
        top_p=values["top_p"],
        penalty=values["repetition_penalty"],
        exact=exact,
    )


def guide(logits: mx.array, params: mx.array) -> mx.array:
    """Apply classifier-free guidance: [B, n, V] -> float32 [n, V], c + w (c - u) for two rows (arXiv:2207.12598)."""
    logits = logits.astype(mx.float32)
    return logits[0] if logits.shape[0] == 1 else logits[0] + params[0] * (logits[0] - logits[1])


def penalize(scores: mx.array, seen: mx.array, penalty: mx.array) -> mx.array:
    """Make `seen` tokens less likely: divide positive logits by `penalty`, multiply negative ones."""
    return mx.where(seen, mx.where(scores < 0, scores * penalty, scores / penalty), scores)


def keep_min_p(scores: mx.array, log_least: mx.array) -> mx.array:
    """Keep tokens at least min_p times as likely as the likeliest (arXiv:2407.01082); `log_least` is log(min_p)."""
    least = mx.max(scores, axis=-1, keepdims=True) + log_least
    return mx.where(scores < least, -math.inf, scores)


def keep_top_k(scores: mx.array, count: int, ordered: mx.array | None = None) -> mx.array:
    """Keep the `count` likeliest. `ordered` are the scores in ascending order, if the caller has them."""
    if count >= scores.shape[-1]:
        return scores
    ordered = mx.sort(scores, axis=-1) if ordered is None else ordered
    return mx.where(scores < ordered[..., -count, None], -math.inf, scores)


def keep_top_p(scores: mx.array, share: mx.array, ordered: mx.array | None = None) -> mx.array:
    """Keep the likeliest tokens that together have the probability `share`, at least one (arXiv:1904.09751)."""
    ordered = mx.sort(scores, axis=-1) if ordered is None else ordered
    below = mx.cumsum(mx.softmax(ordered, axis=-1, precise=True), axis=-1)
    kept = mx.minimum(mx.sum(below <= 1 - share, axis=-1, keepdims=True), scores.shape[-1] - 1)
    return mx.where(scores < mx.take_along_axis(ordered, kept, axis=-1), -math.inf, scores)


def process(scores: mx.array, seen: mx.array, params: mx.array, mode: SamplingMode) -> mx.array:
    """Run all processors: guided logits [n, V], and `seen` bool [n, V] before each -> logits to draw from, [n, V].

    At temperature 0 only the likeliest token after the penalty is left: no other processor would change it.
    """
    _, temperature, log_least, top_p, penalty = params
    if mode.exact:
        scores = mx.where(mx.arange(scores.shape[-1]) >= mode.spoken, -math.inf, scores)
    if mode.greedy:
        scores = penalize(scores, seen, penalty)
        best = mx.argmax(scores, axis=-1, keepdims=True)
        return mx.where(mx.arange(scores.shape[-1]) == best, 0.0 * scores, -math.inf)  # what is no number stays so
    if not mode.penalty_last:
        scores = keep_min_p(penalize(scores, seen, penalty) / temperature, log_least)
        return keep_top_p(scores, top_p) if mode.truncates else scores
    scores = scores / temperature
    ordered = mx.sort(scores, axis=-1)
    scores = keep_top_k(scores, mode.top_k, ordered)
    if mode.truncates:
        scores = keep_top_p(scores, top_p, keep_top_k(ordered, mode.top_k, ordered))
    return penalize(scores, seen, penalty)


def seed_array(seed: int) -> mx.array:
    """Return the first half of each purpose's keys, uint32 [3]. The second half is the number of the draw."""
    return mx.array(np.random.SeedSequence(seed).generate_state(3, np.uint32))


def key(seed: mx.array, purpose: int, step: mx.array) -> mx.array:
    """Return the random key of draw `step` [1] for `purpose`. It depends on nothing else."""
    return mx.concatenate([seed[purpose : purpose + 1], step.astype(mx.uint32)])


def draw(scores: mx.array, key_: mx.array, mode: SamplingMode) -> mx.array:
    """Draw a token, int32 [1], from logits [1, V]; -1 if the greatest is no finite number: their step was given up."""
    token = mx.argmax(scores, axis=-1) if mode.greedy else mx.random.categorical(scores, key=key_)
    return mx.where(mx.isfinite(mx.max(scores, axis=-1)), token.astype(mx.int32), -1)


def mark(seen: mx.array, token: mx.array) -> mx.array:
    """Return `seen` [V] with token [1] in it."""
    return seen | (mx.arange(seen.shape[0]) == token)


def placed(position: mx.array, token: mx.array) -> mx.array:
    """Return the place of the last token [1] int32: its position [2] in the cache and among the spoken ones, itself, 0.

    The number of the begin of speech is 0. A step on a GPU reads nothing else: MLX keeps arrays of up to 8 bytes in the
    host's memory, where a read takes microseconds.
    """
    return mx.concatenate([position, token, mx.zeros(1, dtype=mx.int32)])


def next_token(
    logits: mx.array, place: mx.array, seen: mx.array, params: mx.array, seed: mx.array, mode: SamplingMode
) -> tuple[mx.array, mx.array, mx.array]:
    """Draw the token after the last one.

    Args:
        logits: [B, 1, V].
        place: int32 [4], the last token's, as of `placed`.
        seen: bool [V], the tokens that the penalty counts.
        params: `Rules.params`.
        seed: `seed_array`.
        mode: the operations to run.

    Returns:
        The token, int32 [1], as of `draw`; its place; `seen` with it.
    """
    scores = process(guide(logits, params), seen[None], params, mode)
    token = draw(scores, key(seed, DRAW, place[1:2]), mode)
    return token, placed(place[:2] + 1, token), mark(seen, token)


def first_seen(config: T3Config) -> mx.array:
    """Return the tokens that the penalty counts before the first draw, bool [V]: the begin of speech."""
    return mx.arange(config.speech_vocabulary) == config.start_speech


def after_first(config: T3Config, token: mx.array) -> mx.array:
    """Return the tokens that it counts after the first token [1]. GPT-2's loop forgets the begin; Llama's does not."""
    seen = first_seen(config) if config.guided else mx.zeros(config.speech_vocabulary, dtype=mx.bool_)
    return mark(seen, token)


def after(config: T3Config, said: Sequence[int]) -> mx.array:
    """Return the tokens that it counts after all of `said`, of which there is at least one."""
    seen = np.zeros(config.speech_vocabulary, bool)
    seen[list(said)] = True
    seen[config.start_speech] |= config.guided
    return mx.array(seen)
