"""The kernel that draws a token, its own source run on a CPU (emulator.py), against `sampling.next_token`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models.backend import mx, on_cpu
from models.chatterbox.config import ENGLISH, TURBO, T3Config
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.kernels import choice, draw
from models.chatterbox.t3.sampling import NextToken, Rules, SamplingMode
from models.contract import Sampling
from models.layers.kernels import agreement
from models.layers.kernels.device import Device, Kernel
from tests.models.chatterbox.t3.builder import GPT2, LLAMA
from tests.models.emulator import DEVICES, launcher
from tests.models.metal import checker

pytestmark = pytest.mark.slow
proof = pytest.mark.proof

PLAIN = sampling.next_token


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., NextToken]:
    """Return the kernel as it runs with these options of `launcher`."""

    def run(device: Device = "cuda", **options: Any) -> NextToken:
        monkeypatch.setattr(draw, "launch", launcher(device, **options))
        return draw.next_token

    return run


def cut(config: T3Config, count: int) -> T3Config:
    """Return a configuration of a small vocabulary, whose speech ends before it."""
    return replace(config, speech_vocabulary=count, start_speech=count - 8, stop_speech=count - 7)


def rows_of(rules: Rules) -> int:
    return 2 if rules.guided else 1


def steps(next_token: NextToken, config: T3Config, rules: Rules, mode: SamplingMode, count: int) -> Iterator[list[int]]:
    """Draw after random logits, one token after the other -> the token, its place, and what was seen by then."""
    rng, size = np.random.RandomState(1), config.speech_vocabulary
    place, seen, seed = mx.array([70, 1, 9, 0]), mx.array(rng.rand(size) < 0.3), sampling.seed_array(5)
    for _ in range(count):
        logits = mx.array(2 * rng.standard_normal((rows_of(rules), 1, size)).astype(np.float32))
        token, place, seen = next_token(logits, place, seen, rules.params(), seed, mode)
        yield [*token.tolist(), *place.tolist(), *np.flatnonzero(np.array(seen)).tolist()]


def compare(next_token: NextToken, config: T3Config, count: int, *, exact: bool = False, **given: float) -> None:
    """Compare `count` draws with the plain ones.

    Rounding may move a draw to another token: of 400 that kept all of 8194 tokens it moved one.
    """
    rules = sampling.rules(config, Sampling(**given), exact=exact)
    mode = rules.mode(config)
    found, wanted = (list(steps(each, config, rules, mode, count)) for each in (next_token, PLAIN))
    assert found == wanted
    assert len({row[0] for row in found}) > count // 10


# Every mode.
GUIDED = {"cfg_weight": 0.0}
GREEDY = {"temperature": 0.0}
EXACT = {"temperature": 3.0, "exact": True}
TRUNCATED = {"top_p": 0.6, "min_p": 0.0}
PENALIZED = {"top_p": 1.0, "min_p": 0.3, "repetition_penalty": 2.0}
NARROW = {"top_p": 0.05, "repetition_penalty": 1.0, "exact": True}
SETTINGS: list[dict[str, float]] = [
    {}, GREEDY, GREEDY | GUIDED | {"exact": True}, EXACT, GUIDED | {"temperature": 1.4}, TRUNCATED, PENALIZED, NARROW
]  # fmt: skip


@proof
@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_full_size(emulated: Callable[..., NextToken], number: int) -> None:
    """The models in turn."""
    compare(emulated(), (ENGLISH.t3, TURBO.t3)[number % 2], 8, **SETTINGS[number])  # type: ignore[arg-type]


SMALL, SMALL_GPT2, WIDE = cut(LLAMA, 105), cut(GPT2, 1100), cut(LLAMA, 1100)


@pytest.mark.parametrize(
    ("config", "settings", "device", "backward"),
    [
        (SMALL, {}, "cuda", False),
        (SMALL_GPT2, {}, "metal", True),
        *(pytest.param(SMALL, each, "cuda", False, marks=proof) for each in (GREEDY, EXACT, TRUNCATED)),
        *(pytest.param(SMALL_GPT2, each, "cuda", False, marks=proof) for each in ({}, TRUNCATED, PENALIZED)),
        *(pytest.param(SMALL, SETTINGS[each], "metal", True, marks=proof) for each in (0, 2, 4, 6, 7)),
        *(pytest.param(SMALL_GPT2, SETTINGS[each], "metal", False, marks=proof) for each in (1, 3, 7)),
        *(pytest.param(SMALL_GPT2, SETTINGS[each], "cuda", True, marks=proof) for each in (2, 4)),
        # A barrier that is missing shows in one order of the threads, where they have more than one token each.
        *(pytest.param(WIDE, each, "cuda", order, marks=proof) for each in ({}, GREEDY) for order in (False, True)),
    ],
)
def test_small_vocabularies(
    emulated: Callable[..., NextToken], config: T3Config, settings: dict[str, float], device: Device, backward: bool
) -> None:
    """On both devices, and in both orders of the threads."""
    compare(emulated(device, backward=backward), config, 40, **settings)  # type: ignore[arg-type]


def drawn(next_token: NextToken, logits: list[float], rules: Rules, mode: SamplingMode, count: int) -> list[int]:
    """Return the first token of `count` seeds."""
    row = mx.array([[logits]])
    given = mx.array([70, 1]), mx.zeros(len(logits), dtype=mx.bool_), rules.params()
    return [int(next_token(row, *given, sampling.seed_array(seed), mode)[0].item()) for seed in range(count)]


@proof
@pytest.mark.parametrize(
    ("device", "config", "changes", "logits", "kept"),
    [
        # Equals of the second and of the third; zeros of both signs; fewer than are asked for.
        ("metal", GPT2, {"top_k": 2}, [1.0, 2.0, 5.0, 4.0, 4.0, 3.9, 4.0], {2, 3, 4, 6}),
        ("cuda", GPT2, {"top_k": 3}, [0.0, -0.0, 2.0, -1.0, 1.0, -0.0], {0, 1, 2, 4, 5}),
        ("metal", GPT2, {"top_k": 3}, [-1.5, -2.5, -1.25, -9.0, -0.5], {0, 2, 4}),
        ("cuda", GPT2, {"top_k": 6}, [1.0, 2.0, 1.5, 2.5, 1.0, 2.0], {0, 1, 2, 3, 4, 5}),
        # Of 8 equals half has the share; of a likely one and four equals, the first of these has it.
        ("metal", LLAMA, {"truncates": True}, [0.0] * 8, set(range(8))),
        ("cuda", LLAMA, {"truncates": True}, [-1.0, 0.3, -1.0, -1.0, -1.0, -3.0], {0, 1, 2, 3, 4}),
        ("metal", LLAMA, {"truncates": True}, [-1.0, 3.0, -1.0, -2.0], {1}),
        ("cuda", LLAMA, {"greedy": True}, [1.0, 3.0, 3.0, 3.0], {1}),
    ],
)
def test_equals_at_a_cut(
    emulated: Callable[..., NextToken],
    device: Device,
    config: T3Config,
    changes: dict[str, int],
    logits: list[float],
    kept: set[int],
) -> None:
    """All are kept; of the likeliest the first is drawn."""
    rules = Rules(0.5, 0.0, 1.0, 0.0, 0.5, 1.0)
    mode = replace(rules.mode(config), **{"truncates": False, **changes})  # type: ignore[arg-type]
    found, wanted = (drawn(each, logits, rules, mode, 40) for each in (emulated(device), PLAIN))
    assert found == wanted
    assert set(found) == kept


@proof
@pytest.mark.parametrize(("uniform", "token"), [("0.0f", 2), ("0.99999994f", 5), ("1.0f", 5)])
def test_ends_of_the_distribution(emulated: Callable[..., NextToken], uniform: str, token: int) -> None:
    """Neither the least nor the greatest number draws a token that is not kept; rounding may make the latter 1."""
    number = "uniform_of(random_bits(seed[0], (uint)place[1]))"
    rules = Rules(0.5, 0.0, 1.0, 0.5, 1.0, 1.0)
    logits = [-9.0, -9.0, 3.0, -9.0, 3.0, 3.1, -9.0, -9.0]
    assert drawn(emulated(change=(number, uniform)), logits, rules, rules.mode(LLAMA), 1) == [token]


@proof
@pytest.mark.parametrize("device", DEVICES)
def test_uniform_numbers_are_below_one(device: Device) -> None:
    """Rounding would make the greatest integers 1."""
    bits = mx.array([0, 1, 255, 2**31, 2**32 - 129, 2**32 - 128, 2**32 - 1], dtype=mx.uint32)
    kernel = Kernel("uniform", ("bits",), ("y",), "if (THREAD < 7) y[THREAD] = uniform_of(bits[THREAD]);")
    kernel = replace(kernel, header=draw.KERNEL.header)
    (found,) = launcher(device)(kernel, [bits], [((7,), mx.float32)], (1, 1, 1), threads=32)
    below = float(np.nextafter(np.float32(1), np.float32(0)))
    assert found.tolist() == [0.0, 2.0**-32, 255 * 2.0**-32, 0.5, below, below, below]


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (SMALL, {}),
        (SMALL_GPT2, {}),
        *(pytest.param(SMALL, each, marks=proof) for each in ({"top_p": 0.5}, GREEDY, {"exact": True}, SETTINGS[2])),
        *(pytest.param(SMALL_GPT2, each, marks=proof) for each in ({"top_p": 0.5}, GREEDY)),
    ],
)
def test_logits_that_are_no_numbers(
    emulated: Callable[..., NextToken], config: T3Config, settings: dict[str, float]
) -> None:
    """As of a step that was given up: no token is drawn, neither by the kernel nor by plain operations."""
    exact = bool(settings.get("exact"))
    rules = sampling.rules(config, Sampling(**{k: v for k, v in settings.items() if k != "exact"}), exact=exact)
    size = config.speech_vocabulary
    given = mx.array([70, 1]), mx.arange(size) < 9, rules.params(), sampling.seed_array(0), rules.mode(config)
    for number in (mx.nan, mx.inf, -mx.inf):
        logits = mx.full((rows_of(rules), 1, size), number)
        for next_token in (emulated(), PLAIN):
            token, place, seen = next_token(logits, *given)
            assert (token.tolist(), place.tolist()) == ([-1], [71, 2, -1, 0])
            assert seen.tolist() == given[1].tolist()


@pytest.mark.parametrize("config", [ENGLISH.t3, TURBO.t3])
def test_it_is_metal(program: Callable[[str], str], config: T3Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """By clang's types and address spaces, with the signature that MLX writes."""
    seen = list[str]()
    monkeypatch.setattr(draw, "launch", checker(program("clang"), seen))
    for settings in ({}, {"top_p": 0.5}, {"temperature": 0.0}, {"cfg_weight": 0.0}):
        rules = sampling.rules(config, Sampling(**settings))
        list(steps(draw.next_token, config, rules, rules.mode(config), 1))
    assert seen == [draw.KERNEL.name] * 4


@pytest.mark.parametrize("config", [SMALL, pytest.param(SMALL_GPT2, marks=proof)])
def test_it_is_chosen_where_it_agrees(
    emulated: Callable[..., NextToken], config: T3Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choice.choose_draw(config) is None or not on_cpu()
    monkeypatch.setattr(agreement, "_found", {})
    monkeypatch.setattr(choice, "gpu", lambda: "cuda")
    kernel = emulated()
    assert choice.choose_draw(config) is kernel
    assert [each.used for each in agreement.report()] == [True]
    assert set(choice.draw_differences(kernel, config)) == {0.0}
    emulated(change=("place[THREAD] + 1", "place[THREAD]"))
    assert choice.choose_draw(config) is None
    assert [each.used for each in agreement.report()] == [False]
    found = choice.draw_differences(emulated(change=("score / penalty", "score")), config)
    assert max(found) > agreement.MAX_RELATIVE_ERROR
