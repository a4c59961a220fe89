"""Strict loading: every array of the official files must be there, in its shape, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from models.chatterbox.reference.conditioning import ReferenceEncoder
from models.contract import WeightsError
from tests.models.chatterbox.reference.builder import Arrays, as_mlx, official, small

Change = Callable[[Arrays, Arrays], object]


def _load(change: Change) -> ReferenceEncoder:
    config = small()
    voice, s3gen = official(config)
    change(voice, s3gen)
    made = ReferenceEncoder(config)
    made.load(as_mlx(voice), as_mlx(s3gen), "file")
    return made


NORM = "speaker_encoder.xvector.block1.tdnnd1.nonlinear1.batchnorm"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v, s: v.pop("lstm.weight_hh_l1"), r"file: voice encoder: missing lstm\.weight_hh_l1 \(64, 16\)"),
        (lambda v, s: s.pop(f"{NORM}.running_var"), r"speaker_encoder: missing xvector\.block1.*running_var"),
        (
            lambda v, s: s.update({"tokenizer.encoder.blocks.0.attn.key.bias": np.zeros(64)}),
            r"unexpected encoder\.blocks\.0\.attn\.key\.bias",
        ),
        (lambda v, s: s.update({"tokenizer.window": np.ones(400)}), r"tokenizer\.window is not what"),
        (lambda v, s: s.update({f"{NORM}.num_batches_tracked": np.zeros((2,))}), "unexpected .*num_batches_tracked"),
    ],
)
def test_what_does_not_fit_is_named(change: Change, message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        _load(change)
