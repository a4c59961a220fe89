"""One check per layer: run it on reference values and return the relative error (L2) of the result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from models.backend import mx
from models.kokoro.albert import AlbertAttention
from models.layers.activation import snake
from models.layers.conv import Conv1d, ConvTranspose1d, PaddingMask
from models.layers.lstm import BiLSTM
from models.layers.norm import affine_of, moments
from models.layers.vocoder import Stft
from tests.golden import layer_cases

Arrays = Mapping[str, np.ndarray]

# float32 sums of up to a few hundred products: a few units in the last place (6e-8 each).
TOLERANCE = 3e-6


@cache
def golden(kind: str, name: str) -> dict[str, np.ndarray]:
    """Arrays of one case of layers.npz."""
    prefix = f"{kind}/{name}/"
    with np.load(Path(__file__).parents[2] / "golden/layers.npz") as file:
        found = {key.removeprefix(prefix): file[key] for key in file.files if key.startswith(prefix)}
    assert found, f"no reference values for {kind} {name}"
    return found


def distance(ours: mx.array | np.ndarray, reference: np.ndarray) -> float:
    """|ours - reference| / |reference|, shapes equal."""
    found = np.asarray(ours, dtype=np.float64)
    assert found.shape == reference.shape
    return float(np.linalg.norm(found - reference) / np.linalg.norm(reference))


def valid_rows(lengths: tuple[int, ...], rows: int) -> mx.array:
    """[B, rows, 1]: 1 on the first lengths[b] rows."""
    return (mx.arange(rows)[None, :, None] < mx.array(lengths)[:, None, None]).astype(mx.float32)


def valid(lengths: tuple[int, ...], rows: int) -> PaddingMask:
    """Return the same as a `PaddingMask`."""
    return PaddingMask.of(mx.array(lengths)[:, None, None], rows)


Layer = TypeVar("Layer", Conv1d, ConvTranspose1d)


def layer_of(kind: type[Layer], case: layer_cases.Conv, values: Arrays, **more: int) -> Layer:
    """A convolution with reference weights."""
    more |= {"stride": case.stride, "padding": case.padding, "groups": case.groups}
    layer = kind(case.inputs, case.outputs, case.kernel, **more)
    layer.weight, layer.bias = mx.array(values["weight"]), mx.array(values["bias"])
    return layer


def conv_layer(case: layer_cases.Conv, values: Arrays, *, lowered: bool = True) -> Conv1d:
    """The layer with reference weights, in the device's order if `lowered`."""
    layer = layer_of(Conv1d, case, values, dilation=case.dilation)
    if lowered:
        layer.lower()
    return layer


def conv(case: layer_cases.Conv, values: Arrays) -> float:
    """Against torch.nn.Conv1d."""
    return distance(conv_layer(case, values)(mx.array(values["x"])), values["y"])


def transposed(case: layer_cases.Conv, values: Arrays) -> float:
    """Against torch.nn.ConvTranspose1d."""
    layer = layer_of(ConvTranspose1d, case, values, output_padding=case.output_padding)
    layer.lower()
    return distance(layer(mx.array(values["x"])), values["y"])


def lstm_layer(values: Arrays) -> BiLSTM:
    """Return the layer with torch's parameters, lowered."""
    layer = BiLSTM(values["weight_ih_l0"].shape[1], values["weight_hh_l0"].shape[1])
    layer.update({name: mx.array(values[name]) for name in layer.parameters()})
    layer.lower()
    return layer


def lstm(case: layer_cases.Lstm, values: Arrays, extra: int = 0) -> float:
    """Against torch.nn.LSTM on packed sequences, with `extra` more padded rows of rubbish."""
    longest = max(case.lengths)
    x = mx.pad(mx.array(values["x"]), ((0, 0), (0, extra), (0, 0)), constant_values=3.0)
    y = lstm_layer(values)(x, valid(case.lengths, longest + extra))
    assert not np.any(np.array(y[:, longest:])), "padded rows must be zero"
    return distance(y[:, :longest], values["y"])


def adain(x: mx.array, gamma: mx.array, beta: mx.array, mask: mx.array | None, count: mx.array | None) -> mx.array:
    """AdaIN of x [B, L, C] over its valid rows, as the network applies it before its activations."""
    scale, shift = affine_of([moments(x, mask, count)], gamma, beta)
    return x * scale + shift


def sin_squared(cycles: mx.array) -> mx.array:
    """The periodic term of snake alone: sin^2(pi * cycles)."""
    return snake(mx.zeros_like(cycles), cycles, mx.array(1.0))


def adain_layer(case: layer_cases.Adain, values: Arrays, extra: int = 0) -> float:
    """Against torch's instance norm of each sequence alone, with `extra` more padded rows of rubbish."""
    longest = max(case.lengths)
    x = mx.pad(mx.array(values["x"]), ((0, 0), (0, extra), (0, 0)), constant_values=1e3)
    mask = valid_rows(case.lengths, longest + extra)
    count = mx.array(case.lengths).astype(mx.float32)[:, None, None]
    y = adain(x, mx.array(values["gamma"]), mx.array(values["beta"]), mask, count) * mask
    return distance(y[:, :longest], values["y"])


def attention(case: layer_cases.Attention, values: Arrays, extra: int = 0) -> float:
    """Against torch.nn.MultiheadAttention with a key padding mask."""
    layer, longest = AlbertAttention(case.width, case.heads), max(case.lengths)
    joined = zip(np.split(values["qkv"], 3), np.split(values["qkv_bias"], 3), strict=True)
    for part, (weight, bias) in zip((layer.query, layer.key, layer.value), joined, strict=True):
        part.weight, part.bias = mx.array(weight), mx.array(bias)
    layer.dense.weight, layer.dense.bias = mx.array(values["out"]), mx.array(values["out_bias"])
    layer.lower()
    x = mx.pad(mx.array(values["x"]), ((0, 0), (0, extra), (0, 0)), constant_values=7.0)
    mask = valid_rows(case.lengths, longest + extra)
    bias = mx.where(mask > 0, 0.0, float("-inf")).transpose(0, 2, 1)[:, None]
    return distance((layer.attend(x, bias) * mask)[:, :longest], values["y"])


def analysis(case: layer_cases.Stft, values: Arrays, extra: int = 0) -> tuple[float, float, float]:
    """Errors of magnitude, of phase where there is sound, and of the two real bins' phase (0 or pi exactly)."""
    layer = Stft(case.n_fft, case.n_fft // 4)
    x, samples = mx.array(values["x"]), None
    if extra:
        samples = mx.array([[x.shape[1]]] * x.shape[0])
        x = mx.pad(x, ((0, 0), (0, extra)), constant_values=5.0)
    frames = case.hops + 1
    magnitude, phase = np.split(np.array(layer.analyze(x, samples))[:, :frames], 2, axis=2)
    turn = np.angle(np.exp(1j * (phase.astype(np.float64) - values["phase"])))
    loud = values["magnitude"] > 0.05
    ends = np.abs(phase[:, :, :: layer.bins - 1] - values["phase"][:, :, :: layer.bins - 1])
    # A real bin within rounding of zero may have either sign.
    ends = ends * (values["magnitude"][:, :, :: layer.bins - 1] > 1e-5)
    return distance(magnitude, values["magnitude"]), float(np.abs(turn * loud).max()), float(ends.max())


def synthesis(case: layer_cases.Stft, values: Arrays, extra: int = 0) -> float:
    """Against torch.istft, with `extra` padded frames of rubbish."""
    layer, hop = Stft(case.n_fft, case.n_fft // 4), case.n_fft // 4
    magnitude, phase = (mx.array(values[name])[:, :, None] for name in ("magnitude", "phase"))
    if not extra:
        return distance(layer.synthesize(magnitude, phase, None, None), values["x"])
    frames = case.hops + 1
    wide = ((0, 0), (0, extra), (0, 0), (0, 0))
    magnitude, phase = mx.pad(magnitude, wide, constant_values=4.0), mx.pad(phase, wide, constant_values=1.0)
    batch = magnitude.shape[0]
    y = layer.synthesize(
        magnitude, phase, valid_rows((frames,) * batch, frames + extra), mx.array([[case.hops * hop]] * batch)
    )
    assert not np.any(np.array(y[:, case.hops * hop :])), "samples beyond the end must be zero"
    return distance(y[:, : case.hops * hop], values["x"])


def sine_error(found: mx.array, x: np.ndarray, *, squared: bool) -> float:
    """Largest absolute error against float64 of sin(x), or sin^2(pi x)."""
    exact = np.sin(math.pi * x.astype(np.float64)) ** 2 if squared else np.sin(x.astype(np.float64))
    return float(np.abs(np.array(found, dtype=np.float64) - exact).max())
