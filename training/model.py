"""The network (PyTorch): Kokoro's architecture with every width from the configuration.

After StyleTTS 2 as the reference package (`kokoro` 0.9.4) has it; parameter names are the reference's, so that
`training.export` has only to split off the voices.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AlbertConfig, AlbertModel

from training.generator import Decoder
from training.layers import (
    AdainResBlk1d,
    AdaLayerNorm,
    ChannelNorm,
    LinearNorm,
    bilstm,
    normed,
    run_lstm,
)
from training.voices import VOICES

Config = dict[str, Any]


# Widths of Kokoro that its own configuration does not name.
KOKORO: Config = {"decoder_dim": 1024, "residual_dim": 64}


def read_config(folder: Path) -> Config:
    """Return the configuration of a checkpoint in Kokoro's layout, as `HouseVoice` takes it."""
    config: Config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    albert = {key: value for key, value in config["plbert"].items() if key != "dropout"}
    config = KOKORO | {"text_encoder_layers": config["n_layer"]} | config
    return config | {"plbert": {"embedding_size": 128} | albert}


class TextEncoder(nn.Module):
    """Token ids [batch, tokens] -> features [batch, channels, tokens]."""

    def __init__(self, channels: int, kernel: int, depth: int, symbols: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, channels)
        self.cnn = nn.ModuleList(
            nn.Sequential(
                normed(nn.Conv1d(channels, channels, kernel, padding=(kernel - 1) // 2)),
                ChannelNorm(channels),
                nn.LeakyReLU(0.2),
                nn.Dropout(0.1),
            )
            for _ in range(depth)
        )
        self.lstm = bilstm(channels, channels)

    def forward(self, ids: Tensor, lengths: Tensor | None, padding: Tensor) -> Tensor:
        keep = (~padding).unsqueeze(1)
        x = self.embedding(ids).transpose(1, 2) * keep
        for layer in self.cnn:
            x = layer(x) * keep
        return run_lstm(self.lstm, x.transpose(1, 2), lengths).transpose(1, 2)


class DurationEncoder(nn.Module):
    """BiLSTMs and adaptive norms in turn, the style joined to every input: [batch, tokens, hidden + style]."""

    def __init__(self, style: int, hidden: int, depth: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.lstms = nn.ModuleList()
        for _ in range(depth):
            self.lstms.append(bilstm(hidden + style, hidden))
            self.lstms.append(AdaLayerNorm(style, hidden))

    def forward(self, x: Tensor, style: Tensor, lengths: Tensor | None, padding: Tensor) -> Tensor:
        keep = (~padding).unsqueeze(-1)
        spread = style.unsqueeze(1).expand(-1, x.shape[1], -1)
        x = torch.cat([x, spread], -1) * keep
        for layer in self.lstms:
            if isinstance(layer, nn.LSTM):
                x = F.dropout(run_lstm(layer, x, lengths), self.dropout, self.training)
            else:
                x = torch.cat([layer(x, style), spread], -1) * keep
        return x


class ProsodyPredictor(nn.Module):
    """Durations of tokens; F0 and energy of frames."""

    def __init__(self, style: int, hidden: int, depth: int, max_dur: int, dropout: float) -> None:
        super().__init__()
        self.text_encoder = DurationEncoder(style, hidden, depth, dropout)
        self.lstm = bilstm(hidden + style, hidden)
        self.duration_proj = LinearNorm(hidden, max_dur)
        self.shared = bilstm(hidden + style, hidden)

        def head() -> nn.ModuleList:
            return nn.ModuleList(
                [
                    AdainResBlk1d(hidden, hidden, style, dropout=dropout),
                    AdainResBlk1d(hidden, hidden // 2, style, upsample=True, dropout=dropout),
                    AdainResBlk1d(hidden // 2, hidden // 2, style, dropout=dropout),
                ]
            )

        self.F0, self.N = head(), head()
        self.F0_proj, self.N_proj = nn.Conv1d(hidden // 2, 1, 1), nn.Conv1d(hidden // 2, 1, 1)
        with torch.no_grad():  # begin near short tokens, 60 Hz and log energies, not near zero
            nn.init.constant_(self.duration_proj.linear_layer.bias, -2.5)
            self.F0_proj.weight.mul_(60.0)
            self.F0_proj.bias.fill_(60.0)
            self.N_proj.weight.mul_(2.0)

    def f0_and_energy(self, frames: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, frames, hidden + style] -> F0 in Hz and log energy, each [batch, 2 frames]."""
        shared = run_lstm(self.shared, frames, None).transpose(1, 2)
        f0, energy = shared, shared
        for block in self.F0:
            f0 = block(f0, style)
        for block in self.N:
            energy = block(energy, style)
        return self.F0_proj(f0).squeeze(1), self.N_proj(energy).squeeze(1)


class HouseVoice(nn.Module):
    """The whole network and its table of voices [voices, 2 style]: the decoder's half, then the predictor's."""

    def __init__(self, config: Config, voices: int = len(VOICES)) -> None:
        super().__init__()
        hidden, style = config["hidden_dim"], config["style_dim"]
        self.style_dim = style
        albert = AlbertConfig(
            vocab_size=config["n_token"],
            hidden_dropout_prob=0.05,
            attention_probs_dropout_prob=0.0,
            attn_implementation="eager",
            **config["plbert"],
        )
        self.bert = AlbertModel(albert, add_pooling_layer=False)
        self.bert_encoder = nn.Linear(config["plbert"]["hidden_size"], hidden)
        self.predictor = ProsodyPredictor(style, hidden, config["n_layer"], config["max_dur"], config["dropout"])
        self.text_encoder = TextEncoder(
            hidden, config["text_encoder_kernel_size"], config["text_encoder_layers"], config["n_token"]
        )
        self.decoder = Decoder(hidden, style, config["decoder_dim"], config["residual_dim"], config["istftnet"])
        self.voices = nn.Embedding(voices, 2 * style)

    def tokens(self, ids: Tensor, lengths: Tensor | None, padding: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """Prosody features [batch, tokens, hidden + style] and duration logits [batch, tokens, max_dur]."""
        # A mask of four dimensions is taken as it is; from one of two, transformers reads on the host.
        mask = torch.zeros(padding.shape, device=ids.device).masked_fill(padding, torch.finfo(torch.float32).min)
        x = self.bert(ids, attention_mask=mask[:, None, None]).last_hidden_state
        features = self.predictor.text_encoder(self.bert_encoder(x), style, lengths, padding)
        return features, self.predictor.duration_proj(run_lstm(self.predictor.lstm, features, lengths))

    @torch.no_grad()
    def speak(self, ids: Tensor, voice: int, speed: float = 1.0) -> Tensor:
        """One utterance, ids [tokens] with both boundaries -> audio [samples] at 24 kHz. For spot checks."""
        ids = ids[None]
        padding = torch.zeros_like(ids, dtype=torch.bool)
        decoder_style, style = self.voices.weight[voice][None].split(self.style_dim, 1)
        features, logits = self.tokens(ids, None, padding, style)
        durations = torch.round(torch.sigmoid(logits).sum(-1) / speed).clamp(min=1).long()[0]
        index = torch.repeat_interleave(torch.arange(ids.shape[1], device=ids.device), durations)
        f0, energy = self.predictor.f0_and_energy(features[:, index], style)
        text = self.text_encoder(ids, None, padding)[:, :, index]
        return self.decoder(text, f0, energy, decoder_style)[0]
