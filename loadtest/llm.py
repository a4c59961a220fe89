"""Language models: the first token and tokens a second by the native products, beside MLX's own, in one run.

    python -m loadtest.llm FOLDER [--tokens 64] [--rounds 5]

FOLDER is a model in mlx-lm's layout, as `nightingale models import` or `loadtest.fake_llm` writes it. Both answer the
same prompts greedily, in turns. On a CPU the peer is mlx-lm's `BatchGenerator` on the weights as the folder has them,
but for scales of bfloat16, which MLX multiplies too slowly on a CPU to be measured: these are float32 for both. On a
GPU the products are the same, and the peer is `mlx_lm.stream_generate`, one answer after the other.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from models.backend import device_name, mx, on_cpu
from models.contract import GenerationRequest, ModelSpec
from models.llm import native, pipeline
from models.llm.library import import_module
from models.native import kernels
from models.timeline import Timeline

QUESTIONS = (
    "Give me three tips for sleeping well.",
    "What is the difference between a lake and a sea?",
    "Write a short letter to a friend who moved to another city.",
    "Explain to a child why the sky is blue.",
)


def load(folder: Path, *, plain: bool) -> pipeline.MlxLanguageModel:
    """Return the model by the native products, or by MLX's own."""
    lower = native.lower
    if plain:
        native.lower = lambda model: model.set_dtype(mx.float32)
    try:
        model = pipeline.load(ModelSpec("measured", "llm", {"config": str(folder / "config.json")}))
    finally:
        native.lower = lower
    model.warm(lambda _: None)
    return cast("pipeline.MlxLanguageModel", model)


def answer(model: pipeline.MlxLanguageModel, question: str, tokens: int, owner: str) -> tuple[float, float]:
    """Return the seconds to the first text, and tokens a second after it."""
    prompt = model.prompt([{"role": "user", "content": question}])
    request = GenerationRequest(prompt=prompt, max_tokens=tokens, logit_bias=_never_ends(model), owner=owner)
    start, first, count = time.perf_counter(), 0.0, 0
    for item in model.generate(request, Timeline(), lambda: False):
        if item is not None:
            first = first or time.perf_counter() - start
            count += item.tokens
    return first, (count - 1) / (time.perf_counter() - start - first)


def together(model: pipeline.MlxLanguageModel, tokens: int, owner: str) -> float:
    """Return the tokens a second of all QUESTIONS at once."""
    running = {}
    for question in QUESTIONS:
        prompt = model.prompt([{"role": "user", "content": question}])
        request = GenerationRequest(prompt=prompt, max_tokens=tokens, logit_bias=_never_ends(model), owner=owner)
        running[question] = model.generate(request, Timeline(), lambda: False)
    start, count = time.perf_counter(), 0
    while running:
        for question, generated in list(running.items()):
            item = next(generated, StopIteration)
            if item is StopIteration:
                del running[question]
            elif item is not None:
                count += item.tokens  # type: ignore[union-attr]
    return count / (time.perf_counter() - start)


class Peer:
    """mlx-lm's own `stream_generate` on the same folder."""

    def __init__(self, folder: Path) -> None:
        self.model, self.tokenizer = import_module("utils").load(str(folder.resolve()))

    def answer(self, prompt: tuple[int, ...], tokens: int) -> tuple[float, float]:
        """Return the seconds to the first text, and tokens a second after it."""
        generate, samplers = import_module("generate"), import_module("sample_utils")
        never = samplers.make_logits_processors(dict.fromkeys(self.tokenizer.eos_token_ids, -100.0))
        start, first, count = time.perf_counter(), 0.0, 0
        for _ in generate.stream_generate(
            self.model, self.tokenizer, list(prompt), max_tokens=tokens, logits_processors=never
        ):
            first = first or time.perf_counter() - start
            count += 1
        return first, (count - 1) / (time.perf_counter() - start - first)


def _never_ends(model: pipeline.MlxLanguageModel) -> dict[int, float]:
    """All answers have the same length: no token ends one."""
    return dict.fromkeys(model._tokenizer.eos_token_ids, -100.0)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure a language model.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    models = {"native": load(options.folder, plain=False)}
    if on_cpu():
        models["MLX"] = load(options.folder, plain=True)
    peer = None if on_cpu() else Peer(options.folder)
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in models}
    for number in range(options.rounds):
        for name, model in models.items():
            owner = f"{number}"  # so that no prompt is known from before
            first, speed = answer(model, QUESTIONS[number % len(QUESTIONS)], options.tokens, owner)
            found[name].append((first, speed, together(model, options.tokens, f"{owner} together")))
        if peer is not None:
            prompt = model.prompt([{"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}])
            first, speed = peer.answer(prompt, options.tokens)
            found.setdefault("mlx_lm.stream_generate", []).append((first, speed, speed))
    print(f"{device_name()}; kernels: {kernels.description()}")
    print(f"{options.folder.name}: medians of {options.rounds} rounds of {options.tokens} tokens, in one run\n")
    print("| products | first token, s | tokens a second | of four at once |\n|---|---:|---:|---:|")
    middle: Callable[[list[float]], float] = statistics.median
    for name, rows in found.items():
        first, speed, all_of_four = (middle(list(column)) for column in zip(*rows, strict=True))
        print(f"| {name} | {first:.3f} | {speed:.1f} | {all_of_four:.1f} |")


if __name__ == "__main__":
    main()
