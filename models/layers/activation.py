"""Activations. Snake: Ziyin et al. 2020, arXiv:2006.08195; GELU's tanh form as transformers' `gelu_new`."""

from __future__ import annotations

import math
from functools import cache

from models.backend import mx, on_cpu

# sin^2(pi m) as a polynomial in m^2 on [0, 1/2], least squares at 400 Chebyshev nodes, largest error 4.6e-7.
# MLX's CPU sine is a scalar call per element; this vectorises, in a chain short enough for one fused kernel.
_SIN2 = (9.86952175, -32.46503585, 42.64227604, -29.42110714, 10.57316894)


def snake(y: mx.array, cycles: mx.array, inverse: mx.array) -> mx.array:
    """y + sin^2(pi * cycles) * inverse, for cycles = alpha y / pi and inverse = 1 / alpha.

    The sine's absolute error is under 1e-6 while |cycles| < 2^22. The terms are ordered so that, compiled together
    with y and cycles as affine functions, the chain is short enough (11 operations) for MLX to make one kernel of it.
    """
    m = cycles - mx.round(cycles)
    z = m * m
    z2 = z * z
    first = inverse * z
    c0, c1, c2, c3, c4 = _SIN2
    return (y + first * (c0 + z * c1)) + (first * z2) * ((c2 + z * c3) + z2 * c4)


# sin(r) / r as a polynomial in r^2 on [-pi, pi], least squares at 400 Chebyshev nodes; 2 pi in three parts, the first
# two short enough that whole multiples below 2^18 are exact.
_SIN = (0.999999994, -0.166666646, 0.00833331029, -0.000198401519, 2.75293953e-06, -2.46764924e-08, 1.34499896e-10)
_TURN = (6.25, 0.033203125, 2 * math.pi - 6.25 - 0.033203125)


@cache
def _sine():  # type: ignore[no-untyped-def]
    def reduce(x: mx.array) -> mx.array:
        n = mx.round(x * (0.5 / math.pi))
        return ((x - n * _TURN[0]) - n * _TURN[1]) - n * _TURN[2]

    def polynomial(r: mx.array) -> mx.array:
        z = r * r
        z2 = z * z
        c0, c1, c2, c3, c4, c5, c6 = _SIN
        return r * (((c0 + z * c1) + z2 * (c2 + z * c3)) + (z2 * z2) * ((c4 + z * c5) + z2 * c6))

    first, second = mx.compile(reduce), mx.compile(polynomial)
    return lambda x: second(first(x))


def sine(x: mx.array) -> mx.array:
    """sin(x) for |x| < 1e6: on the CPU in vector code, absolute error under 1e-6 of the float32 argument's sine."""
    return _sine()(x) if on_cpu() else mx.sin(x)


def leaky_relu(x: mx.array, slope: float) -> mx.array:
    """max(x, slope * x) for slope in (0, 1)."""
    return mx.maximum(x, x * slope)


# tanh(x) / x as a rational function of x^2 on [-8, 8], least squares, absolute error of tanh 5e-7; beyond, tanh is 1.
_TANH = (0.999999071, 0.126999868, 0.00268469327, 7.08478296e-06, -6.02206429e-09)
_TANH_BELOW = (0.460329813, 0.0227982626, 0.000195323313)


@cache
def _gelu():  # type: ignore[no-untyped-def]
    def argument(x: mx.array) -> mx.array:
        return math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)

    def exact(x: mx.array) -> mx.array:
        return 0.5 * x * (1 + mx.tanh(argument(x)))

    def clipped(x: mx.array) -> mx.array:
        return mx.minimum(mx.maximum(argument(x), -8.0), 8.0)

    def rational(x: mx.array, u: mx.array) -> mx.array:
        z = u * u
        z2 = z * z
        c0, c1, c2, c3, c4 = _TANH
        d1, d2, d3 = _TANH_BELOW
        above = u * ((c0 + z * c1) + z2 * ((c2 + z * c3) + z2 * c4))
        return (0.5 * x) * (1 + above / ((1 + z * d1) + z2 * (d2 + z * d3)))

    if not on_cpu():
        return mx.compile(exact)
    first, second = mx.compile(clipped), mx.compile(rational)
    return lambda x: second(x, first(x))


def gelu_tanh(x: mx.array) -> mx.array:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), on the CPU in vector code (tanh's absolute error 5e-7)."""
    result: mx.array = _gelu()(x)
    return result
