"""Configurations of the full-size networks, from the official config.json files, for benchmarks and tests."""

from __future__ import annotations

from typing import Any

# hexgrad/Kokoro-82M, with a vocabulary of as many symbols.
KOKORO: dict[str, Any] = {
    "hidden_dim": 512,
    "style_dim": 128,
    "n_layer": 3,
    "max_dur": 50,
    "n_token": 178,
    "n_mels": 80,
    "dim_in": 64,
    "text_encoder_kernel_size": 5,
    "dropout": 0.2,
    "multispeaker": True,
    "max_conv_dim": 512,
    "plbert": {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
        "max_position_embeddings": 512,
        "num_hidden_layers": 12,
        "dropout": 0.1,
    },
    "istftnet": {
        "upsample_rates": [10, 6],
        "upsample_kernel_sizes": [20, 12],
        "upsample_initial_channel": 512,
        "resblock_kernel_sizes": [3, 7, 11],
        "resblock_dilation_sizes": [[1, 3, 5]] * 3,
        "gen_istft_n_fft": 20,
        "gen_istft_hop_size": 5,
    },
    "vocab": {chr(0x100 + i): i for i in range(1, 178)},
}

# facebook/nllb-200-distilled-600M.
NLLB: dict[str, Any] = {
    "vocab_size": 256206,
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "max_position_embeddings": 1024,
    "scale_embedding": True,
}

# facebook/m2m100_418M.
M2M100: dict[str, Any] = NLLB | {"vocab_size": 128112}

# alirezamsh/small100: M2M-100 with a short decoder.
SMALL100: dict[str, Any] = M2M100 | {"decoder_layers": 3}
# OpenAI's multilingual Whisper models, by the names of their `dims`.
WHISPER: dict[str, dict[str, int]] = {
    size: {
        "n_mels": mels,
        "n_audio_ctx": 1500,
        "n_audio_state": width,
        "n_audio_head": width // 64,
        "n_audio_layer": layers,
        "n_vocab": vocabulary,
        "n_text_ctx": 448,
        "n_text_state": width,
        "n_text_head": width // 64,
        "n_text_layer": text_layers,
    }
    for size, layers, text_layers, width, mels, vocabulary in (
        ("tiny", 4, 4, 384, 80, 51865),
        ("base", 6, 6, 512, 80, 51865),
        ("small", 12, 12, 768, 80, 51865),
        ("medium", 24, 24, 1024, 80, 51865),
        ("large-v3", 32, 32, 1280, 128, 51866),
        ("large-v3-turbo", 32, 4, 1280, 128, 51866),
    )
}
