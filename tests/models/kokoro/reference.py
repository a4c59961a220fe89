"""The reference package's network (`kokoro` 0.9.4) at any width. Needs torch: import inside functions only.

The package's own `__init__` pulls in its G2P; its network modules alone are loaded, as a package without one. Two
things are pinned so that results can be compared: the noise on the harmonics is given instead of drawn, and the STFT's
first frame, symmetric by reflection, gets the imaginary part +0 instead of rounding noise, whose sign would choose
between +pi and -pi.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.utils import weight_norm
from transformers import AlbertConfig

from loadtest.kokoro_reference import import_reference

HARMONICS = 9


class Spoken(NamedTuple):
    """Everything the reference computes for one utterance; `text` and `phase` (of the source) are channels first."""

    durations: np.ndarray
    f0: np.ndarray
    energy: np.ndarray
    text: np.ndarray
    noise: np.ndarray
    phase: np.ndarray
    waveform: np.ndarray


class Reference:
    """The five parts, with the widths of a configuration in the official file's keys."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        with warnings.catch_warnings():
            # torch deprecates the weight_norm that the reference and its checkpoint use.
            warnings.simplefilter("ignore")
            self.istftnet, modules = import_reference()
            hidden, style = values["hidden_dim"], values["style_dim"]
            bert = AlbertConfig(vocab_size=values["n_token"], **values["plbert"])
            depth = values.get("text_encoder_layers", values["n_layer"])
            self.parts: dict[str, Any] = {
                "bert": modules.CustomAlbert(bert),
                "bert_encoder": nn.Linear(values["plbert"]["hidden_size"], hidden),
                "predictor": modules.ProsodyPredictor(style, hidden, values["n_layer"], values["max_dur"]),
                "text_encoder": modules.TextEncoder(
                    hidden, values["text_encoder_kernel_size"], depth, values["n_token"]
                ),
                "decoder": self._decoder(values),
            }
        for part in self.parts.values():
            part.eval()
        self.style_dim = style
        stft = self.parts["decoder"].generator.stft
        self._stft, stft.transform = stft, partial(_transform, stft)

    def _decoder(self, values: Mapping[str, Any]) -> Any:
        hidden, style, istft = values["hidden_dim"], values["style_dim"], values["istftnet"]
        decoder = self.istftnet.Decoder(dim_in=hidden, style_dim=style, dim_out=80, **istft)
        width, residual = values.get("decoder_dim", 1024), values.get("residual_dim", 64)
        if (width, residual, hidden, istft["upsample_initial_channel"]) != (1024, 64, 512, 512):
            # The reference hard-codes these widths: other ones are put in place.
            block, joined = self.istftnet.AdainResBlk1d, width + 2 + residual
            decoder.encode = block(hidden + 2, width, style)
            last = block(joined, istft["upsample_initial_channel"], style, upsample=True)
            decoder.decode = nn.ModuleList([*(block(joined, width, style) for _ in range(3)), last])
            decoder.asr_res = nn.Sequential(weight_norm(nn.Conv1d(hidden, residual, 1)))
        return decoder

    def load(self, arrays: Mapping[str, torch.Tensor]) -> None:
        """Load arrays in the official names, without `module.`; only InstanceNorm's affine may be left out."""
        for name, part in self.parts.items():
            own = {key[len(name) + 1 :]: value for key, value in arrays.items() if key.startswith(f"{name}.")}
            missing, extra = part.load_state_dict(own, strict=False)
            unread = ("position_ids", "token_type_ids", "pooler.weight", "pooler.bias")
            missing = [key for key in missing if ".norm." not in f".{key}" and not key.endswith(unread)]
            assert not missing, f"{name}: {missing}"
            assert not extra, f"{name}: {extra}"

    def randomize(self, seed: int) -> None:
        """Weights under which every parameter matters and signals keep a sound level: norms, biases, alphas too.

        Durations come out at one to five frames, so that long inputs stay affordable, F0 near 120 Hz.
        """
        rng = torch.Generator().manual_seed(seed)

        def normal(like: torch.Tensor, scale: float, offset: float = 0.0) -> torch.Tensor:
            return offset + scale * torch.randn(like.shape, generator=rng)

        with torch.no_grad():
            for part, module in self.parts.items():
                for name, p in module.named_parameters():
                    if ".norm." in name and part in ("decoder", "predictor"):
                        continue  # InstanceNorm's affine, absent in the official file
                    if "alpha" in name:
                        p.copy_(torch.rand(p.shape, generator=rng) * 1.5 + 0.3)
                    elif name.endswith("bias"):
                        p.copy_(normal(p, 0.05))
                    elif name.endswith("gamma") or (name.endswith("weight") and p.ndim == 1):
                        p.copy_(normal(p, 0.1, 1.0))
                    elif name.endswith("weight_v"):
                        p.copy_(normal(p, 0.1))
                    elif name.endswith("weight_g"):
                        spread, least = (0.5, 0.5) if "ups" in name else (0.4, 0.3)
                        p.copy_(torch.rand(p.shape, generator=rng) * spread + least)
                    elif ".fc." in name:
                        p.copy_(normal(p, 0.02))
                    else:
                        p.copy_(normal(p, 1 / math.sqrt(p[0].numel())))
            predictor, decoder = self.parts["predictor"], self.parts["decoder"]
            predictor.duration_proj.linear_layer.weight.mul_(3)
            predictor.duration_proj.linear_layer.bias.fill_(-3.2)
            predictor.F0_proj.weight.mul_(60.0)
            predictor.F0_proj.bias.fill_(120.0)
            decoder.F0_conv.weight_g.mul_(0.01)
            decoder.generator.m_source.l_linear.weight.copy_(normal(torch.zeros(1, HARMONICS), 0.4))

    def official(self) -> dict[str, dict[str, torch.Tensor]]:
        """The five state dicts of the official file: `module.` prefixes, no InstanceNorm affine."""
        return {
            part: {
                f"module.{key}": value
                for key, value in module.state_dict().items()
                if not (part in ("decoder", "predictor") and ".norm." in key)
            }
            for part, module in self.parts.items()
        }

    def speak(self, ids: list[int], style: np.ndarray, seed: int, speed: float = 1.0) -> Spoken:
        """Token ids with their boundaries and a style row [1, 2 * style_dim]; the noise is numpy's for `seed`."""
        decoder_style, prosody = torch.from_numpy(style).split(self.style_dim, dim=1)
        parts, predictor = self.parts, self.parts["predictor"]
        with torch.no_grad():
            tokens, length = torch.tensor([ids]), torch.tensor([len(ids)])
            mask = torch.zeros_like(tokens, dtype=torch.bool)
            hidden = parts["bert_encoder"](parts["bert"](tokens, attention_mask=(~mask).int())).transpose(1, 2)
            encoded = predictor.text_encoder(hidden, prosody, length, mask)
            expected = torch.sigmoid(predictor.duration_proj(predictor.lstm(encoded)[0])).sum(-1)[0]
            expected[1:-1] /= speed
            durations = torch.round(expected).clamp(min=1).long()
            rows = torch.repeat_interleave(torch.arange(len(ids)), durations)
            f0, energy = predictor.F0Ntrain(encoded[:, rows].transpose(1, 2), prosody)
            text = parts["text_encoder"](tokens, length, mask)[:, :, rows]
            noise = merged_noise(seed, len(rows) * 600)
            waveform = self._decode(text, f0, energy, decoder_style, noise)
        found = (durations, f0[0], energy[0], text, noise, self._stft.last_phase, waveform)
        return Spoken(*(tensor.numpy() if isinstance(tensor, torch.Tensor) else tensor for tensor in found))

    def _decode(self, text: Any, f0: Any, energy: Any, style: Any, noise: np.ndarray) -> Any:
        """The decoder with the given noise on its nine harmonics."""
        drawn, original = torch.from_numpy(noise)[None], torch.randn_like
        torch.randn_like = lambda like, **kw: drawn if like.shape == drawn.shape else original(like, **kw)
        try:
            return self.parts["decoder"](text, f0, energy, style)[0, 0]
        finally:
            torch.randn_like = original


def merged_noise(seed: int, samples: int) -> np.ndarray:
    """Unit noise [samples, 9] on the harmonics, the same on every machine; @ the merge's weights it is ours."""
    return np.random.RandomState(seed).standard_normal((samples, HARMONICS)).astype(np.float32)


def _transform(stft: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """TorchSTFT.transform with a real first frame."""
    z = torch.stft(x, stft.filter_length, stft.hop_length, stft.win_length, window=stft.window, return_complex=True)
    first = torch.arange(z.shape[-1]) == 0
    z = torch.complex(z.real, torch.where(first, torch.zeros_like(z.imag), z.imag))
    stft.last_phase = z.angle()
    # How far the nearest bin is from the other branch: inner bins left of zero from +-pi, real bins from zero.
    inner, ends = z[:, 1:-1, 1:], z.real[:, (0, -1)]
    stft.margin = float(min(inner.imag[inner.real < 0].abs().min(), ends.abs().min()))
    return z.abs(), stft.last_phase


def house_reference(folder: Path) -> tuple[Reference, dict[str, Any]]:
    """The reference's modules with the weights of models/house, and its configuration."""
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    reference = Reference(values)
    reference.load({key: value.float() for key, value in load_file(str(folder / "model.safetensors")).items()})
    return reference, values
