"""Official `flow.*` and `mel2wav.*` arrays: all of them, no others, in their shapes."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.noise import Draw, frame_noise, random_phases
from models.chatterbox.s3gen.vocoder import HiFT, Vocoder
from models.chatterbox.s3gen.weights import load_flow, load_vocoder
from models.contract import WeightsError
from models.native import kernels
from tests.models.chatterbox.s3gen import narrow
from tests.models.chatterbox.s3gen.flow_builder import SMALL, SMALL_TURBO, arrays

QUERY = "flow.decoder.estimator.mid_blocks.1.1.0.attn1.to_q.weight"
MIXER = "flow.decoder.estimator.time_embed_mixer.weight"


def test_the_other_variants_weights_are_refused() -> None:
    with pytest.raises(WeightsError, match=f"unexpected {MIXER}"):
        load_flow(Flow(SMALL), arrays(SMALL_TURBO), "file")
    with pytest.raises(WeightsError, match=f"missing {MIXER}"):
        load_flow(Flow(SMALL_TURBO), arrays(SMALL), "file")


def test_other_parts_arrays_are_left_alone_and_any_float_type_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "module", lambda: None)  # which pack the weights in an order of their own
    given = {name: array.astype(mx.float16) for name, array in arrays(SMALL).items()}
    flow = Flow(SMALL)
    load_flow(flow, given | {"mel2wav.conv_pre.bias": mx.zeros((3,))}, "file")
    found = flow.estimator.mid_blocks[1].transformers[0].to_qkv.weight
    assert found.dtype == mx.float32
    assert np.array_equal(np.array(found[:24]), np.array(given[QUERY].astype(mx.float32)))


def loaded_vocoder(arrays: dict[str, mx.array]) -> HiFT:
    network = HiFT(narrow.SMALL, narrow.MELS)
    load_vocoder(network, arrays, "file")
    return network


def test_every_array_of_the_vocoder_finds_its_place() -> None:
    arrays = narrow.official_arrays()
    assert "mel2wav.resblocks.8.convs2.2.parametrizations.weight.original1" in arrays
    mel, phases, noise = narrow.mel(9), random_phases(0, 8), frame_noise(0, Draw.EXCITATION, 0, 9, 480)
    found, expected = (np.array(Vocoder(n)(mel, phases, noise).pcm) for n in (loaded_vocoder(arrays), narrow.lowered()))
    assert np.linalg.norm(found - expected) < 1e-3 * np.linalg.norm(expected)
