"""Greedy and beam search over a group of sentences, a token at a time.

Beam search follows transformers' `generate` (num_beams, length_penalty 1, early_stopping False, max_new_tokens): twice
as many candidates as beams are looked at, a hypothesis' score is the sum of its log-probabilities over its length to
the power of the length penalty, and a sentence is done when no running hypothesis can beat the worst finished one.
Lengths count the target language's token and the end, as there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from models.backend import mx
from models.contract import Cancelled, IsCancelled
from models.layers.buckets import bucket
from models.nllb.steps import END, PAD, PROMPT_BUCKETS, Group, Stages

_STEPS_A_TURN = 4  # after so many the thread may do other work

Watch = Callable[[Sequence[int]], bool]


@dataclass(frozen=True, slots=True)
class Sentence:
    """What to translate: `source` ids, the target language's id, and at most `limit` tokens, the end included.

    `draft` holds tokens that may be how the translation begins. `watch` is asked after every token of greedy search
    whether to stop.
    """

    source: Sequence[int]
    target: int
    limit: int
    draft: Sequence[int] = ()
    watch: Watch = lambda _tokens: False


@dataclass(slots=True)
class Found:
    """A translation: tokens without prompt and end. `ended` if the model ended it, `halted` if `watch` did."""

    tokens: list[int] = field(default_factory=list)
    score: float = math.nan
    ended: bool = False
    halted: bool = False
    accepted: int = 0

    def append(self, token: int, sentence: Sentence) -> bool:
        """Add the next token; returns whether the translation is whole."""
        if token == END:
            self.ended = True
            return True
        self.tokens.append(token)
        self.halted = sentence.watch(self.tokens)
        return self.halted or len(self.tokens) >= sentence.limit


Finished = tuple[int, list[Found]]


def _check(cancelled: IsCancelled) -> None:
    if cancelled():
        raise Cancelled("cancelled between steps of translation")


def _prompts(sentences: Sequence[Sentence], rows: int, copies: int = 1) -> mx.array:
    prompts = [[END, sentence.target] for sentence in sentences for _ in range(copies)]
    return mx.array(prompts + [[END, END]] * (rows - len(prompts)), dtype=mx.int32)


def greedy(
    stages: Stages, group: Group, sentences: Sequence[Sentence], cancelled: IsCancelled
) -> Iterator[Finished | None]:
    """Yield (number of the sentence, [its translation]) as each is whole, None every few steps.

    A sentence with a draft must be alone in its group. Raises Cancelled between steps.
    """
    found = [Found() for _ in sentences]
    if sentences[0].draft:
        token, at = _verify(stages, group, sentences[0], found[0])
        if token is None:
            yield 0, found
            return
        tokens, place = stages.step(mx.array([[token]], dtype=mx.int32), mx.array([at]), group)
    else:
        tokens, place = stages.step(_prompts(sentences, group.rows), mx.array([0]), group)
    mx.async_eval(tokens)
    following = tokens
    live = list(range(len(sentences)))  # the sentence in each of the first rows; -1 where it is whole
    steps = 0
    while True:
        _check(cancelled)
        if stages.ahead:
            following, place = stages.step(tokens[:, None], place, group)
            mx.async_eval(following)
        for row, token in enumerate(np.array(tokens)[: len(live)].tolist()):
            which = live[row]
            if which >= 0 and found[which].append(token, sentences[which]):
                live[row] = -1
                yield which, [found[which]]
        rows = [row for row, which in enumerate(live) if which >= 0]
        if not rows:
            return
        size = stages.smaller(len(rows), group.rows)
        if size < group.rows:
            live, chosen = [live[row] for row in rows], rows + rows[:1] * (size - len(rows))
            group.select(chosen)
            tokens = tokens[mx.array(chosen)]
            following = following[mx.array(chosen)] if stages.ahead else tokens
        if not stages.ahead:
            following, place = stages.step(tokens[:, None], place, group)
        tokens = following
        steps += 1
        if steps % _STEPS_A_TURN == 0:
            yield None


def _verify(stages: Stages, group: Group, sentence: Sentence, found: Found) -> tuple[int | None, int]:
    """Compare the draft with what the model says after each of its tokens, in one pass.

    Returns the first token that is not the draft's, and its place; None if the translation is whole. Keys and values
    of draft tokens that did not stand lie at later places: they are masked until they are written over.
    """
    draft = list(sentence.draft[: sentence.limit])
    size = len(draft) + 2
    if stages.padded:
        size = min(bucket(size, PROMPT_BUCKETS), group.past[0].shape[2])
        draft = draft[: size - 2]
    ids = [END, sentence.target, *draft]
    said = stages.verify(mx.array([ids + [PAD] * (size - len(ids))], dtype=mx.int32), mx.array([0]), group)
    for at, token in enumerate(np.array(said)[0].tolist()[1 : len(ids)]):
        finished = found.append(token, sentence)
        stands = at < len(draft) and draft[at] == token
        found.accepted += stands
        if finished:
            return None, 0
        if not stands:
            return token, at + 2
    raise AssertionError("the last position has no draft token after it")


def careful(
    stages: Stages, group: Group, sentences: Sequence[Sentence], ngram: int, cancelled: IsCancelled
) -> Iterator[Finished | None]:
    """Greedy search in which no n-gram of `ngram` tokens comes out twice (transformers' no_repeat_ngram_size)."""
    found = [Found() for _ in sentences]
    live, order, place = set(range(len(sentences))), mx.arange(group.rows), 0
    feed = _prompts(sentences, group.rows)
    steps = 0
    while live:
        _check(cancelled)
        ids, scores = stages.best(feed, mx.array([place]), order, group)
        mx.eval(ids, scores)
        place += feed.shape[1]
        chosen = [END] * group.rows
        for row, tokens, values in zip(range(len(sentences)), np.array(ids), np.array(scores), strict=False):
            banned = _repeats([END, sentences[row].target, *found[row].tokens], ngram)
            ranked = (int(tokens[k]) for k in np.argsort(-values, kind="stable"))
            chosen[row] = next((token for token in ranked if token not in banned), END)
        finished = [row for row in sorted(live) if found[row].append(chosen[row], sentences[row])]
        for row in finished:
            live.remove(row)
            yield row, [found[row]]
        feed = mx.array(chosen, dtype=mx.int32)[:, None]
        steps += 1
        if steps % _STEPS_A_TURN == 0:
            yield None


def _repeats(tokens: Sequence[int], ngram: int) -> set[int]:
    """Tokens after which an n-gram of `tokens` would have come twice."""
    if ngram <= 0 or len(tokens) < ngram:
        return set()
    last = list(tokens[len(tokens) - ngram + 1 :])
    starts = range(len(tokens) - ngram + 1)
    return {tokens[i + ngram - 1] for i in starts if list(tokens[i : i + ngram - 1]) == last}


class _Beam:
    """The hypotheses of one sentence: `running` [(score, tokens)] best first, and the finished ones."""

    def __init__(self, sentence: Sentence, beams: int, penalty: float) -> None:
        self.sentence, self.beams, self.penalty = sentence, beams, penalty
        # All but one start as hopeless: they would only repeat the first.
        self.running = [(np.float32(0 if k == 0 else -1e9), list[int]()) for k in range(beams)]
        self.finished: list[Found] = []

    def advance(
        self, ids: npt.NDArray[np.int32], scores: npt.NDArray[np.float32], ngram: int
    ) -> tuple[list[int], list[int]] | None:
        """Take the next tokens' candidates [beams, K] -> (each new hypothesis' parent and token), or None when done."""
        if ngram:
            for beam, (_, tokens) in enumerate(self.running):
                banned = list(_repeats([END, self.sentence.target, *tokens], ngram))
                scores[beam][np.isin(ids[beam], banned)] = -np.inf
        total = scores + np.array([score for score, _ in self.running], np.float32)[:, None]
        length = len(self.running[0][1]) + 1  # of the new hypotheses, without language and end
        ranked = np.argsort(-total, axis=None, kind="stable")[: 2 * self.beams]
        following: list[tuple[np.float32, list[int]]] = []
        parents, fed = [], []
        for rank, flat in enumerate(ranked.tolist()):
            parent, token, score = flat // ids.shape[1], int(ids.flat[flat]), total.flat[flat]
            tokens = self.running[parent][1]
            if token == END or length >= self.sentence.limit:
                if rank < self.beams:
                    value = float(score / np.float32((length + 1) ** self.penalty))
                    kept = tokens if token == END else [*tokens, token]
                    self.finished.append(Found(kept, value, ended=token == END))
            elif len(following) < self.beams:
                following.append((score, [*tokens, token]))
                parents.append(parent)
                fed.append(token)
        self.finished = sorted(self.finished, key=lambda found: -found.score)[: self.beams]
        if not following:
            return None
        self.running = following
        best = float(following[0][0] / np.float32((length + 1) ** self.penalty))
        if len(self.finished) == self.beams and best <= self.finished[-1].score:
            return None
        return parents, fed


def beam(
    stages: Stages,
    group: Group,
    sentences: Sequence[Sentence],
    beams: int,
    cancelled: IsCancelled,
    *,
    ngram: int = 0,
    penalty: float = 1.0,
) -> Iterator[Finished | None]:
    """Yield (number of the sentence, its hypotheses, best first) as each is whole, None every few steps.

    The group has `beams` rows a sentence. `ngram` is as in `careful`. Raises Cancelled between steps.
    """
    states = [_Beam(sentence, beams, penalty) for sentence in sentences]
    live = list(range(len(sentences)))
    feed, order, place = _prompts(sentences, group.rows, beams), list(range(group.rows)), 0
    steps = 0
    while True:
        _check(cancelled)
        best = stages.best(feed, mx.array([place]), mx.array(order, dtype=mx.int32), group)
        mx.eval(best)
        place += feed.shape[1]
        ids, scores = np.array(best[0]), np.array(best[1])
        order, chosen, kept = [], [], []
        for slot, which in enumerate(live):
            rows = slice(slot * beams, (slot + 1) * beams)
            moved = states[which].advance(ids[rows], scores[rows], ngram)
            if moved is None:
                yield which, states[which].finished
                continue
            kept.append(which)
            order += [slot * beams + parent for parent in moved[0]]
            chosen += moved[1]
        live = kept
        if not live:
            return
        size = stages.smaller(len(order), group.rows)
        order += order[:1] * (max(size, len(order)) - len(order))
        chosen += [END] * (len(order) - len(chosen))
        if len(order) < group.rows:
            group.select(order)  # sentences' memories move with their hypotheses
            order = list(range(len(order)))
        elif [row // beams for row in order] != [row // beams for row in range(len(order))]:
            group.memory = [mx.take(part, mx.array(order), axis=0) for part in group.memory]
            group.bias = mx.take(group.bias, mx.array(order), axis=0)
        feed = mx.array(chosen, dtype=mx.int32)[:, None]
        steps += 1
        if steps % _STEPS_A_TURN == 0:
            yield None
