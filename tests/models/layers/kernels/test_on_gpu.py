"""Kernels on a real GPU beside their plain definitions; the other tests emulate one."""

from __future__ import annotations

import pytest

from loadtest import kokoro_kernels
from models.backend import mx
from models.chatterbox.config import VocoderConfig
from models.chatterbox.s3gen.vocoder import HiFT
from models.kokoro import source
from models.kokoro.albert import AlbertEncoder
from models.kokoro.config import AlbertConfig
from models.layers import adain, lstm
from models.layers.kernels import host_memory
from models.layers.kernels.agreement import MAX_RELATIVE_ERROR, MAX_RELATIVE_ERROR_FLOAT32, relative_difference
from models.layers.kernels.device import gpu

pytestmark = pytest.mark.skipif(gpu() is None, reason="needs a GPU")


def test_bilstm() -> None:
    assert lstm.fits(256)
    assert lstm._difference(256) < MAX_RELATIVE_ERROR_FLOAT32


@pytest.mark.parametrize(
    ("dtype", "most"), [(mx.float32, MAX_RELATIVE_ERROR_FLOAT32), (mx.bfloat16, MAX_RELATIVE_ERROR)]
)
def test_adain(dtype: mx.Dtype, most: float) -> None:
    assert max(adain._differences(dtype)) < most


@pytest.mark.skipif(gpu() != "cuda", reason="Metal has no such kernel")
def test_albert() -> None:
    encoder = AlbertEncoder(AlbertConfig(768, 12, 2048, 512, 12))
    encoder.apply(lambda array: mx.random.normal(array.shape) / max(array.shape[-1], 16) ** 0.5)
    encoder.lower()
    assert max(encoder._differences()) < MAX_RELATIVE_ERROR_FLOAT32


def test_harmonic_source() -> None:
    assert source._difference(300) < MAX_RELATIVE_ERROR_FLOAT32


@pytest.mark.skipif(gpu() != "cuda", reason="Metal has no such kernel")
def test_memory_shared_with_the_host() -> None:
    assert max(host_memory._differences()) == 0


@pytest.mark.skipif(gpu() != "cuda", reason="Metal has no such kernel")
def test_vocoder_blocks() -> None:
    network = HiFT(VocoderConfig(), 80)
    network.apply(lambda array: mx.random.normal(array.shape) / max(array.shape[-1], 16) ** 0.5)
    network.multiply_in_bfloat16()
    network.lower()
    assert network.uses_kernels


@pytest.mark.skipif(gpu() != "cuda", reason="Metal has no such kernel")
def test_curves_and_generator_blocks() -> None:
    for case in (
        kokoro_kernels.curves_case(30),
        kokoro_kernels.stage_case(600, 256),
        kokoro_kernels.stage_case(3601, 128),
    ):
        assert relative_difference(case.kernel(), case.plain()) < MAX_RELATIVE_ERROR_FLOAT32
