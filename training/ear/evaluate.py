"""Judge the ear in the product: word error rates by voice, of people, and of speech that is wrong.

    python -m training.ear.evaluate --model models/ear --out training/ear/results [--people pocketsphinx-5.1.1]

The sentences were in no training. Judged are voices that training heard, and others; house voices with sentences of
the phrase book, whose templates are in training, but not with these words; the recordings of people in the tests of
pocketsphinx's source distribution; and sentences with a planted fault, in which the ear must hear other words than
were to be said. Writes `judged.json` and prints a table.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
import wave
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from models.contract import ModelSpec, RecognitionRequest, RecognizedSegment, Recognizer
from models.timeline import Timeline
from training.corpus import HELD_OUT as SENTENCES
from training.corpus import distinct
from training.ear.lines import target
from training.ear.speakers import HELD_OUT, HOUSE, RATE, speaker, trimmed
from training.ear.texts import phrases, read_texts
from training.measure import word_errors, words_of

SEEN = (
    *HOUSE, "flite:rms", "flite:slt", "flite:kal", "espeak:en-us", "espeak:en+f3",
    "espeak:en-us+croak",
)  # fmt: skip
FAULTY = HOUSE
PEOPLE = {
    "goforward.raw": "go forward ten meters",
    "something.raw": "go somewhere and do something",
    "tidigits/dhd.2934z.raw": "two nine three four zero",
}
_TRANSCRIPTION = re.compile(r"<s>(.*)</s>\s*\((.*)\)")
Audio = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Said:
    """Text that was to be said, and its sound at RATE."""

    text: str
    audio: Audio


@dataclass(frozen=True, slots=True)
class Judged:
    """Result of a group. `exact`: utterances all of whose words are right. `accepted`: share of drafted tokens."""

    group: str
    name: str
    utterances: int
    words: int
    errors: int
    exact: int
    seconds: float
    spent: float
    tokens: int
    accepted: int

    @property
    def rate(self) -> float:
        """Return the word error rate."""
        return self.errors / max(1, self.words)


def load_ear(folder: Path) -> Recognizer:
    """Load the product's recognizer over the files in `folder`."""
    from models.whisper.pipeline import load

    files = {"config": "config.json", "weights": "model.safetensors", "tokenizer": "tokenizer.json"}
    return load(ModelSpec("ear", "whisper", {role: str(folder / name) for role, name in files.items()}))


def hear(recognizer: Recognizer, audio: Audio) -> list[RecognizedSegment]:
    """Return what the recognizer hears in audio, as in a file that a client sends."""
    request = RecognitionRequest(audio, "en", temperature=0.0, beams=getattr(recognizer, "beams", 1))
    return [one for one in recognizer.recognize(request, Timeline(), lambda: False) if one is not None]


def say(name: str, sentences: Sequence[str]) -> list[Said]:
    """Return the sentences as a voice says them, at drawn rates and pitches."""
    voice = speaker(name)
    return [
        Said(text, trimmed(voice(text, random.Random(number))).astype(np.float32) / 32768)
        for number, text in enumerate(sentences)
    ]


def held_out_phrases(count: int) -> list[str]:
    """Return sentences of the phrase book, in words that neither its training nor the ear's has together."""
    return distinct(phrases(77, held_out=True), count, set(), exact=True)


def people(folder: Path) -> list[Said]:
    """Return the transcribed recordings of a source distribution of pocketsphinx."""
    data = folder / "test" / "data"
    found = [Said(text, _read(data / name)) for name, text in PEOPLE.items()]
    for part, file in (("librivox", "transcription"), ("cards", "cards.transcription")):
        for text, name in _TRANSCRIPTION.findall((data / part / file).read_text(encoding="utf-8")):
            found.append(Said(text.strip(), _read(data / part / f"{name}.wav")))
    return found


def _read(path: Path) -> Audio:
    if path.suffix == ".raw":
        return np.fromfile(path, "<i2").astype(np.float32) / 32768
    with wave.open(str(path)) as reader:
        if (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) != (RATE, 1, 2):
            raise ValueError(f"{path} is not mono at {RATE} Hz in 16 bits")
        return np.frombuffer(reader.readframes(reader.getnframes()), "<i2").astype(np.float32) / 32768


def faulty(said: Sequence[Said]) -> Iterator[tuple[str, list[Said]]]:
    """Yield groups of wrong speech by name: the text is that of the whole sentence."""
    cuts = [(len(one.audio) // 3, 2 * len(one.audio) // 3) for one in said]
    yield (
        "a third is left out",
        [Said(s.text, np.concatenate([s.audio[:a], s.audio[b:]])) for s, (a, b) in zip(said, cuts, strict=True)],
    )
    yield (
        "a third comes twice",
        [Said(s.text, np.concatenate([s.audio[:b], s.audio[a:]])) for s, (a, b) in zip(said, cuts, strict=True)],
    )
    rng = np.random.default_rng(1)
    noisy = []
    for one in said:
        noise = rng.standard_normal(len(one.audio)).astype(np.float32)
        noisy.append(Said(one.text, one.audio + noise * np.sqrt(np.mean(one.audio**2) * 10)))
    yield "noise of 10 dB above the speech", noisy
    yield (
        "another sentence",
        [Said(one.text, other.audio) for one, other in zip(said, [*said[1:], said[0]], strict=True)],
    )
    yield "silence", [Said(one.text, np.zeros_like(one.audio)) for one in said]


def judge(recognizer: Recognizer, group: str, name: str, said: Sequence[Said], misses: list[dict[str, str]]) -> Judged:
    """Return the result of a group; what was heard otherwise is added to `misses`.

    Args:
        recognizer: The ear.
        group: Kind of speech.
        name: Voice or fault.
        said: The utterances.
        misses: Gets the text and what was heard.
    """
    words = errors = exact = tokens = accepted = 0
    seconds = spent = 0.0
    for one in said:
        started = time.perf_counter()
        found = hear(recognizer, one.audio)
        spent += time.perf_counter() - started
        seconds += len(one.audio) / RATE
        heard = "".join(each.text for each in found).strip()
        wrong = word_errors(words_of(one.text), words_of(heard))
        words, errors, exact = words + len(words_of(one.text)), errors + wrong, exact + (wrong == 0)
        tokens += sum(len(each.tokens) for each in found)
        accepted += sum(each.accepted for each in found)
        if wrong:
            misses.append({"group": group, "name": name, "said": one.text, "heard": heard})
    return Judged(group, name, len(said), words, errors, exact, seconds, spent, tokens, accepted)


def main(argv: Sequence[str] | None = None) -> None:
    """Judge the model that the arguments name."""
    parser = argparse.ArgumentParser(description="Judge the ear.")
    parser.add_argument("--model", type=Path, default=Path("models/ear"))
    parser.add_argument("--out", type=Path, default=Path("build/ear/judged"))
    parser.add_argument("--people", type=Path, help="folder of pocketsphinx's source distribution")
    parser.add_argument("--sentences", type=int, default=100)
    options = parser.parse_args(argv)
    recognizer = load_ear(options.model)
    sentences = [text for line in read_texts(SENTENCES) if (text := target(line))][: options.sentences]
    misses: list[dict[str, str]] = []
    found: list[Judged] = []

    def add(group: str, name: str, said: Sequence[Said]) -> None:
        found.append(judge(recognizer, group, name, said, misses))
        one = found[-1]
        print(
            f"| {group} | {name} | {one.utterances} | {one.rate:.1%} | {one.exact / one.utterances:.0%} | "
            f"{one.accepted / max(1, one.tokens):.0%} | {one.spent / one.seconds:.3f} |",
            flush=True,
        )

    print("| speech | voice or fault | utterances | word errors | all words right | draft right | s a second |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    kept: dict[str, list[Said]] = {}
    for group, voices in (("heard in training", SEEN), ("never heard", HELD_OUT)):
        for name in voices:
            said = say(name, sentences)
            kept[name] = said
            add(group, name, said)
    unknown = held_out_phrases(options.sentences)
    for name in FAULTY:
        add("phrase book", name, say(name, unknown))
    if options.people is not None:
        add("people", "pocketsphinx's tests", people(options.people))
    for fault, said in faulty([one for name in FAULTY for one in kept[name][: len(sentences) // 2]]):
        add("wrong", fault, said)
    options.out.mkdir(parents=True, exist_ok=True)
    groups = _rows([asdict(one) for one in found])
    text = f'{{"sentences":{len(sentences)},"groups":[{groups}],"misses":[{_rows(misses)}]}}\n'
    (options.out / "judged.json").write_text(text, encoding="utf-8")


def _rows(items: Sequence[object]) -> str:
    """Return JSON of the items, one a line."""
    return ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)


if __name__ == "__main__":
    main()
