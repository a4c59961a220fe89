"""NLLB-200-distilled-600M, M2M-100 418M and SMaLL-100 at full size against transformers (`make parity`).

The weights are random, and shared: they go through the file that transformers writes. Where a translation ended, and
which hypotheses came in which order, must be equal; scores to 1e-4. Inputs are short, so that two processors need
minutes and no more; the end of a sentence is made likely enough that some end by themselves.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from loadtest.official import M2M100, NLLB, SMALL100
from models.backend import mx
from models.checkpoint import read_arrays
from models.nllb.config import load_config
from models.nllb.network import Nllb
from models.nllb.search import TranslationHypothesis, TranslationTask
from models.nllb.steps import CompiledM2M100
from models.nllb.vocabulary import OutputProjection, logits
from models.nllb.weights import load_weights
from tests.models.nllb.builder import searched
from tests.parity import sample_or_all

if TYPE_CHECKING:
    from tests.models.nllb.reference import Reference

pytestmark = [pytest.mark.parity, pytest.mark.timeout(2400)]

RELATIVE = 1e-4

LIMIT, BEAMS = 9, 4
# Inputs of each model, for minutes on two processors: of NLLB's 25 every third. `PARITY=full` gives all of them, and
# SMaLL-100's. `NLLB_PARITY=50` gives as many to all, and to M2M-100 418M, too, which is SMaLL-100 with more layers.
INPUTS = sample_or_all({"nllb": range(1, 25, 3)}, {"nllb": range(25), "small100": range(12)})
GIVEN = os.environ.get("NLLB_PARITY")
Input = tuple[list[int], int | None]


@dataclass(frozen=True, slots=True)
class Size:
    """A model: its numbers, pairs of languages, and the first of the ids that are no pieces."""

    config: dict[str, Any]
    parameters: int
    pairs: tuple[tuple[int, int | None], ...]
    pieces: int

    def inputs(self, chosen: range) -> list[Input]:
        rng = random.Random(0)
        found: list[Input] = []
        for k in range(chosen.stop):
            first, target = self.pairs[k % len(self.pairs)]
            found.append(([first, *(rng.randrange(4, self.pieces) for _ in range(3 + k % 21)), 2], target))
        return [found[k] for k in chosen]


SIZES = {
    "nllb": Size(
        NLLB,
        615_073_792,
        ((256047, 256057), (256057, 256042), (256200, 256047), (256161, 256079), (256011, 256068)),
        256000,
    ),
    "m2m100": Size(
        M2M100, 483_905_536, ((128022, 128028), (128028, 128016), (128102, 128022), (128006, 128035)), 128004
    ),
    # The source begins with the target language.
    "small100": Size(SMALL100, 332_735_488, ((128028, None), (128022, None), (128102, None)), 128004),
}


class Ours:
    """This project's network, loaded from what the reference saved."""

    def __init__(self, folder: Any) -> None:
        config = load_config(folder / "config.json")
        self.network = Nllb(config)
        load_weights(self.network, read_arrays(folder / "model.safetensors"), "reference")
        self.network.lower()
        self.head: OutputProjection = self.network.shared.head()

    def search(self, inputs: Sequence[Input], beams: int, *, padded: bool = False) -> list[list[TranslationHypothesis]]:
        """All of `inputs` in one group."""
        tasks = [TranslationTask(source, target, LIMIT) for source, target in inputs]
        return searched(CompiledM2M100(self.network, padded=padded), self.head, tasks, beams)


@pytest.fixture(scope="module", params=SIZES if GIVEN else INPUTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def size(name: str) -> Size:
    return SIZES[name]


@pytest.fixture(scope="module")
def inputs(name: str, size: Size) -> list[Input]:
    return size.inputs(range(int(GIVEN)) if GIVEN else INPUTS[name])


@pytest.fixture(scope="module")
def reference(size: Size) -> Reference:
    from tests.models.nllb.reference import Reference

    return Reference(size.config, seed=1)


@pytest.fixture(scope="module")
def ours(size: Size, reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Ours:
    folder = tmp_path_factory.mktemp("nllb")
    reference.save(folder)
    assert sum(p.numel() for p in reference.model.parameters()) == size.parameters
    found = Ours(folder)
    (folder / "model.safetensors").unlink()
    return found


Expected = Callable[[int], list[tuple[list[list[int]], list[float]]]]


@pytest.fixture(scope="module")
def expected(reference: Reference, inputs: list[Input]) -> Expected:
    """Results of `generate` for each input alone, with so many beams; each computed once."""
    return cache(lambda beams: [reference.generate(source, target, beams, LIMIT) for source, target in inputs])


def distance(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))


def test_encoder_and_logits(reference: Reference, ours: Ours, inputs: list[Input]) -> None:
    worst = [0.0, 0.0]
    for source, target in inputs[:: len(inputs) // 4]:
        hidden, bias = ours.network.encode(mx.array([source]), mx.array([len(source)]))
        worst[0] = max(worst[0], distance(np.array(hidden)[0], reference.encode([source])[0]))
        decoded = [2, *([] if target is None else [target]), *source[1:4]]
        memory, past = ours.network.decoder.memories(hidden), ours.network.allocate(1, 8)
        out, _ = ours.network.advance(mx.array([decoded]), mx.array([0]), past, memory, bias)
        found = np.array(logits(ours.head.tree, out))[0]
        worst[1] = max(worst[1], distance(found, reference.logits(source, decoded)))
    print(f"\nlargest relative difference: encoder {worst[0]:.1e}, logits {worst[1]:.1e}")
    assert max(worst) < RELATIVE


def test_encoder_in_a_padded_batch(reference: Reference, ours: Ours, inputs: list[Input]) -> None:
    sources = [source for source, _ in inputs[:16]]
    length = max(map(len, sources)) + 3
    ids = np.full((len(sources), length), 1)
    for row, source in enumerate(sources):
        ids[row, : len(source)] = source
    hidden, _ = ours.network.encode(mx.array(ids), mx.array([len(source) for source in sources]))
    for row, wanted in enumerate(reference.encode(sources)):
        assert distance(np.array(hidden)[row, : len(wanted)], wanted) < RELATIVE


def _compare(found: list[list[TranslationHypothesis]], wanted: list[tuple[list[list[int]], list[float]]]) -> None:
    for mine, (tokens, scores) in zip(found, wanted, strict=True):
        assert [one.tokens for one in mine] == tokens
        if len(tokens) > 1:
            np.testing.assert_allclose([one.score for one in mine], scores, rtol=1e-4)


@pytest.mark.parametrize("beams", [1, BEAMS])
def test_alone(ours: Ours, expected: Expected, inputs: list[Input], beams: int) -> None:
    found = [ours.search([one], beams)[0] for one in inputs]
    _compare(found, expected(beams))
    assert len({tuple(mine[0].tokens) for mine in found}) > 0.8 * len(found), "equal translations would prove little"
    if len(found) >= 50:  # fewer may by chance all end alike
        ended = sum(mine[0].ended for mine in found)
        assert 1 <= ended < len(found), "both ways to end must occur"


@pytest.mark.parametrize("beams", [1, BEAMS])
@pytest.mark.parametrize("padded", [False, True])
def test_batched_with_mixed_languages(
    ours: Ours, expected: Expected, inputs: list[Input], beams: int, padded: bool
) -> None:
    size = 25 if beams == 1 else 5
    found = [
        one for k in range(0, len(inputs), size) for one in ours.search(inputs[k : k + size], beams, padded=padded)
    ]
    _compare(found, expected(beams))
