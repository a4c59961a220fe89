"""Activations. Snake: Ziyin et al. 2020, arXiv:2006.08195; GELU's tanh form as transformers' `gelu_new`.

MLX's exponential, erf and tanh on the CPU are scalar calls; the polynomials here vectorize. A layer's bias that comes
right before the activation is added in the same kernel.
"""

from __future__ import annotations

import math

from models.backend import compiled_cache, mx, on_cpu

# sin^2(pi m) as a polynomial in m^2 on [0, 1/2], least squares at 400 Chebyshev nodes, largest error 4.6e-7.
# MLX's CPU sine is a scalar call per element; this vectorizes, in a chain short enough for one fused kernel.
_SIN2 = (9.86952175, -32.46503585, 42.64227604, -29.42110714, 10.57316894)


def snake(y: mx.array, cycles: mx.array, inverse: mx.array) -> mx.array:
    """Return y + sin^2(pi * cycles) * inverse, for cycles = alpha y / pi and inverse = 1 / alpha.

    The sine's absolute error is under 1e-6 while |cycles| < 2^22. The order of the terms keeps the chain, compiled with
    y and cycles as affine functions, short enough (11 operations) for MLX to make one kernel of it.
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


@compiled_cache
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
    """Return sin(x) for |x| < 1e6: on the CPU in vector code, with an absolute error under 1e-6."""
    return _sine()(x) if on_cpu() else mx.sin(x)


def leaky_relu(x: mx.array, slope: float) -> mx.array:
    """Return max(x, slope * x) for slope in (0, 1)."""
    return mx.maximum(x, x * slope)


# tanh(x) / x as a rational function of x^2 on [-8, 8], least squares, absolute error of tanh 5e-7; beyond, tanh is 1.
_TANH = (0.999999071, 0.126999868, 0.00268469327, 7.08478296e-06, -6.02206429e-09)
_TANH_BELOW = (0.460329813, 0.0227982626, 0.000195323313)


def _tanh_within(u: mx.array) -> mx.array:
    """Return tanh(u) for |u| <= 8, at a depth of ten operations."""
    z = u * u
    z2 = z * z
    c0, c1, c2, c3, c4 = _TANH
    d1, d2, d3 = _TANH_BELOW
    above = u * ((c0 + z * c1) + z2 * ((c2 + z * c3) + z2 * c4))
    return above / ((1 + z * d1) + z2 * (d2 + z * d3))


@compiled_cache
def _gelu_tanh():  # type: ignore[no-untyped-def]
    def argument(x: mx.array) -> mx.array:
        return math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)

    def exact(x: mx.array) -> mx.array:
        return 0.5 * x * (1 + mx.tanh(argument(x)))

    def clipped(x: mx.array) -> mx.array:
        return mx.minimum(mx.maximum(argument(x), -8.0), 8.0)

    def rational(x: mx.array, u: mx.array) -> mx.array:
        return (0.5 * x) * (1 + _tanh_within(u))

    if not on_cpu():
        return mx.compile(exact)
    first, second = mx.compile(clipped), mx.compile(rational)
    return lambda x: second(x, first(x))


def gelu_tanh(x: mx.array) -> mx.array:
    """Return 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))); on the CPU tanh has an absolute error of 5e-7."""
    result: mx.array = _gelu_tanh()(x)
    return result


# erf(x / sqrt(2)) / x as a rational function of x^2 on [-5.25, 5.25], absolute error of erf 2e-7; beyond, erf is 1.
_ERF = (0.797883352, 0.12526663, 0.0124873849, 0.000873695945, 1.13502649e-05, -3.36570908e-08)
_ERF_BELOW = (0.323655146, 0.0446117073, 0.00339941531, 0.000146851582)
_ERF_REACH = 5.25


@compiled_cache
def _gelu():  # type: ignore[no-untyped-def]
    def exact(x: mx.array, bias: mx.array) -> mx.array:
        x = x + bias
        return 0.5 * x * (1 + mx.erf(x * math.sqrt(0.5)))

    def clipped(x: mx.array, bias: mx.array) -> mx.array:
        return mx.minimum(mx.maximum(x + bias, -_ERF_REACH), _ERF_REACH)

    def rational(x: mx.array, bias: mx.array, u: mx.array) -> mx.array:
        z = u * u
        z2 = z * z
        c0, c1, c2, c3, c4, c5 = _ERF
        d1, d2, d3, d4 = _ERF_BELOW
        above = u * (((c0 + z * c1) + z2 * (c2 + z * c3)) + (z2 * z2) * (c4 + z * c5))
        below = ((1 + z * d1) + z2 * (d2 + z * d3)) + (z2 * z2) * d4
        return (0.5 * (x + bias)) * (1 + above / below)

    if not on_cpu():
        return mx.compile(exact)
    first, second = mx.compile(clipped), mx.compile(rational)
    return lambda x, bias: second(x, bias, first(x, bias))


def gelu(x: mx.array, bias: mx.array) -> mx.array:
    """Return y Phi(y) for y = x + bias, by erf (Hendrycks and Gimpel 2016, arXiv:1606.08415).

    On the CPU in vector code: erf's absolute error is 2e-7.
    """
    result: mx.array = _gelu()(x, bias)
    return result


@compiled_cache
def _silu():  # type: ignore[no-untyped-def]
    def exact(x: mx.array, bias: mx.array) -> mx.array:
        x = x + bias
        return x * mx.sigmoid(x)

    def clipped(x: mx.array, bias: mx.array) -> mx.array:
        return mx.minimum(mx.maximum(0.5 * (x + bias), -8.0), 8.0)

    def rational(x: mx.array, bias: mx.array, u: mx.array) -> mx.array:
        return (0.5 * (x + bias)) * (1 + _tanh_within(u))

    if not on_cpu():
        return mx.compile(exact)
    first, second = mx.compile(clipped), mx.compile(rational)
    return lambda x, bias: second(x, bias, first(x, bias))


def silu(x: mx.array, bias: mx.array) -> mx.array:
    """Return y sigmoid(y) for y = x + bias; on the CPU sigmoid has an absolute error of 3e-7."""
    result: mx.array = _silu()(x, bias)
    return result


# exp(x / 16) on [-24, 0], relative error 2e-8; its 16th power is exp(x), relative error 1e-5.
_EXP = (
    *(0.999999981, 0.062499913, 0.00195305708, 4.06692322e-05),
    *(6.32544953e-07, 7.66651833e-09, 6.87459595e-11, 3.43730942e-13),
)
EXP_REACH = 24.0


def _exp_within(x: mx.array) -> mx.array:
    """Return exp(x) for -EXP_REACH <= x <= 0, at a depth of eleven operations."""
    c0, c1, c2, c3, c4, c5, c6, c7 = _EXP
    z2 = x * x
    y = ((c0 + x * c1) + z2 * (c2 + x * c3)) + (z2 * z2) * ((c4 + x * c5) + z2 * (c6 + x * c7))
    y = y * y
    y = y * y
    y = y * y
    return y * y


@compiled_cache
def _exp_below():  # type: ignore[no-untyped-def]
    if not on_cpu():
        return mx.compile(lambda x, top: mx.exp(x - top))
    first, second = mx.compile(lambda x, top: mx.maximum(x - top, -EXP_REACH)), mx.compile(_exp_within)
    return lambda x, top: second(first(x, top))


def exp_below(x: mx.array, top: mx.array) -> mx.array:
    """Return exp(x - top) for x <= top; on the CPU with a relative error of 1e-5, and never less than exp(-24)."""
    result: mx.array = _exp_below()(x, top)
    return result


@compiled_cache
def _mish():  # type: ignore[no-untyped-def]
    # tanh(log(1 + w)) = (w^2 + 2w) / (w^2 + 2w + 2) for w = exp(x); from x = 9 on it is 1, below -15 it is w.
    def exact(x: mx.array) -> mx.array:
        return x * mx.tanh(mx.logaddexp(x, 0.0))

    def shifted(x: mx.array) -> mx.array:
        return mx.minimum(mx.maximum(x - 9.0, -EXP_REACH), 0.0)

    def ratio(x: mx.array, power: mx.array) -> mx.array:
        w = power * math.exp(9.0)
        n = w * (w + 2.0)
        return x * (n / (n + 2.0))

    if not on_cpu():
        return mx.compile(exact)
    first, second, third = mx.compile(shifted), mx.compile(_exp_within), mx.compile(ratio)
    return lambda x: third(x, second(first(x)))


def mish(x: mx.array) -> mx.array:
    """Return x tanh(log(1 + exp(x))), Misra 2019, arXiv:1908.08681; on the CPU the error is 5e-6 max(1, |x|)."""
    result: mx.array = _mish()(x)
    return result
