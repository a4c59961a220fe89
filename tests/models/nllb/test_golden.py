"""A tiny network against transformers' values (tests/golden/make_nllb.py): what `make parity` shows at full size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.backend import mx
from models.nllb import steps
from models.nllb.config import load_config
from models.nllb.network import Nllb
from models.nllb.search import TranslationHypothesis, TranslationTask
from models.nllb.steps import CompiledM2M100
from models.nllb.vocabulary import OutputProjection, logits
from tests.golden.nllb_cases import BEAMS, LIMIT, LOUDNESS, SEED, inputs
from tests.models.nllb.builder import network, searched, write_config

GOLDEN = Path(__file__).parents[2] / "golden" / "nllb.npz"
INPUTS = inputs()
# Two float32 computations of some hundred sums each.
RELATIVE = 1e-5


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN) as file:
        return dict(file)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Nllb:
    return network(load_config(write_config(tmp_path_factory.mktemp("golden"))), SEED, LOUDNESS)


@pytest.fixture(scope="module")
def head(net: Nllb) -> OutputProjection:
    return net.shared.head()


def run(
    net: Nllb, head: OutputProjection, chosen: list[int], beams: int, *, padded: bool, ngram: int = 0
) -> list[list[TranslationHypothesis]]:
    """Search for these inputs in one group."""
    tasks = [TranslationTask(*INPUTS[k], limit=LIMIT) for k in chosen]
    return searched(CompiledM2M100(net, padded=padded), head, tasks, beams, ngram)


def test_encoder(net: Nllb, golden: dict[str, np.ndarray]) -> None:
    """Alone, and in one batch with padding."""
    length = max(len(source) for source, _ in INPUTS) + 2
    ids = np.full((len(INPUTS), length), 1)
    for row, (source, _) in enumerate(INPUTS):
        ids[row, : len(source)] = source
    together, _ = net.encode(mx.array(ids), mx.array([len(source) for source, _ in INPUTS]))
    for row, (source, _) in enumerate(INPUTS):
        alone, _ = net.encode(mx.array([source]), mx.array([len(source)]))
        wanted = golden[f"{row}/encoded"]
        for found in (np.array(alone)[0], np.array(together)[row, : len(source)]):
            assert np.max(np.abs(found - wanted)) < RELATIVE * np.max(np.abs(wanted))


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_logits(net: Nllb, head: OutputProjection, golden: dict[str, np.ndarray], cut: int) -> None:
    """Four decoded tokens in one pass, and in two: the first `cut`, then the others."""
    for k, (source, target) in enumerate(INPUTS):
        hidden, bias = net.encode(mx.array([source]), mx.array([len(source)]))
        memory, past = net.decoder.memories(hidden), net.allocate(1, 8)
        decoded = [2, target, *source[1:3]]
        found = []
        for start, piece in ((0, decoded[:cut]), (cut, decoded[cut:])):
            if piece:
                out, past = net.advance(mx.array([piece]), mx.array([start]), past, memory, bias)
                found.append(np.array(logits(head.tree, out))[0])
        wanted = golden[f"{k}/logits"]
        assert np.max(np.abs(np.concatenate(found) - wanted)) < RELATIVE * np.max(np.abs(wanted))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("kind", ["greedy", "unrepeated"])
def test_greedy(
    net: Nllb, head: OutputProjection, golden: dict[str, np.ndarray], together: bool, padded: bool, kind: str
) -> None:
    groups = [list(range(len(INPUTS)))] if together else [[k] for k in range(len(INPUTS))]
    ngram = 3 if kind == "unrepeated" else 0
    found = [one for group in groups for one in run(net, head, group, 1, padded=padded, ngram=ngram)]
    assert [mine[0].tokens for mine in found] == [golden[f"{k}/{kind}"].tolist() for k in range(len(INPUTS))]
    assert 0 < sum(mine[0].ended for mine in found) < len(INPUTS), "both ways to end must occur"


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_beams(net: Nllb, head: OutputProjection, golden: dict[str, np.ndarray], together: bool, padded: bool) -> None:
    """All hypotheses in their order, and their scores."""
    groups = [list(range(len(INPUTS)))] if together else [[k] for k in range(len(INPUTS))]
    found = [one for group in groups for one in run(net, head, group, BEAMS, padded=padded)]
    for k, mine in enumerate(found):
        wanted = [[token for token in row if token >= 0] for row in golden[f"{k}/beams"].tolist()]
        assert [one.tokens for one in mine] == wanted
        np.testing.assert_allclose([one.score for one in mine], golden[f"{k}/scores"], rtol=1e-4)
    assert any(mine[0].tokens != golden[f"{k}/greedy"].tolist() for k, mine in enumerate(found)), "beams must matter"


@pytest.mark.parametrize("beams", [1, BEAMS])
def test_as_on_a_gpu(
    net: Nllb, head: OutputProjection, golden: dict[str, np.ndarray], beams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every part compiled, shapes padded, and each step sent before the host reads the last one's tokens."""
    monkeypatch.setattr(steps, "on_cpu", lambda: False)
    assert CompiledM2M100(net, padded=True).ahead
    found = run(net, head, list(range(len(INPUTS))), beams, padded=True)
    for k, mine in enumerate(found):
        wanted = golden[f"{k}/greedy"] if beams == 1 else golden[f"{k}/beams"][0]
        assert mine[0].tokens == [token for token in wanted.tolist() if token >= 0]
