"""PL-BERT's encoder as one kernel, on an emulated GPU, against plain operations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models.backend import mx
from models.kokoro import encoder_kernel
from models.kokoro.albert import AlbertEncoder
from models.kokoro.config import AlbertConfig
from models.layers import linear
from models.layers.conv import PaddingMask
from models.layers.kernels import agreement
from models.layers.kernels.agreement import relative_difference
from tests.models.emulator import launcher

pytestmark = pytest.mark.slow
proof = pytest.mark.proof

CONFIG = AlbertConfig(
    hidden_size=128,
    num_attention_heads=2,
    intermediate_size=640,
    max_position_embeddings=64,
    num_hidden_layers=2,
    embedding_size=32,
)


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> AlbertEncoder:
    """An encoder of random weights, lowered as on a GPU."""
    monkeypatch.setattr(linear, "on_cpu", lambda: False)
    return made(CONFIG)


def made(config: AlbertConfig) -> AlbertEncoder:
    mx.random.seed(0)
    layers = AlbertEncoder(config)
    layers.apply(lambda array: mx.random.normal(array.shape) / max(array.shape[-1], 16) ** 0.5)
    layer = layers.albert_layer_groups[0].albert_layers[0]
    for norm in (layer.attention.LayerNorm, layer.full_layer_layer_norm):
        norm.weight = norm.weight + 1
    layers.lower()
    return layers


def apart(encoder: AlbertEncoder, length: int, counts: tuple[int, ...], blocks: int = 3) -> float:
    """Return the difference of the valid rows."""
    width = encoder.embedding_hidden_mapping_in.bias.size
    x = mx.random.normal((len(counts), length, width), key=mx.random.key(length))
    valid = PaddingMask.of(mx.array(counts)[:, None, None], length)
    found, wanted = encoder.encode_kernel(x, valid, blocks), encoder.encode_reference(x, valid)
    return relative_difference(mx.where(valid.mask > 0, found, 0), wanted * valid.mask)


@pytest.mark.parametrize(
    ("length", "counts", "blocks", "backward"),
    [
        (20, (20, 13), 3, True),
        pytest.param(16, (16,), 3, False, marks=proof),
        pytest.param(5, (3, 5), 1, True, marks=proof),
        pytest.param(40, (33,), 2, False, marks=proof),
        pytest.param(20, (20, 1, 7), 5, True, marks=proof),
    ],
)
def test_the_kernel_equals_plain_operations(
    length: int,
    counts: tuple[int, ...],
    blocks: int,
    backward: bool,
    encoder: AlbertEncoder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that fill no tile and several tiles, more keys than lanes, one block."""
    monkeypatch.setattr(encoder_kernel, "launch", launcher("cuda", backward=backward))
    assert apart(encoder, length, counts, blocks) < 1e-5
    assert not np.array(encoder_kernel._counters()).any()


@proof
def test_rows_without_padding(encoder: AlbertEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_kernel, "launch", launcher("cuda"))
    x = mx.random.normal((1, 9, CONFIG.hidden_size))
    found = encoder.encode_kernel(x, PaddingMask(), 2)
    assert relative_difference(found, encoder.encode_reference(x, PaddingMask())) < 1e-5


@proof
def test_a_layer_at_full_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "on_cpu", lambda: False)
    monkeypatch.setattr(encoder_kernel, "launch", launcher("cuda"))
    full = replace(
        CONFIG, hidden_size=768, num_attention_heads=12, intermediate_size=2048, num_hidden_layers=1, embedding_size=128
    )
    assert apart(made(full), 6, (5,), 4) < 1e-5


def test_a_gpu_uses_it_where_it_agrees(encoder: AlbertEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    x, valid = mx.random.normal((1, 16, CONFIG.embedding_size)), PaddingMask.of(mx.array([[[7]]]), 16)
    wanted = encoder(x, valid)
    seen: list[str] = []
    monkeypatch.setattr(encoder_kernel, "processors", lambda: 3)
    monkeypatch.setattr(agreement, "gpu", lambda: "cuda")
    monkeypatch.setattr(agreement, "_found", {})
    monkeypatch.setattr(encoder_kernel, "launch", launcher("cuda", seen=seen))
    assert relative_difference((encoder(x, valid) * valid.mask), wanted * valid.mask) < 1e-5
    assert seen == ["nightingale_albert"] * 2
    long = mx.random.normal((1, encoder_kernel.MAX_LENGTH + 1, CONFIG.embedding_size))
    encoder(long, PaddingMask())
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("shape", "dtype", "graphs", "found"),
    [
        ((1, 64, 768), mx.float32, "0", True),
        ((4, 16, 768), mx.float32, "0", True),
        ((8, 32, 768), mx.float32, "0", True),
        ((8, 33, 768), mx.float32, "0", False),
        ((1, 65, 768), mx.float32, "0", False),
        ((1, 16, 704), mx.float32, "0", False),
        ((1, 16, 768), mx.bfloat16, "0", False),
        ((1, 16, 768), mx.float32, "1", False),
    ],
)
def test_what_fits(
    shape: tuple[int, ...], dtype: mx.Dtype, graphs: str, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = mx.zeros(shape, dtype)
    assert not encoder_kernel.fits(x, 12, 2048)
    monkeypatch.setattr(encoder_kernel, "processors", lambda: 132)
    monkeypatch.setenv("MLX_USE_CUDA_GRAPHS", graphs)
    assert encoder_kernel.fits(x, 12, 2048) == found
