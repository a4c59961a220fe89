"""Whisper in PyTorch, used well: few operations, and encoder, prompt and decoding step captured as CUDA graphs.

So this is the peer that shows what the GPU can do without kernels of one's own: `whisper_peers` runs it where there is
CUDA. Greedy, one kind of window: as many frames in each. Tokens that never come out are suppressed, and the
log-probability of each token is summed up, as Whisper's fallback needs it; timestamps have no order, and the end is not
looked for. The tokens of every step are read before the next, as a search has to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from loadtest.torch_graphs import Attending, Dense, KeysValues, capture
from models.whisper.config import WhisperConfig


class Block:
    """Weights of one block of the encoder or decoder, projections of the same input joined."""

    def __init__(self, state: Mapping[str, Tensor], name: str) -> None:
        def dense(*parts: str) -> Dense:
            weight = torch.cat([state[f"{name}.{part}.weight"] for part in parts]).contiguous()
            none = torch.zeros(len(weight) // len(parts)).to(weight)  # keys have no bias
            bias = [state.get(f"{name}.{part}.bias", none) for part in parts]
            return weight, torch.cat(bias).contiguous()

        self.norm, self.last_norm = dense("attn_ln"), dense("mlp_ln")
        self.qkv = dense("attn.query", "attn.key", "attn.value")
        self.out, self.mlp1, self.mlp2 = dense("attn.out"), dense("mlp.0"), dense("mlp.2")
        if f"{name}.cross_attn.query.weight" in state:
            self.cross_norm = dense("cross_attn_ln")
            self.query, self.cross_out = dense("cross_attn.query"), dense("cross_attn.out")
            self.memory = dense("cross_attn.key", "cross_attn.value")


class Network(Attending):
    """Whisper's arithmetic on tensors of openai-whisper's names, on their device and in their type."""

    def __init__(self, config: WhisperConfig, state: Mapping[str, Tensor]) -> None:
        super().__init__(config.n_text_state, config.n_text_head)
        self.config = config
        self.convolutions = [(state[f"encoder.conv{i}.weight"], state[f"encoder.conv{i}.bias"]) for i in (1, 2)]
        self.heard = state["encoder.positional_embedding"]
        self.table, self.positions = state["decoder.token_embedding.weight"], state["decoder.positional_embedding"]
        self.encoder = [Block(state, f"encoder.blocks.{i}") for i in range(config.n_audio_layer)]
        self.decoder = [Block(state, f"decoder.blocks.{i}") for i in range(config.n_text_layer)]
        self.encoder_norm, self.decoder_norm = (
            (state[f"{name}.weight"], state[f"{name}.bias"]) for name in ("encoder.ln_post", "decoder.ln")
        )

    def _feed(self, x: Tensor, block: Block) -> Tensor:
        return x + F.linear(F.gelu(F.linear(self._norm(x, block.last_norm), *block.mlp1)), *block.mlp2)

    def encode(self, mel: Tensor) -> list[KeysValues]:
        """Spectrograms [B, mels, frames] -> keys and values of each decoder block."""
        (first, first_bias), (second, second_bias) = self.convolutions
        x = F.gelu(F.conv1d(mel, first, first_bias, padding=1))
        x = F.gelu(F.conv1d(x, second, second_bias, stride=2, padding=1)).transpose(1, 2)
        x = x + self.heard[: x.shape[1]]
        for block in self.encoder:
            q, k, v = F.linear(self._norm(x, block.norm), *block.qkv).chunk(3, -1)
            x = x + F.linear(self._attend(q, self._split(k), self._split(v)), *block.out)
            x = self._feed(x, block)
        x = self._norm(x, self.encoder_norm)
        pairs = (F.linear(x, *block.memory).chunk(2, -1) for block in self.decoder)
        return [(self._split(keys), self._split(values)) for keys, values in pairs]

    def step(self, ids: Tensor, place: Tensor, past: list[KeysValues], memory: list[KeysValues]) -> Tensor:
        """Decode ids [B, n] at places `place` [1] on, writing into `past` -> the logits [B, V] of the next tokens."""
        places = place + torch.arange(ids.shape[1], device=ids.device)
        x = F.embedding(ids, self.table) + self.positions[places]
        mask = torch.arange(past[0][0].shape[2], device=ids.device) <= places[:, None]
        for block, (keys, values), kept in zip(self.decoder, past, memory, strict=True):
            q, k, v = F.linear(self._norm(x, block.norm), *block.qkv).chunk(3, -1)
            keys.index_copy_(2, places, self._split(k))
            values.index_copy_(2, places, self._split(v))
            x = x + F.linear(self._attend(q, keys, values, mask), *block.out)
            q = F.linear(self._norm(x, block.cross_norm), *block.query)
            x = x + F.linear(self._attend(q, *kept), *block.cross_out)
            x = self._feed(x, block)
        return F.linear(self._norm(x[:, -1], self.decoder_norm), self.table)


class Recognition:
    """Greedy search for windows of one shape, in memory that is the same in every run."""

    def __init__(
        self, network: Network, prompt: Sequence[int], never: Sequence[int], rows: int, frames: int, target: int
    ) -> None:
        """Prepare for `rows` windows of `frames`, and `target` tokens after `prompt`; capture with CUDA."""
        device, table, config = network.table.device, network.table, network.config
        self.target = target
        heads, size = config.n_text_head, config.n_text_state // config.n_text_head

        def room(length: int) -> list[KeysValues]:
            both = torch.zeros((len(network.decoder), 2, rows, heads, length, size), device=device, dtype=table.dtype)
            return [(each[0], each[1]) for each in both]

        self.mel = torch.zeros((rows, config.n_mels, frames), device=device, dtype=table.dtype)
        self.place, self.tokens = (torch.zeros(n, dtype=torch.long, device=device) for n in (1, rows))
        self.scores = torch.zeros(rows, device=device)
        self.memory = room(frames // 2)
        ids = torch.tensor([list(prompt)] * rows, device=device)
        past = room(len(prompt) + target)
        barred = torch.zeros(config.n_vocab, device=device)
        barred[list(never)] = -torch.inf

        def choose(logits: Tensor) -> None:
            likelihood = F.log_softmax(logits.float() + barred, dim=-1)
            best, token = likelihood.max(-1)
            self.tokens.copy_(token)
            self.scores.add_(best)

        def encode() -> None:
            for kept, made in zip(self.memory, network.encode(self.mel), strict=True):
                for to, each in zip(kept, made, strict=True):
                    to.copy_(each)

        def begin() -> None:
            self.place.zero_()
            self.scores.zero_()
            choose(network.step(ids, self.place, past, self.memory))
            self.place.add_(len(prompt))

        def step() -> None:
            choose(network.step(self.tokens[:, None], self.place, past, self.memory))
            self.place.add_(1)

        with torch.inference_mode():
            parts: list[Callable[[], object]] = [encode, begin, step]
            self.encode, self.begin, self.step = [capture(part) for part in parts] if device.type == "cuda" else parts
            self.place.zero_()

    def hear(self, mel: Tensor) -> None:
        """Encode spectrograms [B, mels, frames]; returns when the GPU is done."""
        with torch.inference_mode():
            self.mel.copy_(mel)
            self.encode()
            if mel.device != self.mel.device:
                torch.cuda.synchronize()

    def search(self) -> list[list[int]]:
        """Return the tokens of each window; each step's are read before the next step is sent."""
        with torch.inference_mode():
            self.begin()
            found = [self.tokens.tolist()]
            for _ in range(self.target - 1):
                self.step()
                found.append(self.tokens.tolist())
            self.scores.tolist()
        return [list(row) for row in zip(*found, strict=True)]
