"""Activations. Snake: Ziyin et al. 2020, arXiv:2006.08195; GELU's tanh form as transformers' `gelu_new`.

A GPU computes each in one kernel, with the layer's bias that comes right before it. On the CPU the native kernels have
their own; what they leave takes MLX's operations.
"""

from __future__ import annotations

import math
from functools import reduce

from models.backend import compiled, mx
from models.native import transformer

# sin^2(pi m) as a polynomial in m^2 on [0, 1/2], least squares at 400 Chebyshev nodes, largest error 4.6e-7.
# Reduced in cycles, it keeps its error where the angle is large.
SIN2 = (9.86952175, -32.46503585, 42.64227604, -29.42110714, 10.57316894)

# `snake` for kernels.
SNAKE_WORD = f"""
INLINE float snake(const float y, const float cycles, const float inverse) {{
  const float m = cycles - floorf(cycles + 0.5f), z = m * m;
  return fmaf({reduce(lambda sum_, c: f"fmaf(z, {sum_}, {c}f)", reversed(SIN2[:-1]), f"{SIN2[-1]}f")} * z, inverse, y);
}}
"""


def snake(y: mx.array, cycles: mx.array, inverse: mx.array) -> mx.array:
    """Return y + sin^2(pi * cycles) * inverse, for cycles = alpha y / pi and inverse = 1 / alpha.

    The sine's absolute error is under 1e-6 while |cycles| < 2^22. The order of the terms keeps the chain, compiled with
    y and cycles as affine functions, short enough (11 operations) for one kernel.
    """
    m = cycles - mx.round(cycles)
    z = m * m
    z2 = z * z
    first = inverse * z
    c0, c1, c2, c3, c4 = SIN2
    return (y + first * (c0 + z * c1)) + (first * z2) * ((c2 + z * c3) + z2 * c4)


def sine(x: mx.array) -> mx.array:
    """Return sin(x)."""
    return mx.sin(x)


def leaky_relu(x: mx.array, slope: float) -> mx.array:
    """Return max(x, slope * x) for slope in (0, 1)."""
    return mx.maximum(x, x * slope)


@compiled
def gelu_tanh(x: mx.array) -> mx.array:
    """Return 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@compiled
def gelu(x: mx.array, bias: mx.array) -> mx.array:
    """Return y Phi(y) for y = x + bias, by erf (Hendrycks and Gimpel 2016, arXiv:1606.08415)."""
    x = x + bias
    return 0.5 * x * (1 + mx.erf(x * math.sqrt(0.5)))


def exact_gelu(x: mx.array) -> mx.array:
    """Return x Phi(x)."""
    return transformer.gelu(x) if transformer.fits(x) else gelu(x, mx.zeros((1,), dtype=x.dtype))


@compiled
def silu(x: mx.array, bias: mx.array) -> mx.array:
    """Return y sigmoid(y) for y = x + bias."""
    x = x + bias
    return x * mx.sigmoid(x)


@compiled
def exp_below(x: mx.array, top: mx.array) -> mx.array:
    """Return exp(x - top) for x <= top."""
    return mx.exp(x - top)


@compiled
def mish(x: mx.array) -> mx.array:
    """Return x tanh(log(1 + exp(x))), Misra 2019, arXiv:1908.08681."""
    return x * mx.tanh(mx.logaddexp(x, 0.0))
