"""transformers' M2M100 with random weights, as parity tests and goldens compare with it. Needs PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration

UNKNOWN, END, PAD = 3, 2, 1


class Reference:
    """A model of `config`, random in every parameter; ends are `loudness` times as loud as other tokens."""

    def __init__(self, config: dict[str, Any], seed: int, loudness: float = 3.0) -> None:
        known = {key: value for key, value in config.items() if key != "unk_token_id"}
        with torch.device("meta"):
            shell = M2M100ForConditionalGeneration(M2M100Config(**known))
        # Positions are not parameters: they are computed again once the tensors exist.
        self.model = shell.to_empty(device="cpu").eval()
        for stack in (self.model.model.encoder, self.model.model.decoder):
            table = stack.embed_positions
            table.make_weights(table.num_positions + table.offset, table.embedding_dim, table.padding_idx)
            stack.embed_tokens.weight = self.model.model.shared.weight
        self.model.lm_head.weight = self.model.model.shared.weight
        for module in self.model.modules():  # computed when made, hence empty as well
            if hasattr(module, "embed_scale"):
                module.embed_scale = math.sqrt(config["d_model"])
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                _randomize(name, p, draw)
            # Louder than the others, so that some translations end by themselves.
            self.model.model.shared.weight[END] *= loudness

    def save(self, folder: Path) -> None:
        """config.json and model.safetensors, as transformers writes them."""
        self.model.save_pretrained(folder)

    def encode(self, sources: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """The encoder's output [S, C] of each, all in one padded batch."""
        ids, mask = _padded(sources)
        with torch.inference_mode():
            hidden = self.model.model.encoder(ids, attention_mask=mask).last_hidden_state.numpy()
        return [row[: len(source)] for row, source in zip(hidden, sources, strict=True)]

    def logits(self, source: Sequence[int], decoded: Sequence[int]) -> np.ndarray:
        """Logits [T, V] after each of `decoded`."""
        with torch.inference_mode():
            out = self.model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([decoded]))
        found: np.ndarray = out.logits[0].numpy()
        return found

    def generate(
        self, source: Sequence[int], target: int | None, beams: int, limit: int, **more: Any
    ) -> tuple[list[list[int]], list[float]]:
        """Hypotheses of `generate`, best first, without prompt, padding and end; and their scores (beams only).

        Without a `target`, nothing is forced at the beginning.
        """
        start = 1 if target is None else 2
        with torch.inference_mode():
            out = self.model.generate(
                torch.tensor([source]),
                forced_bos_token_id=target,
                num_beams=beams,
                num_return_sequences=beams,
                max_new_tokens=limit + start - 1,
                do_sample=False,
                suppress_tokens=[UNKNOWN],
                return_dict_in_generate=True,
                output_scores=True,
                **more,
            )
        scores = out.sequences_scores.tolist() if beams > 1 else [math.nan]
        return [_plain(row[start:].tolist()) for row in out.sequences], scores


def _plain(tokens: list[int]) -> list[int]:
    """Return the tokens before the end."""
    return tokens[: tokens.index(END)] if END in tokens else [token for token in tokens if token != PAD]


def _padded(sources: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, sources))
    ids = torch.tensor([[*source, *[PAD] * (longest - len(source))] for source in sources])
    return ids, (ids != PAD).long()


def _randomize(name: str, p: torch.Tensor, draw: torch.Generator) -> None:
    """Values at which signals neither die nor explode, and logits differ by far more than rounding."""
    p.normal_(generator=draw)
    if name == "model.decoder.layer_norm.weight":
        return  # of both signs: with ones a token would mostly follow itself, as embeddings are tied
    if "layer_norm" in name and name.endswith("weight"):
        p.mul_(0.1).add_(1)
    elif name.endswith("bias"):
        p.mul_(0.05)
    elif p.ndim == 2:
        p.mul_((1.0 if "shared" in name else 1.4) / math.sqrt(p.shape[-1]))
