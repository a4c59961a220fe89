"""Prompts, measures of trust, and tries at rising temperatures by a scripted decoder."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import pytest

from models.whisper import decoding
from models.whisper.decoding import Decoded, DecodingOptions, Thresholds, decode, decode_with_fallback
from tests.models.whisper.builder import drain, recognizer, tokenizer


def decoded(logprob: float = -0.5, silence: float = 0.0, ratio: float = 1.0, temperature: float = 0.0) -> Decoded:
    return Decoded((), (), "", logprob, silence, temperature, ratio)


@pytest.mark.parametrize(
    ("found", "again", "silent"),
    [
        (decoded(), False, False),
        (decoded(logprob=-1.1), True, False),
        (decoded(ratio=2.5), True, False),
        (decoded(logprob=-1.1, silence=0.7), False, True),
        (decoded(logprob=-1.1, silence=0.7, ratio=2.5), False, True),
        (decoded(logprob=-0.9, silence=0.7), False, False),
        (decoded(logprob=-0.9, silence=0.7, ratio=2.5), True, False),
        (decoded(logprob=-1.0, silence=0.7), False, True),
        (decoded(logprob=-1.0, silence=0.6), False, False),
    ],
)
def test_thresholds(found: Decoded, again: bool, silent: bool) -> None:
    bounds = Thresholds()
    assert (bounds.refuses(found), bounds.is_silent(found)) == (again, silent)


def test_thresholds_that_are_not_looked_at() -> None:
    worst = decoded(logprob=-9, silence=0.99, ratio=9)
    none = Thresholds(None, None, None)
    assert (none.refuses(worst), none.is_silent(worst)) == (False, False)
    assert Thresholds(None, None, 0.6).is_silent(decoded(logprob=-0.1, silence=0.7))


@pytest.mark.parametrize(("trusted", "asked"), [(0, [0.0]), (2, [0.0, 0.2, 0.4]), (9, [0.0, 0.2, 0.4, 0.6])])
def test_fallback(trusted: int, asked: list[float]) -> None:
    """Until one is trusted; the last is taken in any case."""
    seen: list[float] = []

    def decoder(options: DecodingOptions) -> Generator[None, None, Decoded]:
        yield
        seen.append(options.temperature)
        return decoded(logprob=-2.0 if len(seen) <= trusted else -0.5, temperature=options.temperature)

    found = drain(decode_with_fallback(decoder, DecodingOptions(), (0.0, 0.2, 0.4, 0.6), Thresholds()))
    assert seen == asked
    assert found.temperature == asked[-1]


@pytest.mark.parametrize(
    ("tokens", "best_of", "tries"),
    [(224, 5, [224, 218]), (224, 1, [224, 224, 224]), (20, 5, [20, 20, 20, 20]), (100, 5, [100, 100])],
)
def test_all_tries_cost_three_times_the_first(tokens: int, best_of: int, tries: list[int]) -> None:
    """A try for which too few steps are left is cut off, and is no transcript."""
    seen: list[int] = []

    def decoder(options: DecodingOptions) -> Generator[None, None, Decoded]:
        yield
        length = min(tokens, options.limit or 224)
        seen.append(length)
        return replace(decoded(logprob=-2.0), tokens=(7,) * length, steps=length, temperature=options.temperature)

    found = drain(decode_with_fallback(decoder, DecodingOptions(best_of=best_of), (0.0, 0.2, 0.4, 0.6), Thresholds()))
    step = 1 + 0.4 * (best_of - 1)
    assert 60 + seen[0] + step * sum(seen[1:]) <= 3 * (60 + seen[0])
    assert seen[: len(tries)] == tries
    assert len(found.tokens) == tokens


def test_a_later_try_begins_without_the_text_of_the_window_before() -> None:
    seen: list[tuple[float, tuple[int, ...]]] = []

    def decoder(options: DecodingOptions) -> Generator[None, None, Decoded]:
        yield
        seen.append((options.temperature, options.prompt))
        return replace(decoded(ratio=9.0 if len(seen) < 3 else 1.0), steps=100)

    options = DecodingOptions(prompt=(1, 2, 3), best_of=5)
    drain(decode_with_fallback(decoder, options, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), Thresholds(), (1,)))
    assert seen == [(0.0, (1, 2, 3)), (0.0, (1,)), (0.6, (1,))]  # one of five samples fits: it is not a cautious one
    seen.clear()
    drain(decode_with_fallback(decoder, options, (0.0,), Thresholds(), (1,)))
    assert seen == [(0.0, (1, 2, 3))]


def test_prompts() -> None:
    one = tokenizer()
    assert decoding.prompt_tokens(one, DecodingOptions(language="de"), 448) == ([50258, 50261, 50359], 0)
    options = DecodingOptions(prompt=tuple(range(300)), prefix=(7, 8), timestamps=False)
    tokens, start = decoding.prompt_tokens(one, options, 448)
    assert tokens == [50361, *range(77, 300), 50258, 50259, 50359, 50363, 7, 8]
    assert tokens[start] == one.start
    assert decoding.prompt_tokens(one, DecodingOptions(prefix=tuple(range(9)), limit=220), 448)[0][3:] == [5, 6, 7, 8]


def test_compression() -> None:
    ratio = decoding.compression_ratio
    assert ratio("la " * 60) > 2.4 > ratio("a sentence as people say it, once and no more")


@pytest.mark.parametrize("timestamps", [True, False])
@pytest.mark.parametrize("prompt", [(), (5, 6, 7)])
def test_a_draft_changes_no_transcript(timestamps: bool, prompt: tuple[int, ...]) -> None:
    """Whisper's own vocabulary, with and without timestamps between the draft's tokens."""
    one = recognizer(seed=3)
    rng = np.random.RandomState(1)
    for seed in range(4):
        mel = np.random.RandomState(seed).standard_normal((1, 60, 80)).astype(np.float32)
        memory = drain(one.steps.encode(mel))
        options = DecodingOptions(language="fr", limit=14, timestamps=timestamps, prompt=prompt)
        wanted = drain(decode(one.steps, one.tokenizer, memory, options, lambda: False))[0]
        assert len(wanted.tokens) == 14
        assert wanted.average_logprob == pytest.approx(sum(wanted.logprobs) / 15, abs=1e-5)  # the end is one, too
        text = [token for token in wanted.tokens if token < one.tokenizer.end]
        for draft in (text, text[1:], text * 3, rng.randint(0, 50_000, 9).tolist(), [text[0] + 1, *text[1:]]):
            again = replace(options, draft=tuple(draft))
            found = drain(decode(one.steps, one.tokenizer, memory, again, lambda: False))[0]
            assert found.tokens == wanted.tokens
            assert found.logprobs == pytest.approx(wanted.logprobs, abs=1e-3)
            assert found.no_speech == pytest.approx(wanted.no_speech, abs=1e-4)
            assert 0 <= found.accepted <= len(draft)
