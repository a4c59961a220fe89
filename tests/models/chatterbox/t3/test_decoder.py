"""The decoder on small random models: what comes out depends on the request alone, not on what makes it fast."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3 import decoder as decode
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.cache import Cache, rows
from models.chatterbox.t3.decoder import T3Decoder
from models.chatterbox.t3.draft_model import SmallT3
from models.chatterbox.t3.drafts import Draft, Lookup
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.sampling import SamplingMode
from models.chatterbox.t3.state import DecodeRequest, DecodeState, VoicePrompt
from models.contract import InputTooLongError, Sampling
from models.timeline import Timeline
from tests.models.chatterbox.t3.builder import CONFIGS, GPT2, LLAMA, network

TEXT = [5, 9, 3, 17, 2]


def voice(config: T3Config, seed: int = 0) -> VoicePrompt:
    rng = np.random.RandomState(seed)
    speaker = mx.array(rng.standard_normal(config.speaker).astype(np.float32))
    return VoicePrompt(speaker, mx.array(rng.randint(0, config.start_speech, config.prompt_tokens).astype(np.int32)))


def request(config: T3Config, *, seed: int = 0, limit: int = 40, exact: bool = True, **sampled: float) -> DecodeRequest:
    chosen = sampling.rules(config, Sampling(**sampled), exact=exact)
    return DecodeRequest(TEXT, voice(config), chosen, seed, limit)


def tokens(decoder: T3Decoder, wanted: DecodeRequest, timeline: Timeline | None = None) -> list[int]:
    items = decoder.decode(wanted, timeline or Timeline(), lambda: False)
    return [item for item in items if item is not None]


@pytest.fixture(scope="module", params=list(CONFIGS))
def model(request: pytest.FixtureRequest) -> T3:
    return network(CONFIGS[request.param], seed=2)


def by_hand(model: T3, wanted: DecodeRequest) -> list[int]:
    """Return the speech tokens of the reference's loop, which reads the whole prefix anew for every token."""
    config, chosen = model.config, wanted.rules
    condition = model.condition(wanted.voice.speaker, wanted.voice.prompt, chosen.exaggeration)
    embeddings = model.prompt(condition, wanted.text, chosen.guided)
    batch, count, _ = embeddings.shape
    seed, said = sampling.seed_array(wanted.seed), list[int]()
    for step in range(wanted.limit):
        logits, cache = model.prefill(embeddings, mx.array([count]), model.allocate(batch, count + len(said)))
        logits = logits[:, None]
        if said:
            logits, _ = model.advance(mx.array(said), mx.array([count, 1]), cache)
        seen = sampling.after(config, said) if said else sampling.first_seen(config)
        mode = chosen.mode(config)
        scores = sampling.process(sampling.guide(logits[:, -1:], chosen.params()), seen[None], chosen.params(), mode)
        key = sampling.key(seed, sampling.DRAW, mx.array([step]))
        said.append(int(sampling.draw(scores, key, mode)[0]))
        if said[-1] == config.stop_speech and not chosen.exact:
            break
    return [token for token in said if token < config.start_speech]


@pytest.mark.parametrize("sampled", [{}, {"cfg_weight": 0.0}, {"temperature": 0.0}, {"top_p": 0.6, "min_p": 0.0}])
def test_as_by_hand(model: T3, sampled: dict[str, float]) -> None:
    """Guidance on, off (batch 1: the reference crashes there), greedy, cut: the same as without cache and pipeline."""
    wanted = request(model.config, limit=12, **sampled)
    found = tokens(T3Decoder(model), wanted)
    assert len(found) == 12 and len(set(found)) > 3
    assert found == by_hand(model, wanted)


@pytest.mark.parametrize(
    "options", [{"padded": True}, {"compiled": True}, {"padded": True, "compiled": True}, {"early": True}]
)
def test_nothing_that_makes_it_fast_changes_what_is_said(
    monkeypatch: pytest.MonkeyPatch, model: T3, options: dict[str, bool]
) -> None:
    """Buckets, compiled steps, steps sent ahead. The caches grow on the way."""
    monkeypatch.setattr(decode, "_UNPADDED_ROOM", 8)
    monkeypatch.setattr(decode, "ROOM_BUCKETS", (32, 64, 128))
    monkeypatch.setattr(decode, "PROMPT_BUCKETS", (16, 32))
    wanted = request(model.config, limit=50)
    expected = tokens(T3Decoder(model, padded=False, compiled=False), wanted)
    decoder = T3Decoder(model, padded=options.get("padded", False), compiled=options.get("compiled", False))
    decoder._early = options.get("early", False)
    assert tokens(decoder, wanted) == expected
    assert tokens(decoder, wanted) == expected  # again, on what was compiled


@pytest.mark.parametrize("config", [LLAMA, GPT2])
def test_ends_where_the_model_ends(config: T3Config) -> None:
    """The end is not spoken; with `exact` it does not come; the limit holds in either case."""
    model = network(config, seed=2, loudness=4.0)
    decoder, lengths = T3Decoder(model), set()
    for seed in range(6):
        wanted = request(config, seed=seed, limit=30, exact=False)
        found = tokens(decoder, wanted)
        assert config.stop_speech not in found and found == by_hand(model, wanted)
        lengths.add(len(found))
        assert len(tokens(decoder, request(config, seed=seed, limit=30))) == 30
    assert min(lengths) < 30


def test_the_next_step_is_sent_before_a_token_is_read(monkeypatch: pytest.MonkeyPatch, model: T3) -> None:
    """One read a token, of an array whose successor is on its way; nothing else waits for the device."""
    decoder, log = T3Decoder(model), list[str]()
    decoder._early = True
    read, send = decode._number, decoder.advance

    def reading(array: mx.array) -> int:
        log.append("read")
        return read(array)

    def sending(state: DecodeState) -> None:
        log.append("send")
        send(state)

    monkeypatch.setattr(decode, "_number", reading)
    monkeypatch.setattr(decoder, "advance", sending)
    monkeypatch.setattr(mx, "eval", None)
    assert len(tokens(decoder, request(model.config, limit=5))) == 5
    assert log == ["send", "read"] * 4 + ["read"]


@pytest.mark.parametrize("name", list(CONFIGS))
def test_only_speech_is_given_out(name: str) -> None:
    """Ids from the begin's on are drawn and read on, but not spoken; where the length is exact they are not drawn."""
    config = replace(CONFIGS[name], start_speech=40)
    model = network(config, seed=2)
    wanted = request(config, limit=40, exact=False)
    timeline = Timeline()
    found = tokens(T3Decoder(model), wanted, timeline)
    assert 0 < len(found) < timeline.tokens and max(found) < 40
    assert found == by_hand(model, wanted)
    found = tokens(T3Decoder(model), request(config, limit=40))
    assert len(found) == 40 and max(found) < 40


def test_limits(model: T3) -> None:
    decoder, config = T3Decoder(model), model.config
    longest = replace(request(config, limit=3), text=[1] * config.max_text)
    assert len(tokens(decoder, longest)) == 3
    for bad in (replace(longest, text=[1] * (config.max_text + 1)), replace(longest, limit=config.max_speech + 1)):
        with pytest.raises(InputTooLongError, match=r"at most \d+"):
            next(decoder.decode(bad, Timeline(), lambda: False))


def test_warming_leaves_nothing_behind(model: T3) -> None:
    """Every room that is served, with and without guesses; what is said afterwards is what would have been."""
    wanted = request(model.config, limit=12)
    for draft in (None, Lookup(), SmallT3(model)):
        decoder = T3Decoder(model, draft=draft, padded=True)
        expected = tokens(T3Decoder(model, draft=draft, padded=True), wanted)
        shapes = decoder.warm_shapes()
        assert [rows for _, rows in shapes] == sorted((rows for _, rows in shapes), reverse=True)
        for room, _ in shapes[:2]:
            decoder.warm(wanted, room)
        assert tokens(decoder, wanted) == expected


def test_another_step(model: T3) -> None:
    """A replacement of the network's step draws the tokens: here the same, counted, and one that says nothing new."""
    calls: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def counted(token: mx.array, place: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        calls.append((token.shape, place.shape))
        return model.advance(token, place, cache)

    wanted = request(model.config, limit=10)
    expected = tokens(T3Decoder(model), wanted)
    assert tokens(T3Decoder(model, step=counted), wanted) == expected
    assert calls and set(calls) == {((1,), (2,))}

    def constant(token: mx.array, _place: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        size = model.config.speech_vocabulary
        return mx.broadcast_to(100.0 * (mx.arange(size) == 7), (rows(cache), 1, size)), cache

    for compiled in (False, True):  # a cache that comes back as it went in, as from a kernel that writes in place
        assert tokens(T3Decoder(model, step=constant, compiled=compiled), wanted)[1:] == [7] * 9


def test_another_draw(model: T3) -> None:
    """A replacement of `sampling.next_token` draws all tokens but the first."""
    calls: list[tuple[int, ...]] = []

    def next_one(
        logits: mx.array, place: mx.array, seen: mx.array, _params: mx.array, _seed: mx.array, _mode: SamplingMode
    ) -> tuple[mx.array, mx.array, mx.array]:
        calls.append(logits.shape)
        token = place[1:2] + 20
        return token, sampling.placed(place[:2] + 1, token), seen

    for compiled in (False, True):
        found = tokens(T3Decoder(model, next_token=next_one, compiled=compiled), request(model.config, limit=6))
        assert found[1:] == [21, 22, 23, 24, 25]
    assert set(calls) == {(2 if model.config.guided else 1, 1, model.config.speech_vocabulary)}


@pytest.mark.parametrize("sampled", [{}, {"temperature": 0.0}])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("early", [False, True])
def test_a_step_without_a_result(model: T3, early: bool, exact: bool, sampled: dict[str, float]) -> None:
    """Trap: such a step's logits are no numbers, and a draw from them was the end, or silence up to the limit."""

    def spoilt(token: mx.array, place: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        logits, cache = model.advance(token, place, cache)
        return mx.where(place[1] == 4, mx.nan, logits), cache

    decoder, heard = T3Decoder(model, step=spoilt), list[int]()
    decoder._early = early
    wanted = request(model.config, seed=1, limit=12, exact=exact, **sampled)
    with pytest.raises(RuntimeError, match="given up"):
        for item in decoder.decode(wanted, Timeline(), lambda: False):
            heard += [] if item is None else [item]
    assert heard == tokens(T3Decoder(model), replace(wanted, limit=4))


@pytest.mark.parametrize("draft", [None, Lookup()])
@pytest.mark.parametrize("sampled", [{}, {"temperature": 0.0}])
def test_a_network_without_results(
    monkeypatch: pytest.MonkeyPatch, model: T3, draft: Draft | None, sampled: dict[str, float]
) -> None:
    """The first draw tells, and so does the draw after guesses."""
    prefill, advance = model.prefill, model.advance
    wanted = request(model.config, limit=12, **sampled)
    for name, function in (("advance", advance), ("prefill", prefill)):

        def spoilt(*given: Any, function: Any = function) -> Any:
            logits, cache = function(*given)
            return logits * mx.nan, cache

        monkeypatch.setattr(model, name, spoilt)
        with pytest.raises(RuntimeError, match="given up"):
            tokens(T3Decoder(model, draft=draft), wanted)


@pytest.mark.parametrize("bits", [8, 4])
def test_rounded_caches_speak_too(model: T3, bits: int) -> None:
    wanted = request(model.config, limit=30)
    assert len(tokens(T3Decoder(model, cache_bits=bits), wanted)) == 30
    if bits == 8:
        greedy = request(model.config, limit=30, temperature=0.0)
        whole, rounded = tokens(T3Decoder(model), greedy), tokens(T3Decoder(model, cache_bits=bits), greedy)
        assert whole[:2] == rounded[:2]
