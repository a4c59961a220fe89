"""Official `flow.*` and `mel2wav.*` arrays: all of them, no others, in their shapes."""

from __future__ import annotations

import pytest

from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.weights import load_flow
from models.contract import WeightsError
from tests.models.chatterbox.s3gen.flow_builder import SMALL, SMALL_TURBO, arrays

MIXER = "flow.decoder.estimator.time_embed_mixer.weight"


def test_the_other_variants_weights_are_refused() -> None:
    with pytest.raises(WeightsError, match=f"unexpected {MIXER}"):
        load_flow(Flow(SMALL), arrays(SMALL_TURBO), "file")
    with pytest.raises(WeightsError, match=f"missing {MIXER}"):
        load_flow(Flow(SMALL_TURBO), arrays(SMALL), "file")
