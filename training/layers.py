"""Layers of the network (PyTorch): weight-normed convolutions, style-conditioned norms, BiLSTM over ragged batches.

Attribute names are those of the reference package (`kokoro` 0.9.4), so that parameter names are too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Convolution = TypeVar("Convolution", bound=nn.Module)


def normed(layer: Convolution, std: float | None = None) -> Convolution:
    """`layer` with weight norm as `weight_g` and `weight_v`, first drawn from N(0, `std`) if given."""
    if std is not None:
        nn.init.normal_(layer.weight, 0, std)
    with warnings.catch_warnings():
        # Its successor names the parameters differently; the reference's names are wanted here.
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(layer)


def _instance_norm(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    x = x.float()
    centered = x - x.mean(-1, keepdim=True)
    variance = centered.square().mean(-1, keepdim=True)
    return (1 + gamma.float()) * (centered * torch.rsqrt(variance + 1e-5)) + beta.float()


def adain_snake(x: Tensor, gamma: Tensor, beta: Tensor, alpha: Tensor) -> Tensor:
    """Adaptive instance norm, then Snake: y + sin^2(alpha y) / alpha. In float32, returned in x's type."""
    y = _instance_norm(x, gamma, beta)
    wave = torch.sin(alpha * y)
    return (y + wave * wave / alpha).to(x.dtype)


def adain_leaky(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Adaptive instance norm, then LeakyReLU(0.2). In float32, returned in x's type."""
    return F.leaky_relu(_instance_norm(x, gamma, beta), 0.2).to(x.dtype)


class Fused:
    """The elementwise functions in use; `compile` replaces them by compiled ones."""

    snake: Callable[..., Tensor] = staticmethod(adain_snake)
    leaky: Callable[..., Tensor] = staticmethod(adain_leaky)

    @classmethod
    def compile(cls) -> None:
        # Each width and type is a variant; past the limit PyTorch would quietly run uncompiled.
        torch._dynamo.config.recompile_limit = 64
        cls.snake = staticmethod(torch.compile(adain_snake, dynamic=True))
        cls.leaky = staticmethod(torch.compile(adain_leaky, dynamic=True))


class AdaIN1d(nn.Module):
    """Style [batch, style] -> scale and shift, each [batch, channels, 1]. The norm itself is fused with what follows.

    The reference's InstanceNorm weights are 1 and 0 and not in its checkpoint; they are left out.
    """

    def __init__(self, style: int, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(style, channels * 2)
        nn.init.normal_(self.fc.weight, std=0.02)
        nn.init.zeros_(self.fc.bias)

    def forward(self, style: Tensor) -> tuple[Tensor, Tensor]:
        gamma, beta = self.fc(style).unsqueeze(-1).chunk(2, 1)
        return gamma, beta


class AdaLayerNorm(nn.Module):
    """Layer norm of [batch, tokens, channels] with scale and shift from the style."""

    def __init__(self, style: int, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(style, channels * 2)
        self.channels = channels

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        gamma, beta = self.fc(style).unsqueeze(1).chunk(2, -1)
        return (1 + gamma) * F.layer_norm(x, (self.channels,)) + beta


class ChannelNorm(nn.Module):
    """Layer norm over the channels of [batch, channels, tokens]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x.transpose(1, 2), (x.shape[1],), self.gamma, self.beta, 1e-5).transpose(1, 2)


class LinearNorm(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear_layer = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_layer(x)


def bilstm(inputs: int, outputs: int) -> nn.LSTM:
    return nn.LSTM(inputs, outputs // 2, 1, batch_first=True, bidirectional=True)


def run_lstm(lstm: nn.LSTM, x: Tensor, lengths: Tensor | None) -> Tensor:
    """`lstm` over [batch, steps, channels]; `lengths` (on the device) says where each row ends, None that all are full.

    Rows are not packed: packing needs the lengths on the host, which a CUDA graph cannot wait for. What comes out
    behind a row's end is 0.
    """
    if lengths is None:
        return lstm(x)[0]
    steps = torch.arange(x.shape[1], device=x.device)[None]
    ends = lengths[:, None]
    turned = torch.where(steps < ends, ends - 1 - steps, steps)[:, :, None]
    weights = [getattr(lstm, name) for name in lstm._flat_weights_names]
    forward = _one_way(x, weights[:4])
    backward = _one_way(x.gather(1, turned.expand_as(x)), weights[4:])
    backward = backward.gather(1, turned.expand_as(backward))
    return torch.cat([forward, backward], -1) * (steps < ends)[:, :, None]


def _one_way(x: Tensor, weights: list[Tensor]) -> Tensor:
    zeros = x.new_zeros(1, x.shape[0], weights[1].shape[1])
    # has biases, one layer, no dropout, not in training (dropout is elsewhere), one direction, batch first
    return torch._VF.lstm(x, (zeros, zeros), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)[0]


class AdainResBlk1d(nn.Module):
    """StyleTTS 2's residual block: norm, LeakyReLU, convolution, twice; [batch, in, n] -> [batch, out, n or 2 n]."""

    def __init__(self, inputs: int, outputs: int, style: int, *, upsample: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.upsample = upsample
        self.conv1 = normed(nn.Conv1d(inputs, outputs, 3, padding=1))
        self.conv2 = normed(nn.Conv1d(outputs, outputs, 3, padding=1))
        self.norm1, self.norm2 = AdaIN1d(style, inputs), AdaIN1d(style, outputs)
        self.dropout = nn.Dropout(dropout)
        self.conv1x1 = normed(nn.Conv1d(inputs, outputs, 1, bias=False)) if inputs != outputs else None
        if upsample:
            pool = nn.ConvTranspose1d(inputs, inputs, 3, 2, padding=1, output_padding=1, groups=inputs)
            self.pool = normed(pool)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        residual = Fused.leaky(x, *self.norm1(style))
        if self.upsample:
            residual = self.pool(residual)
            x = F.interpolate(x, scale_factor=2, mode="nearest")
        residual = self.conv1(self.dropout(residual))
        residual = self.conv2(self.dropout(Fused.leaky(residual, *self.norm2(style))))
        if self.conv1x1 is not None:
            x = self.conv1x1(x)
        return (residual + x) * 0.5**0.5


class AdaINResBlock1(nn.Module):
    """The generator's residual block: three pairs of dilated convolutions, each after AdaIN and Snake."""

    def __init__(self, channels: int, kernel: int, dilations: list[int], style: int) -> None:
        super().__init__()

        def convolution(dilation: int) -> nn.Conv1d:
            padding = (kernel * dilation - dilation) // 2
            return normed(nn.Conv1d(channels, channels, kernel, dilation=dilation, padding=padding), std=0.01)

        def alphas() -> nn.ParameterList:
            return nn.ParameterList([nn.Parameter(torch.ones(1, channels, 1)) for _ in dilations])

        self.convs1 = nn.ModuleList([convolution(dilation) for dilation in dilations])
        self.convs2 = nn.ModuleList([convolution(1) for _ in dilations])
        self.adain1 = nn.ModuleList([AdaIN1d(style, channels) for _ in dilations])
        self.adain2 = nn.ModuleList([AdaIN1d(style, channels) for _ in dilations])
        self.alpha1, self.alpha2 = alphas(), alphas()

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        rows = zip(self.convs1, self.convs2, self.adain1, self.adain2, self.alpha1, self.alpha2, strict=True)
        for conv1, conv2, norm1, norm2, alpha1, alpha2 in rows:
            y = conv1(Fused.snake(x, *norm1(style), alpha1))
            x = x + conv2(Fused.snake(y, *norm2(style), alpha2))
        return x
