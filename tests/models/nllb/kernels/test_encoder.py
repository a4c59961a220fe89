"""The encoder's kernel, run by an emulated GPU, against the plain encoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models.backend import mx
from models.layers.transformer.encoder import CudaEncoder
from models.nllb.kernels.choice import FAMILY, encoder_difference, encoder_weights
from models.nllb.network import Nllb
from models.nllb.steps import CompiledM2M100
from tests.models.nllb.kernels.emulated import ENCODER, cuda_step, error, gpu, network
from tests.models.nllb.kernels.test_step import half

pytestmark = pytest.mark.slow
proof = pytest.mark.proof

# Keys and values are rounded to bfloat16 once more than a step's outputs, which have 1e-2.
TOLERANCE = 1.5e-2
# Weights of few bits are rounded to bfloat16 once they are unpacked.
TOLERANCES = {0: TOLERANCE, 8: 1.5 * TOLERANCE, 4: 3 * TOLERANCE}


def cuda_encoder(model: Nllb, blocks: int = 3) -> CudaEncoder:
    return CudaEncoder(FAMILY, encoder_weights(model), model.config.decoder_layers, blocks)


# One block; blocks that share groups of outputs unevenly; all rows there may be; more blocks than work.
@pytest.mark.parametrize(
    ("sentences", "length", "blocks", "bits", "backward"),
    [
        (2, 6, 3, 0, False),
        pytest.param(1, 4, 1, 0, False, marks=proof),
        pytest.param(1, 32, 5, 0, True, marks=proof),
        pytest.param(2, 16, 3, 0, False, marks=proof),
        pytest.param(3, 7, 40, 0, True, marks=proof),
        pytest.param(2, 5, 3, 8, True, marks=proof),
        pytest.param(1, 9, 3, 4, False, marks=proof),
    ],
)
def test_the_kernel_equals_the_plain_encoder(
    sentences: int, length: int, blocks: int, bits: int, backward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network(ENCODER, bits)
    encoder = cuda_encoder(model, blocks)
    launched = gpu(monkeypatch, backward=backward)
    assert encoder_difference(encoder, model, sentences, length) < TOLERANCES[bits]
    assert launched == ["nightingale_nllb_encoder"]


@proof
def test_an_encoder_at_full_size(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"d_model": 1024, "encoder_attention_heads": 16, "decoder_attention_heads": 16}
    model = network(replace(ENCODER, **changes, encoder_ffn_dim=4096, decoder_ffn_dim=4096, encoder_layers=1))
    encoder = cuda_encoder(model, 5)
    gpu(monkeypatch)
    assert encoder_difference(encoder, model, 1, 24) < TOLERANCE


def test_more_rows_than_a_kernel_has(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch)
    with pytest.raises(ValueError, match="at most 32 rows"):
        cuda_encoder(network(ENCODER))(mx.zeros((3, 11), mx.int32), mx.zeros((3, 1, 1, 11), mx.bfloat16))


def test_short_sentences_take_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real `CompiledM2M100`: what a group's steps read is the plain encoder's; longer ones have no kernel."""
    model = network.__wrapped__(ENCODER)
    half(model)
    plain, fused = (CompiledM2M100(model, padded=True) for _ in range(2))
    launched = gpu(monkeypatch)
    fused.kernel, fused.encoder = cuda_step(model), cuda_encoder(model)
    head = model.shared.head()
    for sources, kernels in (([[5, 6, 7, 2]], 1), ([[5, 6, 2], [9, 4, 11, 30, 2]], 1), ([[7] * 40], 0)):
        launched.clear()
        wanted, found = (each.encode(sources, head, 8) for each in (plain, fused))
        assert launched == ["nightingale_nllb_encoder"] * kernels
        for one, other in zip(found.memory, wanted.memory, strict=True):
            own, right = (np.array(part.astype(mx.float32)) for part in (one, other))
            assert error(own, right) < 3 * TOLERANCE  # the plain encoder's are rounded, too
        assert mx.array_equal(found.bias, wanted.bias)
