"""Greedy and beam search over a group of sentences, a token at a time.

Beam search follows transformers' `generate` (num_beams, length_penalty 1, early_stopping False, max_new_tokens). It
takes twice as many candidates as beams. A hypothesis' score is the mean of its log-probabilities. A sentence is done
when no running hypothesis can beat the worst finished one. Lengths count the target language's token, where
translations begin with it, and the end, as in transformers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from models.backend import bucket, mx
from models.contract import Cancelled, IsCancelled
from models.layers.transformer.step import checked
from models.nllb.steps import DRAFT_BUCKETS, END, PAD, CompiledM2M100, EncodedBatch

_STEPS_A_TURN = 4  # after so many steps the thread may do other work

StopCriterion = Callable[[Sequence[int]], bool]


@dataclass(frozen=True, slots=True)
class TranslationTask:
    """One sentence to translate: `source` ids, the target language's id, and at most `limit` tokens, the end included.

    `target` is None where the source has that id. `draft` holds tokens with which the translation may begin. Greedy
    search asks `should_stop` after every token.
    """

    source: Sequence[int]
    target: int | None
    limit: int
    draft: Sequence[int] = ()
    should_stop: StopCriterion = lambda _tokens: False

    @property
    def prompt(self) -> list[int]:
        """Return the tokens from which the translation is decoded."""
        return [END] if self.target is None else [END, self.target]


@dataclass(slots=True)
class TranslationHypothesis:
    """Tokens of a translation without prompt and end. `ended`: by the model; `stopped`: by `should_stop`.

    `accepted` counts the tokens of the draft that stood.
    """

    tokens: list[int] = field(default_factory=list)
    score: float = math.nan
    ended: bool = False
    stopped: bool = False
    accepted: int = 0

    def append(self, token: int, sentence: TranslationTask) -> bool:
        """Add the next token; return whether the translation is complete."""
        if token == END:
            self.ended = True
            return True
        self.tokens.append(token)
        self.stopped = sentence.should_stop(self.tokens)
        return self.stopped or len(self.tokens) >= sentence.limit


Finished = tuple[int, list[TranslationHypothesis]]


def _check(cancelled: IsCancelled) -> None:
    if cancelled():
        raise Cancelled("cancelled between steps of translation")


def _prompts(sentences: Sequence[TranslationTask], rows: int, copies: int = 1) -> mx.array:
    prompts = [sentence.prompt for sentence in sentences for _ in range(copies)]
    spare = [END] * len(prompts[0])
    return mx.array(prompts + [spare] * (rows - len(prompts)), dtype=mx.int32)


def greedy(
    compiled: CompiledM2M100, group: EncodedBatch, sentences: Sequence[TranslationTask], cancelled: IsCancelled
) -> Iterator[Finished | None]:
    """Yield (number of the sentence, [its translation]) as each is complete, None every few steps.

    Without drafts the first step is sent at once, and need not wait for who reads on. A sentence with a draft must be
    alone in its group. Raises Cancelled between steps.
    """
    begun = None
    if not sentences[0].draft:
        begun = compiled.step(_prompts(sentences, group.rows), mx.array([0]), group)
        mx.async_eval(begun[0])
    return _greedy(compiled, group, sentences, cancelled, begun)


def _greedy(
    compiled: CompiledM2M100,
    group: EncodedBatch,
    sentences: Sequence[TranslationTask],
    cancelled: IsCancelled,
    begun: tuple[mx.array, mx.array] | None,
) -> Iterator[Finished | None]:
    """Do the work of `greedy`; `begun` has the first tokens and the next place, unless there is a draft."""
    found = [TranslationHypothesis() for _ in sentences]
    if begun is None:
        token, at = _verify(compiled, group, sentences[0], found[0])
        if token is None:
            yield 0, found
            return
        begun = compiled.step(mx.array([[token]], dtype=mx.int32), mx.array([at]), group)
        mx.async_eval(begun[0])
    tokens, place = begun
    following = tokens
    live = list(range(len(sentences)))  # the sentence in each of the first rows; -1 where it is complete
    steps = 0
    while True:
        _check(cancelled)
        if compiled.ahead:
            following, place = compiled.step(tokens[:, None], place, group)
            mx.async_eval(following)
        for row, token in enumerate(checked(np.array(tokens))[: len(live)].tolist()):
            which = live[row]
            if which >= 0 and found[which].append(token, sentences[which]):
                live[row] = -1
                yield which, [found[which]]
        rows = [row for row, which in enumerate(live) if which >= 0]
        if not rows:
            return
        size = compiled.smaller(len(rows), group.rows)
        if size < group.rows:
            live, chosen = [live[row] for row in rows], rows + rows[:1] * (size - len(rows))
            group.select(chosen)
            tokens = tokens[mx.array(chosen)]
            following = following[mx.array(chosen)] if compiled.ahead else tokens
        if not compiled.ahead:
            following, place = compiled.step(tokens[:, None], place, group)
        tokens = following
        steps += 1
        if steps % _STEPS_A_TURN == 0:
            yield None


def _verify(
    compiled: CompiledM2M100, group: EncodedBatch, sentence: TranslationTask, found: TranslationHypothesis
) -> tuple[int | None, int]:
    """Compare the draft with the model's own next tokens, in one pass.

    Return the first token that is not the draft's, and its place; None if the translation is complete. Keys and values
    of rejected draft tokens lie at later places: they are masked until they are overwritten.
    """
    draft = list(sentence.draft[: sentence.limit])
    start = len(sentence.prompt)
    size = start + len(draft)
    if compiled.padded:
        size = min(bucket(size, DRAFT_BUCKETS), group.past[0].shape[2])
        draft = draft[: size - start]
    ids = [*sentence.prompt, *draft]
    said = compiled.verify(mx.array([ids + [PAD] * (size - len(ids))], dtype=mx.int32), mx.array([0]), group)
    for at, token in enumerate(checked(np.array(said))[0].tolist()[start - 1 : len(ids)]):
        finished = found.append(token, sentence)
        stands = at < len(draft) and draft[at] == token
        found.accepted += stands
        if finished:
            return None, 0
        if not stands:
            return token, at + start
    raise AssertionError("the last position has no draft token after it")


def greedy_no_repeat(
    compiled: CompiledM2M100,
    group: EncodedBatch,
    sentences: Sequence[TranslationTask],
    ngram: int,
    cancelled: IsCancelled,
) -> Iterator[Finished | None]:
    """Search greedily without repeating any n-gram of `ngram` tokens (transformers' no_repeat_ngram_size)."""
    found = [TranslationHypothesis() for _ in sentences]
    live, order, place = set(range(len(sentences))), mx.arange(group.rows), 0
    feed = _prompts(sentences, group.rows)
    steps = 0
    while live:
        _check(cancelled)
        ids, scores = compiled.best(feed, mx.array([place]), order, group)
        mx.eval(ids, scores)
        place += feed.shape[1]
        chosen = [END] * group.rows
        for row, tokens, values in zip(range(len(sentences)), np.array(ids), checked(np.array(scores)), strict=False):
            banned = _repeats([*sentences[row].prompt, *found[row].tokens], ngram)
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
    """Return the tokens that would repeat an n-gram of `tokens`."""
    if ngram <= 0 or len(tokens) < ngram:
        return set()
    last = list(tokens[len(tokens) - ngram + 1 :])
    starts = range(len(tokens) - ngram + 1)
    return {tokens[i + ngram - 1] for i in starts if list(tokens[i : i + ngram - 1]) == last}


class _Beam:
    """Hypotheses of one sentence: `running` [(score, tokens)], best first, and the finished ones."""

    def __init__(self, sentence: TranslationTask, beams: int) -> None:
        self.sentence, self.beams = sentence, beams
        # All but the first start with a score that cannot win: they would repeat the first.
        self.running = [(np.float32(0 if k == 0 else -1e9), list[int]()) for k in range(beams)]
        self.finished: list[TranslationHypothesis] = []

    def advance(
        self, ids: npt.NDArray[np.int32], scores: npt.NDArray[np.float32], ngram: int
    ) -> tuple[list[int], list[int]] | None:
        """Extend the hypotheses by candidates [beams, K]; return each new one's parent and token, or None when done."""
        if ngram:
            for beam, (_, tokens) in enumerate(self.running):
                banned = list(_repeats([*self.sentence.prompt, *tokens], ngram))
                scores[beam][np.isin(ids[beam], banned)] = -np.inf
        total = scores + np.array([score for score, _ in self.running], np.float32)[:, None]
        length = len(self.running[0][1]) + 1  # of the new hypotheses, without language and end
        whole = np.float32(length + len(self.sentence.prompt) - 1)
        ranked = np.argsort(-total, axis=None, kind="stable")[: 2 * self.beams]
        following: list[tuple[np.float32, list[int]]] = []
        parents, fed = [], []
        for rank, flat in enumerate(ranked.tolist()):
            parent, token, score = flat // ids.shape[1], int(ids.flat[flat]), total.flat[flat]
            tokens = self.running[parent][1]
            if token == END or length >= self.sentence.limit:
                if rank < self.beams:
                    value = float(score / whole)
                    kept = tokens if token == END else [*tokens, token]
                    self.finished.append(TranslationHypothesis(kept, value, ended=token == END))
            elif len(following) < self.beams:
                following.append((score, [*tokens, token]))
                parents.append(parent)
                fed.append(token)
        self.finished = sorted(self.finished, key=lambda found: -found.score)[: self.beams]
        if not following:
            return None
        self.running = following
        best = float(following[0][0] / whole)
        if len(self.finished) == self.beams and best <= self.finished[-1].score:
            return None
        return parents, fed


def beam(
    compiled: CompiledM2M100,
    group: EncodedBatch,
    sentences: Sequence[TranslationTask],
    beams: int,
    cancelled: IsCancelled,
    *,
    ngram: int = 0,
) -> Iterator[Finished | None]:
    """Yield (number of the sentence, its hypotheses, best first) as each is complete, None every few steps.

    Args:
        compiled: The network.
        group: Encoded sentences, `beams` rows each.
        sentences: As in the group.
        beams: Running hypotheses of each sentence.
        cancelled: Asked between steps.
        ngram: As in `greedy_no_repeat`; 0 bans nothing.

    Raises:
        Cancelled: Between steps.
    """
    states = [_Beam(sentence, beams) for sentence in sentences]
    live = list(range(len(sentences)))
    feed, order, place = _prompts(sentences, group.rows, beams), list(range(group.rows)), 0
    steps = 0
    while True:
        _check(cancelled)
        best = compiled.best(feed, mx.array([place]), mx.array(order, dtype=mx.int32), group)
        mx.eval(best)
        place += feed.shape[1]
        ids, scores = np.array(best[0]), checked(np.array(best[1]))
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
        size = compiled.smaller(len(order), group.rows)
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
