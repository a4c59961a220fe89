"""The peer with CUDA graphs, on the CPU without them: the same tokens as this project's network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.nllb import search
from models.nllb.config import NllbConfig
from models.nllb.search import TranslationTask
from models.nllb.steps import CompiledM2M100
from tests.models.nllb.builder import TINY, network, official_arrays

pytestmark = pytest.mark.parity

# Both sides with as many heads, as NLLB has them.
FIELDS = {key: TINY[key] for key in NllbConfig.__dataclass_fields__ if key in TINY}
CONFIG = NllbConfig(**FIELDS | {"encoder_attention_heads": TINY["decoder_attention_heads"]})
START, TARGET = (2, 150), 12
RNG = np.random.RandomState(0)
SOURCES = [[5, *RNG.randint(4, 190, 9).tolist(), 2] for _ in range(3)]


@pytest.fixture
def graphs() -> Any:
    pytest.importorskip("torch", reason="PyTorch is in the environment of `make parity`")
    from loadtest import nllb_graphs

    return nllb_graphs


def weights(silenced: str = "") -> dict[str, Any]:
    """Arrays by their official names, no end of a sentence among the likely tokens; one may be set to zero."""
    import torch

    found = official_arrays(CONFIG, 0, 0.0)
    return {name: torch.tensor(array) * (name != silenced) for name, array in found.items()}


def ours() -> list[list[int]]:
    compiled = CompiledM2M100(network(CONFIG, loudness=0.0), padded=False)
    group = compiled.encode(SOURCES, compiled.network.shared.head(), TARGET)
    tasks = [TranslationTask(source, START[1], TARGET) for source in SOURCES]
    found = dict(each for each in search.greedy(compiled, group, tasks, lambda: False) if each is not None)
    return [found[which][0].tokens for which in range(len(SOURCES))]


def test_the_same_tokens(graphs: Any) -> None:
    """Twice in the same memory, and as many as asked for; other weights give others."""
    wanted = ours()
    peer = graphs.Translation(graphs.Network(CONFIG, weights()), START, 3, 11, TARGET)
    assert peer(SOURCES) == wanted
    assert peer(SOURCES[::-1]) == wanted[::-1]
    run = graphs.runner(graphs.Network(CONFIG, weights()), START, TARGET)
    assert run(SOURCES) == run(SOURCES) == 3 * TARGET
    other = graphs.Network(CONFIG, weights("model.decoder.layers.0.encoder_attn.q_proj.bias"))
    assert graphs.Translation(other, START, 3, 11, TARGET)(SOURCES) != wanted


def test_without_cuda_it_says_so(graphs: Any, tmp_path: Path) -> None:
    if not graphs.missing():
        pytest.skip("there is CUDA")
    with pytest.raises(RuntimeError, match="no CUDA"):
        graphs.make(tmp_path / "none", CONFIG, START, TARGET, "bfloat16")
