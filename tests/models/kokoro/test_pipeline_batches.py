"""Several utterances computed together: each is what it is alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from models.backend import bucket, mx
from models.contract import AudioChunk, BatchItem, BatchSynthesizer, Cancelled, ModelError, SpeechRequest, WarmupStep
from models.kokoro import pipeline
from models.kokoro.network import Kokoro, alignment
from models.kokoro.pipeline import FRAME_BUCKETS, BatchRow, KokoroSynthesizer
from models.layers.conv import PaddingMask
from models.timeline import Stage, Timeline
from tests.models.kokoro.builder import TINY, build, official_arrays, tiny_config, to_mx, voice_pack
from tests.models.kokoro.house import UTTERANCES, decode, distance, house, style_row, tokens

SENTENCE = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ."
# Of one token bucket and of several, in one frame bucket and in several.
BATCHES = {
    "two": [UTTERANCES["hello"], UTTERANCES["numbers"]],
    "three": [UTTERANCES["morning"], SENTENCE, UTTERANCES["hello"]],
    "equal": [UTTERANCES["numbers"]] * 2,
    "five": [SENTENCE, UTTERANCES["hello"], SENTENCE[:30], UTTERANCES["morning"], SENTENCE * 3],
}


def never() -> bool:
    return False


def singer(*, padded: bool, batch: int = 8, profile: bool = False) -> KokoroSynthesizer:
    """The house voice, which may speak `batch` requests at once."""
    model = house()
    return KokoroSynthesizer(model.config, model.network, model._packs, padded=padded, batch=batch, profile=profile)


def rows_of(phonemes: Sequence[str], cancelled: Callable[[], bool] = never) -> list[BatchRow]:
    """Voices take turns; speeds and seeds differ."""
    return [
        BatchRow(tokens(text), style_row(("am_michael", "af_heart")[at % 2]), 1 + at / 8, at, Timeline(), cancelled)
        for at, text in enumerate(phonemes)
    ]


class Curves:
    """F0 and energy that the predictor was asked for, row by row, without what pads them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[list[np.ndarray]] = []
        self.lengths: list[int] = []
        kind = type(house().network.predictor)
        original = kind.curves

        def curves(
            predictor: object, aligned: mx.array, style: mx.array, valid: PaddingMask
        ) -> tuple[mx.array, mx.array]:
            found = original(predictor, aligned, style, valid)
            self.lengths.append(aligned.shape[1])
            rows = found[0].shape[0]
            counts = [aligned.shape[1]] * rows if valid.count is None else np.array(valid.count)[:, 0, 0].astype(int)
            for at in range(rows):
                self.seen.append([np.array(curve)[at, : 2 * counts[at]] for curve in found])
            return found

        monkeypatch.setattr(kind, "curves", curves)


@pytest.mark.parametrize("padded", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BATCHES)
def test_each_is_what_it_is_alone(monkeypatch: pytest.MonkeyPatch, name: str, padded: bool) -> None:
    """Durations equal; F0 and energy within 1e-4; samples within what rounding of F0 makes of their phase."""
    model, rows = singer(padded=padded), rows_of(BATCHES[name])
    curves = Curves(monkeypatch)
    alone = [(*next(iter(model.synthesize_batch([row]))), row.frames) for row in rows]
    single, curves.seen = curves.seen, []
    together = {at: (chunk.pcm, rows[at].frames) for at, chunk in model.synthesize_batch(rows)}
    assert sorted(together) == list(range(len(rows)))
    for at, (_, chunk, frames) in enumerate(alone):
        assert together[at][1].tolist() == frames.tolist()
        assert together[at][0].dtype == np.float32
        assert distance(together[at][0], chunk.pcm) < 2e-2
        wanted = single[at]
        same = [found for found in curves.seen if found[0].shape == wanted[0].shape]
        assert min(max(distance(a, b) for a, b in zip(found, wanted, strict=True)) for found in same) < 1e-4


@pytest.mark.parametrize("totals", [[7], [7, 7, 7], [7, 90, 90, 7], [50, 51]])
@pytest.mark.parametrize("padded", [False, True])
def test_the_noise_of_a_row_is_what_it_has_alone(padded: bool, totals: list[int]) -> None:
    """To the last bit, with zeros behind it."""
    model, rows = singer(padded=padded), rows_of([SENTENCE] * len(totals))
    found = np.array(model._noise(rows, mx.array(pipeline._keys(rows)), totals, 100))
    assert found.shape == (len(rows), 60_000)
    for row, each, total in zip(rows, found, totals, strict=True):
        samples = 600 * (bucket(total, FRAME_BUCKETS) if padded else total)
        alone = mx.random.normal((1, samples), key=mx.random.key(row.seed)) * model._noise_gain
        assert np.array_equal(each[:samples], np.array(alone)[0])
        assert not each[samples:].any()


@pytest.mark.parametrize("length", [8, 11])
def test_alignment_repeats_tokens_and_fills_with_the_last(length: int) -> None:
    frames = [np.array([3, 1, 4]), np.array([1, 1, 1])]
    found = alignment(frames, 5, length)
    assert found.dtype == np.int32
    assert found.tolist() == [[0] * 3 + [1] + [2] * (length - 4), [5, 6] + [7] * (length - 2)]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Kokoro:
    return build(tiny_config(tmp_path_factory.mktemp("config")), to_mx(official_arrays(TINY, seed=5)))


@pytest.mark.parametrize("lengths", [(7, 41), (30, 12, 41), (20, 20)])
def test_the_decoder_given_equal_curves(network: Kokoro, lengths: tuple[int, ...]) -> None:
    """Within 1e-4, on both sides of where the CPU splits the time axis. Padding holds rubbish."""
    rng, longest = np.random.RandomState(0), max(lengths)
    inputs, alone = [], []
    for at, frames in enumerate(lengths):
        text = rng.standard_normal((1, frames, 16)).astype(np.float32)
        f0, energy = (rng.uniform(low, high, 2 * frames).astype(np.float32) for low, high in ((90, 200), (-1, 1)))
        noise, style = rng.standard_normal(600 * frames).astype(np.float32), voice_pack(TINY, at, 1)
        alone.append(decode(network, text, f0, energy, style, noise))
        inputs.append((text[0], f0, energy, noise, style[0, : network.style_dim]))

    def stacked(part: int, rubbish: float) -> mx.array:
        size = max(len(each[part]) for each in inputs)
        found = np.full((len(inputs), size, *inputs[0][part].shape[1:]), rubbish, np.float32)
        for row, each in zip(found, inputs, strict=True):
            row[: len(each[part])] = each[part]
        return mx.array(found)

    text, f0, energy, noise = (stacked(part, rubbish) for part, rubbish in enumerate((0.0, 90.0, 2.0, 1.0)))
    styles = mx.array(np.stack([each[4] for each in inputs]))
    count = mx.array([[[frames]] for frames in lengths])
    features = network.decoder.features(text, f0, energy, styles, PaddingMask.of(count, longest))
    samples = np.array(network.decoder.generator(features, styles, f0, noise, 2 * count[:, 0]))
    for at, frames in enumerate(lengths):
        assert distance(samples[at, : 600 * frames], alone[at]) < 1e-4


def spoken(
    model: KokoroSynthesizer, requests: Sequence[SpeechRequest], cancelled: Sequence[Callable[[], bool]] | None = None
) -> tuple[dict[int, AudioChunk | ModelError], list[Timeline]]:
    timelines = [Timeline() for _ in requests]
    asked = [
        BatchItem(request, timeline, never if cancelled is None else cancelled[at])
        for at, (request, timeline) in enumerate(zip(requests, timelines, strict=True))
    ]
    return dict(model.speak(asked)), timelines


HELLO = SpeechRequest("Hello.", UTTERANCES["hello"], "am_michael")


@pytest.mark.parametrize("padded", [False, True])
def test_what_one_is_refused_concerns_no_other(padded: bool) -> None:
    model = singer(padded=padded)
    morning = replace(HELLO, phonemes=UTTERANCES["morning"], voice="af_heart")
    refused = {1: replace(HELLO, voice="nobody"), 3: replace(HELLO, speed=9.0), 4: replace(HELLO, phonemes="")}
    found, _ = spoken(model, [HELLO, refused[1], morning, refused[3], refused[4]])
    assert sorted(found) == [0, 1, 2, 3, 4]
    for at, request in refused.items():
        with pytest.raises(type(found[at]), match=str(found[at])[:20]):
            list(model.stream(request, Timeline(), never))
        assert isinstance(found[at], ModelError)
    for at, request in ((0, HELLO), (2, morning)):
        (alone,) = model.stream(request, Timeline(), never)
        chunk = found[at]
        assert isinstance(chunk, AudioChunk)
        assert chunk.phoneme_ends == alone.phoneme_ends
        assert chunk.last
        assert distance(chunk.pcm, alone.pcm) < 2e-2


def test_all_refused() -> None:
    found, _ = spoken(singer(padded=False), [replace(HELLO, voice="nobody")] * 2)
    assert [isinstance(found[at], ModelError) for at in sorted(found)] == [True, True]


def test_who_is_cancelled_is_left_out_and_the_others_go_on() -> None:
    found, timelines = spoken(singer(padded=False), [HELLO] * 3, [never, lambda: True, never])
    assert isinstance(found[1], Cancelled)
    assert Stage.DECODER not in timelines[1].stages
    assert isinstance(found[0], AudioChunk)
    assert isinstance(found[2], AudioChunk)


def test_each_timeline_has_every_stage_once() -> None:
    """All waited for the whole batch: the stages' seconds are the same for all."""
    _, timelines = spoken(singer(padded=True, profile=True), [HELLO, replace(HELLO, voice="af_heart")])
    stages = {Stage.VOICE, Stage.BERT, Stage.TEXT_ENCODER, Stage.PREDICTOR, Stage.DECODER}
    assert all(set(timeline.stages) == stages for timeline in timelines)
    assert len({timeline.stages[Stage.DECODER] for timeline in timelines}) == 1


def test_who_may_join() -> None:
    model = singer(padded=False, batch=4)
    assert isinstance(model, BatchSynthesizer)
    assert model.max_batch == 4
    assert house().max_batch == 1
    short, longer = model.batch_key(HELLO), model.batch_key(replace(HELLO, phonemes=SENTENCE))
    assert short == model.batch_key(replace(HELLO, phonemes=UTTERANCES["numbers"], voice="af_heart", speed=2.0))
    assert short is not None
    assert longer not in (None, short)
    assert model.batch_key(replace(HELLO, phonemes=SENTENCE * 3)) is None


def test_groups_need_no_more_memory_than_the_longest_utterance() -> None:
    """As their bucket pads them; nobody is left out."""
    rng, model = np.random.RandomState(0), singer(padded=True)
    for _ in range(50):
        totals = rng.randint(1, 1900, rng.randint(1, 9)).tolist()
        groups = model._groups(range(len(totals)), totals)
        assert sorted(at for group in groups for at in group) == list(range(len(totals)))
        for group in groups:
            (size,) = {bucket(totals[at], pipeline.BATCH_FRAME_BUCKETS) for at in group}
            assert bucket(max(totals[at] for at in group), FRAME_BUCKETS) <= size
            rows = bucket(len(group), pipeline.BATCH_BUCKETS)
            assert len(group) == 1 or rows * size <= pipeline.BATCH_FRAMES


def test_warm_up_has_every_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bucket, and batches of every bucket up to the one that holds the largest batch."""
    monkeypatch.setattr(KokoroSynthesizer, "_warm_tokens", lambda *_: None)
    monkeypatch.setattr(KokoroSynthesizer, "_warm_frames", lambda *_: None)

    def steps(batch: int) -> list[str]:
        seen: list[WarmupStep] = []
        singer(padded=True, batch=batch).warm(seen.append)
        assert [step.done for step in seen] == list(range(1, len(seen) + 1))
        return [step.name for step in seen]

    one, three, eight = (steps(batch) for batch in (1, 3, 8))
    assert one == [
        *(f"tokens={n}" for n in pipeline.TOKEN_BUCKETS),
        *(f"frames={n}" for n in FRAME_BUCKETS),
        "utterance=1",
    ]
    assert {name for name in three if "x" in name} == {
        *(f"tokens={n}x{batch}" for n in (16, 32, 64, 128) for batch in (2, 4)),
        *(f"frames={n}x2" for n in FRAME_BUCKETS if n <= 800),
        *(f"frames={n}x4" for n in FRAME_BUCKETS if n <= 400),
        "utterance=1x2",
    }
    assert set(eight) - set(three) == {
        *(f"tokens={n}x8" for n in (16, 32, 64, 128)),
        *(f"frames={n}x8" for n in (50, 100, 150, 200)),
    }


def test_warm_up_computes_what_will_be_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shapes of a warm step are those of a batch that fills its buckets."""
    seen: list[tuple[int, ...]] = []
    model = singer(padded=True, batch=2)
    pieces = model._compiled.pieces
    monkeypatch.setattr(model._compiled, "pieces", lambda text, *rest: seen.append(text.shape) or pieces(text, *rest))
    list(model.synthesize_batch(rows_of(BATCHES["two"])))
    (_, frames, _), *_ = seen
    model._warm_tokens(16, 2, style_row("am_michael"))
    model._warm_frames(frames, 2, style_row("am_michael"))
    assert frames in FRAME_BUCKETS
    assert seen[0] == seen[1] == (2, frames, model.config.hidden_dim)
