"""HiFT as its definition says it, channel by channel layer, with plain MLX convolutions: what the fast one must equal.

Read from a network that is not yet lowered. Mel [1, F, mels] and excitation [1, samples] to samples.
"""

from __future__ import annotations

import re

import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from models.backend import mx
from models.chatterbox.config import VocoderConfig
from models.chatterbox.s3gen.vocoder import HiFT, ResBlock
from models.layers.conv import Conv1d

MELS = 8
SMALL = VocoderConfig(width=32, f0_width=12, f0_layers=5)


def small(seed: int = 0) -> HiFT:
    """A narrow network, not lowered, on random weights with alphas and biases away from their defaults."""
    network = HiFT(SMALL, MELS)
    rng = np.random.RandomState(seed)
    arrays = []
    for name, array in tree_flatten(network.parameters()):
        if name.endswith("alpha"):
            value = rng.uniform(0.3, 1.8, array.shape)
        elif name.endswith("bias"):
            value = 0.1 * rng.standard_normal(array.shape)
        else:
            fan = array.size // array.shape[1 if name.startswith("ups") else 0]
            value = (0.4 if "blocks" in name else 0.6) * rng.standard_normal(array.shape) / fan**0.5
        arrays.append((name, mx.array(value.astype(np.float32))))
    network.update(tree_unflatten(arrays))
    network.f0_predictor.classifier.weight = network.f0_predictor.classifier.weight * 900
    network.conv_post.bias = network.conv_post.bias - 1.5
    network.f0_predictor.classifier.bias = mx.array([90.0])
    mx.eval(network.parameters())
    return network


def lowered(seed: int = 0) -> HiFT:
    """The same, ready for use."""
    network = small(seed)
    network.lower()
    return network


def conv(layer: Conv1d, x: mx.array) -> mx.array:
    return mx.conv1d(x, layer.weight, layer.stride, layer.padding, layer.dilation) + layer.bias


def res(block: ResBlock, x: mx.array) -> mx.array:
    pairs = zip(block.convs1, block.activations1, block.convs2, block.activations2, strict=True)
    for conv1, snake1, conv2, snake2 in pairs:
        y = x
        for layer, alpha in ((conv1, snake1.alpha), (conv2, snake2.alpha)):
            y = conv(layer, y + mx.square(mx.sin(alpha * y)) / (alpha + 1e-9))
        x = x + y
    return x


def leaky(x: mx.array, slope: float) -> mx.array:
    return mx.where(x > 0, x, slope * x)


def decode(network: HiFT, mel: mx.array, source: mx.array, most: float = 100.0) -> np.ndarray:
    signal = np.pad(np.array(source[0], dtype=np.float64), 8, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(16) / 16)
    frames = np.stack([signal[at : at + 16] for at in range(0, len(signal) - 15, 4)])
    spectrum = np.fft.rfft(frames * window)
    both = mx.array(np.concatenate([spectrum.real, spectrum.imag], axis=1).astype(np.float32)[None])
    x = conv(network.conv_pre, mel)
    for i, up in enumerate(network.ups):
        blocks = network.resblocks[3 * i : 3 * i + 3]
        weight = up.weight.transpose(2, 1, 0)
        x = mx.conv_transpose1d(leaky(x, 0.1), weight, up.stride, up.padding) + up.bias
        if i == 2:
            x = mx.concatenate([x[:, 1:2], x], axis=1)
        x = x + res(network.source_resblocks[i], conv(network.source_downs[i], both))
        x = sum((res(b, x) for b in blocks), mx.zeros_like(x)) / len(blocks)
    y = np.array(conv(network.conv_post, leaky(x, 0.01))[0], dtype=np.float64)
    magnitude, phase = np.minimum(np.exp(y[:, :9]), most), np.sin(y[:, 9:])
    frames = np.fft.irfft(magnitude * np.exp(1j * phase)) * window
    out, norm = np.zeros(4 * len(frames) + 12), np.zeros(4 * len(frames) + 12)
    for k, frame in enumerate(frames):
        out[4 * k : 4 * k + 16] += frame
        norm[4 * k : 4 * k + 16] += window**2
    return np.clip(out[8:-8] / norm[8:-8], -0.99, 0.99)[None]


def pitch(network: HiFT, mel: mx.array) -> mx.array:
    x = mel
    for layer in network.f0_predictor.condnet:
        y = conv(layer, x)
        x = mx.where(y > 0, y, mx.expm1(y))
    return mx.abs(x @ network.f0_predictor.classifier.weight.T + network.f0_predictor.classifier.bias)[:, :, 0]


def mel(frames: int, seed: int = 0) -> mx.array:
    """Log-mel frames that move [1, frames, MELS]."""
    rng = np.random.RandomState(seed)
    slow = np.repeat(rng.standard_normal((frames // 6 + 2, MELS)), 6, axis=0)[:frames]
    return mx.array((-3 + 1.5 * slow + 0.4 * rng.standard_normal((frames, MELS))).astype(np.float32)[None])


def official_arrays() -> dict[str, mx.array]:
    """The arrays of `small` under the checkpoint's names: weight norm unfolded, channels first."""
    found: dict[str, mx.array] = {}
    for ours, value in tree_flatten(small().parameters()):
        name = re.sub(r"condnet\.(\d+)", lambda m: f"condnet.{2 * int(m[1])}", ours)
        array = value.swapaxes(1, 2) if value.ndim == 3 else value
        if array.ndim == 3 and not name.startswith("source_downs"):
            norm = mx.sqrt(mx.sum(array * array, axis=(1, 2), keepdims=True))
            owner = name.removesuffix(".weight")
            found[f"mel2wav.{owner}.parametrizations.weight.original0"] = norm
            found[f"mel2wav.{owner}.parametrizations.weight.original1"] = array * 3.0
        else:
            found[f"mel2wav.{name}"] = array
    return found
