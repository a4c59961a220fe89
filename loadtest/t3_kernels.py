"""A step of T3 at full size: one kernel, MLX's operations, and PyTorch; same weights, same tokens, same run.

    python loadtest/t3_kernels.py [--model chatterbox] [--tokens 102] [--prompt 100] [--rounds 5] [--rows 2]
                                  [--bits 8] [--without torch] [--json FILE]

Weights are random, in bfloat16; every peer says the same tokens after a prompt of the same length. Rounds alternate
between the peers. A time is a round's, divided by its tokens, the host's work included. Agreement compares all steps'
logits with the network in fp32 on the same weights: norm of the difference by norm. "draw" is the draw from a row of
logits, by plain operations and on a GPU by the kernel. "decode" is the whole decoder per token, prompt and draws
included, with either of them. `--rows` defaults to the model's own number: 2 in English, which is guided, 1 in
Turbo. `--bits 8` (on a GPU) quantizes the weights, but not PyTorch's nor those in fp32: the disagreement then includes
that rounding.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from models.backend import device_name, mx, on_cpu, release_thread  # before torch: BLAS order
from models.chatterbox.config import VARIANTS, T3Config
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.decoder import Step, T3Decoder
from models.chatterbox.t3.kernels.choice import choose_draw, draw_differences
from models.chatterbox.t3.kernels.cuda import T3CudaStep
from models.chatterbox.t3.kernels.metal import T3MetalStep
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.sampling import NextToken
from models.chatterbox.t3.state import DecodeRequest, VoicePrompt
from models.chatterbox.t3.weights import load_weights, shapes
from models.contract import Sampling
from models.timeline import Timeline

ROOM = 512

Logits = npt.NDArray[np.float32]
Run = Callable[[], tuple[float, list[Any]]]
"""Say all tokens -> seconds from the first on, and the device's logits after each, evaluated."""


def random_arrays(config: T3Config, dtype: mx.Dtype = mx.bfloat16) -> dict[str, mx.array]:
    """Return weights under the official names, of such sizes that signals neither die nor explode."""
    mx.random.seed(0)
    found: dict[str, mx.array] = {}
    for name, shape in shapes(config).items():
        if "norm" in name or ".ln_" in name:
            array = mx.random.normal(shape) * 0.1 + (1 if name.endswith("weight") else 0)
        elif "emb" in name or "query" in name or "wpe" in name or name.endswith("bias"):
            array = mx.random.normal(shape) * 0.5
        else:
            inputs = shape[0] if name.startswith("tfmr.h.") else shape[-1]  # GPT-2 keeps [inputs, outputs]
            array = mx.random.normal(shape) / math.sqrt(inputs)
        found[name] = array.astype(dtype)
        mx.eval(found[name])
    return found


def network(config: T3Config, arrays: dict[str, mx.array], dtype: mx.Dtype, bits: int = 0) -> T3:
    """T3 at full size, on this device."""
    model = T3(config)
    load_weights(model, arrays, "random", dtype)
    model.lower(bits)
    return model


def prompt(model: T3, length: int, rows: int) -> mx.array:
    """Embeddings [rows, length, C], the same for every peer."""
    mx.random.seed(1)
    return (mx.random.normal((rows, length, model.config.hidden)) * 0.5).astype(model.dtype)


def ours(model: T3, step: Step, embeddings: mx.array, tokens: list[int]) -> Run:
    """The tokens through `step`, compiled, sent without waiting."""
    rows, count, _ = embeddings.shape

    def turn(token: mx.array, place: mx.array, cache: Any) -> Any:
        logits, cache = step(token[:1], place[:2], cache)
        return logits, place + 1, cache

    compiled = mx.compile(turn)
    said = [mx.array([token, 0, 0, 0]) for token in tokens]  # of more than 8 bytes, as the decoder has them
    _, first = model.prefill(embeddings, mx.array([count]), model.allocate(rows, ROOM))
    mx.eval(said, first)

    def run() -> tuple[float, list[Any]]:
        # A step writes behind the prompt only, so that every run may begin with the same cache.
        place, cache, found = mx.array([count, 1, 0, 0], dtype=mx.int32), first, []
        start = time.perf_counter()
        for token in said:
            logits, place, cache = compiled(token, place, cache)
            mx.async_eval(logits, place, cache)
            found.append(logits)
        mx.eval(found)
        return time.perf_counter() - start, found

    return run


def llama(config: T3Config) -> tuple[Any, str]:
    """transformers' Llama, and the name of its array that nothing reads."""
    from transformers import LlamaConfig, LlamaModel

    rope = {
        "rope_type": "llama3",
        "rope_theta": config.rope_theta,
        "factor": config.rope_factor,
        "low_freq_factor": config.rope_low,
        "high_freq_factor": config.rope_high,
        "original_max_position_embeddings": config.rope_original,
    }
    model = LlamaModel(
        LlamaConfig(
            vocab_size=8,
            hidden_size=config.hidden,
            intermediate_size=config.inner,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.heads,
            head_dim=config.hidden // config.heads,
            rms_norm_eps=config.norm_eps,
            max_position_embeddings=131072,
            rope_parameters=rope,
            attn_implementation="sdpa",
        )
    )
    return model, "embed_tokens.weight"


def gpt2(config: T3Config) -> tuple[Any, str]:
    """transformers' GPT-2, and the name of its array that nothing reads."""
    from transformers import GPT2Config, GPT2Model

    model = GPT2Model(
        GPT2Config(
            vocab_size=8,
            bos_token_id=0,
            eos_token_id=0,
            n_positions=config.positions,
            n_embd=config.hidden,
            n_layer=config.layers,
            n_head=config.heads,
            n_inner=config.inner,
            activation_function="gelu_new",
            layer_norm_epsilon=config.norm_eps,
            attn_implementation="sdpa",
        )
    )
    return model, "wte.weight"


def pytorch(config: T3Config, arrays: dict[str, mx.array], embeddings: mx.array, tokens: list[int]) -> Run:
    """transformers' Llama or GPT-2 with its cache, as the reference runs it, on the same weights."""
    import torch

    device = "cpu" if on_cpu() else "cuda"
    model, unread = llama(config) if config.backbone == "llama" else gpt2(config)

    def tensor(array: mx.array) -> Any:
        return torch.from_numpy(np.array(array.astype(mx.float32))).to(device, torch.bfloat16)

    prefix = "tfmr."
    state = {name.removeprefix(prefix): tensor(array) for name, array in arrays.items() if name.startswith(prefix)}
    missing, extra = model.load_state_dict(state, strict=False)
    assert not extra and missing == [unread], (missing, extra)  # noqa: S101
    model = model.to(device, torch.bfloat16).eval()
    said = torch.tensor(tokens, device=device)
    spoken = tensor(arrays["speech_emb.weight"])[said]
    if config.learned_positions:
        spoken = spoken + tensor(arrays["speech_pos_emb.emb.weight"])[1 : 1 + len(tokens)]
    head, read = tensor(arrays["speech_head.weight"]), tensor(embeddings)
    bias = tensor(arrays["speech_head.bias"]) if config.head_bias else None

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def run() -> tuple[float, list[Any]]:
        past = model(inputs_embeds=read, use_cache=True).past_key_values
        wait()
        start = time.perf_counter()
        found = []
        for i in range(len(tokens)):
            x = spoken[i].expand(read.shape[0], 1, -1)
            out = model(inputs_embeds=x, past_key_values=past, use_cache=True)
            past = out.past_key_values
            found.append(torch.nn.functional.linear(out.last_hidden_state, head, bias).float())
        wait()
        return time.perf_counter() - start, found

    def inferring() -> tuple[float, list[Any]]:
        with torch.inference_mode():
            return run()

    return inferring


def numbers(logits: Any) -> Logits:
    """Return logits of MLX or PyTorch as float32 on the host."""
    found: Logits = np.array(logits.astype(mx.float32)) if isinstance(logits, mx.array) else logits.cpu().numpy()
    return found


def drawn(config: T3Config, next_token: NextToken, rows: int, tokens: int, rounds: int) -> list[float]:
    """Milliseconds a draw, compiled, sent without waiting, with the model's own settings."""
    rules = sampling.rules(config, Sampling())
    mode, params, seed = rules.mode(config), rules.params(), sampling.seed_array(0)
    logits = 3 * mx.random.normal((rows, 1, config.speech_vocabulary), key=mx.random.key(0))
    compiled = mx.compile(lambda logits, place, seen: next_token(logits, place, seen, params, seed, mode))
    times = []
    for _ in range(rounds + 2):
        place, seen = mx.array([50, 1, 9, 0]), sampling.first_seen(config)
        mx.eval(logits, place, seen, params, seed)
        start = time.perf_counter()
        for _ in range(tokens):
            token, place, seen = compiled(logits, place, seen)
            mx.async_eval(token, place, seen)
        mx.eval(seen)
        times.append((time.perf_counter() - start) * 1e3 / tokens)
    return times[2:]


def decoded(model: T3, step: Step | None, next_token: NextToken, tokens: int, rounds: int) -> list[float]:
    """Milliseconds a token of the whole decoder, for a sentence of exactly so many."""
    decoder = T3Decoder(model, step=step, next_token=next_token)
    config = model.config
    voice = VoicePrompt(mx.random.normal((config.speaker,)), mx.arange(config.prompt_tokens))
    rules = sampling.rules(config, Sampling(), exact=True)
    request = DecodeRequest([5, 9, 3, 17, 2] * 10, voice, rules, limit=tokens)
    times = []
    for _ in range(rounds + 2):
        start = time.perf_counter()
        timeline = Timeline()
        for _ in decoder.decode(request, timeline, lambda: False):
            pass
        times.append((time.perf_counter() - start) * 1e3 / tokens)
    return times[2:]


def report(name: str, times: list[float], more: str = "") -> None:
    """One line: median, least and most."""
    print(f"{name:28} {statistics.median(times):7.3f} ms ({min(times):.3f}..{max(times):.3f}) {more}", flush=True)


def draws_and_decoders(model: T3, steps: dict[str, Step], options: argparse.Namespace) -> dict[str, list[float]]:
    """Time draws, and decoders with each step and each draw; report the times, and how the draws differ."""
    config, times = model.config, dict[str, list[float]]()
    draws: dict[str, NextToken] = {"plain draw": sampling.next_token}
    if kernel := choose_draw(config):
        draws["draw kernel"] = kernel
        print(f"shares of the kernel's draws that differ, by mode: {draw_differences(kernel, config, 100)}")
    for name, next_token in draws.items():
        times[name] = drawn(config, next_token, options.rows, options.tokens, options.rounds)
    if options.rows == (2 if config.guided else 1):
        for name, step in steps.items():
            for draw, next_token in draws.items():
                times[f"decode, {name}, {draw}"] = decoded(model, step, next_token, options.tokens, options.rounds)
    for name, each in times.items():
        report(name, each)
    return times


def main() -> None:
    """Measure and print; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="chatterbox", choices=VARIANTS)
    parser.add_argument("--tokens", type=int, default=102)
    parser.add_argument("--prompt", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, choices=(1, 2))
    parser.add_argument("--bits", type=int, default=0, choices=(0, 8))
    parser.add_argument("--without", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.bits and on_cpu():
        parser.error("--bits: the CPU's products of 8 bits are of fp32")

    config = VARIANTS[options.model].t3
    options.rows = options.rows or (2 if config.guided else 1)
    arrays = random_arrays(config)
    exact = network(config, arrays, mx.float32)
    embeddings = prompt(exact, options.prompt, options.rows).astype(mx.bfloat16)
    tokens = np.random.RandomState(0).randint(0, config.start_speech, options.tokens).tolist()
    wanted = np.stack(
        [np.array(each) for each in ours(exact, exact.advance, embeddings.astype(mx.float32), tokens)()[1]]
    )
    del exact

    model = network(config, arrays, mx.bfloat16, options.bits)
    steps: dict[str, Step] = {"plain": model.advance}
    if T3CudaStep.available(model):
        start = time.perf_counter()
        steps["fused"] = T3CudaStep(model)
        print(f"weights joined in {time.perf_counter() - start:.1f} s")
    elif T3MetalStep.available(model):
        steps["phased"] = T3MetalStep(model)
    runs = {name: ours(model, step, embeddings, tokens) for name, step in steps.items()}
    if (
        importlib.util.find_spec("torch")
        and importlib.util.find_spec("transformers")
        and "torch" not in options.without
    ):
        runs["PyTorch"] = pytorch(config, arrays, embeddings, tokens)

    times: dict[str, list[float]] = {name: [] for name in runs}
    errors: dict[str, float] = {}
    for name, run in runs.items():
        start = time.perf_counter()
        _, found = run()
        first = time.perf_counter() - start
        got = np.stack([numbers(each) for each in found])
        errors[name] = float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))
        print(f"{name}: first round {first:.1f} s, logits differ from fp32 by {errors[name]:.2e}", flush=True)
        run()
    for _ in range(options.rounds):
        for name, run in runs.items():
            times[name].append(run()[0] * 1e3 / options.tokens)
    print(f"{options.model}, {device_name()}, {options.bits or 16} bits, {options.rows} rows")
    print(f"prompt {options.prompt}, {options.tokens} tokens")
    for name, each in times.items():
        report(f"step, {name}", each)
    times |= draws_and_decoders(model, steps, options)
    if options.json:
        options.json.write_text(json.dumps({"options": vars(options), "times": times, "errors": errors}, default=str))


if __name__ == "__main__":
    main()
    release_thread()  # beside PyTorch's, MLX's threads did not end by themselves
