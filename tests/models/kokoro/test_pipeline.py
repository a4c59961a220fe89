"""The synthesizer on the house model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models.backend import bucket, mx
from models.contract import AudioChunk, SpeechRequest
from models.kokoro.pipeline import FRAME_BUCKETS, BatchRow, KokoroSynthesizer, _keys, round_durations
from models.timeline import Timeline
from tests.models.kokoro.house import UTTERANCES, distance, house, padded_house, style_row, tokens
from tests.models.kokoro.test_pipeline_batches import HELLO, Curves, never

# From one phoneme to several sentences, on both sides of token and frame buckets.
LENGTHS = (1, 2, 5, 14, 15, 30, 63, 120)


def speak(request: SpeechRequest, model: KokoroSynthesizer | None = None) -> AudioChunk:
    """The only chunk of an utterance."""
    (chunk,) = (model or house()).stream(request, Timeline(), never)
    return chunk


def phonemes(count: int) -> str:
    """Speech-like text of `count` phonemes."""
    sentence = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ, ænd ðˈɛn ɪt ɹˈɛsts. "
    return (sentence * (count // len(sentence) + 1))[:count]


@pytest.mark.parametrize("count", LENGTHS)
def test_buckets_equal_the_unpadded(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Durations the same, F0 and energy within 1e-4. (The decoder given equal F0: test_network.)"""
    curves, row, ids = Curves(monkeypatch), style_row("af_heart"), tokens(phonemes(count))
    (pcm, frames), (other, padded) = (
        model.synthesize(ids, row, 1.0, 0, Timeline(), never) for model in (house(), padded_house())
    )
    total = int(frames.sum())
    assert padded.tolist() == frames.tolist()
    assert pcm.shape == other.shape == (600 * total,)
    assert curves.lengths == [total, bucket(total, FRAME_BUCKETS)]
    for exact, found in zip(*curves.seen, strict=True):
        assert distance(found, exact) < 1e-4


@pytest.mark.parametrize("padded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_speed_leaves_the_boundary_tokens(padded: bool) -> None:
    """Durations of the phonemes scale by 1 / speed, those of the silence around them do not."""
    model, ids = padded_house() if padded else house(), tokens(UTTERANCES["numbers"])

    def frames(speed: float) -> np.ndarray:
        pcm, found = model.synthesize(ids, style_row("am_michael"), speed, 0, Timeline(), never)
        assert len(pcm) == 600 * found.sum()
        return found

    normal = frames(1.0)
    for speed in (0.25, 0.5, 2.0, 4.0):
        scaled = frames(speed)
        assert (scaled[0], scaled[-1]) == (normal[0], normal[-1])
        # Rounding moves each duration by half a frame on both sides, before and after scaling.
        assert np.abs(scaled[1:-1] - np.maximum(normal[1:-1] / speed, 1)).max() <= 0.5 / speed + 0.5 + 1e-3
        assert scaled.min() >= 1


def test_durations_round_half_to_even_and_are_at_least_one() -> None:
    """As torch.round does."""
    expected = np.array([0.2, 0.5, 1.5, 2.5, 3.49, 0.1], dtype=np.float32)
    assert round_durations(expected, 1.0).tolist() == [1, 1, 2, 2, 3, 1]
    assert round_durations(expected, 0.5).tolist() == [1, 1, 3, 5, 7, 1]


def test_phoneme_ends() -> None:
    """One for each character, ascending, the last within the closing silence of the audio's end."""
    text = UTTERANCES["numbers"]
    chunk = speak(replace(HELLO, phonemes=text))
    frames = house().synthesize(tokens(text), style_row("am_michael"), 1.0, 0, Timeline(), never)[1]
    ends = chunk.phoneme_ends
    assert len(ends) == len(text)
    assert ends == pytest.approx((np.cumsum(frames) * 0.025)[1:-1])
    assert all(b > a for a, b in zip((0, *ends), ends, strict=False))
    assert ends[-1] == pytest.approx(len(chunk.pcm) / 24_000 - frames[-1] * 0.025)


def test_unknown_phonemes_are_dropped_and_still_counted() -> None:
    plain, odd = (speak(replace(HELLO, phonemes=text)) for text in ("həlˈO.", "☃həl☃☃ˈO.☃"))
    assert odd.pcm.tobytes() == plain.pcm.tobytes()
    assert len(odd.phoneme_ends) == len("☃həl☃☃ˈO.☃")
    assert odd.phoneme_ends[1:4] == plain.phoneme_ends[:3]
    assert odd.phoneme_ends[4] == odd.phoneme_ends[5] == plain.phoneme_ends[2]


def test_the_longest_utterance() -> None:
    assert house().max_phonemes == 510
    pcm, frames = house().synthesize(tokens(phonemes(510)), style_row("am_michael"), 4.0, 0, Timeline(), never)
    assert (len(frames), len(pcm)) == (512, 600 * frames.sum())
    assert np.isfinite(pcm).all()


def test_blends() -> None:
    """A blend with itself is the voice; of two it is neither, and follows the weights."""
    one, same, both, other = (
        speak(replace(HELLO, voice=v)).pcm
        for v in ("am_michael", "am_michael+am_michael", "am_michael(2)+af_heart(1)", "af_heart")
    )
    assert one.tobytes() == same.tobytes()
    assert both.tobytes() not in (one.tobytes(), other.tobytes())
    house().check_voice("am_michael(2)+af_heart(1)")
    row = (2 * style_row("am_michael") + style_row("af_heart")) / 3
    mixed = house().synthesize(tokens(HELLO.phonemes), row.astype(np.float32), 1.0, 0, Timeline(), never)[0]
    assert mixed.shape == both.shape
    assert distance(both, mixed) < 0.05


def test_profiling_changes_no_sample() -> None:
    model = KokoroSynthesizer(house().config, house().network, house()._packs, profile=True)
    assert speak(HELLO, model).pcm.tobytes() == speak(HELLO).pcm.tobytes()


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1, 2**40 + 5])
def test_the_noise_has_mlx_key_of_its_seed(seed: int) -> None:
    row = BatchRow([0, 0], np.zeros((1, 2), np.float32), 1.0, seed, Timeline(), lambda: False)
    assert np.array_equal(_keys([row, row]), np.array([mx.random.key(seed)] * 2))
