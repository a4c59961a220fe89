"""NLLB in PyTorch, used well: few operations, and encoder, prompt and decoding step captured as CUDA graphs.

transformers' `generate` launches thousands of small kernels from Python, and the host bounds it. A graph is one launch.
So this is the peer that shows what the GPU can do without kernels of one's own: `nllb_peers` runs it where there is
CUDA. Sentences of one shape only: as many source tokens each, without padding. The end of a sentence is not looked for,
but the tokens of every step are read before the next, as a search has to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from loadtest.torch_graphs import Attending, Dense, KeysValues, capture, missing
from models.layers.attention import sinusoids
from models.nllb.config import NllbConfig
from models.nllb.network import FIRST_POSITION


class Layer:
    """Weights of one layer of the encoder or decoder, projections of the same input joined."""

    def __init__(self, state: Mapping[str, Tensor], name: str) -> None:
        def dense(*parts: str) -> Dense:
            found = [
                torch.cat([state[f"{name}.{part}.{kind}"] for part in parts]).contiguous()
                for kind in ("weight", "bias")
            ]
            return found[0], found[1]

        self.norm, self.last_norm = dense("self_attn_layer_norm"), dense("final_layer_norm")
        self.qkv = dense(*(f"self_attn.{kind}_proj" for kind in "qkv"))
        self.out, self.fc1, self.fc2 = dense("self_attn.out_proj"), dense("fc1"), dense("fc2")
        if f"{name}.encoder_attn.q_proj.weight" in state:
            self.cross_norm = dense("encoder_attn_layer_norm")
            self.query, self.cross_out = dense("encoder_attn.q_proj"), dense("encoder_attn.out_proj")
            self.encoder_kv = dense(*(f"encoder_attn.{kind}_proj" for kind in "kv"))


class Network(Attending):
    """NLLB's arithmetic on tensors of the official names, on their device and in their type."""

    def __init__(self, config: NllbConfig, state: Mapping[str, Tensor]) -> None:
        super().__init__(config.d_model, config.decoder_attention_heads)
        self.config = config
        self.table = state["model.shared.weight"]
        positions = sinusoids(config.max_position_embeddings, config.d_model, FIRST_POSITION)
        self.positions = torch.as_tensor(positions).to(self.table)
        self.encoder = [Layer(state, f"model.encoder.layers.{i}") for i in range(config.encoder_layers)]
        self.decoder = [Layer(state, f"model.decoder.layers.{i}") for i in range(config.decoder_layers)]
        self.encoder_norm, self.decoder_norm = (
            (state[f"model.{side}.layer_norm.weight"], state[f"model.{side}.layer_norm.bias"])
            for side in ("encoder", "decoder")
        )

    def _feed(self, x: Tensor, layer: Layer) -> Tensor:
        return x + F.linear(F.relu(F.linear(self._norm(x, layer.last_norm), *layer.fc1)), *layer.fc2)

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        return F.embedding(ids, self.table) * self.config.embedding_scale + positions

    def encode(self, ids: Tensor) -> list[KeysValues]:
        """Source ids [B, S] -> keys and values of each decoder layer."""
        x = self._embed(ids, self.positions[: ids.shape[1]])
        for layer in self.encoder:
            q, k, v = F.linear(self._norm(x, layer.norm), *layer.qkv).chunk(3, -1)
            x = x + F.linear(self._attend(q, self._split(k), self._split(v)), *layer.out)
            x = self._feed(x, layer)
        x = self._norm(x, self.encoder_norm)
        pairs = (F.linear(x, *layer.encoder_kv).chunk(2, -1) for layer in self.decoder)
        return [(self._split(keys), self._split(values)) for keys, values in pairs]

    def step(self, ids: Tensor, position: Tensor, kv_cache: list[KeysValues], encoder_kv: list[KeysValues]) -> Tensor:
        """Decode ids [B, n] from `position` [1] on, writing into `kv_cache` -> the likeliest next tokens [B]."""
        positions = position + torch.arange(ids.shape[1], device=ids.device)
        x = self._embed(ids, self.positions[positions])
        mask = torch.arange(kv_cache[0][0].shape[2], device=ids.device) <= positions[:, None]
        for layer, (keys, values), cross_kv in zip(self.decoder, kv_cache, encoder_kv, strict=True):
            q, k, v = F.linear(self._norm(x, layer.norm), *layer.qkv).chunk(3, -1)
            keys.index_copy_(2, positions, self._split(k))
            values.index_copy_(2, positions, self._split(v))
            x = x + F.linear(self._attend(q, keys, values, mask), *layer.out)
            q = F.linear(self._norm(x, layer.cross_norm), *layer.query)
            x = x + F.linear(self._attend(q, *cross_kv), *layer.cross_out)
            x = self._feed(x, layer)
        logits = F.linear(self._norm(x[:, -1], self.decoder_norm), self.table)
        logits[:, self.config.unk_token_id] = -torch.inf
        return logits.argmax(-1)


class Translation:
    """Greedy search for sentences of one shape, in memory that is the same in every run."""

    def __init__(self, network: Network, start: Sequence[int], rows: int, source: int, target: int) -> None:
        """Prepare for `rows` sentences of `source` tokens, and `target` tokens after `start`; capture with CUDA."""
        device, table, config = network.table.device, network.table, network.config
        self.target = target
        heads, size = config.decoder_attention_heads, config.d_model // config.decoder_attention_heads

        def room(length: int) -> list[KeysValues]:
            both = torch.zeros((len(network.decoder), 2, rows, heads, length, size), device=device, dtype=table.dtype)
            return [(each[0], each[1]) for each in both]

        self.ids = torch.zeros((rows, source), dtype=torch.long, device=device)
        self.position, self.tokens = (torch.zeros(n, dtype=torch.long, device=device) for n in (1, rows))
        prompt = torch.tensor([list(start)] * rows, device=device)
        kv_cache, encoder_kv = room(len(start) + target), room(source)

        def encode() -> None:
            for stored, made in zip(encoder_kv, network.encode(self.ids), strict=True):
                for to, each in zip(stored, made, strict=True):
                    to.copy_(each)

        def begin() -> None:
            self.position.zero_()
            self.tokens.copy_(network.step(prompt, self.position, kv_cache, encoder_kv))
            self.position.add_(len(start))

        def step() -> None:
            self.tokens.copy_(network.step(self.tokens[:, None], self.position, kv_cache, encoder_kv))
            self.position.add_(1)

        with torch.inference_mode():
            parts: list[Callable[[], object]] = [encode, begin, step]
            self.encode, self.begin, self.step = [capture(part) for part in parts] if device.type == "cuda" else parts
            self.position.zero_()

    def __call__(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the tokens of each sentence; each step's are read before the next step is sent."""
        with torch.inference_mode():
            self.ids.copy_(torch.tensor(sources))
            self.encode()
            self.begin()
            found = [self.tokens.tolist()]
            for _ in range(self.target - 1):
                self.step()
                found.append(self.tokens.tolist())
        return [list(row) for row in zip(*found, strict=True)]


def load(path: Path, config: NllbConfig, device: str, dtype: torch.dtype) -> Network:
    """Read a network from a safetensors file with official names."""
    from safetensors.torch import load_file

    state = load_file(path)
    return Network(config, {name: array.to(device=device, dtype=dtype) for name, array in state.items()})


def runner(network: Network, start: Sequence[int], target: int) -> Callable[[list[list[int]]], int]:
    """Return a function from source ids, of one length, to the number of target tokens; captures each shape once."""
    by_shape: dict[tuple[int, int], Translation] = {}

    def run(given: list[list[int]]) -> int:
        shape = len(given), len(given[0])
        if shape not in by_shape:
            by_shape[shape] = Translation(network, start, *shape, target)
        return sum(map(len, by_shape[shape](given)))

    return run


def make(path: Path, config: NllbConfig, start: Sequence[int], target: int, dtype: str) -> Any:
    """Return `runner` on the GPU, for weights in `path`. Raises RuntimeError where there is no CUDA."""
    if reason := missing():
        raise RuntimeError(reason)
    return runner(load(path, config, "cuda", getattr(torch, dtype)), start, target)
