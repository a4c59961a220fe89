"""Language models in mlx-lm's layout: conversations to text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from models import finite, loading
from models.backend import mx
from models.checkpoint import raise_problems
from models.contract import (
    Cancelled,
    ChatMessage,
    GeneratedText,
    GenerationRequest,
    InputTooLongError,
    IsCancelled,
    ModelRequestError,
    ModelSpec,
    Progress,
    TokenSampling,
    Tool,
    WeightsError,
    warm_up,
)
from models.files import read_json
from models.llm import native
from models.llm.batch import PREFILL_STEP, SequenceBatch
from models.llm.library import import_module
from models.llm.text import Writer
from models.llm.translator import LanguageModelTranslator
from models.timeline import Stage, Timeline

MAX_CONTEXT = 16_384  # tokens: keys and values of more would need gigabytes
WARM_TOKENS = 4


def load(spec: ModelSpec) -> MlxLanguageModel | LanguageModelTranslator:
    """Load the folder of `spec.files["config"]`: all of its `model*.safetensors`, its tokenizer and its template.

    Nothing of it is executed, and nothing is downloaded. Raises WeightsError for a folder that is no language model, or
    whose weights are not those of its configuration.
    """
    folder = Path(spec.files["config"]).resolve().parent
    try:
        config = read_json(folder / "config.json")
    except ValueError as error:
        raise WeightsError(f"config.json is no JSON: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise WeightsError("config.json names no 'model_type': this is no language model")
    if config.get("model_file") is not None or config.get("auto_map") is not None:
        raise WeightsError("config.json names Python code ('model_file' or 'auto_map'), which is not executed")
    try:
        arrays = {path: finite.safetensors_floats(path) for path in sorted(folder.glob("model*.safetensors"))}
    except (KeyError, TypeError, ValueError) as error:
        raise WeightsError(f"a file of weights is damaged: {error!r}") from error
    for path, floats in arrays.items():
        raise_problems(finite.broken(floats), path.name)
    _check_layers(config, sum(map(len, arrays.values())))
    del arrays, floats
    try:
        model, config = import_module("utils").load_model(folder, lazy=True, strict=True)
        loading.step()
        tokenizer = import_module("utils").load_tokenizer(folder, {"trust_remote_code": False})
    except WeightsError:
        raise
    except Exception as error:  # mlx-lm and transformers raise what they like for a folder that is not whole
        raise WeightsError(f"mlx-lm cannot load it: {type(error).__name__}: {str(error)[:500]}") from error
    loading.step()
    native.lower(model)
    mx.eval(model.parameters())
    result = MlxLanguageModel(model, tokenizer, config, _sampling(folder / "generation_config.json"))
    return LanguageModelTranslator(result, config["model_type"]) if spec.kind == "translation" else result


class MlxLanguageModel:
    """A language model, as `models.contract.LanguageModel` says."""

    def __init__(self, model: Any, tokenizer: Any, config: dict[str, Any], sampling: TokenSampling) -> None:
        self.sampling = sampling
        own = config.get("max_position_embeddings") or (config.get("text_config") or {}).get("max_position_embeddings")
        self.context = min(MAX_CONTEXT, own) if isinstance(own, int) and own > 0 else MAX_CONTEXT
        self.takes_tools = bool(tokenizer.has_tool_calling)
        self._tokenizer = tokenizer
        self._vocabulary = len(tokenizer)
        self._batch = SequenceBatch(model, tokenizer)

    def prompt(
        self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = (), *, reasoning: bool = False
    ) -> tuple[int, ...]:
        """Return the tokens of a conversation, up to where the model's next message begins."""
        if not self._tokenizer.has_chat_template:
            raise ModelRequestError("the model has no chat template: it continues texts, and holds no conversation")
        try:
            tokens = self._tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tools=[dict(tool) for tool in tools] or None,
                add_generation_prompt=True,
                enable_thinking=reasoning,
            )
        except Exception as error:  # templates raise what they like
            raise ModelRequestError(f"the model's template refuses these messages: {error}") from error
        return tuple(tokens)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text alone. Safe on any thread; touches no array."""
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return tokens

    def check(self, request: GenerationRequest) -> None:
        """Raise ModelRequestError for a request that it cannot serve."""
        if not request.prompt:
            raise ModelRequestError("there is nothing to answer")
        if len(request.prompt) >= self.context:
            raise InputTooLongError(
                f"the conversation has {len(request.prompt)} tokens; at most {self.context - 1} are accepted"
            )
        unknown = next((token for token in request.logit_bias if not 0 <= token < self._vocabulary), None)
        if unknown is not None:
            raise ModelRequestError(f"'logit_bias' names token {unknown}; the model has {self._vocabulary}")

    def warm(self, progress: Progress) -> None:
        """Read a prompt of each length of step, and write a few tokens."""
        if self._tokenizer.has_chat_template:
            self.prompt([{"role": "user", "content": "Hello."}])  # its template is compiled once

        def write(length: int) -> None:
            request = GenerationRequest(prompt=tuple([1] * length), max_tokens=WARM_TOKENS, owner="")
            for _ in self.generate(request, Timeline(), lambda: False):
                pass

        warm_up([(f"{length} tokens", partial(write, length)) for length in (2, PREFILL_STEP + 1)], progress)

    def generate(
        self, request: GenerationRequest, timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[GeneratedText | None]:
        """Write the next message; yield its text as it is written."""
        self.check(request)
        room = self.context - len(request.prompt)
        sequence = self._batch.insert(request, max_tokens=min(request.max_tokens, room))
        writer = Writer(self._tokenizer, request, sequence.cached)
        try:
            while True:
                tokens, sequence.tokens = sequence.tokens, []
                items = [item for token in tokens for item in writer.write(token)]
                yield from items or (None,)
                if items and items[-1].finish_reason is not None:
                    return
                if cancelled():
                    raise Cancelled
                with timeline.measure(Stage.LLM_DECODE if sequence.begun else Stage.LLM_PREFILL):
                    self._batch.step()
        finally:
            self._batch.remove(sequence)


def _check_layers(config: dict[str, Any], arrays: int) -> None:
    """Raise WeightsError for more layers than arrays: mlx-lm would make them all before it finds none for them."""
    names, inner = ("num_hidden_layers", "num_layers", "n_layers", "n_layer"), config.get("text_config")
    values = [part.get(name) for part in (config, inner if isinstance(inner, dict) else {}) for name in names]
    if any(isinstance(layers, int) and layers > arrays for layers in values):
        raise WeightsError(f"config.json has more layers than the files have arrays, which are {arrays}")


def _sampling(path: Path) -> TokenSampling:
    """Return what generation_config.json recommends, where it is there and its numbers are in range."""
    try:
        given = read_json(path)
    except (OSError, ValueError):
        return TokenSampling()
    ranges = {"temperature": (0.0, 2.0, float), "top_p": (0.01, 1.0, float), "top_k": (0, 1_000, int)}
    found = {
        name: kind(given[name])
        for name, (low, high, kind) in ranges.items()
        if isinstance(given, dict) and isinstance(given.get(name), int | float) and low <= given[name] <= high
    }
    return TokenSampling(**found)
