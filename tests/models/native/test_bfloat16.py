"""Products in bfloat16, where this processor has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.backend import mx
from models.kokoro.config import load_config
from models.kokoro.pipeline import load
from models.layers.conv import PaddingMask
from models.native import kernels
from tests.models.kokoro.house import SPEC
from tests.models.native.checks import CLOSE, apart, conv_reference

pytestmark = pytest.mark.skipif(not kernels.has_bfloat16(), reason="this processor does not multiply in bfloat16")
# Of rounding both factors to 8 bits of mantissa.
CLOSE_IN_BFLOAT16 = 2e-2


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs", "kernel", "dilation"),
    [(1, 16, 16, 3, 1), (61, 48, 48, 3, 5), (137, 24, 22, 7, 1), (700, 48, 96, 11, 5), (90, 274, 208, 1, 1)],
)
def test_convolution_in_bfloat16(rows: int, inputs: int, outputs: int, kernel: int, dilation: int) -> None:
    x, taps = mx.random.normal((2, rows, inputs)), mx.random.normal((kernel, inputs, outputs))
    packed = kernels.pack_conv(taps, bfloat16=True)
    assert packed.bfloat16
    reach = (kernel - 1) * dilation // 2
    expected = conv_reference(x, taps, dilation, reach, reach)
    distance = apart(kernels.conv1d(x, packed, dilation=dilation, left=reach, right=reach), expected)
    assert 0 < distance < CLOSE_IN_BFLOAT16
    nearest = [array.astype(mx.bfloat16).astype(mx.float32) for array in (x, taps)]
    rounded = conv_reference(nearest[0], nearest[1], dilation, reach, reach)
    assert apart(kernels.conv1d(x, packed, dilation=dilation, left=reach, right=reach), rounded) < CLOSE


def test_house_voice_in_bfloat16() -> None:
    """The waveform of one alignment and one F0 stays within two hundredths of that in float32."""
    exact, coarse = (load(replace(SPEC, dtype=dtype)).network.decoder for dtype in ("float32", "auto"))
    frames, config = 60, load_config(SPEC.files["config"])
    shapes = ((1, frames, config.hidden_dim), (1, config.style_dim), (1, 2 * frames), (1, 600 * frames))
    keys = mx.random.split(mx.random.key(3), 4)
    text, style, energy, noise = (mx.random.normal(shape, key=key) for shape, key in zip(shapes, keys, strict=True))
    f0 = mx.full((1, 2 * frames), 180.0)
    first, second = (
        decoder.generator(decoder.features(text, f0, energy, style, PaddingMask()), style, f0, noise)
        for decoder in (exact, coarse)
    )
    distance = float(mx.linalg.norm(second - first) / mx.linalg.norm(first))
    assert 0 < distance < CLOSE_IN_BFLOAT16
