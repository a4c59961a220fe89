"""The reference package's T3 with random weights, as parity tests compare with it. Needs PyTorch.

Import `tests.models.chatterbox.reference_packages` before this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from chatterbox.models.t3.modules.cond_enc import T3Cond
from chatterbox.models.t3.t3 import T3
from safetensors.torch import save_file
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from tests.models.chatterbox.reference_packages import turbo_parameters


class Reference:
    """`T3()` or Turbo's, random in every parameter: defaults of zero or one would hide what is wired wrongly."""

    def __init__(self, variant: str, seed: int) -> None:
        self.llama = variant == "llama"
        with torch.device("meta"):
            shell = T3() if self.llama else T3(turbo_parameters())
        self.model = shell.to_empty(device="cpu").eval().requires_grad_(False)
        if self.llama:  # computed when made, hence empty as well
            self.model.tfmr.rotary_emb = LlamaRotaryEmbedding(self.model.cfg)
        draw = torch.Generator().manual_seed(seed)
        for name, p in self.model.named_parameters():
            _randomize(name, p, draw)

    def save(self, path: Path) -> None:
        """A safetensors file as the official ones are: everything the module has."""
        save_file({name: array.contiguous() for name, array in self.model.state_dict().items()}, path)

    def _cond(self, speaker: np.ndarray, prompt: Sequence[int], exaggeration: float) -> T3Cond:
        return T3Cond(
            speaker_emb=torch.from_numpy(speaker)[None],
            cond_prompt_speech_tokens=torch.tensor([list(prompt)]),
            emotion_adv=exaggeration * torch.ones(1, 1, 1),
        )

    def condition(self, speaker: np.ndarray, prompt: Sequence[int], exaggeration: float) -> np.ndarray:
        """Rows [n, C] before the text."""
        with torch.inference_mode():
            found: np.ndarray = self.model.prepare_conditioning(self._cond(speaker, prompt, exaggeration))[0].numpy()
        return found

    def logits(
        self, speaker: np.ndarray, prompt: Sequence[int], exaggeration: float, text: Sequence[int], said: Sequence[int]
    ) -> np.ndarray:
        """Without guidance: logits [1 + len(said), V] of the prefill and of every cached step, batch 1."""
        model = self.model
        with torch.inference_mode():
            ids = torch.tensor([[255, *text, 0] if self.llama else list(text)])
            embeds, _ = model.prepare_input_embeds(
                t3_cond=self._cond(speaker, prompt, exaggeration),
                text_tokens=ids,
                speech_tokens=torch.full((1, 1), model.hp.start_speech_token),
            )
            if self.llama:
                begin = model.speech_emb(torch.tensor([[model.hp.start_speech_token]]))
                embeds = torch.cat([embeds, begin + model.speech_pos_emb.get_fixed_embedding(0)], dim=1)
            out = model.tfmr(inputs_embeds=embeds, use_cache=True)
            found = [model.speech_head(out.last_hidden_state[:, -1])]
            for i, token in enumerate(said):
                x = model.speech_emb(torch.tensor([[token]]))
                if self.llama:
                    x = x + model.speech_pos_emb.get_fixed_embedding(i + 1)
                out = model.tfmr(inputs_embeds=x, past_key_values=out.past_key_values, use_cache=True)
                found.append(model.speech_head(out.last_hidden_state[:, -1]))
        return torch.cat(found).numpy()

    def inference(
        self,
        speaker: np.ndarray,
        prompt: Sequence[int],
        exaggeration: float,
        text: Sequence[int],
        said: Sequence[int],
        **sampling: float,
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The package's own loop, `said` in the place of what it would have drawn.

        Returns the heads' logits [B, V] of each step, and the probabilities [V] that it would have drawn from.
        """
        heads: list[np.ndarray] = []
        drawn: list[np.ndarray] = []
        forced = iter(said)

        def multinomial(probs: torch.Tensor, num_samples: int) -> torch.Tensor:
            drawn.append(probs[0].numpy().copy())
            return torch.full((1, num_samples), next(forced))

        def keep(_module: object, _inputs: object, output: torch.Tensor) -> None:
            heads.append(output[:, -1].numpy().copy())

        hook = self.model.speech_head.register_forward_hook(keep)
        ids = torch.tensor([[255, *text, 0] if self.llama else list(text)])
        cond = self._cond(speaker, prompt, exaggeration)
        try:
            with patch("torch.multinomial", multinomial), patch("chatterbox.models.t3.t3.tqdm", _quiet):
                if self.llama:
                    self.model.inference(
                        t3_cond=cond, text_tokens=torch.cat([ids, ids]), max_new_tokens=len(said), **sampling
                    )
                else:
                    self.model.inference_turbo(cond, ids, max_gen_len=len(said) - 1, **sampling)
        finally:
            hook.remove()
        return heads, drawn


def _quiet(steps: range, **_options: object) -> Iterator[int]:
    return iter(steps)


def _randomize(name: str, p: torch.nn.Parameter, draw: torch.Generator) -> None:
    if ".ln_" in name or "norm" in name:
        p.normal_(1.0 if name.endswith("weight") else 0.0, 0.1, generator=draw)
    elif name.endswith("bias"):
        p.normal_(0.0, 0.05, generator=draw)
    elif p.ndim == 2 and not any(part in name for part in ("emb.", "wpe", "wte", "embed_tokens")):
        fan = p.shape[0] if ".h." in name else p.shape[1]
        p.normal_(0.0, 1.0 / math.sqrt(fan), generator=draw)
    else:
        p.normal_(0.0, 0.5, generator=draw)
