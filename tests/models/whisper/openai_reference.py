"""openai-whisper with random weights of the official shapes, in float32. Needs PyTorch, whose GPU it takes."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from whisper import _ALIGNMENT_HEADS
from whisper.decoding import DecodingOptions, DecodingTask
from whisper.model import ModelDimensions, Whisper

from models.whisper.config import WhisperConfig

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Products as exact as a processor's.
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

END = {51864: 50256, 51865: 50257, 51866: 50257}

# Layers of encoder and decoder, width, heads, mels, vocabulary.
_SHAPES = {
    "tiny": (4, 4, 384, 6, 80, 51865),
    "tiny.en": (4, 4, 384, 6, 80, 51864),
    "base": (6, 6, 512, 8, 80, 51865),
    "small": (12, 12, 768, 12, 80, 51865),
    "medium": (24, 24, 1024, 16, 80, 51865),
    "large-v2": (32, 32, 1280, 20, 80, 51865),
    "large-v3": (32, 32, 1280, 20, 128, 51866),
    "large-v3-turbo": (32, 4, 1280, 20, 128, 51866),
}


def official_config(size: str) -> WhisperConfig:
    """The configuration of an official model."""
    encoder, decoder, width, heads, mels, vocabulary = _SHAPES[size]
    return WhisperConfig(mels, 1500, width, heads, encoder, vocabulary, 448, width, heads, decoder)


def random_model(size: str, seed: int = 0) -> Whisper:
    """A model whose signals neither die nor explode, whose tokens vary, and whose transcripts sometimes end.

    Its weights have float16's precision, as those of the official files.
    """
    config = official_config(size)
    torch.manual_seed(seed)
    dims = {name: size for name, size in asdict(config).items() if name != "n_ctc"}  # OpenAI's models have no such head
    with torch.device(DEVICE):
        model = Whisper(ModelDimensions(**dims)).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim > 1:
                p.normal_(0, 1.4 / math.sqrt(math.prod(p.shape[1:])))
            elif name == "decoder.ln.weight":
                p.normal_()  # of both signs: with ones a token would mostly follow itself, as embeddings are tied
            elif name.endswith("weight"):
                p.normal_(1, 0.1)
            else:
                p.normal_(0, 0.05)
        table = model.decoder.token_embedding.weight
        table.normal_(0, 1.6 / math.sqrt(config.n_text_state))
        # Of this sign and size, transcripts of the tiny model end by themselves.
        table[END[config.n_vocab]] *= -2.2
        model.decoder.positional_embedding.normal_(0, 2.0 / math.sqrt(config.n_text_state))
        for p in (*model.parameters(), model.encoder.positional_embedding):
            p.copy_(p.half())
    model.set_alignment_heads(_ALIGNMENT_HEADS[size])
    return model


def save(model: Whisper, path: Path) -> None:
    """A file as OpenAI's."""
    state = {name: array.half().cpu() for name, array in model.state_dict().items()}
    torch.save({"dims": asdict(model.dims), "model_state_dict": state}, path)


def shaken(model: Whisper, heard: torch.Tensor, options: DecodingOptions, noise: float) -> list[int]:
    """Tokens of a search whose logits have noise, `noise` times the largest: others than without show a near tie."""
    task = DecodingTask(model, options)
    exact = task.inference.logits

    def logits(*inputs: torch.Tensor) -> torch.Tensor:
        found = exact(*inputs)
        return found + noise * found.abs().max() * torch.randn_like(found)

    task.inference.logits = logits
    tokens: list[int] = task.run(heard)[0].tokens
    return tokens


def sound(seconds: float, seed: int) -> np.ndarray:
    """Bursts of filtered noise and tones, float32 at 16 kHz."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(seconds * 16_000)) / 16_000
    noise = np.convolve(rng.standard_normal(len(time)), np.hanning(1 + seed % 9), mode="same")
    rate = 2 + seed % 5
    tone = np.sin(2 * np.pi * (110 + 30 * (seed % 7)) * time)
    found = (0.05 * noise + 0.05 * rng.standard_normal(len(time)) + 0.1 * tone) * (
        1.1 + np.sin(2 * np.pi * rate * time)
    )
    return found.astype(np.float32)
