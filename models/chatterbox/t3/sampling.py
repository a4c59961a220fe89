"""Which token comes next: what the reference does to T3's logits, in its order, and a seeded draw; all on the device.

Llama: repetition penalty, temperature, min_p, top_p. GPT-2: temperature, top_k, top_p, and the penalty last. The
formulas are those of transformers' logits processors, on unnormalized logits; none of them needs log-probabilities.
Among equal logits at a cut all are kept, where transformers keeps some.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.backend import mx
from models.chatterbox.config import T3Config
from models.contract import Sampling

TOP_K = 1000  # of GPT-2's variant, which lets nobody choose it

# What draws are for: each purpose has random numbers of its own.
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
    """The parameters that mean something to a model, and the reference's values of them."""
    return dict(_LLAMA if config.guided else _GPT2)


@dataclass(frozen=True, slots=True)
class Kind:
    """What decides which operations run; everything else is numbers on the device, so that one compilation serves."""

    penalty_last: bool
    greedy: bool
    top_k: int
    truncates: bool
    exact: bool
    spoken: int


@dataclass(frozen=True, slots=True)
class Rules:
    """How an utterance is drawn. `guidance` 0: one row, no unconditional one. `exact`: only speech is drawn, no end."""

    exaggeration: float
    guidance: float
    temperature: float
    min_p: float
    top_p: float
    penalty: float
    exact: bool = False

    @property
    def guided(self) -> bool:
        """Whether a second row runs that has not read the text."""
        return self.guidance > 0

    def kind(self, config: T3Config) -> Kind:
        """What is compiled in."""
        return Kind(
            penalty_last=not config.guided,
            greedy=self.temperature == 0,
            top_k=0 if config.guided else TOP_K,
            truncates=self.top_p < 1,
            exact=self.exact,
            spoken=config.start_speech,
        )

    def knobs(self) -> mx.array:
        """What is not, float32 [5]: guidance, temperature, log of min_p, top_p, penalty."""
        least = math.log(self.min_p) if self.min_p > 0 else -math.inf
        return mx.array([self.guidance, self.temperature or 1.0, least, self.top_p, self.penalty], dtype=mx.float32)


def rules(config: T3Config, sampling: Sampling, *, exact: bool = False) -> Rules:
    """`sampling` with the model's own values for what it leaves open; what the model does not know is ignored."""
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


def guide(logits: mx.array, knobs: mx.array) -> mx.array:
    """[B, n, V] -> float32 [n, V]: c + w (c - u) where there are two rows (arXiv:2207.12598)."""
    logits = logits.astype(mx.float32)
    return logits[0] if logits.shape[0] == 1 else logits[0] + knobs[0] * (logits[0] - logits[1])


def penalize(scores: mx.array, seen: mx.array, penalty: mx.array) -> mx.array:
    """What was said becomes less likely: positive logits are divided by `penalty`, negative ones multiplied."""
    return mx.where(seen, mx.where(scores < 0, scores * penalty, scores / penalty), scores)


def keep_min_p(scores: mx.array, log_least: mx.array) -> mx.array:
    """Only tokens at least min_p times as likely as the likeliest (arXiv:2407.01082)."""
    least = mx.max(scores, axis=-1, keepdims=True) + log_least
    return mx.where(scores < least, -math.inf, scores)


def keep_top_k(scores: mx.array, count: int, ordered: mx.array | None = None) -> mx.array:
    """Only the `count` likeliest. `ordered`: the scores in ascending order, if they are at hand."""
    if count >= scores.shape[-1]:
        return scores
    ordered = mx.sort(scores, axis=-1) if ordered is None else ordered
    return mx.where(scores < ordered[..., -count, None], -math.inf, scores)


def keep_top_p(scores: mx.array, share: mx.array, ordered: mx.array | None = None) -> mx.array:
    """Only the likeliest that together have the probability `share`, and at least one (arXiv:1904.09751)."""
    ordered = mx.sort(scores, axis=-1) if ordered is None else ordered
    below = mx.cumsum(mx.softmax(ordered, axis=-1, precise=True), axis=-1)
    kept = mx.minimum(mx.sum(below <= 1 - share, axis=-1, keepdims=True), scores.shape[-1] - 1)
    return mx.where(scores < mx.take_along_axis(ordered, kept, axis=-1), -math.inf, scores)


def _only_best(scores: mx.array) -> mx.array:
    best = mx.argmax(scores, axis=-1, keepdims=True)
    return mx.where(mx.arange(scores.shape[-1]) == best, 0.0, -math.inf)


def process(scores: mx.array, seen: mx.array, knobs: mx.array, kind: Kind) -> mx.array:
    """Guided logits [n, V] and what was said before each, bool [n, V] -> the logits that are drawn from.

    At temperature 0 the likeliest after the penalty is all that is left: the other processors would not change it.
    """
    _, temperature, log_least, top_p, penalty = knobs
    if kind.exact:
        scores = mx.where(mx.arange(scores.shape[-1]) >= kind.spoken, -math.inf, scores)
    if kind.greedy:
        return _only_best(penalize(scores, seen, penalty))
    if not kind.penalty_last:
        scores = keep_min_p(penalize(scores, seen, penalty) / temperature, log_least)
        return keep_top_p(scores, top_p) if kind.truncates else scores
    scores = scores / temperature
    ordered = mx.sort(scores, axis=-1)
    scores = keep_top_k(scores, kind.top_k, ordered)
    if kind.truncates:
        scores = keep_top_p(scores, top_p, keep_top_k(ordered, kind.top_k, ordered))
    return penalize(scores, seen, penalty)


def seed_words(seed: int) -> mx.array:
    """uint32 [3]: the first half of the keys of each purpose. The second half is the number of the draw."""
    return mx.array(np.random.SeedSequence(seed).generate_state(3, np.uint32))


def key(words: mx.array, purpose: int, step: mx.array) -> mx.array:
    """The key of draw `step` [1] for `purpose`: the same wherever and whenever it is drawn."""
    return mx.concatenate([words[purpose : purpose + 1], step.astype(mx.uint32)])


def draw(scores: mx.array, key_: mx.array, kind: Kind) -> mx.array:
    """A token, int32 [1], from logits [1, V]."""
    if kind.greedy:
        return mx.argmax(scores, axis=-1).astype(mx.int32)
    return mx.random.categorical(scores, key=key_).astype(mx.int32)


def mark(seen: mx.array, token: mx.array) -> mx.array:
    """`seen` [V] with token [1] in it."""
    return seen | (mx.arange(seen.shape[0]) == token)


def first_seen(config: T3Config) -> mx.array:
    """What the penalty knows of before anything was said: the begin of speech."""
    return mx.arange(config.speech_vocabulary) == config.start_speech


def after_first(config: T3Config, token: mx.array) -> mx.array:
    """What it knows of once token [1] was said. GPT-2's loop forgets the begin then; Llama's does not."""
    seen = first_seen(config) if config.guided else mx.zeros(config.speech_vocabulary, dtype=mx.bool_)
    return mark(seen, token)


def after(config: T3Config, said: Sequence[int]) -> mx.array:
    """The same, once all of `said` was said."""
    seen = np.zeros(config.speech_vocabulary, bool)
    seen[list(said)] = True
    seen[config.start_speech] |= config.guided
    return mx.array(seen)
