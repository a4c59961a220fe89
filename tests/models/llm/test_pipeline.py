"""A language model of random weights writes: against mlx-lm's own generation, together and alone, cut short."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.backend import mx
from models.contract import (
    Cancelled,
    GeneratedText,
    GenerationRequest,
    InputTooLongError,
    LanguageModel,
    ModelRequestError,
    ModelSpec,
    WeightsError,
)
from models.llm import native
from models.llm.batch import PREFILL_STEP
from models.llm.library import import_module
from models.llm.pipeline import MlxLanguageModel, load
from models.timeline import Stage, Timeline
from tests.models.llm.tiny import write_model

QUESTIONS = ("Hello!", "What is the name of this animal, and where does it live?", "Count.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("llm") / "tiny")


@pytest.fixture(scope="module")
def model(folder: Path) -> MlxLanguageModel:
    return loaded(folder)


def loaded(folder: Path) -> MlxLanguageModel:
    return load(ModelSpec("tiny", "llm", {"config": str(folder / "config.json")}))


def asked(model: MlxLanguageModel, text: str, **options: Any) -> GenerationRequest:
    prompt = model.prompt([{"role": "user", "content": text}])
    return GenerationRequest(**{"prompt": prompt, "max_tokens": 24, "owner": text} | options)


def answer(model: MlxLanguageModel, request: GenerationRequest) -> list[GeneratedText]:
    return [item for item in model.generate(request, Timeline(), lambda: False) if item is not None]


def text_of(found: list[GeneratedText]) -> str:
    return "".join(item.text for item in found)


def test_it_is_what_the_contract_says(model: MlxLanguageModel) -> None:
    assert isinstance(model, LanguageModel)
    assert model.context == 1024
    assert model.takes_tools


def test_greedy_text_is_that_of_mlx_lm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.kernels, "available", lambda: False)
    model = loaded(folder)
    request = asked(model, QUESTIONS[1])
    network, _ = import_module("utils").load_model(folder)
    network.set_dtype(mx.float32)
    steps = import_module("generate").generate_step(mx.array(request.prompt), network, max_tokens=request.max_tokens)
    tokens = [int(token) for token, _ in steps]
    expected = tokens[: tokens.index(256)] if 256 in tokens else tokens
    assert text_of(answer(model, request)) == model._tokenizer.decode(expected)


@pytest.mark.skipif(not native.kernels.available(), reason="no native kernels here")
def test_native_products_are_those_of_mlx(folder: Path) -> None:
    """Rounding to 8 bits moves a logit by a hundredth of their spread, and none by a tenth."""
    plain, lowered = (import_module("utils").load_model(folder)[0] for _ in range(2))
    plain.set_dtype(mx.float32)
    native.lower(lowered)
    ids = mx.array([[72, 101, 108, 108, 111, 32, 119]])
    one, other = np.array(plain(ids)), np.array(lowered(ids))
    assert 0 < np.abs(one - other).mean() < 0.02 * one.std()
    assert np.abs(one - other).max() < 0.1 * one.std()


def test_several_at_once_write_what_each_writes_alone(model: MlxLanguageModel) -> None:
    requests = [asked(model, question) for question in QUESTIONS]
    alone = [text_of(answer(model, request)) for request in requests]
    running = {at: model.generate(request, Timeline(), lambda: False) for at, request in enumerate(requests)}
    together = [""] * len(requests)
    while running:
        for at, generated in list(running.items()):
            item = next(generated, StopIteration)
            if item is StopIteration:
                del running[at]
            elif isinstance(item, GeneratedText):
                together[at] += item.text
    assert together == alone


def test_a_prompt_that_is_read_slowly_is_read_in_short_turns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, slow = loaded(folder), loaded(folder)
    request = asked(quick, "Hello. " * 100)
    assert len(request.prompt) > 2 * PREFILL_STEP
    expected = list(quick.generate(request, Timeline(), lambda: False))
    monkeypatch.setattr("models.llm.batch.TURN_SECONDS", 0.0)
    found = list(slow.generate(request, Timeline(), lambda: False))
    assert found.count(None) > expected.count(None) + 8
    assert [item for item in found if item is not None] == [item for item in expected if item is not None]


def test_what_was_read_for_an_owner_is_read_once(model: MlxLanguageModel) -> None:
    messages = [{"role": "user", "content": "A question of some length about nothing."}]
    first = GenerationRequest(prompt=model.prompt(messages), max_tokens=8, owner="me")
    said = answer(model, first)
    assert said[0].cached_tokens == 0
    again = answer(model, first)
    assert again[0].cached_tokens == len(first.prompt) - 1
    assert text_of(again) == text_of(said)
    messages += [{"role": "assistant", "content": "x"}, {"role": "user", "content": "Why?"}]
    longer = GenerationRequest(prompt=model.prompt(messages), max_tokens=8, owner="me")
    assert answer(model, longer)[0].cached_tokens > 40
    other = GenerationRequest(prompt=model.prompt(messages), max_tokens=8, owner="somebody else")
    assert answer(model, other)[0].cached_tokens == 0


def test_the_end_by_length_and_by_a_text(model: MlxLanguageModel) -> None:
    request = asked(model, QUESTIONS[0])
    whole = answer(model, request)
    assert whole[-1].finish_reason == "length"
    assert sum(item.tokens for item in whole) == request.max_tokens
    text = text_of(whole)
    short = answer(model, asked(model, QUESTIONS[0], stop=("never", text[6:9])))
    assert (short[-1].finish_reason, text_of(short)) == ("stop", text[: text.index(text[6:9])])


def test_a_message_ends_where_the_context_does(model: MlxLanguageModel) -> None:
    found = answer(model, GenerationRequest(prompt=(65,) * (model.context - 5), max_tokens=100))
    assert sum(item.tokens for item in found) == 5
    with pytest.raises(InputTooLongError, match="1024 tokens; at most 1023"):
        answer(model, GenerationRequest(prompt=(65,) * 1024, max_tokens=1))


def test_probabilities_are_those_of_the_tokens(model: MlxLanguageModel) -> None:
    found = answer(model, asked(model, QUESTIONS[0], logprobs=3))
    tokens = [each for item in found for each in item.logprobs]
    assert len(tokens) == 24
    for token in tokens:
        assert token.likeliest[0].logprob == pytest.approx(token.logprob)
        assert [each.logprob for each in token.likeliest] == sorted((e.logprob for e in token.likeliest), reverse=True)


@pytest.mark.parametrize("choice", [{"temperature": 1e-300}, {"temperature": 1.0, "top_p": 1e-300}])
def test_the_narrowest_choice_is_the_likeliest(model: MlxLanguageModel, choice: dict[str, float]) -> None:
    expected = text_of(answer(model, asked(model, "Hello!", temperature=0.0)))
    assert text_of(answer(model, asked(model, "Hello!", **choice))) == expected


def test_a_bias_decides(model: MlxLanguageModel) -> None:
    found = answer(model, asked(model, QUESTIONS[0], logit_bias={33: 100.0}))
    assert set(text_of(found)) == {model._tokenizer.decode([33])}
    with pytest.raises(ModelRequestError, match="names token 9999; the model has 262"):
        answer(model, asked(model, QUESTIONS[0], logit_bias={9999: 1.0}))


def test_who_leaves_stops_the_work(model: MlxLanguageModel) -> None:
    timeline, left = Timeline(), False
    generated = model.generate(asked(model, "Leave", max_tokens=500), timeline, lambda: left)
    for _ in range(6):
        next(generated)
    left = True
    with pytest.raises(Cancelled):
        next(generated)
    assert not model._batch._sequences
    assert {Stage.LLM_PREFILL, Stage.LLM_DECODE} <= timeline.stages.keys()


def test_without_a_template_there_is_no_conversation(tmp_path: Path) -> None:
    model = loaded(write_model(tmp_path / "base", template=None))
    with pytest.raises(ModelRequestError, match="no chat template"):
        model.prompt([{"role": "user", "content": "Hello"}])
    refused = loaded(write_model(tmp_path / "strict", template="{{ raise_exception('two users in a row') }}"))
    with pytest.raises(ModelRequestError, match="two users in a row"):
        refused.prompt([{"role": "user", "content": "Hello"}])


def with_array(name: str, array: mx.array | None) -> Any:
    """One array is another; None: it is missing."""

    def change(folder: Path) -> None:
        arrays = dict(mx.load(str(folder / "model.safetensors"))) | {name: array}
        kept = {name: array for name, array in arrays.items() if array is not None}
        mx.save_safetensors(str(folder / "model.safetensors"), kept)

    return change


def with_config(**values: object) -> Any:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text()) | values
        (folder / "config.json").write_text(json.dumps(config))

    return change


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (with_array("model.norm.weight", None), "model.norm.weight"),
        (with_array("model.extra", mx.zeros(3)), "model.extra"),
        (with_array("model.norm.weight", mx.full((64,), float("nan"))), "norm.weight"),
        (with_config(model_file="code.py"), "Python code"),
        (with_config(auto_map={"AutoModel": "code.Model"}), "Python code"),
        (with_config(model_type=None), "no 'model_type'"),
        (with_config(model_type="unheard-of"), "not supported"),
        (with_config(hidden_size=96), "mlx-lm cannot load it"),
        (with_config(num_hidden_layers=300), "more layers than"),
        (with_config(text_config={"n_layers": 300}), "more layers than"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 100), "damaged"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "mlx-lm cannot load it"),
        (lambda folder: (folder / "config.json").write_text("{"), "no JSON"),
    ],
)
def test_what_is_no_language_model_is_refused(tmp_path: Path, spoil: Any, message: str) -> None:
    folder = write_model(tmp_path / "tiny")
    spoil(folder)
    with pytest.raises(WeightsError, match=message):
        loaded(folder)


def test_the_import_leaves_the_limit_of_open_files() -> None:
    code = """
import resource
before = resource.getrlimit(resource.RLIMIT_NOFILE)
from models.llm.library import import_module
import_module("utils")
assert resource.getrlimit(resource.RLIMIT_NOFILE) == before, before
assert resource.setrlimit.__module__ == "resource", resource.setrlimit
"""
    subprocess.run([sys.executable, "-c", code], check=True)
