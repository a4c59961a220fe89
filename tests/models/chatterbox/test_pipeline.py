"""Chatterbox end to end on small random checkpoints in the official layout."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.backend import mx
from models.chatterbox import warmup
from models.chatterbox.config import SAMPLES_PER_TOKEN, VARIANTS, Variant
from models.chatterbox.pipeline import ChatterboxSynthesizer, load
from models.contract import AudioChunk, Conditioning, ModelSpec, Sampling, SpeechRequest, VoiceCloner, WeightsError
from models.timeline import Timeline
from tests.models.families import FAMILIES

REQUEST = SpeechRequest("The weather is fine today.", "", "default", seed=1)
TOKENS = 60


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[Variant, ModelSpec]:
    return {variant: FAMILIES[variant].write(tmp_path_factory.mktemp("checkpoint")) for variant in VARIANTS}


@pytest.fixture(scope="module")
def models(specs: dict[Variant, ModelSpec]) -> dict[Variant, ChatterboxSynthesizer]:
    return {name: load(spec) for name, spec in specs.items()}


@pytest.fixture(params=list(VARIANTS))
def model(request: pytest.FixtureRequest, models: dict[Variant, ChatterboxSynthesizer]) -> ChatterboxSynthesizer:
    return models[request.param]


def spoken(items: Iterator[AudioChunk | None]) -> list[AudioChunk]:
    return [item for item in items if item is not None]


def forced(model: ChatterboxSynthesizer, timeline: Timeline | None = None, **options: object) -> list[AudioChunk]:
    """TOKENS tokens of the built-in voice."""
    return spoken(model.forced("Hello there.", TOKENS, Sampling(), 3, timeline or Timeline(), **options))  # type: ignore[arg-type]


def joined(chunks: list[AudioChunk]) -> np.ndarray:
    return np.concatenate([chunk.pcm for chunk in chunks])


def voice_of(seed: int, model: ChatterboxSynthesizer) -> Conditioning:
    """A random cloned voice of 20 tokens."""
    draw = np.random.RandomState(seed)
    return Conditioning(
        {
            "t3_speaker": draw.standard_normal(model.config.t3.speaker).astype(np.float32),
            "t3_prompt": draw.randint(0, 6561, model.config.t3.prompt_tokens).astype(np.int32),
            "s3gen_tokens": draw.randint(0, 6561, 20).astype(np.int32),
            "s3gen_mel": draw.standard_normal((40, model.config.mels)).astype(np.float32),
            "s3gen_speaker": draw.standard_normal(model.config.speaker.size).astype(np.float32),
        }
    )


def test_chunks_are_one_utterance(model: ChatterboxSynthesizer) -> None:
    timeline = Timeline()
    chunks = forced(model, timeline)
    assert len(chunks) >= 3
    assert timeline.tokens == TOKENS
    pcm = joined(chunks)
    # Tokens past the vocabulary are not spoken; Turbo adds three of silence; a quiet end may be cut.
    assert pcm.size <= (TOKENS + 3) * SAMPLES_PER_TOKEN
    assert pcm.size > (TOKENS - 25) * SAMPLES_PER_TOKEN


def test_turbo_ends_in_silence(models: dict[Variant, ChatterboxSynthesizer], monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[list[int]] = []
    model = models["chatterbox-turbo"]
    encode = model._flow.encode

    def listen(prompt: object, tokens: list[int], **options: object) -> mx.array:
        heard.append(list(tokens))
        return encode(prompt, tokens, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(model._flow, "encode", listen)
    forced(model, whole=True)
    assert heard[-1][-3:] == [4299] * 3


def test_cloned_voice_is_heard(model: ChatterboxSynthesizer) -> None:
    one, two = (voice_of(seed, model) for seed in (1, 2))
    request = replace(REQUEST, voice="voice_x", sampling=Sampling(temperature=0.0))

    def begin(conditioning: Conditioning) -> np.ndarray:
        chunks = model.stream(replace(request, conditioning=conditioning), Timeline(), lambda: False)
        return next(chunk.pcm for chunk in chunks if chunk is not None)

    assert np.array_equal(begin(one), begin(one))
    assert not np.array_equal(begin(one), begin(two))


def test_a_voice_stays_on_the_device_while_it_is_kept(
    model: ChatterboxSynthesizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows before the text are made once, and again for another exaggeration; nothing outlives the conditioning."""
    made: list[float] = []
    condition = model._decoder.network.condition

    def counted(speaker: mx.array, prompt: mx.array, exaggeration: float) -> mx.array:
        made.append(exaggeration)
        return condition(speaker, prompt, exaggeration)

    monkeypatch.setattr(model._decoder.network, "condition", counted)
    voice = voice_of(11, model)
    gone = weakref.ref(voice)
    request = replace(REQUEST, conditioning=voice)
    first, again = (joined(spoken(model._stream(request, Timeline(), lambda: False, limit=8))) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len(made) == 1
    other = replace(request, sampling=Sampling(exaggeration=0.9))
    spoken(model._stream(other, Timeline(), lambda: False, limit=8))
    assert made == ([0.5, 0.9] if "exaggeration" in model.parameters else [0.0])
    del voice, request, other
    gc.collect()
    assert gone() is None
    assert len(model._prepared) == len(model._decoder._conditions) <= 1  # the built-in one


def test_a_voice_is_made_of_a_recording(model: ChatterboxSynthesizer) -> None:
    assert isinstance(model, VoiceCloner)
    draw = np.random.RandomState(0)
    time = np.arange(6 * 24_000) / 24_000
    pcm = 0.3 * np.sin(2 * np.pi * 150 * time) * (0.5 + 0.5 * np.sin(9 * time)) + 0.02 * draw.standard_normal(time.size)
    items = list(model.condition(pcm.astype(np.float32), 24_000, Timeline(), lambda: False))
    assert items[-1] is not None
    assert items[:-1] == [None] * (len(items) - 1)
    model.check_conditioning(items[-1])
    seconds = items[-1].arrays["s3gen_tokens"].size / 25
    assert 5.9 <= seconds <= 6.0


def test_a_later_sentence_of_signs_is_left_out(model: ChatterboxSynthesizer) -> None:
    """Once a reply is under way; as the first sentence it would be refused."""
    left_out = replace(REQUEST, text=" \n ", first=False)
    assert [chunk.pcm.size for chunk in spoken(iter(model.stream(left_out, Timeline(), lambda: False)))] == [0]


def test_turns_are_short(models: dict[Variant, ChatterboxSynthesizer]) -> None:
    """Between two places where the thread may turn to others lie at most four tokens, or one stage or step."""
    timeline, last = Timeline(), 0
    for _ in models["chatterbox"].forced("Hi.", 50, Sampling(), 0, timeline):
        assert timeline.tokens - last <= 5
        last = timeline.tokens


@pytest.mark.parametrize("name", VARIANTS)
def test_an_array_of_no_part_is_refused(specs: dict[Variant, ModelSpec], tmp_path: Path, name: Variant) -> None:
    spec = specs[name]
    arrays, path = mx.load(spec.files["s3gen"]), str(tmp_path / "changed.safetensors")
    assert isinstance(arrays, dict)
    mx.save_safetensors(path, {**arrays, "other.array": mx.zeros(1)})
    with pytest.raises(WeightsError, match=r"unexpected other\.array"):
        load(replace(spec, files={**spec.files, "s3gen": path}))


def test_options_that_do_not_exist(specs: dict[Variant, ModelSpec]) -> None:
    spec = specs["chatterbox"]
    with pytest.raises(WeightsError, match="no variant"):
        load(replace(spec, name="chatterbox-nano"))
    with pytest.raises(WeightsError, match="lookup"):
        load(replace(spec, draft="crystal ball"))


@pytest.mark.slow
def test_every_shape_of_a_gpu_can_be_warmed(specs: dict[Variant, ModelSpec]) -> None:
    """On the CPU, padded as on a GPU: the steps run, and what is spoken then has as many samples as unpadded."""
    for spec in specs.values():
        model, plain = load(spec), load(spec)
        model._decoder._padded = model._flow.padded = model._streamers[True].vocoder._padded = True
        streamers = list(model._streamers.values())
        steps = list(warmup.flow_steps(model._flow))[:2] + list(warmup.vocoder_steps(streamers))[:4]
        steps += list(warmup.decoder_steps(model._decoder, model._voice))[-2:]
        for _, run in steps:
            run()
        given = ("Hello.", 30, Sampling(temperature=0.0), 1)
        padded, unpadded = (joined(spoken(each.forced(*given, Timeline()))) for each in (model, plain))
        assert padded.shape == unpadded.shape
        assert np.abs(padded - unpadded).max() < 1e-3
