"""Reference values of the layers from PyTorch, channels-last as here. Needs torch: import inside functions only."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from tests.golden.layer_cases import Adain, Attention, Conv, Lstm, Stft

Arrays = dict[str, np.ndarray]


def _numpy(**tensors: torch.Tensor) -> Arrays:
    return {name: tensor.detach().contiguous().numpy() for name, tensor in tensors.items()}


def conv(case: Conv) -> Arrays:
    """x [2, L, I], weight [O, K, I / groups], bias [O], y [2, L', O]."""
    return _convolved(case, torch.nn.Conv1d, case.dilation, case.groups)


def transposed(case: Conv) -> Arrays:
    """x [2, L, I], weight [I, K, O / groups], bias [O], y [2, L', O]."""
    return _convolved(case, torch.nn.ConvTranspose1d, case.output_padding, case.groups)


def _convolved(case: Conv, kind: type[torch.nn.Module], *more: int) -> Arrays:
    layer = kind(case.inputs, case.outputs, case.kernel, case.stride, case.padding, *more)
    x = torch.randn(2, case.inputs, case.length)
    y = layer(x).transpose(1, 2)
    return _numpy(x=x.transpose(1, 2), weight=layer.weight.transpose(1, 2), bias=layer.bias, y=y)


def _valid(lengths: tuple[int, ...]) -> torch.Tensor:
    """[B, T, 1]: 1 on valid rows."""
    return (torch.arange(max(lengths))[None, :, None] < torch.tensor(lengths)[:, None, None]).float()


def lstm(case: Lstm) -> Arrays:
    """torch's eight parameters, x [B, T, I] with rubbish on padded rows, y [B, T, 2H] from packed sequences."""
    layer = torch.nn.LSTM(case.inputs, case.hidden, batch_first=True, bidirectional=True)
    x = torch.randn(len(case.lengths), max(case.lengths), case.inputs)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, list(case.lengths), batch_first=True, enforce_sorted=False)
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)
    return _numpy(x=x, y=y, **dict(layer.named_parameters()))


def adain(case: Adain) -> Arrays:
    """x [B, T, C] with rubbish on padded rows, gamma and beta [B, 1, C], y [B, T, C], 0 on padded rows."""
    batch, length = len(case.lengths), max(case.lengths)
    x = torch.randn(batch, length, case.channels) * 3 + case.offset
    gamma, beta = torch.randn(2, batch, 1, case.channels)
    y = torch.zeros_like(x)
    for b, n in enumerate(case.lengths):
        # In double precision: torch's own float32 loses digits far from zero.
        normed = F.instance_norm(x[b : b + 1, :n].double().transpose(1, 2)).transpose(1, 2)
        y[b : b + 1, :n] = ((1 + gamma[b : b + 1]) * normed + beta[b : b + 1]).float()
    return _numpy(x=x, gamma=gamma, beta=beta, y=y)


def layer_norm() -> Arrays:
    """x [2, 5, 12], weight and bias [12], y."""
    x, weight, bias = torch.randn(2, 5, 12) * 2 + 1, torch.randn(12), torch.randn(12)
    return _numpy(x=x, weight=weight, bias=bias, y=F.layer_norm(x, (12,), weight, bias, 1e-5))


def attention(case: Attention) -> Arrays:
    """Projections of torch.nn.MultiheadAttention, x [B, T, C], y [B, T, C], 0 on padded rows."""
    layer = torch.nn.MultiheadAttention(case.width, case.heads, batch_first=True)
    with torch.no_grad():
        layer.in_proj_bias.normal_()
        layer.out_proj.bias.normal_()
    x, mask = torch.randn(len(case.lengths), max(case.lengths), case.width), _valid(case.lengths)
    y, _ = layer(x, x, x, key_padding_mask=mask[..., 0] == 0)
    return _numpy(
        x=x,
        qkv=layer.in_proj_weight,
        qkv_bias=layer.in_proj_bias,
        out=layer.out_proj.weight,
        out_bias=layer.out_proj.bias,
        y=y * mask,
    )


def analysis(case: Stft) -> Arrays:
    """x [2, N], magnitude and phase [2, F, bins].

    Reflection makes frame 0 symmetric, so that its imaginary part is rounding noise and the sign of a phase of pi
    there arbitrary: it is set to +0 before the phase is taken.
    """
    x = torch.randn(2, case.hops * case.n_fft // 4)
    window = torch.hann_window(case.n_fft, periodic=True)
    z = torch.stft(x, case.n_fft, case.n_fft // 4, case.n_fft, window, return_complex=True).transpose(1, 2)
    z = torch.complex(z.real, torch.where(torch.arange(z.shape[1])[:, None] == 0, 0.0, z.imag))
    return _numpy(x=x, magnitude=z.abs(), phase=z.angle())


def synthesis(case: Stft) -> Arrays:
    """magnitude and phase [2, F, bins], phase any at the two real bins; x [2, N]."""
    shape = (2, case.n_fft // 2 + 1, case.hops + 1)
    magnitude, phase = torch.rand(shape), torch.randn(shape)
    window = torch.hann_window(case.n_fft, periodic=True)
    z = magnitude * torch.exp(phase * 1j)
    x = torch.istft(z, case.n_fft, case.n_fft // 4, case.n_fft, window)
    return _numpy(magnitude=magnitude.transpose(1, 2), phase=phase.transpose(1, 2), x=x)


def gelu() -> Arrays:
    """x [400], y: tanh form."""
    x = torch.linspace(-8, 8, 400)
    return _numpy(x=x, y=F.gelu(x, approximate="tanh"))
