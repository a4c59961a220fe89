"""The reference package's parts, as parity tests and goldens compare with them. Needs PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import librosa
import numpy as np
import torch

from models.chatterbox.config import ChatterboxConfig
from tests.models.chatterbox import reference_packages  # noqa: F401  (makes the next ones importable)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torchaudio
    from chatterbox.models.s3gen.utils.mel import mel_spectrogram
    from chatterbox.models.s3gen.xvector import CAMPPlus, extract_feature
    from chatterbox.models.s3tokenizer import S3Tokenizer
    from chatterbox.models.voice_encoder import VoiceEncConfig, VoiceEncoder
    from chatterbox.models.voice_encoder.melspec import melspectrogram
    from s3tokenizer.model_v2 import ModelConfig


def resample_hann(pcm: np.ndarray, source: int = 24_000, target: int = 16_000) -> np.ndarray:
    return torchaudio.transforms.Resample(source, target)(torch.from_numpy(pcm)[None])[0].numpy()


def resample_soxr(pcm: np.ndarray, source: int, target: int) -> np.ndarray:
    return librosa.resample(pcm, orig_sr=source, target_sr=target)


def prompt_mel(pcm: np.ndarray) -> np.ndarray:
    return mel_spectrogram(torch.from_numpy(pcm))[0].T.numpy()


def voice_mel(pcm: np.ndarray) -> np.ndarray:
    return melspectrogram(pcm, VoiceEncConfig()).T


def fbank(pcm: np.ndarray) -> np.ndarray:
    return extract_feature([torch.from_numpy(pcm)])[0][0].numpy()


def token_mel(pcm: np.ndarray) -> np.ndarray:
    config = ModelConfig(n_audio_state=64, n_audio_head=1, n_audio_layer=1)
    return _tokenizer(config).log_mel_spectrogram(torch.from_numpy(pcm)).T.numpy()


def _tokenizer(config: ModelConfig) -> S3Tokenizer:
    made = S3Tokenizer(config=config)
    if made.encoder.conv1.out_channels != config.n_audio_state:
        # The class hands its configuration on to the filters only.
        name = "speech_tokenizer_v2_25hz"
        super(S3Tokenizer, made).__init__(name, config)
        made.n_fft = 400
        made.register_buffer("_mel_filters", torch.from_numpy(librosa.filters.mel(sr=16_000, n_fft=400, n_mels=128)))
        made.register_buffer("window", torch.hann_window(400))
    return made.eval()


def load(module: Any, arrays: Mapping[str, np.ndarray], prefix: str = "") -> Any:
    """Load `arrays` below `prefix`; only counters and computed buffers may be left out."""
    own = {key[len(prefix) :]: torch.from_numpy(value) for key, value in arrays.items() if key.startswith(prefix)}
    missing, extra = module.load_state_dict(own, strict=False)
    left = [key for key in missing if not key.endswith(("num_batches_tracked", "_mel_filters", "window"))]
    assert not left, left
    assert not extra, extra
    return module.eval()


def tokenizer(config: ChatterboxConfig, s3gen: Mapping[str, np.ndarray]) -> S3Tokenizer:
    own = config.tokenizer
    made = _tokenizer(ModelConfig(n_audio_state=own.width, n_audio_head=own.heads, n_audio_layer=own.layers))
    return load(made, s3gen, "tokenizer.")


def speaker(config: ChatterboxConfig, s3gen: Mapping[str, np.ndarray]) -> CAMPPlus:
    own = config.speaker
    made = CAMPPlus(
        embedding_size=own.size,
        growth_rate=own.growth,
        bn_size=own.bottleneck,
        init_channels=own.width,
        memory_efficient=False,
    )
    return load(made, s3gen, "speaker_encoder.")


def voice_encoder(config: ChatterboxConfig, voice: Mapping[str, np.ndarray]) -> VoiceEncoder:
    settings = VoiceEncConfig()
    settings.ve_hidden_size, settings.speaker_embed_size = config.voice_encoder.hidden, config.voice_encoder.size
    return load(VoiceEncoder(settings), voice)


def embed(module: CAMPPlus, pcm: np.ndarray) -> np.ndarray:
    """The speaker vector [192] of 16 kHz pcm."""
    with torch.inference_mode():
        return module.inference([torch.from_numpy(pcm)])[0].numpy()


def tokens(module: S3Tokenizer, pcm: np.ndarray, limit: int | None = None) -> np.ndarray:
    """Speech tokens [T] of 16 kHz pcm."""
    return module([torch.from_numpy(pcm)], max_len=limit)[0][0].numpy()
