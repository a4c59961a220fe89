"""SmolLM2's real weights, from a GGUF, against transformers: prompts, probabilities and texts (`make test-real`)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.backend import mx
from models.contract import GenerationRequest, ModelSpec
from models.llm import native
from models.llm.pipeline import MlxLanguageModel, load
from models.timeline import Timeline

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1_200),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

FOLDER = Path(__file__).parents[2] / "build" / "real" / "models" / "smollm2-135m"
QUESTIONS = (
    "What is the capital of France?",
    "Name three animals that live in the sea.",
    "Write one sentence about the rain in Zürich.",
)
# The native kernels round weights to bfloat16: nearly the same distribution, not the same bits.
LOGPROBS, NATIVE_LOGPROBS, NATIVE_AGREEMENT = 2e-3, 0.05, 0.8


@cache
def ours(*, lowered: bool) -> MlxLanguageModel:
    """Our model, by the native kernels, or by MLX's own products in float32."""
    with pytest.MonkeyPatch.context() as patch:
        if not lowered:
            patch.setattr(native, "lower", lambda model: model.set_dtype(mx.float32))
        made = load(ModelSpec("smollm2-135m", "llm", {"config": str(FOLDER / "config.json")}))
    assert isinstance(made, MlxLanguageModel)
    return made


@cache
def reference() -> Any:
    """transformers' Llama with the same numbers in float32."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = json.loads((FOLDER / "config.json").read_text())
    quantization = config.pop("quantization")
    weights: Any = mx.load(str(FOLDER / "model.safetensors"))
    state = {}
    for name, array in weights.items():
        layer, _, kind = name.rpartition(".")
        if kind in ("scales", "biases"):
            continue
        if f"{layer}.scales" in weights:
            own = quantization.get(layer, quantization)
            scales, biases = (weights[f"{layer}.{kind}"].astype(mx.float32) for kind in ("scales", "biases"))
            whole = mx.dequantize(array, scales, biases, own["group_size"], own["bits"])
        else:
            whole = array
        state[name] = torch.from_numpy(np.array(whole.astype(mx.float32)))
    made = LlamaForCausalLM(LlamaConfig(**config)).eval()
    missing, unexpected = made.load_state_dict(state, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    return made


def prompt(question: str) -> tuple[int, ...]:
    return ours(lowered=True).prompt([{"role": "user", "content": question}])


def written(model: MlxLanguageModel, question: str, tokens: int = 24) -> tuple[str, list[float]]:
    """Return the text of an answer, and the log-probabilities of its tokens."""
    request = GenerationRequest(prompt=prompt(question), max_tokens=tokens, logprobs=0, owner=question)
    items = [item for item in model.generate(request, Timeline(), lambda: False) if item is not None]
    return "".join(item.text for item in items), [each.logprob for item in items for each in item.logprobs]


@cache
def wanted(question: str) -> tuple[str, list[float]]:
    """Return the same of transformers, greedily."""
    import torch

    ids = torch.tensor([prompt(question)])
    with torch.inference_mode():
        found = reference().generate(ids, max_new_tokens=24, do_sample=False, pad_token_id=0, eos_token_id=2)
        logprobs = torch.log_softmax(reference()(found).logits[0].float(), -1)
    begin = ids.shape[1]
    tokens = [token for token in found[0, begin:].tolist() if token != 2]
    text = ours(lowered=True)._tokenizer.decode(tokens)
    return text, [float(logprobs[begin - 1 + at, token]) for at, token in enumerate(tokens)]


def test_prompts_are_those_of_transformers() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(FOLDER), local_files_only=True, trust_remote_code=False)
    for question in QUESTIONS:
        messages = [{"role": "user", "content": question}]
        theirs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert list(prompt(question)) == list(theirs)


@pytest.mark.parametrize("question", QUESTIONS)
def test_texts_and_probabilities(question: str) -> None:
    text, logprobs = written(ours(lowered=False), question)
    assert text == wanted(question)[0]
    assert np.abs(np.array(logprobs) - wanted(question)[1]).max() < LOGPROBS


def test_the_native_kernels_answer_as_the_reference() -> None:
    same, total = 0, 0
    for question in QUESTIONS:
        text, logprobs = written(ours(lowered=True), question)
        expected, theirs = wanted(question)
        words = expected.split()
        same += sum(a == b for a, b in zip(text.split(), words, strict=False))
        total += len(words)
        assert abs(logprobs[0] - theirs[0]) < NATIVE_LOGPROBS
    assert "Paris" in written(ours(lowered=True), QUESTIONS[0])[0]
    assert same >= NATIVE_AGREEMENT * total
