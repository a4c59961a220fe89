"""S3Gen's flow in PyTorch, as the reference builds it, with random weights in every place. Needs torch.

Defaults that would hide wiring bugs are overwritten: norms of 1 and 0, biases of 0, and the mean flow's time mixer,
which starts as the identity of one half. Weights go through a safetensors file under the official names.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from tests.models.chatterbox import reference_packages  # noqa: F401  (before the reference)

Floats = np.ndarray[Any, np.dtype[np.float32]]


def build(*, mean_flow: bool, seed: int) -> Any:
    """The reference's `flow` module: its own numbers, without tokenizer and speaker encoder beside it."""
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # diffusers deprecates a layer that the reference uses
        from chatterbox.models.s3gen import s3gen

        with patch.object(s3gen, "S3Tokenizer", lambda *_: None), patch.object(s3gen, "CAMPPlus", lambda **_: None):
            flow = s3gen.S3Token2Mel(meanflow=mean_flow).flow
    randomize(flow, seed)
    return flow.eval()


def randomize(module: nn.Module, seed: int) -> None:
    """Norms around 1, biases around 0, and everything else so that activations neither vanish nor explode."""
    generator = torch.Generator().manual_seed(seed)

    def draw(like: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.randn(like.shape, generator=generator) * scale

    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim == 1:
                middle = 1.0 if name.endswith("weight") else 0.0
                parameter.copy_(middle + draw(parameter, 0.2))
            elif "pos_bias" in name:
                parameter.copy_(draw(parameter, 0.5))
            elif "embedding" in name:
                parameter.copy_(draw(parameter, 1.0))
            else:
                fan = parameter[0].numel()
                parameter.copy_(draw(parameter, fan**-0.5))


def save(flow: nn.Module, path: Path) -> None:
    """Its weights as s3gen.safetensors has them."""
    save_file({f"flow.{name}": array.contiguous() for name, array in flow.state_dict().items()}, str(path))


@contextlib.contextmanager
def noise(drawn: Floats) -> Iterator[None]:
    """Within, the reference draws `drawn` [1, F, mels], turned channels first."""
    turned = torch.from_numpy(drawn.swapaxes(1, 2).copy())

    def given(like: torch.Tensor) -> torch.Tensor:
        assert like.shape == turned.shape
        return turned.clone()

    with patch("torch.randn_like", given), contextlib.redirect_stdout(io.StringIO()):
        yield


def mel(
    flow: Any, prompt: Floats, tokens: Floats, prompt_mel: Floats, speaker: Floats, drawn: Floats, steps: int
) -> Floats:
    """Return the reference's mel frames for tokens [N] after a prompt, [1, F - 2P, mels]."""
    with noise(drawn), torch.inference_mode(), patch("chatterbox.models.s3gen.flow_matching.tqdm", lambda x, **_: x):
        found, _ = flow.inference(
            token=torch.from_numpy(tokens)[None],
            token_len=torch.tensor([len(tokens)]),
            prompt_token=torch.from_numpy(prompt)[None],
            prompt_token_len=torch.tensor([len(prompt)]),
            prompt_feat=torch.from_numpy(prompt_mel)[None],
            prompt_feat_len=None,
            embedding=torch.from_numpy(speaker)[None],
            finalize=True,
            n_timesteps=steps,
            meanflow=flow.decoder.estimator.meanflow,
        )
    return np.ascontiguousarray(found.numpy().swapaxes(1, 2))
