"""Guesses change the time and nothing else: greedy output token for token, sampled output in distribution.

Distributions are compared with exact probabilities, by chi-square at a tail of one in ten thousand, with fixed seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.decoder import T3Decoder
from models.chatterbox.t3.draft_model import SmallT3
from models.chatterbox.t3.drafts import Draft, Guess, Lookup
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.sampling import PROPOSE, Rules
from models.chatterbox.t3.state import DecodeRequest, VoicePrompt
from models.contract import Sampling
from models.timeline import Timeline
from tests.models.chatterbox.t3.builder import CONFIGS, LLAMA, network
from tests.models.chatterbox.t3.test_decoder import TEXT, tokens, voice

pytestmark = pytest.mark.slow

SMALL = replace(LLAMA, layers=1, speech_vocabulary=8, start_speech=6, stop_speech=7)
RULES = Rules(0.5, 0.5, 2.0, 0.02, 1.0, 1.3, exact=True)


def smaller(config: T3Config, seed: int = 7, **changes: int) -> T3:
    """A network of one layer, not related to the other but by its vocabularies."""
    return network(replace(config, layers=1, **changes), seed=seed)  # type: ignore[arg-type]


class Oracle:
    """Knows what will be said, but for every third token."""

    def __init__(self, whole: Sequence[int]) -> None:
        self.whole = list(whole)

    def begin(self, request: DecodeRequest) -> Oracle:
        return self

    def propose(self, said: Sequence[int], most: int) -> Guess:
        found = self.whole[len(said) : len(said) + most]
        found = [(token + 1) % 5 if (len(said) + k) % 3 == 2 else token for k, token in enumerate(found)]
        return Guess(mx.array(found + [0] * (most - len(found)), dtype=mx.int32), len(found))


class Same:
    """Always the same guess, whatever was said: not drawn."""

    def __init__(self, *guess: int) -> None:
        self.guess = guess

    def begin(self, request: DecodeRequest) -> Same:
        return self

    def propose(self, said: Sequence[int], most: int) -> Guess:
        return Guess(mx.array([*self.guess, *[0] * most][:most], dtype=mx.int32), min(most, len(self.guess)))


DRAFTS: dict[str, Callable[[T3, Sequence[int]], Draft]] = {
    "lookup": lambda _model, _whole: Lookup(),
    "small": lambda model, _whole: SmallT3(smaller(model.config)),
    "itself": lambda model, _whole: SmallT3(model),
    "oracle": lambda _model, whole: Oracle(whole),
}


@pytest.mark.parametrize("name", list(CONFIGS))
@pytest.mark.parametrize("draft", list(DRAFTS))
@pytest.mark.parametrize("ahead", [1, 4])
def test_greedy_is_identical(name: str, draft: str, ahead: int) -> None:
    """With and without guidance; the guesses that stood are counted."""
    model = network(CONFIGS[name], seed=2)
    for weight in (0.5, 0.0):
        rules = sampling.rules(model.config, Sampling(temperature=0.0, cfg_weight=weight), exact=True)
        wanted = DecodeRequest(TEXT, voice(model.config), rules, limit=41)
        expected = tokens(T3Decoder(model), wanted)
        timeline = Timeline()
        decoder = T3Decoder(model, draft=DRAFTS[draft](model, expected), ahead=ahead)
        assert tokens(decoder, wanted, timeline) == expected
        assert timeline.tokens == 41 and 0 <= timeline.accepted <= timeline.drafted
        if draft == "itself":
            assert timeline.accepted == timeline.drafted >= 20
        if draft == "oracle" and ahead == 4:
            assert 20 <= timeline.accepted < timeline.drafted


@pytest.mark.parametrize("name", list(CONFIGS))
def test_end_and_limit_within_a_round(name: str) -> None:
    """A guess may be the end, or lie past the limit."""
    model = network(CONFIGS[name], seed=2, loudness=4.0)
    lengths = set()
    for limit in (1, 2, 3, 4, 5, 6, 7, 30):
        for start in range(4):
            rules = sampling.rules(model.config, Sampling(temperature=0.0, exaggeration=0.3 * start))
            wanted = DecodeRequest([start + 1, 9], voice(model.config, start), rules, limit=limit)
            expected = tokens(T3Decoder(model), wanted)
            found = tokens(T3Decoder(model, draft=SmallT3(model)), wanted)
            assert found == expected
            lengths.add((limit, len(found)))
    assert any(length < limit for limit, length in lengths)


def test_without_guesses_nothing_changes() -> None:
    """Draws are numbered by what was said: with no guess the very tokens come that come without a draft."""
    model = network(LLAMA, seed=2)
    wanted = DecodeRequest(TEXT, voice(LLAMA), sampling.rules(LLAMA, Sampling(), exact=True), seed=5, limit=30)
    assert tokens(T3Decoder(model, draft=Same()), wanted) == tokens(T3Decoder(model), wanted)


def test_lookup() -> None:
    """The guess follows the longest and latest match; the reference's tokens count as said; else there is none."""
    draft = Lookup().begin(DecodeRequest([], VoicePrompt(mx.zeros(1), mx.array([1, 2, 3, 4, 5])), RULES))

    def guess(said: list[int], most: int = 3) -> list[int]:
        found = draft.propose(said, most)
        assert found.tokens.shape == (most,) and found.chances is None
        return np.array(found.tokens)[: found.count].tolist()

    assert guess([9]) == []
    assert guess([2, 3]) == [4, 5, 2]
    assert guess([2, 3, 8, 7, 2, 3]) == [8, 7, 2]
    assert guess([3, 4, 6, 6, 2, 3, 4]) == [5, 3, 4]  # three tokens' match before the later one of two
    assert guess([5, 5, 5, 5, 5, 5], 2) == [5]


def exact_joint(model: T3, wanted: DecodeRequest, first: int) -> np.ndarray:
    """Probabilities [V, V] of the second and third token, after `first`: computed, not drawn."""
    rules, config = wanted.rules, model.config
    size, params, mode = config.speech_vocabulary, rules.params(), rules.mode(config)
    condition = model.condition(wanted.voice.speaker, wanted.voice.prompt, rules.exaggeration)
    embeddings = model.prompt(condition, wanted.text, rules.guided)
    batch, count, _ = embeddings.shape
    _, cache = model.prefill(embeddings, mx.array([count]), model.allocate(batch, count + 2))

    def chances(said: list[int]) -> np.ndarray:
        logits, _ = model.advance(mx.array(said), mx.array([count, 1]), cache)
        seen = sampling.after(config, said)
        scores = sampling.process(sampling.guide(logits[:, -1:], params), seen[None], params, mode)
        return np.array(mx.softmax(scores, axis=-1))[0]

    second = chances([first])
    return np.stack([second[token] * chances([first, token]) for token in range(size)])


def statistic(counts: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Chi-square of counts against expected numbers, cells under five joined; and the limit for one in 10,000."""
    order = np.argsort(expected.ravel())
    counts, expected = counts.ravel()[order], expected.ravel()[order]
    joined = np.searchsorted(np.cumsum(expected), 5.0) + 1
    counts = np.concatenate([[counts[:joined].sum()], counts[joined:]])
    expected = np.concatenate([[expected[:joined].sum()], expected[joined:]])
    freedom = len(counts) - 1
    # Wilson and Hilferty's approximation of the quantile (3.719 standard deviations).
    limit = freedom * (1 - 2 / (9 * freedom) + 3.719 * np.sqrt(2 / (9 * freedom))) ** 3
    return float(((counts - expected) ** 2 / np.maximum(expected, 1e-9)).sum()), float(limit)


def sample(draft: Draft | None, model: T3, draws: int = 200) -> tuple[np.ndarray, np.ndarray, Timeline]:
    """Return counts of each second and third token [V, V], their expectations, and the timeline."""
    size = model.config.speech_vocabulary
    base = DecodeRequest(TEXT, voice(SMALL), RULES, limit=3)
    decoder = T3Decoder(model, draft=draft, ahead=2, padded=False, compiled=False)
    counts, firsts, timeline = np.zeros((size, size)), np.zeros(size), Timeline()
    for seed in range(draws):
        first, second, third = tokens(decoder, replace(base, seed=seed), timeline)
        firsts[first] += 1
        counts[second, third] += 1
    expected = sum(firsts[first] * exact_joint(model, base, first) for first in np.flatnonzero(firsts).tolist())
    return counts, np.asarray(expected), timeline


@pytest.mark.parametrize("draft", ["none", "small", "same"])
def test_sampled_is_distributed_as_without(draft: str) -> None:
    """The penalty, which depends on the guesses before, and guidance included."""
    drafts: dict[str, Draft | None] = {
        "none": None,
        "small": SmallT3(smaller(SMALL), compiled=False),
        "same": Same(3, 1),
    }
    counts, expected, timeline = sample(drafts[draft], network(SMALL, seed=4))
    assert (expected > 2.5).sum() > 12  # otherwise the statistic says little
    found, limit = statistic(counts, expected)
    assert found < limit
    if draft != "none":
        assert 0.05 < timeline.accepted / timeline.drafted < 0.95


def test_a_guess_is_drawn_with_the_chances_it_reports() -> None:
    """SmallT3's `chances`, against what it draws; and random numbers of its own, not the decoder's."""
    draft = SmallT3(smaller(SMALL), compiled=False)
    base = DecodeRequest(TEXT, voice(SMALL), RULES, limit=3)
    counts, expected = np.zeros(8), np.zeros(8)
    for seed in range(200):
        guess = draft.begin(replace(base, seed=seed)).propose([2], 2)
        assert guess.chances is not None
        p = np.array(guess.chances)
        np.testing.assert_allclose(p.sum(-1), 1, atol=1e-5)
        assert p[:, 6:].max() == 0
        expected += p[1]
        counts[np.array(guess.tokens)[1]] += 1
    found, limit = statistic(counts, expected)
    assert found < limit
    assert PROPOSE not in (sampling.DRAW, sampling.ACCEPT)


def test_utterances_in_turns_keep_their_guesses_apart() -> None:
    """The model thread takes turns between requests, whose guesses must not mix. (Lookup: the contract suite.)"""
    decoder = T3Decoder(network(LLAMA, seed=2), draft=SmallT3(smaller(LLAMA), compiled=False))
    rules = sampling.rules(LLAMA, Sampling(temperature=0.7), exact=True)
    wanted = [DecodeRequest(TEXT, voice(LLAMA, seed), rules, seed=seed, limit=30) for seed in (1, 2)]
    alone = [tokens(decoder, each) for each in wanted]
    found: list[list[int]] = [[], []]
    for items in zip_longest(*(decoder.decode(each, Timeline(), lambda: False) for each in wanted)):
        for said, item in zip(found, items, strict=True):
            said.extend([] if item is None else [item])
    assert found == alone
