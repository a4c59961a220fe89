"""T3 at full size against the reference package, on shared random weights (`make parity`).

Weights go through a safetensors file as the official ones are. Logits of the prefill and of every cached step are
compared, relative to their largest; with guidance the package's own loop runs, told what to say.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.config import VARIANTS, T3Config
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.weights import load_weights
from models.checkpoint import read_arrays
from models.contract import Sampling
from tests.parity import sample_or_all

if TYPE_CHECKING:
    from tests.models.chatterbox.t3.reference import Reference

pytestmark = [
    pytest.mark.parity,
    pytest.mark.timeout(3_600),
    # The reference's perceiver, and its names of caches.
    pytest.mark.filterwarnings("ignore:.*(sdp_kernel|`past_key_values` is deprecated):FutureWarning"),
]

RELATIVE = 1e-4
VARIANT = "llama"  # that of this file; test_parity_t3_turbo.py has the other one
NAMES = {"llama": "chatterbox", "gpt2": "chatterbox-turbo"}


@dataclass
class Case:
    """One voice and text, and what is said."""

    speaker: np.ndarray
    prompt: list[int]
    text: list[int]
    said: list[int]
    exaggeration: float

    @staticmethod
    def random(config: T3Config, seed: int, text: int, said: int, prompt: int | None = None) -> Case:
        rng = np.random.RandomState(seed)
        return Case(
            speaker=rng.standard_normal(256).astype(np.float32) / 16,
            prompt=rng.randint(0, 6561, prompt or config.prompt_tokens).tolist(),
            text=rng.randint(1, min(config.text_vocabulary, 254), text).tolist(),
            said=rng.randint(0, 6561, said).tolist(),
            exaggeration=0.3 + 0.2 * seed,
        )


def relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Largest difference, relative to the reference's largest value."""
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


class Pair:
    """The reference, and ours loaded from its file."""

    def __init__(self, variant: str, folder: Path) -> None:
        importlib.import_module("tests.models.chatterbox.reference_packages")
        reference = importlib.import_module("tests.models.chatterbox.t3.reference")
        self.reference: Reference = reference.Reference(variant, seed=1)
        self.config = VARIANTS[NAMES[variant]].t3  # type: ignore[index]
        path = folder / f"{variant}.safetensors"
        self.reference.save(path)
        self.network = T3(self.config)
        load_weights(self.network, read_arrays(path), str(path))
        self.network.lower()
        path.unlink()

    def condition(self, case: Case) -> mx.array:
        prompt = mx.array(case.prompt, dtype=mx.int32)
        return self.network.condition(mx.array(case.speaker), prompt, case.exaggeration)

    def logits(self, case: Case, *, guided: bool, padding: int = 0) -> np.ndarray:
        """Logits [1 + len(said), B, V] of the prefill and each step; the prompt is padded by `padding` rows."""
        embeddings = self.network.prompt(self.condition(case), case.text, guided)
        batch, count, _ = embeddings.shape
        embeddings = mx.pad(embeddings, [(0, 0), (0, padding), (0, 0)])
        cache = self.network.allocate(batch, count + padding + len(case.said) + 3)
        logits, cache = self.network.prefill(embeddings, mx.array([count]), cache)
        found = [np.array(logits)]
        for i, token in enumerate(case.said):
            logits, cache = self.network.advance(mx.array([token]), mx.array([count + i, i + 1]), cache)
            found.append(np.array(logits[:, 0]))
        return np.stack(found)


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = Pair(request.module.VARIANT, tmp_path_factory.mktemp("t3"))
    yield found
    mx.clear_cache()


def test_sizes(pair: Pair) -> None:
    """The full-size network has 532 million parameters, as published."""
    count = sum(p.numel() for p in pair.reference.model.parameters())
    low, high = (530e6, 540e6) if pair.reference.llama else (410e6, 480e6)
    assert low < count < high


@pytest.mark.parametrize("exaggeration", [0.0, 0.5, 1.7])
def test_conditioning(pair: Pair, exaggeration: float) -> None:
    """The prompt's length is the model's own, and any shorter one."""
    for prompt in (pair.config.prompt_tokens, 7):
        case = Case.random(pair.config, 3, text=1, said=0, prompt=prompt)
        case.exaggeration = exaggeration
        theirs = pair.reference.condition(case.speaker, case.prompt, exaggeration)
        assert len(theirs) == (34 if pair.reference.llama else 1 + prompt)
        assert relative(np.array(pair.condition(case))[0], theirs) < RELATIVE


@pytest.mark.parametrize(("seed", "text", "padding"), sample_or_all([(1, 40, 16)], [(0, 3, 0), (1, 40, 16)]))
def test_unguided(pair: Pair, seed: int, text: int, padding: int) -> None:
    """Batch 1: prefill and eight cached steps. (In the reference cfg_weight 0 crashes; its parts do not.)"""
    case = Case.random(pair.config, seed, text, said=8)
    theirs = pair.reference.logits(case.speaker, case.prompt, case.exaggeration, case.text, case.said)
    ours = pair.logits(case, guided=False, padding=padding)[:, 0]
    for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert relative(a, b) < RELATIVE, f"step {step}"


def drawn_from(config: T3Config, heads: list[np.ndarray], said: list[int], sampled: dict[str, float]) -> np.ndarray:
    """Our processors on the reference's logits: probabilities [steps, V]."""
    chosen = sampling.rules(config, Sampling(**sampled))
    found = []
    for step, logits in enumerate(heads):
        seen = sampling.after(config, said[:step]) if step else sampling.first_seen(config)
        scores = sampling.guide(mx.array(logits)[:, None], chosen.params())
        scores = sampling.process(scores, seen[None], chosen.params(), chosen.mode(config))
        found.append(np.array(mx.softmax(scores, axis=-1))[0])
    return np.stack(found)


@pytest.mark.parametrize("sampled", [{}, {"temperature": 0.6, "top_p": 0.7, "min_p": 0.1, "repetition_penalty": 2.0}])
def test_the_packages_own_loop(pair: Pair, sampled: dict[str, float]) -> None:
    """Told what to say, among it repetitions: logits of every row and step, and what each token is drawn from."""
    case = Case.random(pair.config, 2, text=25, said=9)
    case.said[5], case.said[7] = case.said[0], case.said[0]
    theirs = {name: value for name, value in sampled.items() if pair.config.guided or name != "min_p"}
    if pair.config.guided:
        theirs.setdefault("top_p", 1.0)  # the public function's default, not the loop's
    heads, drawn = pair.reference.inference(
        case.speaker, case.prompt, case.exaggeration, case.text, case.said, **theirs
    )
    ours = pair.logits(case, guided=pair.config.guided, padding=5)
    assert len(drawn) == 9 and heads[0].shape[0] == (2 if pair.config.guided else 1)
    for step, (a, b) in enumerate(zip(ours, heads, strict=False)):
        assert relative(a, b) < RELATIVE, f"step {step}"
        if pair.config.guided:
            assert relative(a[1:], a[:1]) > 1e-2  # the second row has not read the text
    expected = np.stack(drawn)
    found = drawn_from(pair.config, heads[:9], case.said, sampled)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(found > 0, expected > 0)


def test_several_at_once(pair: Pair) -> None:
    """Four tokens in one pass, as drafts are verified: the logits after each."""
    case = Case.random(pair.config, 4, text=12, said=4)
    theirs = pair.reference.logits(case.speaker, case.prompt, case.exaggeration, case.text, case.said)
    embeddings = pair.network.prompt(pair.condition(case), case.text)
    count = embeddings.shape[1]
    _, cache = pair.network.prefill(embeddings, mx.array([count]), pair.network.allocate(1, count + 4))
    logits, _ = pair.network.advance(mx.array(case.said), mx.array([count, 1]), cache)
    assert relative(np.array(logits)[0], theirs[1:]) < RELATIVE
