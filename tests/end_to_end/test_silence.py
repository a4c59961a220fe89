"""Bundled voices over HTTP: little silence, a pause between sentences, words where they are heard."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from tests.clients import RATE, samples, speak

TEXTS = ["Hello there.", "Half of his horses were hurt.", "Five fat foxes fled from the fire.", "Stop!", "I think so."]


def loudness(pcm: np.ndarray) -> np.ndarray:
    """Root mean square of windows of 5 ms."""
    return np.sqrt(np.square(pcm[: pcm.size // 120 * 120].reshape(-1, 120)).mean(1))


@pytest.mark.parametrize("voice", ["am_michael", "af_heart"])
def test_little_silence_surrounds_an_utterance(server: str, voice: str) -> None:
    for text in TEXTS:
        level = loudness(samples(speak(server, text, voice=voice)))
        loud = np.flatnonzero(level > level.max() / 200)
        assert loud[0] * 0.005 <= 0.06, text  # 20 ms, and the rise of an f or h
        assert (level.size - 1 - loud[-1]) * 0.005 <= 0.12, text


@pytest.mark.parametrize("voice", ["am_michael", "af_heart"])
def test_sentences_keep_a_pause_between_them(server: str, voice: str) -> None:
    quiet = loudness(samples(speak(server, "Stop there. Go home now.", voice=voice))) < 2e-3
    edges = np.flatnonzero(np.diff(np.concatenate([[0], quiet.astype(int), [0]])))
    starts, ends = edges[::2], edges[1::2]
    inner = [(end - start) * 0.005 for start, end in zip(starts, ends, strict=True) if start and end < quiet.size]
    assert 0.4 < max(inner) < 0.58


def test_the_voices_are_understood(server: str, recognize: Any) -> None:
    for voice, text in (
        ("af_heart", "Half of his horses were hurt."),
        ("am_michael", "I think so."),
        ("af_heart", "He has his hat."),
    ):
        assert recognize(speak(server, text, voice=voice).content) == text.lower().rstrip(".")


def test_words_lie_where_they_are_heard(server: str) -> None:
    """Each word holds sound, and the last ends before the audio does."""
    path = "/v1/text-to-speech/am_michael/with-timestamps?output_format=pcm_24000"
    found = speak(server, "Stop there. Go home now.", path=path).raise_for_status().json()
    pcm = np.frombuffer(base64.b64decode(found["audio_base64"]), "<i2").astype(np.float32) / 32_768
    alignment = found["alignment"]
    starts, ends = alignment["character_start_times_seconds"], alignment["character_end_times_seconds"]
    assert starts == sorted(starts) and ends[-1] <= pcm.size / RATE + 1e-6
    text, level = "".join(alignment["characters"]), loudness(pcm)
    for word in ("Stop", "there", "Go", "home", "now"):
        at = text.index(word)
        begin, end = starts[at], ends[at + len(word) - 1]
        assert level[int(begin / 0.005) : int(end / 0.005)].max() > 0.03, word
        assert 0.1 < end - begin < 0.8, word
