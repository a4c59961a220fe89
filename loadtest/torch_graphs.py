"""CUDA graphs of PyTorch's work: what the peers share that launch a whole network at once."""

from __future__ import annotations

from collections.abc import Callable

import torch


def capture(work: Callable[[], object]) -> Callable[[], object]:
    """Return a function that replays what `work` sends to the GPU, by one launch."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # libraries choose their kernels and get their memory first
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    replay: Callable[[], object] = graph.replay
    return replay


def missing() -> str:
    """Return why no graph can be captured here, or nothing."""
    return "" if torch.cuda.is_available() else "PyTorch finds no CUDA device"
