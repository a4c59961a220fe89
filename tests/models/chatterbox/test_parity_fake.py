"""Random checkpoints are what the reference package loads: names, shapes and file formats (`make parity`)."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from loadtest.fake_checkpoints import s3gen_shapes, write_voice
from models.chatterbox.config import VARIANTS, Variant
from models.chatterbox.reference.conditioning import read_conds
from models.chatterbox.reference.weights import shapes as reference_shapes

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:.*LoRACompatibleLinear:FutureWarning"),  # diffusers', in what the reference uses
]

PACKAGES = "tests.models.chatterbox.reference_packages"  # makes the reference importable
# What PyTorch counts while it trains, and what it computes when it is made.
UNREAD = ("num_batches_tracked", "tokenizer.window", "tokenizer._mel_filters")


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_s3gen_names_and_shapes(variant: Variant) -> None:
    importlib.import_module(PACKAGES)
    from chatterbox.models.s3gen import S3Gen

    theirs = {
        name: tuple(array.shape)
        for name, array in S3Gen(meanflow=VARIANTS[variant].flow.mean_flow).state_dict().items()
        if not name.endswith(UNREAD)
    }
    assert s3gen_shapes(VARIANTS[variant]) == theirs


def test_voice_encoder_names_and_shapes() -> None:
    importlib.import_module(PACKAGES)
    from chatterbox.models.voice_encoder import VoiceEncoder

    theirs = {name: tuple(array.shape) for name, array in VoiceEncoder().state_dict().items()}
    assert reference_shapes(VARIANTS["chatterbox"])[0] == theirs


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_pytorch_reads_the_voice(variant: Variant, tmp_path: Path) -> None:
    import torch

    path, config = tmp_path / "conds.pt", VARIANTS[variant]
    write_voice(path, config, 0)
    theirs, ours = torch.load(path, weights_only=True), read_conds(path, config)
    assert theirs["t3"]["clap_emb"] is None
    assert theirs["gen"]["prompt_token"].dtype == torch.int64
    assert np.array_equal(theirs["gen"]["prompt_feat"][0].numpy(), ours.arrays["s3gen_mel"])
    assert np.array_equal(theirs["t3"]["cond_prompt_speech_tokens"][0].numpy(), ours.arrays["t3_prompt"])
