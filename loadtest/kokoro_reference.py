"""Kokoro-82M's reference modules (PyTorch) with random weights at full size, for benchmarks and parity.

Needs PyTorch, transformers and the reference package (`pip install --no-deps kokoro==0.9.4`). The package's own
`__init__` pulls in a whole G2P stack; only its network modules are imported here.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from loadtest.official import KOKORO

FRAMES_PER_TOKEN = 4
_DECODER = {
    "dim_in": KOKORO["hidden_dim"],
    "style_dim": KOKORO["style_dim"],
    "dim_out": KOKORO["n_mels"],
    **KOKORO["istftnet"],
}


def import_reference() -> tuple[Any, Any]:
    """The reference's `istftnet` and `modules`, without running its package's `__init__`."""
    if "kokoro" not in sys.modules:
        spec = importlib.util.find_spec("kokoro")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("the reference package is missing: pip install --no-deps kokoro==0.9.4")
        package = types.ModuleType("kokoro")
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["kokoro"] = package
    warnings.filterwarnings("ignore", module="torch.*")
    from kokoro import istftnet, modules

    return istftnet, modules


class Reference(torch.nn.Module):
    """The five parts, random in every parameter that inference reads; each token lasts FRAMES_PER_TOKEN frames."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        from transformers import AlbertConfig

        istftnet, modules = import_reference()
        c = KOKORO
        torch.manual_seed(seed)
        self.bert = modules.CustomAlbert(AlbertConfig(vocab_size=c["n_token"], **c["plbert"]))
        hidden, style, layers = c["hidden_dim"], c["style_dim"], c["n_layer"]
        self.bert_encoder = torch.nn.Linear(c["plbert"]["hidden_size"], hidden)
        self.predictor = modules.ProsodyPredictor(style, hidden, layers, c["max_dur"], c["dropout"])
        self.text_encoder = modules.TextEncoder(hidden, c["text_encoder_kernel_size"], layers, c["n_token"])
        self.decoder = istftnet.Decoder(**_DECODER)
        self.eval()
        draw = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            for name, p in self.named_parameters():
                _randomize(name, p, draw)
            projection = self.predictor.duration_proj.linear_layer
            share = FRAMES_PER_TOKEN / c["max_dur"]
            projection.weight.zero_()
            projection.bias.fill_(math.log(share / (1 - share)))
            self.predictor.F0_proj.weight.mul_(60)
            self.predictor.F0_proj.bias.fill_(120)

    def without_complex(self) -> torch.nn.Module:
        """The decoder with the reference's own STFT that avoids complex numbers, which ONNX cannot express."""
        istftnet, _ = import_reference()
        decoder: torch.nn.Module = istftnet.Decoder(disable_complex=True, **_DECODER)
        decoder.load_state_dict(self.decoder.state_dict(), strict=False)
        return decoder.eval()

    def forward(self, ids: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        """ids [1, T] and style [1, 256] -> samples [N], as the reference's `KModel.forward_with_tokens`."""
        lengths = torch.full((1,), ids.shape[1], dtype=torch.long)
        mask = torch.zeros_like(ids, dtype=torch.bool)
        hidden = self.bert_encoder(self.bert(ids, attention_mask=(~mask).int())).transpose(1, 2)
        prosody = style[:, 128:]
        d = self.predictor.text_encoder(hidden, prosody, lengths, mask)
        x, _ = self.predictor.lstm(d)
        expected = torch.sigmoid(self.predictor.duration_proj(x)).sum(-1)
        frames = torch.round(expected).clamp(min=1).long().squeeze(0)
        at = torch.repeat_interleave(torch.arange(ids.shape[1], device=ids.device), frames)
        f0, energy = self.predictor.F0Ntrain(d[:, at].transpose(1, 2), prosody)
        text = self.text_encoder(ids, lengths, mask)[:, :, at]
        audio: torch.Tensor = self.decoder(text, f0, energy, style[:, :128])
        return audio.flatten()

    def save(self, folder: Path) -> dict[str, str]:
        """Write config, weights (reference names, safetensors) and one voice; return ModelSpec.files."""
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(KOKORO))
        state = {k: v.contiguous() for k, v in self.state_dict().items() if ".norm." not in k}
        save_file(state, folder / "model.safetensors")
        style = torch.randn(1, 256, generator=torch.Generator().manual_seed(2)) * 0.5
        save_file({"random": style}, folder / "voices.safetensors")
        names = {"config": "config.json", "weights": "model.safetensors", "voices": "voices.safetensors"}
        return {role: str(folder / name) for role, name in names.items()}


def _randomize(name: str, p: torch.Tensor, draw: torch.Generator) -> None:
    """Values at which signals neither die nor explode through the network, and no default hides a wrong wire."""

    def normal(scale: float, around: float = 0.0) -> None:
        p.copy_(torch.randn(p.shape, generator=draw) * scale + around)

    if ".norm." in name:
        return  # InstanceNorm's affine: absent from the official file
    if "alpha" in name:
        p.copy_(torch.rand(p.shape, generator=draw) * 1.5 + 0.3)
    elif name.endswith("weight_g"):
        p.copy_(torch.rand(p.shape, generator=draw) * 0.4 + 0.3)
        if name.endswith("F0_conv.weight_g"):
            p.mul_(0.01)
    elif name.endswith("weight_v"):
        normal(0.1)
    elif name.endswith("gamma") or (p.ndim == 1 and name.endswith("weight")):
        normal(0.1, 1.0)
    elif name.endswith(("bias", "beta")):
        normal(0.05)
    elif ".fc." in name:
        normal(0.02)


def random_ids(phonemes: int, seed: int = 0) -> list[int]:
    """Boundary, `phonemes` random tokens, boundary."""
    return [0, *np.random.default_rng(seed).integers(1, 178, phonemes).tolist(), 0]
