"""Official `flow.*` arrays: all of them, no others, in their shapes."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.config import ENGLISH, TURBO
from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.weights import load_weights, shapes
from models.contract import WeightsError
from tests.models.chatterbox.s3gen.flow_builder import SMALL, SMALL_TURBO, VARIANTS, arrays

QUERY = "flow.decoder.estimator.mid_blocks.1.1.0.attn1.to_q.weight"
MIXER = "flow.decoder.estimator.time_embed_mixer.weight"


def test_full_size() -> None:
    """About 113 million numbers; Turbo's has one array more."""
    count = {name: sum(int(np.prod(shape)) for shape in shapes(config).values()) for name, config in _configs().items()}
    assert 105e6 < count["english"] < 120e6
    assert count["turbo"] - count["english"] == 1024 * 2048
    assert set(shapes(TURBO)) - set(shapes(ENGLISH)) == {MIXER}


def _configs() -> dict[str, object]:
    return {"english": ENGLISH, "turbo": TURBO}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", sorted(shapes(SMALL))[::17])
def test_a_missing_array_is_named(name: str, variant: str) -> None:
    given = arrays(VARIANTS[variant])
    del given[name]
    with pytest.raises(WeightsError, match=f"file: missing {name}"):
        load_weights(Flow(VARIANTS[variant]), given, "file")


def test_an_extra_array_is_named() -> None:
    given = arrays(SMALL) | {"flow.encoder.encoders.0.norm_conv.weight": mx.ones((32,))}
    with pytest.raises(WeightsError, match=r"unexpected flow.encoder.encoders.0.norm_conv.weight"):
        load_weights(Flow(SMALL), given, "file")


def test_the_other_variants_weights_are_refused() -> None:
    with pytest.raises(WeightsError, match=f"unexpected {MIXER}"):
        load_weights(Flow(SMALL), arrays(SMALL_TURBO), "file")
    with pytest.raises(WeightsError, match=f"missing {MIXER}"):
        load_weights(Flow(SMALL_TURBO), arrays(SMALL), "file")


def test_a_misshapen_array_is_named() -> None:
    with pytest.raises(WeightsError, match=rf"{QUERY} has shape \(24, 15\), not \(24, 16\)"):
        load_weights(Flow(SMALL), arrays(SMALL) | {QUERY: mx.zeros((24, 15))}, "file")


def test_numbers_that_are_not_floats_are_refused() -> None:
    with pytest.raises(WeightsError, match=rf"{QUERY} is .*int32, not a float type"):
        load_weights(Flow(SMALL), arrays(SMALL) | {QUERY: mx.zeros((24, 16), dtype=mx.int32)}, "file")


def test_other_parts_arrays_are_left_alone_and_any_float_type_is_read() -> None:
    given = {name: array.astype(mx.float16) for name, array in arrays(SMALL).items()}
    flow = Flow(SMALL)
    load_weights(flow, given | {"mel2wav.conv_pre.bias": mx.zeros((3,))}, "file")
    found = flow.estimator.mid_blocks[1].transformers[0].to_qkv.weight
    assert found.dtype == mx.float32
    assert np.array_equal(np.array(found[:24]), np.array(given[QUERY].astype(mx.float32)))
