"""Marks of a transcript, weighed again by the tune of the speech. Words never change.

At every clause end the decoder tells how likely each mark is with the text that follows, in one pass of all of them.
The tune tells the same from pitch, energy and pause. A mark changes only where both together prefer another clearly.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from models.contract import Pcm
from models.whisper.alignment import AlignedWord
from models.whisper.decoding import Decoded, DecodingOptions, prompt_tokens
from models.whisper.prosody import MARKS, MarkModel, clause_end, tune
from models.whisper.rules import log_sum_exp
from models.whisper.steps import Memory, Steps, WindowBatch
from models.whisper.text import WhisperTokenizer

PAUSE = 0.25  # seconds behind a word that has no mark: it may get one
_FOLLOWING = 4  # tokens behind a mark by which it is judged


@dataclass(frozen=True, slots=True)
class MarkPosition:
    """Place of a mark: `token` is its own or, without a mark, the one before which it would stand.

    `mark` is one of MARKS. The clause begins at second `start` of the window, its last word at `word`, and the next
    word at `end`; None: there is none.
    """

    token: int
    mark: str
    start: float
    word: float
    end: float | None


def mark_places(words: Sequence[AlignedWord], tokens: Sequence[int], end: int) -> Iterator[MarkPosition]:
    """Yield the places behind words that have one of MARKS or none; other marks (quotes, ellipses) are left alone.

    Args:
        words: Of the tokens of text, marks apart.
        tokens: Of the transcript, timestamps among them.
        end: The end's token; text tokens lie below.
    """
    text_at = [at for at, token in enumerate(tokens) if token < end]
    seen, firsts = 0, []
    for one in words:
        firsts.append(seen)
        seen += len(one.tokens)
    spoken = [number for number, one in enumerate(words) if any(letter.isalnum() for letter in one.word)]
    start = None
    for order, number in enumerate(spoken):
        start = words[number].start if start is None else start
        following = spoken[order + 1] if order + 1 < len(spoken) else None
        between = words[number + 1 : following]
        mark = between[0].word if between else ""
        if len(between) > 1 or mark not in MARKS or (between and len(between[0].tokens) > 1):
            start = None
            continue
        place = firsts[number] + len(words[number].tokens)
        token = text_at[place] if between else text_at[place - 1] + 1
        yield MarkPosition(
            token, mark, start, words[number].start, None if following is None else words[following].start
        )
        start = None if mark else start


class MarkScorer:
    """Log-probabilities of the marks at the places of one transcript by the decoder."""

    def __init__(
        self, steps: Steps, tokenizer: WhisperTokenizer, memory: Memory, options: DecodingOptions, tokens: Sequence[int]
    ) -> None:
        """Decode the transcript once.

        Args:
            steps: The network.
            tokenizer: Of the model.
            memory: The encoded window.
            options: With which it was decoded.
            tokens: Of the transcript.

        Raises:
            ValueError: The decoder has no room for another mark.
        """
        self._steps, self._tokens = steps, [*tokens, tokenizer.end]
        self.ids = [tokenizer.encode(mark)[0] for mark in MARKS[1:]]
        prompt, start = prompt_tokens(tokenizer, options, steps.config.n_text_ctx)
        self._prompt, size = len(prompt), len(prompt) + len(tokens) + _FOLLOWING
        if size > steps.config.n_text_ctx:
            raise ValueError(f"{size} tokens are too many for the decoder")
        self._group, logits, _ = steps.begin_draft([*prompt, *tokens], memory, size, start)
        self._logprobs = logits - log_sum_exp(logits)

    def score(self, place: MarkPosition) -> npt.NDArray[np.float64]:
        """Return the log-probability [5] of each of MARKS together with the tokens behind it."""
        first = place.token + bool(place.mark)
        following = self._tokens[first : first + _FOLLOWING]
        rows = [following, *([mark, *following[:-1]] for mark in self.ids)]
        group = WindowBatch(self._group.memory, self._group.past, self._prompt + place.token)
        group.select([0], [0] * len(rows))
        logits = self._steps.continuations(rows, group)
        after = logits - log_sum_exp(logits)
        before = self._logprobs[self._prompt + place.token - 1]
        found = np.zeros(len(MARKS))
        found[0] = before[following[0]] + sum(after[0, at, one] for at, one in enumerate(following[1:]))
        for row in range(1, len(MARKS)):
            found[row] = before[rows[row][0]] + sum(after[row, at, one] for at, one in enumerate(following))
        return found


def rescore(
    scorer: MarkScorer,
    tokenizer: WhisperTokenizer,
    found: Decoded,
    words: Sequence[AlignedWord],
    pcm: Pcm,
    model: MarkModel,
) -> Generator[None, None, Decoded]:
    """Return a transcript with the marks that its tune asks for. Yields after every place.

    Args:
        scorer: Of the transcript.
        tokenizer: Of the model.
        found: The transcript; only its tokens, their log-probabilities and its text change.
        words: Of its text, marks apart, with times from the window's start.
        pcm: Of the window, float32 [N] at 16 kHz.
        model: Marks by their tunes.
    """
    tokens, logprobs = list(found.tokens), list(found.logprobs)
    heard = tune(pcm)
    for place in reversed(list(mark_places(words, tokens, tokenizer.end))):
        end = clause_end(heard, place.start, place.word, place.end)
        if end is None or (not place.mark and end.pause < PAUSE):
            continue
        text = scorer.score(place)
        mark = model.choose(place.mark, text, end.features)
        yield
        if mark != place.mark:
            part = slice(place.token, place.token + bool(place.mark))
            tokens[part] = [scorer.ids[MARKS.index(mark) - 1]] if mark else []
            logprobs[part] = [float(text[MARKS.index(mark)])] if mark else []
    if tokens == list(found.tokens):
        return found
    text_tokens = [token for token in tokens if token < tokenizer.first_timestamp]
    return replace(
        found, tokens=tuple(tokens), logprobs=tuple(logprobs), text=tokenizer.decode_all(text_tokens).strip()
    )
