"""Official names in, strictly: nothing missing, extra or misshapen but what is known to be unread; other precision."""

from __future__ import annotations

import pytest

from models.backend import mx
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.weights import load_weights
from tests.models.chatterbox.t3.builder import GPT2, LLAMA, official_arrays


@pytest.mark.parametrize("prefix", ["", "model."])
def test_what_no_inference_reads_may_be_there(prefix: str) -> None:
    """The text head, and the backbone's own token table; everything may lie below "model."."""
    arrays = official_arrays(LLAMA)
    arrays["text_head.weight"] = mx.zeros((LLAMA.text_vocabulary, LLAMA.hidden))
    arrays["tfmr.embed_tokens.weight"] = mx.zeros((8, LLAMA.hidden))
    load_weights(T3(LLAMA), {prefix + name: array for name, array in arrays.items()}, "file")
    arrays = official_arrays(GPT2)
    arrays["tfmr.wte.weight"] = mx.zeros((GPT2.text_vocabulary, GPT2.hidden))
    load_weights(T3(GPT2), {prefix + name: array for name, array in arrays.items()}, "file")


def test_other_precision() -> None:
    model = T3(LLAMA)
    load_weights(model, official_arrays(LLAMA), "file", mx.bfloat16)
    assert model.dtype == mx.bfloat16 and model.tfmr.layers[0].self_attn.qkv_proj.weight.dtype == mx.bfloat16
