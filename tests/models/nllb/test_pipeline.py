"""The translator as the service sees it: batches, drafts, beams, second tries, warm-up. Random weights."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.backend import mx, on_cpu
from models.contract import ModelRequestError, ModelSpec, OutsideCoverageError, Translation, TranslationRequest
from models.native import kernels
from models.nllb import repair, steps, vocabulary
from models.nllb.pipeline import MAX_BATCH, NllbTranslator, load
from models.nllb.search import TranslationHypothesis
from models.timeline import Timeline
from tests.models.nllb.builder import WORDS, files, translator

PAIRS = [("eng_Latn", "fra_Latn"), ("deu_Latn", "eng_Latn"), ("zho_Hans", "rus_Cyrl"), ("fra_Latn", "zho_Hans")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> NllbTranslator:
    return translator(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> NllbTranslator:
    """As on a GPU: shapes padded, every part compiled, each step sent before the host reads the last one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "on_cpu", lambda: False)
        return translator(tmp_path_factory.mktemp("model"), padded=True)


def requests(count: int, seed: int = 0, **options: Any) -> list[TranslationRequest]:
    """Sentences of 1 to 12 words, in several pairs of languages."""
    rng = random.Random(seed)
    return [
        TranslationRequest(" ".join(rng.choices(WORDS, k=rng.randint(1, 12))), *PAIRS[k % len(PAIRS)], **options)
        for k in range(count)
    ]


def run(
    model: NllbTranslator, batch: Sequence[TranslationRequest], timeline: Timeline | None = None
) -> list[Translation]:
    """All translations, in the batch's order."""
    items = model.translate(batch, timeline or Timeline(), lambda: False)
    found = {item.index: item for item in items if item is not None}
    assert sorted(found) == list(range(len(batch)))
    return [found[k] for k in range(len(batch))]


def same(found: Translation, wanted: Translation, index: int) -> bool:
    """Equal but for the index and the last digits of scores."""
    pairs = list(zip((found.best, *found.alternatives), (wanted.best, *wanted.alternatives), strict=True))
    return found.index == index and all(
        a.text == b.text and a.tokens == b.tokens and np.isclose(a.score, b.score, rtol=1e-4, equal_nan=True)
        for a, b in pairs
    )


@pytest.mark.parametrize("beams", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_batch_says_what_its_sentences_say_alone(model: NllbTranslator, padded: NllbTranslator, beams: int) -> None:
    """Mixed pairs, mixed lengths, more rows than one group holds; padded to buckets, and not."""
    batch = requests(MAX_BATCH, beams=beams, alternatives=beams - 1)
    alone = [run(model, [request])[0] for request in batch]
    assert len({one.best.text for one in alone}) > 10
    for each in (model, padded):
        pairs = zip(run(each, batch), alone, strict=True)
        assert all(same(found, wanted, k) for k, (found, wanted) in enumerate(pairs))


def test_greedy_has_no_score_and_beams_do(model: NllbTranslator) -> None:
    greedy = run(model, requests(1))[0]
    assert math.isnan(greedy.best.score)
    assert greedy.alternatives == ()
    for found in run(model, requests(6, beams=4, alternatives=3)):
        every = (found.best, *found.alternatives)
        assert all(one.score < 0 for one in every)
        assert [one.score for one in every] == sorted((one.score for one in every), reverse=True)
        assert len({one.text for one in every}) == len(every)
    assert max(len(found.alternatives) for found in run(model, requests(6, beams=4, alternatives=3))) == 3
    assert all(len(found.alternatives) <= 1 for found in run(model, requests(6, beams=4, alternatives=1)))


def test_unknown_never_comes_out(tmp_path: Path) -> None:
    """Even where it is louder than everything else."""
    loud = translator(tmp_path)
    weight = np.array(loud.network.shared.weight)
    weight[3] = weight.mean(axis=0) + 50 * np.sign(weight[7])
    loud.network.shared.weight = mx.array(weight)
    for beams in (1, 2):
        for found in run(loud, requests(4, beams=beams)):
            assert 3 not in found.best.tokens
            assert found.best.tokens


@pytest.mark.parametrize("padding", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_drafts_change_nothing(model: NllbTranslator, padded: NllbTranslator, padding: bool) -> None:
    """Whole, cut short, wrong at every position, longer than the translation, with ids that do not exist."""
    each = padded if padding else model
    for request in requests(4, seed=1):
        wanted = run(model, [request])[0]
        tokens = wanted.best.tokens
        drafts = [tokens, tokens[: len(tokens) // 2], (*tokens, *tokens), (*tokens, 10**9), (-1, *tokens)]
        drafts += [(*tokens[:k], (tokens[k] + 7) % 180 + 4, *tokens[k + 1 :]) for k in range(len(tokens))]
        for draft in drafts:
            found = run(each, [TranslationRequest(request.text, request.source, request.target, draft=draft)])[0]
            assert same(found, wanted, 0)
            right = next((k for k, (a, b) in enumerate(zip(draft, tokens, strict=False)) if a != b), len(draft))
            assert found.accepted == min(right, len(tokens))


def test_a_verified_draft_saves_steps(model: NllbTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    request = max(requests(8), key=lambda request: len(run(model, [request])[0].best.tokens))
    wanted = run(model, [request])[0]
    steps: list[int] = []
    original = model.compiled.step
    monkeypatch.setattr(model.compiled, "step", lambda *given: steps.append(1) or original(*given))
    run(model, [request])
    plain = len(steps)
    steps.clear()
    run(model, [TranslationRequest(request.text, request.source, request.target, draft=wanted.best.tokens)])
    assert plain >= len(wanted.best.tokens) > 5
    assert len(steps) <= 2


def test_drafts_beside_other_sentences(model: NllbTranslator) -> None:
    batch = requests(6)
    wanted = run(model, batch)
    drafts = [one.best.tokens[: k % 3 * 2] for k, one in enumerate(wanted)]
    drafted = [replace(request, draft=draft) for request, draft in zip(batch, drafts, strict=True)]
    assert all(same(found, one, k) for k, (found, one) in enumerate(zip(run(model, drafted), wanted, strict=True)))


@pytest.mark.parametrize("beams", [1, 2])
def test_length_cap(tmp_path: Path, beams: int) -> None:
    """A model that never ends is stopped at 1.5 times its source and ten."""
    endless = translator(tmp_path, loudness=0.0)
    found = run(endless, requests(8, beams=beams))
    assert all(len(one.best.tokens) <= int(1.5 * one.source_tokens) + 10 for one in found)
    assert any(len(one.best.tokens) == int(1.5 * one.source_tokens) + 10 for one in found)


def test_blank_text_stays(model: NllbTranslator) -> None:
    found = run(model, [TranslationRequest(text, "eng_Latn", "fra_Latn") for text in ("", " \n", "the cat")])
    assert [one.best.text for one in found[:2]] == ["", " \n"]
    assert found[2].source_tokens == 4


def test_the_longest_sentence(model: NllbTranslator) -> None:
    request = TranslationRequest(" ".join(["the cat"] * 31), "eng_Latn", "fra_Latn")
    assert run(model, [request])[0].source_tokens == 64


def test_too_large_a_batch(model: NllbTranslator) -> None:
    with pytest.raises(ModelRequestError, match="33 sentences in one batch; at most 32"):
        next(iter(model.translate(requests(33), Timeline(), lambda: False)))


def test_groups_bound_memory_and_padding(model: NllbTranslator) -> None:
    """Rows times padded length, like lengths, one number of beams; nothing lost, nothing twice."""
    batch = [*requests(20), *requests(12, seed=2, beams=8), TranslationRequest(" ".join(["the"] * 60), *PAIRS[0])]
    works = [model._prepare(k, request, request.text) for k, request in enumerate(batch)]
    groups = model._groups(works, 0)
    assert sorted(work.index for group in groups for work in group) == list(range(len(batch)))
    for group in groups:
        assert len({work.request.beams for work in group}) == 1
        assert len(group) * group[0].request.beams <= MAX_BATCH
        assert len(group[-1].source) <= 4 * len(group[0].source) + 16


class Scripted:
    """Stands in for a search whose outcome is needed: what the guards are for happens with no random network."""

    def __init__(self, model: NllbTranslator, monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, Any]) -> None:
        self.asked: list[tuple[str, int]] = []

        def search(works: Any, ngram: int, timeline: Timeline, cancelled: Any) -> Iterator[Any]:
            for work in works:
                self.asked.append((work.text, ngram))
                tokens, ended = outcomes[work.text, ngram]
                yield work, [TranslationHypothesis(list(tokens), ended=ended, stopped=repair.loops(tokens))]

        monkeypatch.setattr(model, "_search", search)


def ids(model: NllbTranslator, text: str) -> list[int]:
    return model.tokenizer.encode(text, "eng_Latn")[1:-1]


def test_a_loop_is_tried_once_more(model: NllbTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, good = ids(model, "she" + " sees" * 10), ids(model, "she sees")
    first = Scripted(model, monkeypatch, {("the cat", 0): (loop, False), ("the cat", 3): (good, True)})
    request = TranslationRequest("the cat", "eng_Latn", "fra_Latn")
    assert run(model, [request])[0].best.text == "she sees"
    assert first.asked == [("the cat", 0), ("the cat", 3)]
    Scripted(model, monkeypatch, {("the cat", 0): (loop, False), ("the cat", 3): (loop, False)})
    assert run(model, [request])[0].best.text == "she sees", "cut, where the second try loops as well"


def test_a_source_that_loops_may(model: NllbTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "the" + " the" * 11
    Scripted(model, monkeypatch, {(text, 0): (ids(model, "sees" + " sees" * 11), True)})
    assert run(model, [TranslationRequest(text, "eng_Latn", "fra_Latn")])[0].best.text == "sees" + " sees" * 11


def test_a_random_network_halts_where_it_loops(tmp_path: Path) -> None:
    """The real search: greedy output of an endless network repeats itself, and is stopped long before the cap."""
    endless = translator(tmp_path, seed=3, loudness=0.0)
    batch = [TranslationRequest("the cat sees a big dog and then she goes home now", *pair) for pair in PAIRS]
    assert all(not repair.loops(one.best.tokens) for one in run(endless, batch))


def test_a_lost_clause_is_translated_for_itself(model: NllbTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "the red cat sees the big dog, she goes home now."
    first, second = "the red cat sees the big dog,", "she goes home now."
    outcomes = {
        (text, 0): (ids(model, "dog"), True),
        (first, 0): (ids(model, "Hello World ."), True),
        (second, 0): (ids(model, "and then home ."), True),
    }
    asked = Scripted(model, monkeypatch, outcomes)
    found = run(model, [TranslationRequest(text, "eng_Latn", "fra_Latn")])[0]
    assert found.best.text == "Hello World and then home ."
    assert found.source_tokens == len(ids(model, text)) + 2
    assert [one for one, _ in asked.asked] == [text, first, second]
    outcomes |= {(first, 0): (ids(model, ""), True), (second, 0): (ids(model, ""), True)}
    assert run(model, [TranslationRequest(text, "eng_Latn", "fra_Latn")])[0].best.text == "dog", "no better in parts"


def test_capitals(model: NllbTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Scripted(model, monkeypatch, {("The cat runs", 0): (ids(model, "she sees"), True), ("CAT", 0): ([5], True)})
    assert run(model, [TranslationRequest("THE CAT RUNS", "eng_Latn", "fra_Latn")])[0].best.text == "SHE SEES"
    run(model, [TranslationRequest("CAT", "eng_Latn", "fra_Latn")])
    assert [text for text, _ in asked.asked] == ["The cat runs", "CAT"]


def test_shortlist(tmp_path: Path) -> None:
    """Only tokens of the list come out, through every kind of search; a list of everything changes nothing."""
    whole, listed = translator(tmp_path), translator(tmp_path, shortlist=1)
    for beams in (1, 3):
        batch = requests(8, beams=beams)
        for request, found in zip(batch, run(listed, batch), strict=True):
            allowed = set(whole.tokenizer.shortlist(request.target[4:], 1).tolist())
            assert set(found.best.tokens) <= allowed
    assert [one.best for one in run(listed, requests(8))] != [one.best for one in run(whole, requests(8))]


@pytest.mark.slow
def test_screening_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 8-bit copy of the output projection changes no token: alone, in batches, with drafts, with shortlists."""
    batch = requests(12)
    for shortlist in (0, 150):
        plain = translator(tmp_path, shortlist=shortlist)
        wanted = run(plain, batch)
        with monkeypatch.context() as patch:
            patch.setattr(vocabulary, "_INT8_ARGMAX_TOKENS", 1)
            screened = translator(tmp_path, shortlist=shortlist)
            found = run(screened, batch)
            head = screened._head("fra_Latn")
        if on_cpu():
            assert head.search is not None
            assert head.search.full > 0, "it must have been used"
        assert plain._head("fra_Latn").search is None
        assert [one.best.tokens for one in found] == [one.best.tokens for one in wanted]
        for request, one in zip(batch[:4], wanted, strict=False):
            drafted = TranslationRequest(request.text, request.source, request.target, draft=one.best.tokens[:6])
            assert run(screened, [drafted])[0].best.tokens == one.best.tokens


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        ({"bits": 8}, 4e-4, 0.15),
        ({"bits": 4}, 4e-4, 0.8),
        pytest.param(
            {"dtype": "bfloat16"},
            1e-4,
            0.02,
            marks=pytest.mark.skipif(
                not kernels.available(), reason="a GPU computes in it; without native kernels nothing"
            ),
        ),
    ],
)
def test_fewer_bits(tmp_path: Path, options: dict[str, Any], least: float, most: float) -> None:
    """Rounded weights give nearly the same hidden states, and translations come out. A CPU reads bfloat16, and computes
    in float32."""
    spec = ModelSpec("tiny", "nllb", files(tmp_path))
    whole, small = load(spec), load(replace(spec, **options))
    source = mx.array([whole.tokenizer.encode("the cat sees a dog", "eng_Latn")])
    a, b = (np.array(each.network.encode(source, mx.array([7]))[0]).ravel() for each in (whole, small))
    assert least < np.linalg.norm(a - b) / np.linalg.norm(a) < most
    if options.get("dtype"):
        assert small.network.shared.weight.size == 0, "no other copy is kept"
    for beams in (1, 3):
        found, wanted = (run(each, requests(4, beams=beams)) for each in (small, whole))
        assert [bool(one.best.text) for one in found] == [bool(one.best.text) for one in wanted]


def test_coverage(tmp_path: Path) -> None:
    """A demonstrator refuses what it was not made for, before anything is computed."""

    class Only:
        def check(self, text: str, source: str, target: str) -> None:
            if text != "the cat":
                raise OutsideCoverageError(text)

    model = translator(tmp_path, coverage=Only())
    assert run(model, [TranslationRequest("the cat", "eng_Latn", "fra_Latn")])
    with pytest.raises(OutsideCoverageError, match="the dog"):
        model.check(TranslationRequest("the dog", "eng_Latn", "fra_Latn"))


def batches(count: int) -> list[list[TranslationRequest]]:
    """Batches of every size, of sentences of every length, greedy and with beams."""
    rng = random.Random(0)
    return [
        [
            TranslationRequest(" ".join(rng.choices(WORDS, k=rng.randint(1, 40))), "eng_Latn", "deu_Latn", beams)
            for _ in range(rng.randint(1, MAX_BATCH))
        ]
        for beams in (1, 2, 5, 8)
        for _ in range(count)
    ]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_new_shape_after_warming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU each new one is compiled."""
    padded, seen = translator(tmp_path, padded=True), set[tuple[Any, ...]]()

    def noting(name: str, call: Any) -> Any:
        def noted(*given: Any) -> Any:
            flat = [part for one in given for part in (one if isinstance(one, list) else [one])]
            seen.add((name, *(part.shape for part in flat if hasattr(part, "shape"))))
            return call(*given)

        return noted

    for name in ("_encode", "_step", "_verify", "_best"):
        monkeypatch.setattr(padded.compiled, name, noting(name, getattr(padded.compiled, name)))
    padded.warm(lambda _step: None)
    warm = set(seen)
    for batch in batches(3):
        list(padded.translate(batch, Timeline(), lambda: False))
    for request in batches(1)[0][:6]:
        for count in (1, 7, 30):
            list(padded.translate([replace(request, draft=(9,) * count)], Timeline(), lambda: False))
    assert seen - warm == set()
    assert len(warm) > 50


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_bucket_is_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    padded = translator(tmp_path, padded=True)
    encode, seen = padded.compiled.encode, list[tuple[int, int]]()

    def noted(sources: list[list[int]], *given: Any) -> Any:
        seen.append((len(sources), len(sources[0])))
        return encode(sources, *given)

    monkeypatch.setattr(padded.compiled, "encode", noted)
    padded.warm(lambda _step: None)
    assert len(seen) == len(set(seen)) > 10
