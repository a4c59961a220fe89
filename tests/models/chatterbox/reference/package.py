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
    from chatterbox.models.s3gen.s3gen import S3Token2Mel
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
    """In the float type of `pcm`."""
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


def embed_fbank(module: CAMPPlus, bands: np.ndarray) -> np.ndarray:
    """The speaker vector [192] of filterbanks [T, 80], in the module's float type."""
    kind = next(module.parameters()).dtype
    with torch.inference_mode():
        return module(torch.from_numpy(bands).to(kind)[None])[0].numpy()


def tokens(module: S3Tokenizer, pcm: np.ndarray, limit: int | None = None) -> np.ndarray:
    """Speech tokens [T] of 16 kHz pcm."""
    return module([torch.from_numpy(pcm)], max_len=limit)[0][0].numpy()


class Conditioner:
    """`prepare_conditionals` of the reference, which is a method of classes that hold a whole checkpoint."""

    def __init__(self, config: ChatterboxConfig, voice: Mapping[str, np.ndarray], s3gen: Mapping[str, np.ndarray]):
        self.limit = config.t3.prompt_tokens
        self.voice_encoder = voice_encoder(config, voice)
        # embed_ref alone, without the flow-matching decoder, whose parameters it only asks for their type.
        self.s3gen = S3Token2Mel.__new__(S3Token2Mel)
        torch.nn.Module.__init__(self.s3gen)
        self.s3gen.tokenizer, self.s3gen.speaker_encoder = tokenizer(config, s3gen), speaker(config, s3gen)
        self.s3gen.mel_extractor, self.s3gen.flow = mel_spectrogram, self.s3gen.speaker_encoder

    def __call__(self, pcm: np.ndarray) -> dict[str, np.ndarray]:
        """24 kHz pcm -> the arrays by this project's names, each without its batch."""
        low = resample_soxr(pcm, 24_000, 16_000)
        with torch.inference_mode():
            spoken = self.s3gen.embed_ref(pcm[: 10 * 24_000], 24_000, device="cpu")
        return {
            "t3_speaker": self.voice_encoder.embeds_from_wavs([low], sample_rate=16_000).mean(axis=0),
            "t3_prompt": tokens(self.s3gen.tokenizer, low[: self.limit * 640], self.limit),
            "s3gen_tokens": spoken["prompt_token"][0].numpy(),
            "s3gen_mel": spoken["prompt_feat"][0].numpy(),
            "s3gen_speaker": spoken["embedding"][0].numpy(),
        }
