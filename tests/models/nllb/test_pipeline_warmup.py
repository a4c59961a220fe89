"""Warm-up: every shape is reported, and afterwards no batch asks for one that has not been run."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from models.contract import TranslationRequest
from models.nllb.pipeline import MAX_BATCH, NllbTranslator
from models.nllb.steps import CompiledNetwork
from models.timeline import Timeline
from tests.models.nllb.builder import WORDS, translator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


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


class Shapes:
    """Recorder of the shapes that the network gets; on a GPU each new one is compiled."""

    def __init__(self, stages: CompiledNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: set[tuple[Any, ...]] = set()
        for name in ("_encode", "_step", "_verify", "_best"):
            monkeypatch.setattr(stages, name, self._noting(name, getattr(stages, name)))

    def _noting(self, name: str, call: Any) -> Any:
        def noted(*given: Any) -> Any:
            flat = [part for one in given for part in (one if isinstance(one, list) else [one])]
            self.seen.add((name, *(part.shape for part in flat if hasattr(part, "shape"))))
            return call(*given)

        return noted


@pytest.fixture
def padded(tmp_path: Path) -> NllbTranslator:
    return translator(tmp_path, padded=True)


def test_no_new_shape_after_warming(padded: NllbTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = Shapes(padded.compiled, monkeypatch)
    padded.warm(lambda _step: None)
    warm = set(shapes.seen)
    for batch in batches(3):
        list(padded.translate(batch, Timeline(), lambda: False))
    for request in batches(1)[0][:6]:
        drafted = [TranslationRequest(request.text, *("eng_Latn", "deu_Latn"), draft=(9,) * n) for n in (1, 7, 30)]
        for one in drafted:
            list(padded.translate([one], Timeline(), lambda: False))
    assert shapes.seen - warm == set()
    assert len(warm) > 50


def test_each_bucket_is_encoded_once(padded: NllbTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    encode, seen = padded.compiled.encode, list[tuple[int, int]]()

    def noted(sources: list[list[int]], *given: Any) -> Any:
        seen.append((len(sources), len(sources[0])))
        return encode(sources, *given)

    monkeypatch.setattr(padded.compiled, "encode", noted)
    padded.warm(lambda _step: None)
    assert len(seen) == len(set(seen)) > 10
