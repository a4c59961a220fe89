"""Tokens to samples in chunks: nothing lost or spoken twice, near what is spoken at once, no click at the seams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from models.backend import bucket, mx
from models.chatterbox.s3gen.level import fade_in
from models.chatterbox.s3gen.noise import Draw, frame_noise, random_phases
from models.chatterbox.s3gen.streaming import CONTEXT, FADE, HELD, SCHEDULE, MelStream, Prompt, SpeechStreamer
from models.chatterbox.s3gen.vocoder import FRAME_BUCKETS, Carried, Spoken, Vocoder
from models.contract import AudioChunk, Cancelled
from models.timeline import Stage, Timeline
from tests.models.chatterbox.s3gen import flow_builder, narrow

SIZE = 480
# Streamed samples against those spoken at once, of equal mel frames: L2, relative. The vocoder's reach beyond HELD
# frames is what is left: 2.0e-3 at full size on random weights.
BOUND = 5e-3
PROMPT = Prompt([0] * 3, mx.full((6, narrow.MELS), -3.0), mx.zeros((12,)))


class Frames:
    """A flow whose mel frames depend on nothing but their token: frame 2t, 2t + 1 are `mel`'s, for tokens 0, 1, 2..."""

    def __init__(self, mel: np.ndarray) -> None:
        self.mel = mel
        self.encoded: list[tuple[int, int, bool]] = []
        self.noises: dict[int, np.ndarray] = {}

    def encode(self, prompt_tokens: Sequence[int], tokens: Sequence[int], *, finalize: bool = True) -> mx.array:
        assert list(tokens) == list(range(tokens[0], tokens[0] + len(tokens)))
        self.encoded.append((tokens[0], len(tokens), finalize))
        spoken = 2 * (len(tokens) - (0 if finalize else 3))
        rows = self.mel[2 * tokens[0] : 2 * tokens[0] + spoken]
        return mx.array(np.concatenate([np.zeros((2 * len(prompt_tokens), rows.shape[1]), np.float32), rows])[None])

    def steps(
        self, mu: mx.array, prompt_mel: mx.array, speaker: mx.array, noise: mx.array, steps: int | None = None
    ) -> Iterator[mx.array]:
        assert noise.shape == mu.shape
        first, drawn = 2 * self.encoded[-1][0], np.array(noise)[0]
        for frame, row in enumerate(drawn, first - prompt_mel.shape[0]):
            place = frame if frame >= first else frame - first  # the prompt's are the same in every chunk
            assert np.array_equal(self.noises.setdefault(place, row), row), f"noise of frame {place} changed"
        for _ in range(2):
            yield mu


class Counting:
    """A vocoder whose samples number themselves: a frame's mel is its place, and so is its excitation's."""

    samples_per_frame, harmonics = SIZE, 8

    def __call__(self, mel: mx.array, phases: mx.array, noise: mx.array, carried: Carried | None = None) -> Spoken:
        places = np.array(mel)[0, :, 0].round().astype(np.int64)
        frames, made = len(places), noise.shape[1]
        assert np.array_equal(places, np.arange(places[0], places[0] + frames))
        if carried is None:
            assert made == frames
        else:
            assert carried.source.shape == (1, (frames - made) * SIZE)
            assert np.array(carried.source)[0, ::SIZE].tolist() == places[: frames - made].tolist()
            assert int(carried.turns[0, 0]) == places[0] + frames - made
        source = mx.array(np.repeat(places, SIZE)[None].astype(np.float32))
        turns = mx.array(np.arange(places[-1] + 1 - made, places[-1] + 2)[None].astype(np.uint32))
        numbers = places[:, None] * SIZE + np.arange(SIZE)
        return Spoken(mx.array(numbers.reshape(1, -1).astype(np.float32)), source, turns)


class Level(Counting):
    """A vocoder whose samples are all alike: `level`, or the number of the call; `heard` are the first mels."""

    def __init__(self, level: float | None = None) -> None:
        self.level, self.heard = level, list[np.ndarray]()

    def __call__(self, mel: mx.array, phases: mx.array, noise: mx.array, carried: Carried | None = None) -> Spoken:
        self.heard.append(np.array(mel)[0, :, 0])
        shape = (1, mel.shape[1] * SIZE)
        samples = mx.full(shape, float(len(self.heard)) if self.level is None else self.level)
        return Spoken(samples, mx.zeros(shape), mx.zeros((1, noise.shape[1] + 1), dtype=mx.uint32))


def numbered(tokens: int) -> Frames:
    return Frames(np.repeat(np.arange(2 * tokens, dtype=np.float32)[:, None], narrow.MELS, axis=1))


def plain(flow: Any, vocoder: Any, **options: Any) -> SpeechStreamer:
    """Without what changes samples after the vocoder but for the start."""
    return SpeechStreamer(flow=flow, vocoder=vocoder, **{"steady": False, "cut": False, **options})


def chunks(streamer: SpeechStreamer, tokens: Any, prompt: Prompt = PROMPT, **options: Any) -> list[AudioChunk]:
    seed = options.pop("seed", 1)
    stream = streamer.stream(tokens, prompt, seed, Timeline(), lambda: False, **options)
    return [chunk for chunk in stream if chunk is not None]


def together(spoken: list[AudioChunk]) -> np.ndarray:
    assert [chunk.last for chunk in spoken] == [False] * (len(spoken) - 1) + [True]
    return np.concatenate([chunk.pcm for chunk in spoken])


@pytest.mark.parametrize(("schedule", "most"), [(SCHEDULE, 200), ((8,), 40), ((5, 9, 6), 40)])
def test_no_sample_lost_or_twice(schedule: tuple[int, ...], most: int) -> None:
    """1 to 200 tokens: each sample is there once, in order, with its own excitation, phase and noise."""
    for count in range(1, most + 1):
        flow = numbered(count)
        pcm = together(chunks(plain(flow, Counting(), schedule=schedule, window=9), range(count)))
        expected = np.arange(count * 960, dtype=np.float32)
        # Crossfades of equal numbers round in the last place of float32.
        assert len(pcm) == len(expected), count
        assert np.abs(pcm[960:] - expected[960:]).max(initial=0) <= 0.05, count
        assert max(length for _, length, _ in flow.encoded) <= 9 + max(schedule) + 3, "the window bounds the cost"
        assert [finalize for _, _, finalize in flow.encoded] == [False] * (len(flow.encoded) - 1) + [True]


def test_chunks_come_when_their_tokens_are_known() -> None:
    """The first chunk after 12 tokens and 3 to look ahead, less what is held back; None is passed on."""
    pulled = 0

    def tokens() -> Iterator[int | None]:
        nonlocal pulled
        for token in range(60):
            pulled += 1
            yield token
            yield None

    stream = plain(numbered(60), Counting()).stream(tokens(), PROMPT, 1, Timeline(), lambda: False)
    seen, when, turns = [], [], 0
    for chunk in stream:
        if chunk is None:
            turns += 1
        else:
            seen.append(len(chunk.pcm))
            when.append(pulled)
    assert when == [15, 40, 60]
    assert seen == [(24 - HELD) * SIZE, 50 * SIZE, (120 - 74 + HELD) * SIZE]
    assert turns > 60


@pytest.mark.parametrize("schedule", [SCHEDULE, (9, 30), ()])
def test_every_shape_is_known_beforehand(schedule: tuple[int, ...]) -> None:
    """The warmed shapes are those that sentences of 1 to 90 tokens use, no more and no less."""
    used = set()

    class Noting(Counting):
        def __call__(self, mel: mx.array, phases: mx.array, noise: mx.array, carried: Carried | None = None) -> Spoken:
            used.add((bucket(mel.shape[1], FRAME_BUCKETS), mel.shape[1] - noise.shape[1]))
            return super().__call__(mel, phases, noise, carried)

    for count in range(1, 91):
        streamer = plain(numbered(count), Noting(), schedule=schedule)
        chunks(streamer, range(count))
        chunks(streamer, range(count), whole=True)
    assert sorted(used) == streamer.vocoder_shapes(90)


def test_no_token_is_no_sample() -> None:
    assert len(together(chunks(plain(numbered(1), Counting()), [None, None]))) == 0


@pytest.mark.parametrize("options", [{"schedule": (4,)}, {"schedule": (12, 4)}, {"window": 3}])
def test_chunks_within_what_is_held_back_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="longer than 4 tokens"):
        plain(numbered(1), Counting(), **options)


def test_a_piece_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="8 frames are too few"):
        MelStream(Vocoder(narrow.lowered()), 1).speak(narrow.mel(HELD), last=False)


def test_cancelled_before_every_stage() -> None:
    """Whenever it is asked, nothing more is computed; stages are timed up to there."""
    asked = 0
    total = 0
    for limit in range(100):
        timeline, asked = Timeline(), 0

        def cancelled(limit: int = limit) -> bool:
            nonlocal asked
            asked += 1
            return asked > limit

        stream = plain(numbered(20), Counting()).stream(range(20), PROMPT, 1, timeline, cancelled)
        try:
            total = sum(len(chunk.pcm) for chunk in stream if chunk is not None)
            break
        except Cancelled:
            continue
    # Two chunks, each asking before the encoder, before each of two steps and their end, and before the vocoder.
    assert asked == limit == 10
    assert total == 20 * 960
    assert set(timeline.stages) == {Stage.S3GEN_ENCODE, Stage.S3GEN_FLOW, Stage.VOCODER}


@pytest.mark.parametrize("count", [9, 16, 31, 102])
@pytest.mark.parametrize("padded", [False, True])
def test_streamed_is_near_the_whole(count: int, padded: bool) -> None:
    """With equal mel frames, chunks have the phase, noise and context of the whole; also padded as on a GPU."""
    vocoder = Vocoder(narrow.lowered(), padded=padded)
    flow = Frames(np.array(narrow.mel(2 * count))[0])
    whole = together(chunks(plain(flow, vocoder), range(count), whole=True))
    streamed = together(chunks(plain(flow, vocoder), range(count)))
    assert streamed.shape == whole.shape
    assert np.linalg.norm(streamed - whole) / np.linalg.norm(whole) < BOUND


def test_the_whole_is_what_flow_and_vocoder_make() -> None:
    """In one chunk: encode, solve and vocode everything, then the start faded in. No more than that."""
    flow, vocoder = flow_builder.flow(), Vocoder(narrow.lowered())
    (mel, speaker), tokens = flow_builder.voice(), flow_builder.tokens(20)
    prompt = Prompt(flow_builder.tokens(flow_builder.PROMPT, 4), mel, speaker)
    found = together(chunks(plain(flow, vocoder), tokens, prompt, whole=True, seed=5))
    rows = mel.shape[0]
    drawn = [frame_noise(5, Draw.PROMPT_MEL, 0, rows, 8), frame_noise(5, Draw.MEL, 0, 40, 8)]
    solved = flow.solve(flow.encode(prompt.tokens, tokens), mel, speaker, mx.concatenate(drawn, axis=1))
    spoken = vocoder(solved, random_phases(5, 8), frame_noise(5, Draw.EXCITATION, 0, 40, SIZE))
    assert np.array_equal(found, fade_in(np.array(spoken.pcm[0]), 0))


def flux(pcm: np.ndarray, hop: int = 120, size: int = 480) -> np.ndarray:
    """Change of the magnitude spectrum from one 20 ms window to the next, 5 ms on."""
    windows = np.lib.stride_tricks.sliding_window_view(pcm.astype(np.float64), size)[::hop] * np.hanning(size)
    return np.linalg.norm(np.diff(np.abs(np.fft.rfft(windows)), axis=0), axis=1)


def worst_at_seams(pcm: np.ndarray, seams: list[int]) -> tuple[float, float]:
    """The sharpest seam by each measure: how many of the other places, as wide, are less sharp."""

    def rank(measure: np.ndarray, places: list[int], before: int, after: int) -> float:
        wide = np.lib.stride_tricks.sliding_window_view(measure, before + after).max(axis=1)
        return float((wide < max(wide[at - before] for at in places)).mean())

    jumps = np.abs(np.diff(pcm.astype(np.float64), 2))  # a step or a kink stands out in second differences
    return rank(jumps, seams, 3, 3), rank(flux(pcm), [at // 120 for at in seams], 5, 2)


def smooth(frames: int) -> np.ndarray:
    """Mel frames that move slowly, as a held vowel does: a seam has nothing to hide behind."""
    rng = np.random.RandomState(3)
    at = np.arange(frames)[:, None] / 50
    turn = rng.uniform(0, 2 * np.pi, narrow.MELS)
    return (-3 + np.sin(2 * np.pi * 1.5 * at + turn)).astype(np.float32)


class Restless(Frames):
    """A flow that solves the same frames a little differently in each chunk, as attention to other neighbors does."""

    def steps(self, *given: Any, **options: Any) -> Iterator[mx.array]:
        shift = 1.0 * np.random.RandomState(len(self.encoded)).standard_normal(self.mel.shape[1])
        for state in super().steps(*given, **options):
            yield state + mx.array(shift.astype(np.float32))


@pytest.mark.parametrize("kind", [Frames, Restless])
def test_no_click_at_the_seams(kind: type[Frames]) -> None:
    """At seams and the ends of crossfades neither samples nor spectra change as in one place of a hundred elsewhere."""
    spoken = chunks(plain(kind(smooth(300)), Vocoder(narrow.lowered())), range(150))
    assert len(spoken) >= 4
    ends = np.cumsum([len(chunk.pcm) for chunk in spoken])[:-1]
    seams = [int(at) + more for at in ends for more in (0, FADE * SIZE)]
    assert max(worst_at_seams(together(spoken), seams)) < 0.99


def test_held_frames_pass_from_one_version_to_the_next() -> None:
    """Their mel and their samples rise from the old solution to the new."""
    level = Level()
    heard, stream = level.heard, MelStream(level, 1)  # type: ignore[arg-type]
    stream.speak(mx.zeros((1, 30, narrow.MELS)), last=False)
    pcm = np.array(stream.speak(mx.ones((1, 20, narrow.MELS)), last=True))
    held = heard[1][CONTEXT : CONTEXT + HELD]
    assert not heard[1][:CONTEXT].any()
    assert np.all(np.diff([0.0, *held, 1.0]) > 0)
    assert held + held[::-1] == pytest.approx(np.ones(HELD), abs=1e-6)
    assert np.all(heard[1][CONTEXT + HELD :] == 1)
    fade = pcm[: FADE * SIZE] - 1
    assert np.all(np.diff(fade) > -1e-6)
    assert fade[0] < 1e-3 < 1 - 1e-3 < fade[-1]
    assert np.all(pcm[FADE * SIZE :] == 2)


def test_the_end_is_cut_and_only_there() -> None:
    """Options of the streamer: a quiet end goes; the loudness is held with a gain that never jumps."""
    count = 60
    flow = numbered(count)

    class Loud(Counting):
        """Noise while the first 40 tokens last, next to nothing after."""

        def __call__(self, *given: Any) -> Spoken:
            spoken = super().__call__(*given)
            place = np.array(spoken.pcm)[0]
            rough = np.sin(place * 1.7) * np.where(place < 40 * 960, 0.1, 1e-6)
            return Spoken(mx.array(rough[None].astype(np.float32)), spoken.source, spoken.turns)

    whole = together(chunks(plain(flow, Loud()), range(count)))
    cut = together(chunks(plain(flow, Loud(), cut=True), range(count)))
    assert len(whole) == count * 960
    assert 40 * 960 < len(cut) < 40 * 960 + 0.17 * 24_000
    assert np.array_equal(cut[: 40 * 960], whole[: 40 * 960])


def test_loudness_is_held_without_a_jump() -> None:
    """A sentence 12 dB below its recording is raised by up to 6, more as it goes on, and continuously."""
    count = 110
    flow = Frames(np.full((2 * count, narrow.MELS), -3.0 - np.log(4.0), dtype=np.float32))
    gain = together(chunks(plain(flow, Level(0.1), steady=True), range(count)))[960:] / 0.1
    assert np.abs(np.diff(gain)).max() < 1e-3
    assert np.all(np.diff(gain) > -1e-6)
    assert 1.2 < gain[0] < gain[-1] < 10 ** (6 / 20)
