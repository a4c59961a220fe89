"""T3's options side by side: what each costs in time and memory, and what it changes.

    python loadtest/t3_options.py [--variant chatterbox-turbo] [--tokens 24] [--text 40] [--layers 30] [--rounds 3]
                                  [--dtype bfloat16] [--unguided] [--only "plain,weights 8"] [--json FILE]

Weights are random, at full size: time and memory are those of real ones, and so is the order of the options by KL. The
size of KL is not, nor is the worth of a draft's guesses. (A draft that shares weights with the model agrees with
it more than a random one would; `lookup` finds nothing in noise; `oracle` is always right.) The columns:

    ms/token     median over rounds of the decode stage by the tokens after the first; prefill beside it. A star marks
                 options that step by one kernel, as a server on this GPU would
    MiB          arrays that the model and one request's cache hold
    KL           mean divergence of the next token's distribution from float32's, both told the same tokens
    same         share of float32's likeliest tokens that are the likeliest here, told the same
    accepted     share of guesses that stood
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loadtest.t3_kernels import random_arrays
from models.backend import device_name, memory, mx
from models.chatterbox.config import VARIANTS, T3Config
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.decoder import T3Decoder
from models.chatterbox.t3.draft_model import SmallT3
from models.chatterbox.t3.drafts import Draft, Guess, Lookup
from models.chatterbox.t3.kernels.choice import choose_attend, choose_draw, choose_step
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.state import DecodeRequest, VoicePrompt
from models.chatterbox.t3.weights import load_weights, shapes
from models.contract import Sampling
from models.timeline import Stage, Timeline

Logits = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Option:
    """Bits of weights and cache (0: whole), and what guesses.

    Drafts: "lookup"; "first", the model's first layers; "oracle", which knows the result of greedy decoding.
    `whole`: in float32 whatever --dtype says; the others are compared with it.
    """

    name: str
    bits: int = 0
    cache_bits: int = 0
    draft: str = ""
    whole: bool = False


OPTIONS = (
    Option("float32", whole=True),
    Option("plain"),
    Option("weights 8", bits=8),
    Option("weights 4", bits=4),
    Option("cache 8", cache_bits=8),
    Option("cache 4", cache_bits=4),
    Option("weights 8 cache 8", bits=8, cache_bits=8),
    Option("weights 4 cache 4", bits=4, cache_bits=4),
    Option("lookup", draft="lookup"),
    Option("first layers", draft="first"),
    Option("oracle", draft="oracle"),
)


class Oracle:
    """Draft that is always right: only the cost of verifying is left. No draft could gain more."""

    def __init__(self, network: T3, request: DecodeRequest) -> None:
        items = T3Decoder(network).decode(request, Timeline(), lambda: False)
        self._known = [token for token in items if token is not None]

    def begin(self, request: DecodeRequest) -> Oracle:
        """Return this: an oracle reads nothing."""
        return self

    def propose(self, said: Sequence[int], most: int) -> Guess:
        """Return the next tokens."""
        found = self._known[len(said) : len(said) + most]
        return Guess(mx.array(found + [0] * (most - len(found)), dtype=mx.int32), len(found))


def random_network(config: T3Config, dtype: mx.Dtype, bits: int = 0, layers: int | None = None) -> T3:
    """Return a network with the random weights of t3_kernels; with `layers`, only the first so many of them."""
    arrays = random_arrays(config, mx.float32)
    arrays["speech_head.weight"] *= 3  # distributions as sharp as a trained model's
    if layers is not None:
        config = replace(config, layers=layers)
        arrays = {name: arrays[name] for name in shapes(config)}
    network = T3(config)
    load_weights(network, arrays, "random", dtype)
    network.lower(bits)
    return network


def voice(config: T3Config, seed: int = 0) -> VoicePrompt:
    """Return a random voice."""
    rng = np.random.RandomState(seed)
    speaker = rng.standard_normal(config.speaker).astype(np.float32) / 16
    return VoicePrompt(mx.array(speaker), mx.array(rng.randint(0, 6561, config.prompt_tokens).astype(np.int32)))


def told(network: T3, request: DecodeRequest, said: Sequence[int], cache_bits: int) -> Logits:
    """Logits [len(said), V] before each of `said`, one step at a time, guided as the request is."""
    chosen = request.rules
    condition = network.condition(request.voice.speaker, request.voice.prompt, chosen.exaggeration)
    embeddings = network.prompt(condition, request.text, chosen.guided)
    batch, count, _ = embeddings.shape
    cache = network.allocate(batch, count + len(said), cache_bits)
    logits, cache = network.prefill(embeddings, mx.array([count]), cache)
    found = [np.array(sampling.guide(logits[:, None], chosen.params()))[0]]
    for k, token in enumerate(said[:-1]):
        logits, cache = network.advance(mx.array([token]), mx.array([count + k, k + 1]), cache)
        found.append(np.array(sampling.guide(logits, chosen.params()))[0])
    return np.stack(found)


def divergence(whole: Logits, other: Logits) -> float:
    """Mean KL(whole || other) in nats."""
    p, q = (x.astype(np.float64) - x.max(-1, keepdims=True) for x in (whole, other))
    p, q = (x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (p, q))
    return float((np.exp(p) * (p - q)).sum(-1).mean())


def held(network: T3, decoder: T3Decoder, request: DecodeRequest) -> float:
    """Return the MiB of MLX's arrays, with those of a request's cache."""
    state = decoder.begin(request)
    mx.eval(state.cache)
    return float(memory().active) / 2**20


def measure(
    option: Option,
    config: T3Config,
    request: DecodeRequest,
    whole: dict[str, Logits],
    said: list[int],
    args: argparse.Namespace,
) -> dict[str, float | str]:
    """Measure one row of the table."""
    dtype = mx.float32 if option.whole else getattr(mx, args.dtype)
    network = random_network(config, dtype, option.bits)
    draft: Draft | None = None
    if option.draft == "lookup":
        draft = Lookup()
    elif option.draft == "first":
        draft = SmallT3(random_network(config, dtype, layers=max(1, config.layers // 4)))
    elif option.draft == "oracle":
        request = replace(request, rules=replace(request.rules, temperature=0.0))
        draft = Oracle(network, request)
    step = choose_step(network) if not option.cache_bits and draft is None else None  # as in the pipeline
    next_token = choose_draw(config) if draft is None else None
    network.attend = choose_attend(network)
    decoder = T3Decoder(network, cache_bits=option.cache_bits, step=step, next_token=next_token, draft=draft)
    mib = held(network, decoder, request)
    steps, prefills, drafted, accepted = [], [], 0, 0
    for number in range(args.rounds + 1):  # the first compiles
        timeline = Timeline()
        found = [token for token in decoder.decode(request, timeline, lambda: False) if token is not None]
        if number:
            steps.append(timeline.stages[Stage.T3_DECODE] / (timeline.tokens - 1))
            prefills.append(timeline.stages[Stage.T3_PREFILL])
            drafted, accepted = drafted + timeline.drafted, accepted + timeline.accepted
    if not said:
        said += found
    logits = told(network, request, said, option.cache_bits)
    base = whole.setdefault("logits", logits)
    row: dict[str, float | str] = {
        "option": option.name + " *" * (step is not None),
        "ms/token": 1e3 * statistics.median(steps),
        "prefill ms": 1e3 * statistics.median(prefills),
        "MiB": mib,
        "KL": divergence(base, logits),
        "same": float((base.argmax(-1) == logits.argmax(-1)).mean()),
        "accepted": accepted / drafted if drafted else math.nan,
    }
    print(
        "  ".join(f"{value:>18}" if isinstance(value, str) else f"{value:10.4g}" for value in row.values()), flush=True
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=list(VARIANTS), default="chatterbox")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--text", type=int, default=40)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="float32")
    parser.add_argument("--unguided", action="store_true")
    parser.add_argument("--only", help="names of options, with commas")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    config = VARIANTS[args.variant].t3
    if args.layers:
        config = replace(config, layers=args.layers)
    chosen = sampling.rules(config, Sampling(cfg_weight=0.0) if args.unguided else Sampling(), exact=True)
    text = np.random.RandomState(1).randint(1, 250, args.text).tolist()
    request = DecodeRequest(text, voice(config), chosen, seed=3, limit=args.tokens)
    print(f"{args.variant}, {config.layers} layers, {args.dtype}, {args.tokens} tokens, {device_name()}")
    names = ["option", "ms/token", "prefill ms", "MiB", "KL", "same", "accepted"]
    print(f"{names[0]:>18}  " + "  ".join(f"{name:>10}" for name in names[1:]))
    wanted = args.only.split(",") if args.only else [option.name for option in OPTIONS]
    rows, whole, said = [], dict[str, Logits](), list[int]()
    for option in OPTIONS:
        twice = option.name == "plain" and args.dtype == "float32"
        if option.whole or (option.name in wanted and not twice):
            rows.append(measure(option, config, request, whole, said, args))
            gc.collect()
            mx.clear_cache()
    if args.json:
        args.json.write_text(json.dumps({"device": device_name(), "rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
