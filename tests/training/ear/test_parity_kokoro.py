"""Speech in batches by a network of Kokoro's, here a tiny random one. Needs PyTorch: `make parity`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.training.test_teacher import make_teacher
from training.ear.data import Corpus
from training.ear.kokoro import Narrator, bounds, to_16k
from training.ear.lines import Line, write_lines
from training.ear.texts import train_tokenizer
from training.ear.train import Listening, parse

pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("one_thread")]

LINES = [
    Line("Yes.", "jˈɛs."),
    Line("We can't dance.", "wi kˈænt dˈæns.", "wiː kˈɑːnt dˈɑːns."),
    Line("The dog runs, and the cat sleeps.", "ðə dˈɔɡ ɹˈʌnz, ænd ðə kˈæt slˈips."),
]
VOICES = ("af_heart", "bm_fable", "jf_alpha")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of Kokoro's layout with three voices."""
    return make_teacher(tmp_path_factory.mktemp("ear") / "teacher", VOICES)


def narrator(folder: Path, seed: int = 1):  # type: ignore[no-untyped-def]
    return Narrator(folder, torch.device("cpu"), seed)


def test_a_batch_says_what_one_alone_says(teacher: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The source's noise is other noise each time.
    monkeypatch.setattr("training.generator.torch.randn_like", torch.zeros_like)
    voices = ["af_heart", "bm_fable", "jf_alpha", "af_heart"]
    lines = [*LINES, LINES[0]]
    together = narrator(teacher).speak(lines, voices)
    assert sorted(together.texts) == sorted(line.text for line in lines)
    ends = np.cumsum(together.samples)
    assert ends[-1] == len(together.audio)
    for end, count, text, name in zip(ends, together.samples, together.texts, together.speakers, strict=True):
        line = next(line for line in lines if line.text == text)
        alone = narrator(teacher).speak([line], [name])
        ours = together.audio[end - count : end].float()
        assert alone.samples.tolist() == [count]
        # The phase of a source that is nearly silent is that of its rounding errors.
        assert (ours - alone.audio.float()).norm() < 0.1 * ours.norm()


def test_drawn_speech_is_the_seeds_and_each_time_another(teacher: Path) -> None:
    one = narrator(teacher)
    first, second, again = one.speak(LINES * 3), one.speak(LINES * 3), narrator(teacher).speak(LINES * 3)
    assert (first.speakers, first.samples.tolist()) == (again.speakers, again.samples.tolist())
    assert first.samples.tolist() != second.samples.tolist()
    assert any("+" in name for name in first.speakers)
    assert {part for name in first.speakers for part in name.split("+")} <= set(VOICES)


def test_an_accent_says_its_own_phonemes(teacher: Path) -> None:
    one = narrator(teacher)
    tokens = [one._planned([LINES[1]], [name])[0][0] for name in ("af_heart", "bm_fable")]
    vocabulary = one._vocabulary
    assert tokens == [[0, *(vocabulary[s] for s in said), 0] for said in (LINES[1].american, LINES[1].british)]


def test_pitch_and_its_range() -> None:
    f0 = torch.tensor([[0.0, 100.0, 200.0, 5.0]])
    found = Narrator._sung(f0, torch.tensor([[1.2]]), torch.tensor([[0.5]]))
    assert torch.allclose(found, torch.tensor([[0.0, 150.0, 210.0, 5.0]]))


def test_a_tone_is_resampled_and_the_band_above_is_gone() -> None:
    def tone(hertz: float, rate: int) -> Any:
        return torch.sin(2 * np.pi * hertz * torch.arange(rate, dtype=torch.float64) / rate)[None].float()

    for hertz in (100, 3000, 7000):
        assert torch.allclose(to_16k(tone(hertz, 24_000))[:, 99:-99], tone(hertz, 16_000)[:, 99:-99], atol=4e-3)
    assert to_16k(tone(8600, 24_000))[:, 99:-99].abs().max() < 0.01


def test_silence_at_the_ends_is_cut() -> None:
    audio = torch.zeros(2, 48_000)
    audio[0, 16_000:32_000] = 0.1
    first, end = bounds(audio)
    assert first[0] == 14_400
    assert end.tolist() == [33_600, 0]


def test_missing_weights_are_named(teacher: Path, tmp_path: Path) -> None:
    arrays = load_file(str(teacher / "kokoro-v1_0.safetensors"))
    arrays.pop("bert_encoder.weight")
    save_file(arrays, str(tmp_path / "model.safetensors"))
    (tmp_path / "config.json").write_bytes((teacher / "config.json").read_bytes())
    with pytest.raises(ValueError, match=r"lacks 1 weights, the first bert_encoder\.weight"):
        narrator(tmp_path)


def test_listening_keeps_to_its_hours_and_its_time(teacher: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "lines.tsv.gz", LINES)
    arguments = [str(tmp_path), str(tmp_path), "--teacher", str(teacher), "--device", "cpu"]

    def heard(*more: str) -> list[int]:
        corpus = Corpus(train_tokenizer([line.text for line in LINES]), torch.device("cpu"))
        listening = Listening(corpus, parse([*arguments, *more]), 0)
        counts = []
        for progress in (0.0, 0.3, 1.0):
            listening.fill(progress)
            counts.append(len(corpus))
        return counts

    first, half, whole = heard("--first", "1e-5", "--hours", "0.01")
    assert first == len(LINES)
    assert first < half < whole
    assert heard("--first", "9", "--hours", "9", "--seconds", "0.001")[0] == len(LINES)
