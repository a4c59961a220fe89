"""Judge a house voice against its teacher: word errors by pocketsphinx, levels, DC, pauses, a spectrogram.

    python -m training.evaluate [--model models/house] [--out training/results/shipped]

Runs in the project's own environment (development group), through the product's own phonemes and synthesis; needs
flite for the teacher. Writes `summary.md`, `sentences.csv` and, with matplotlib at hand, `spectrograms.png`.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import soxr

from models.contract import ModelSpec, SpeechRequest, Synthesizer
from models.timeline import Timeline
from training.corpus import HELD_OUT, product_phonemizer
from training.measure import Audio, Levels, levels_of, pauses, word_errors, words_of
from training.teacher import TEACHER_RATE, VOICES, speak

ALLOWED = {"rms": 6.0, "slt": 12.0}  # points of word error rate above the teacher
MAX_DC, MAX_PAUSE = 0.001, -60.0


@dataclass(frozen=True, slots=True)
class Spoken:
    """One utterance: float audio, its rate, and the pieces of it that should be silent."""

    audio: Audio
    rate: int
    silences: list[Audio]


@dataclass(slots=True)
class Judged:
    """One speaker's utterances and what the recognizer made of them."""

    voice: str
    speaker: str
    utterances: list[Spoken] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    words: int = 0

    @property
    def word_error_rate(self) -> float:
        """Return the word error rate in percent."""
        return 100 * sum(self.errors) / self.words

    @property
    def levels(self) -> Levels:
        return levels_of([u.audio for u in self.utterances], [s for u in self.utterances for s in u.silences])


class Recognizer:
    """pocketsphinx with its default English model. A file keeps its results: equal audio, equal words."""

    def __init__(self, memory: Path) -> None:
        from pocketsphinx import Decoder

        # Cepstral means of each utterance by itself: earlier utterances must not matter.
        self._decoder = Decoder(samprate=TEACHER_RATE, cmn="batch", loglevel="FATAL")
        self._memory = memory
        self._known: dict[str, str] = json.loads(memory.read_text(encoding="utf-8")) if memory.exists() else {}

    def hear(self, audio: Audio, rate: int) -> str:
        """Return the words heard in float audio."""
        key = hashlib.sha256(audio.tobytes()).hexdigest()
        if key not in self._known:
            self._known[key] = self._decode(audio, rate)
        return self._known[key]

    def remember(self) -> None:
        """Write the file of results."""
        self._memory.parent.mkdir(parents=True, exist_ok=True)
        self._memory.write_text(json.dumps(self._known), encoding="utf-8")

    def _decode(self, audio: Audio, rate: int) -> str:
        if rate != TEACHER_RATE:
            audio = soxr.resample(audio, rate, TEACHER_RATE)
        samples = np.clip(np.round(audio * 32768), -32768, 32767).astype(np.int16)
        self._decoder.start_utt()
        self._decoder.process_raw(samples.tobytes(), full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        return hypothesis.hypstr if hypothesis else ""


def load(folder: Path, dtype: str = "float32") -> Synthesizer:
    """Load the product's synthesizer over the checkpoint in `folder`."""
    from models.kokoro.pipeline import load as load_kokoro

    files = {
        "config": str(folder / "config.json"),
        "weights": str(folder / "model.safetensors"),
        "voices": str(folder / "voices.safetensors"),
    }
    return load_kokoro(ModelSpec(name=folder.name, family="kokoro", files=files, dtype=dtype))


def house(model: Synthesizer, text: str, phonemes: str, voice: str) -> Spoken:
    """Speak through the product. The silences are the pauses that the model's own timing claims."""
    chunks = list(model.stream(SpeechRequest(text, phonemes, voice), Timeline(), lambda: False))
    audio = np.concatenate([chunk.pcm for chunk in chunks])
    ends = [end for chunk in chunks for end in chunk.phoneme_ends]
    return Spoken(audio, model.sample_rate, pauses(audio, model.sample_rate, phonemes, ends))


def teacher(text: str, voice: str) -> Spoken:
    """Speak through flite. The silences are the inner halves of its own pauses, the last one left out."""
    phones, samples = speak(text, voice)
    audio = samples.astype(np.float32) / 32768
    silences, start = [audio[: TEACHER_RATE // 10]], phones[0][1]
    for name, end in phones[1:-1]:
        if name == "pau":
            quarter = (end - start) / 4
            silences.append(audio[round((start + quarter) * TEACHER_RATE) : round((end - quarter) * TEACHER_RATE)])
        start = end
    return Spoken(audio, TEACHER_RATE, silences)


def judge(model: Synthesizer, sentences: Sequence[str], recognizer: Recognizer) -> Iterator[tuple[Judged, Judged]]:
    """(house, teacher) of each voice over all sentences."""
    phonemize = product_phonemizer()
    for voice in VOICES:
        pair = Judged(voice, "house"), Judged(voice, "teacher")
        for text in sentences:
            phonemes = phonemize(text)
            if phonemes is None:
                raise SystemExit(f"a sentence must be one utterance, but this is not: {text!r}")
            spoken = words_of(text)
            for one, utterance in zip(pair, (house(model, text, phonemes, voice), teacher(text, voice)), strict=True):
                one.utterances.append(utterance)
                one.heard.append(recognizer.hear(utterance.audio, utterance.rate))
                one.errors.append(word_errors(spoken, words_of(one.heard[-1])))
                one.words += len(spoken)
        yield pair


def verdict(ours: Judged, theirs: Judged) -> list[str]:
    """Return the limits that `ours` misses, in words; empty when it meets them all."""
    levels, missed = ours.levels, []
    above = ours.word_error_rate - theirs.word_error_rate
    if above > ALLOWED[ours.voice]:
        missed.append(f"word errors {above:.1f} points above the teacher, {ALLOWED[ours.voice]:.0f} allowed")
    if levels.clipped:
        missed.append(f"{levels.clipped} clipped samples")
    if levels.dc >= MAX_DC:
        missed.append(f"DC {levels.dc:.4f}, under {MAX_DC} wanted")
    if abs(levels.level + 20) > 2:
        missed.append(f"level {levels.level:.1f} dBFS, about -20 wanted")
    if levels.pause_loudest >= MAX_PAUSE:
        missed.append(f"a pause at {levels.pause_loudest:.1f} dBFS, below {MAX_PAUSE:.0f} wanted")
    return missed


def summary(pairs: Sequence[tuple[Judged, Judged]], sentences: int) -> str:
    """The result as a Markdown table, and the verdict."""
    lines = [
        f"Word error rate by pocketsphinx's default English model over {sentences} utterances of {pairs[0][0].words}",
        "words. Levels in dBFS, peak and DC as shares of full scale",
        "(DC: the largest mean of an utterance), pauses: the first 100 ms and the inner halves of inner pauses.",
        "",
        "| voice | speaker | WER % | level | peak | clipped | DC | pause, median | pause, loudest |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in (each for pair in pairs for each in pair):
        x = one.levels
        lines.append(
            f"| {one.voice} | {one.speaker} | {one.word_error_rate:.1f} | {x.level:.1f} | {x.peak:.2f} | {x.clipped} "
            f"| {x.dc:.5f} | {x.pause_median:.1f} | {x.pause_loudest:.1f} |"
        )
    lines.append("")
    for ours, theirs in pairs:
        lines.append(f"- {ours.voice}: {'; '.join(verdict(ours, theirs)) or 'meets the bar'}.")
    return "\n".join(lines) + "\n"


def draw(pairs: Sequence[tuple[Judged, Judged]], text: str, path: Path) -> None:
    """Spectrograms of one sentence, each voice above its teacher."""
    from training.plotting import pyplot

    plt = pyplot()
    rows = [one for pair in pairs for one in pair]
    figure, axes = plt.subplots(len(rows), 1, figsize=(10, 2.4 * len(rows)), layout="constrained")
    for axis, one in zip(axes, rows, strict=True):
        spoken = one.utterances[0]
        audio = spoken.audio + np.float32(1e-7)  # digital silence has no logarithm
        axis.specgram(audio, NFFT=512, noverlap=384, Fs=spoken.rate, vmin=-140, vmax=-30, cmap="magma")
        axis.set(ylim=(0, 12000), ylabel="Hz", title=f"{one.voice}, {one.speaker}")
    figure.suptitle(text)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def joined(sentences: Sequence[str]) -> str:
    """Several sentences as one, with commas between."""
    first, *rest = (sentence.rstrip(".?!") for sentence in sentences)
    return ", ".join([first, *(x if x.startswith("I ") else x[:1].lower() + x[1:] for x in rest)]) + "."


def main(argv: Sequence[str] | None = None) -> None:
    """Judge, write the results, and exit with 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description="Judge a house voice against its teacher.")
    parser.add_argument("--model", type=Path, default=Path("models/house"))
    parser.add_argument("--out", type=Path, default=Path("training/results/shipped"))
    parser.add_argument("--sentences", type=Path, default=HELD_OUT)
    parser.add_argument("--join", type=int, default=1, help="speak this many sentences as one long one")
    parser.add_argument("--memory", type=Path, default=Path("build/house/heard.json"), help="of the recognizer")
    options = parser.parse_args(argv)
    sentences = [line.strip() for line in options.sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    if options.join > 1:
        sentences = [joined(sentences[i : i + options.join]) for i in range(0, len(sentences), options.join)]
    recognizer = Recognizer(options.memory)
    pairs = list(judge(load(options.model), sentences, recognizer))
    recognizer.remember()
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "sentences.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["voice", "speaker", "errors", "sentence", "heard"])
        for one in (each for pair in pairs for each in pair):
            rows.writerows([one.voice, one.speaker, *row] for row in zip(one.errors, sentences, one.heard, strict=True))
    report = summary(pairs, len(sentences))
    (options.out / "summary.md").write_text(report, encoding="utf-8")
    print(report)
    if find_spec("matplotlib"):
        draw(pairs, sentences[0], options.out / "spectrograms.png")
    if any(verdict(*pair) for pair in pairs):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
