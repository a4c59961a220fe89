"""The training network against transformers' M2M100. Needs PyTorch: `make parity`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from training.phrasebook import train
from training.phrasebook.export import config_of
from training.phrasebook.network import Config, Phrasebook
from training.phrasebook.tokens import train as train_tokenizer
from training.phrasebook.train import CrossEntropy

SHIPPED = Path(__file__).parents[3] / "models/phrasebook"

pytestmark = pytest.mark.parity


def test_logits_are_those_of_transformers() -> None:
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    torch.manual_seed(0)
    ours = Phrasebook(Config(vocab_size=120, d_model=64, encoder_ffn_dim=96, decoder_ffn_dim=96)).eval()
    arrays = {name: p.detach().numpy() for name, p in ours.named_parameters()}
    theirs = M2M100ForConditionalGeneration(M2M100Config(**config_of(arrays))).eval().float()
    missing, unexpected = theirs.load_state_dict({k: torch.from_numpy(v) for k, v in arrays.items()}, strict=False)
    assert not unexpected
    assert set(missing) <= {
        "lm_head.weight",
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "model.encoder.embed_positions.weights",
        "model.decoder.embed_positions.weights",
    }
    theirs.tie_weights()
    source = torch.tensor([[116, 5, 6, 7, 2], [116, 9, 2, 1, 1]])
    target = torch.tensor([[2, 117, 20, 21], [2, 118, 22, 23]])
    with torch.no_grad():
        states = ours.decode(target, *ours.encode(source))
        expected = theirs(input_ids=source, attention_mask=(source != 1).long(), decoder_input_ids=target).logits
    assert torch.allclose(ours.logits(states), expected, atol=1e-5)


def test_the_loss_and_its_gradient_are_pytorchs() -> None:
    torch.manual_seed(0)
    logits, wanted = torch.randn(40, 90, requires_grad=True), torch.randint(0, 90, (40,))
    ours = CrossEntropy.apply(logits, wanted)
    (gradient,) = torch.autograd.grad(ours, logits)
    theirs = torch.nn.functional.cross_entropy(logits, wanted)
    (expected,) = torch.autograd.grad(theirs, logits)
    assert torch.allclose(ours, theirs, atol=1e-6)
    assert torch.allclose(gradient, expected, atol=1e-7)


def test_parameters_have_the_shipped_names_and_shapes() -> None:
    shipped = load_file(SHIPPED / "model.safetensors")
    ours = Phrasebook(Config(vocab_size=len(shipped["model.shared.weight"])))
    assert {name: tuple(p.shape) for name, p in ours.named_parameters()} == {k: v.shape for k, v in shipped.items()}
    assert all(array.dtype == np.float16 for array in shipped.values())
    assert config_of(shipped) == json.loads((SHIPPED / "config.json").read_text(encoding="utf-8"))


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(train, "BLOCK", 4)
    monkeypatch.setattr(train, "CHECKED", 4)
    tokenizer = tmp_path / "tokenizer.json"
    train_tokenizer(pieces=400, count=100).save(str(tokenizer))
    common = ["--batch", "2", "--save-every", "1", "--bfloat16"]
    train.main([str(tokenizer), str(tmp_path / "whole"), "--steps", "8", *common])
    train.main([str(tokenizer), str(tmp_path / "parts"), "--steps", "8", "--stop", "4", *common])
    train.main([str(tokenizer), str(tmp_path / "parts"), "--steps", "8", *common])
    whole, parts = (np.load(tmp_path / name / "weights.npz") for name in ("whole", "parts"))
    for name in whole.files:
        np.testing.assert_array_equal(whole[name], parts[name])
