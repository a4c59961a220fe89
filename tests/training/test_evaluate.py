"""Judgments of a voice, and the proof that the judged voice is the product's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from training.corpus import product_phonemizer
from training.evaluate import Judged, Recognizer, Spoken, house, joined, load, summary, verdict

HOUSE = Path(__file__).parents[2] / "models/house"


def judged(voice: str, speaker: str, *, errors: int, offset: float = 0.0, scale: float = 0.14) -> Judged:
    """100 words with `errors` misheard, a tone of about -20 dBFS with a silence."""
    tone = np.sin(np.arange(24000) * 0.05).astype(np.float32)
    audio = (scale * tone + offset).astype(np.float32)
    silence = np.full(100, 1e-5, np.float32)
    return Judged(voice, speaker, [Spoken(audio, 24000, [silence])], [""], [errors], 100)


def test_a_voice_like_its_teacher_meets_the_bar() -> None:
    assert verdict(judged("rms", "house", errors=23), judged("rms", "teacher", errors=17)) == []


@pytest.mark.parametrize(
    ("voice", "errors", "offset", "scale", "message"),
    [
        ("rms", 24, 0.0, 0.14, "word errors 7.0 points above the teacher, 6 allowed"),
        ("slt", 30, 0.0, 0.14, "word errors 13.0 points above the teacher, 12 allowed"),
        ("rms", 17, 0.005, 0.14, "DC 0.0050"),
        ("rms", 17, 0.0, 0.05, "level -29"),
        ("rms", 17, 0.0, 1.0, "clipped samples"),
    ],
)
def test_what_is_missed_is_named(voice: str, errors: int, offset: float, scale: float, message: str) -> None:
    ours = judged(voice, "house", errors=errors, offset=offset, scale=scale)
    assert message in "; ".join(verdict(ours, judged(voice, "teacher", errors=17)))


def test_a_loud_pause_is_named() -> None:
    ours = judged("rms", "house", errors=0)
    ours.utterances[0].silences.append(np.full(50, 0.01, np.float32))
    assert verdict(ours, judged("rms", "teacher", errors=0)) == ["a pause at -40.0 dBFS, below -60 wanted"]


def test_the_summary_has_a_row_a_speaker_and_a_verdict_a_voice() -> None:
    pairs = [(judged(v, "house", errors=5), judged(v, "teacher", errors=4)) for v in ("rms", "slt")]
    text = summary(pairs, 1)
    assert text.count("| house |") == text.count("| teacher |") == 2
    assert "- rms: meets the bar.\n- slt: meets the bar.\n" in text


def test_sentences_are_joined_as_one() -> None:
    assert joined(["The dog ran.", "Where is it?", "I know."]) == "The dog ran, where is it, I know."


def test_the_house_voice_speaks_through_the_product_and_is_heard(tmp_path: Path) -> None:
    model, text = load(HOUSE), "The children built a snowman beside the old fence."
    phonemes = product_phonemizer()(text)
    assert phonemes is not None
    spoken = house(model, text, phonemes, "rms")
    assert spoken.rate == 24000
    assert 2 < len(spoken.audio) / spoken.rate < 6
    memory = tmp_path / "heard.json"
    recognizer = Recognizer(memory)
    heard = recognizer.hear(spoken.audio, spoken.rate)
    assert len({"children", "built", "old", "fence"} & set(heard.split())) >= 2
    recognizer.remember()
    assert Recognizer(memory).hear(spoken.audio, spoken.rate) == heard
