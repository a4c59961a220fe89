"""The peer with CUDA graphs, on the CPU without them: the same tokens as this project's network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mlx.utils import tree_flatten

from loadtest.whisper_peers import openai_names
from models.backend import mx
from models.whisper.network import Whisper
from models.whisper.rules import TokenRules
from models.whisper.search import Sampled, WindowTask, search
from models.whisper.steps import Steps
from models.whisper.weights import load_weights, rename
from tests.models.whisper.builder import config, drain, openai_arrays

pytestmark = pytest.mark.parity

CONFIG, PROMPT, TARGET, NEVER = config(n_vocab=2000), [1, 2, 3], 12, [7, 9]
MEL = np.random.RandomState(0).standard_normal((2, 40, 80)).astype(np.float32)


def test_the_same_tokens() -> None:
    """Twice in the same memory; other windows give others."""
    torch = pytest.importorskip("torch", reason="PyTorch is in the environment of `make parity`")
    from loadtest import whisper_graphs

    network = Whisper(CONFIG)
    load_weights(
        network, rename({name: mx.array(array) for name, array in openai_arrays(CONFIG, 2).items()}, CONFIG), "arrays"
    )
    named = openai_names(dict(tree_flatten(network.parameters())))
    state: dict[str, Any] = {name: torch.tensor(value) for name, value in named.items()}
    network.lower()
    steps = Steps(network)
    states = [Sampled(1, -1, 0.0, np.random.default_rng(0)) for _ in MEL]
    tasks = [WindowTask(PROMPT, 0, TARGET)] * 2
    drain(search(steps, drain(steps.encode(MEL)), tasks, states, TokenRules(NEVER, (), None), lambda: False))
    wanted = [state.sampled[0] for state in states]
    peer = whisper_graphs.Recognition(whisper_graphs.Network(CONFIG, state), PROMPT, NEVER, 2, 40, TARGET)
    for order in (1, -1):
        peer.hear(torch.tensor(MEL[::order].swapaxes(1, 2).copy()))
        assert peer.search() == peer.search() == wanted[::order]
    assert wanted[0] != wanted[1]
