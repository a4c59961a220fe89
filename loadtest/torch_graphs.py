"""CUDA graphs of PyTorch's work: what the peers share that launch a whole network at once, and their attention."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Dense = tuple[Tensor, Tensor]
"""Weight [O, I] and bias [O]."""
KeysValues = tuple[Tensor, Tensor]
"""Both [B, H, T, C / H]."""


class Attending:
    """Norms and attention of a Transformer whose encoder and decoder have the same width and as many heads."""

    def __init__(self, width: int, heads: int) -> None:
        self._width, self._heads = width, heads

    def _norm(self, x: Tensor, norm: Dense) -> Tensor:
        return F.layer_norm(x, (self._width,), *norm)

    def _split(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, H, T, C / H]."""
        return x.unflatten(-1, (self._heads, -1)).transpose(1, 2)

    def _attend(self, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
        found = F.scaled_dot_product_attention(self._split(q), keys, values, attn_mask=mask)
        return found.transpose(1, 2).flatten(2)


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
