"""Write docs/quality.md, and the README's three figures, from real models: how good and how fast they are.

    make real-report ARGS="--recordings recordings.tsv"

A server with the models of `make real` speaks the same sentences in every voice. Whisper base writes down what it hears
and when, and two predictors of opinions, DistillMOS and DNSMOS, judge the sound. The reference, Kokoro in PyTorch, is
judged on the same sentences. Then both Kokoros, ONNX Runtime, and faster-whisper are timed beside this project.
`--recordings`: recordings of people, as `recognition_wer` takes them. Takes an hour on two quiet cores.
"""

from __future__ import annotations

import argparse
import base64
import csv
import datetime
import json
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import httpx
import numpy as np
import numpy.typing as npt
import soxr
from whisper.normalizers import BasicTextNormalizer, EnglishTextNormalizer

from loadtest.kokoro_peers import INT8, TEXTS, real_files, real_ids, reference_of
from loadtest.recognition_wer import RATE, compare, faster_whisper, ours, recognizer
from loadtest.recognition_wer import table as people_table
from models.contract import RecognitionRequest
from models.native import kernels
from models.timeline import Timeline
from tests.processes import serve
from training.measure import word_errors

ROOT: Final = Path(__file__).parents[1]
BUILT: Final = ROOT / "build" / "real"
PAGE: Final = ROOT / "docs" / "quality.md"
README: Final = ROOT / "README.md"
FIGURES: Final = re.compile(r"(?<=<!-- figures of docs/quality.md -->\n).*?(?=<!-- end of figures -->)", re.S)
# English sentences a voice.
SENTENCES: Final = 12
LANGUAGES: Final = {"a": "en-us", "b": "en-gb", "e": "es", "f": "fr-fr", "i": "it", "p": "pt-br"}
HELD_OUT: Final = ROOT / "training" / "eval_sentences.txt"
HOUSE_HEADING, VOICES_HEADING = "## The voices in the box\n", "## Voices\n"
REFERENCE: Final = ("af_heart", "am_michael", "af_bella")
FIRST_AUDIO_RUNS: Final = 15

Audio = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Speech:
    """A sentence as it was spoken, at `rate` Hz. `starts`: its words and the seconds at which they begin, if known."""

    audio: Audio
    rate: int
    starts: list[tuple[str, float]] = field(default_factory=list)


@dataclass(slots=True)
class Judged:
    """What a voice's sentences got: words wrong and counted, opinions in [1, 5], errors of word times in seconds."""

    raw: int = 0
    wrong: int = 0
    words: int = 0
    distill: list[float] = field(default_factory=list)
    dnsmos: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    likeness: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Return the percentage of words that are wrong after normalizing."""
        return 100 * self.wrong / self.words

    def row(self, name: str) -> str:
        """Return the row of a table in Markdown."""
        shares = f"{100 * self.raw / self.words:.1f} | {self.share:.1f}"
        opinions = f"{np.mean(self.distill):.2f} | {min(self.distill):.2f} | {np.mean(self.dnsmos):.2f}"
        times = (
            f"{1e3 * np.median(self.times):.0f} | {1e3 * np.percentile(self.times, 95):.0f}" if self.times else "- | -"
        )
        return f"| {name} | {shares} | {opinions} | {times} |"


class Judge:
    """Whisper base and the predictors of opinions."""

    def __init__(self) -> None:
        # Resemblyzer's librosa: what is first imported under the patch below is forgotten after it.
        import torch
        from librosa.feature import melspectrogram  # noqa: F401
        from speechmos import dnsmos

        # DistillMOS imports torchaudio, whose wheel links CUDA, and uses nothing of it.
        absent = {name: types.ModuleType(name) for name in ("torchaudio", "torchaudio.transforms")}
        # Resemblyzer trims recordings with webrtcvad; this speech is whole.
        absent["webrtcvad"] = types.ModuleType("webrtcvad")
        with patch.dict(sys.modules, absent):
            import distillmos
            from resemblyzer import VoiceEncoder

        self._torch, self._dnsmos = torch, dnsmos
        self._speakers = VoiceEncoder("cpu", verbose=False)
        self._distill = distillmos.ConvTransformerSQAModel().eval()
        self._whisper = recognizer(BUILT / "models" / "whisper-base", 8)
        self._english, self._general = EnglishTextNormalizer(), BasicTextNormalizer()

    def judge(self, text: str, language: str, speech: Speech, found: Judged) -> None:
        """Add a sentence to `found`."""
        audio = np.asarray(soxr.resample(speech.audio, speech.rate, RATE), dtype=np.float32)
        request = RecognitionRequest(audio, language, word_times=True)
        segments = [each for each in self._whisper.recognize(request, Timeline(), lambda: False) if each is not None]
        heard = "".join(segment.text for segment in segments)
        normalize = self._english if language == "en" else self._general
        found.raw += word_errors(text.split(), heard.split())
        found.wrong += word_errors(normalize(text).split(), normalize(heard).split())
        found.words += len(text.split())
        with self._torch.no_grad():
            found.distill.append(float(self._distill(self._torch.from_numpy(audio)[None]).item()))
        found.dnsmos.append(float(self._dnsmos.run(np.clip(audio, -1, 1), RATE)["ovrl_mos"]))
        words = [(_bare(word.text), word.start) for segment in segments for word in segment.words]
        spoken = [(_bare(word), start) for word, start in speech.starts]
        matched = SequenceMatcher(None, [word for word, _ in spoken], [word for word, _ in words], autojunk=False)
        for block in matched.get_matching_blocks():
            for offset in range(block.size):
                found.times.append(abs(spoken[block.a + offset][1] - words[block.b + offset][1]))

    def likeness(self, first: Speech, second: Speech) -> float:
        """Return how alike two speakers are, up to 1, as Resemblyzer hears them."""
        one, other = (
            self._speakers.embed_utterance(np.asarray(soxr.resample(each.audio, each.rate, RATE), dtype=np.float32))
            for each in (first, second)
        )
        return float(one @ other)


def _bare(word: str) -> str:
    return re.sub(r"\W", "", word).lower()


def speak(client: httpx.Client, model: str, voice: str, text: str) -> Speech:
    """Return a sentence spoken by the server, with the times of its words."""
    body = {"text": text, "model_id": model}
    path = f"/v1/text-to-speech/{voice}/with-timestamps?output_format=pcm_24000"
    answer = client.post(path, json=body)
    answer.raise_for_status()
    reply = answer.json()
    pcm = np.frombuffer(base64.b64decode(reply["audio_base64"]), np.int16).astype(np.float32) / np.float32(32_768)
    alignment = reply["alignment"]
    letters = "".join(alignment["characters"])
    starts = alignment["character_start_times_seconds"]
    return Speech(pcm, 24_000, [(word[0], starts[word.start()]) for word in re.finditer(r"\S+", letters)])


def sentences() -> dict[str, list[str]]:
    """Return the sentences of each language, by ISO 639 code."""
    english = (ROOT / "tests" / "real" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    found = {"en": english[:SENTENCES]}
    with Path(__file__).with_name("quality_sentences.tsv").open(encoding="utf-8") as file:
        for language, text in csv.reader(file, delimiter="\t"):
            found.setdefault(language, []).append(text)
    return found


def voices_of(client: httpx.Client, model: str) -> list[str]:
    """Return the voices of a model in the languages that are judged."""
    listed = client.get("/v1/audio/voices", params={"model": model}).raise_for_status().json()["voices"]
    return [voice["id"] for voice in listed if voice["id"][0] in LANGUAGES and voice["id"][1:3] in ("f_", "m_")]


def reference_speech(files: dict[str, str], voice: str, texts: Sequence[str]) -> Iterator[Speech]:
    """Yield sentences spoken by the reference with the phonemes of this project."""
    import torch
    from safetensors.torch import load_file

    reference, _ = reference_of(files)
    pack = load_file(files["voices"])[voice]
    for number, text in enumerate(texts):
        ids = real_ids(text, files)
        torch.manual_seed(number)
        with torch.inference_mode():
            audio = reference(torch.tensor([ids]), pack[len(ids) - 3].reshape(1, -1)).numpy()
        yield Speech(audio, 24_000)


def first_audio(client: httpx.Client, model: str, voice: str, text: str) -> float:
    """Return the median of milliseconds until the first audio of a request arrives."""
    body = {"model": model, "voice": voice, "input": text, "response_format": "pcm"}
    waits = []
    for number in range(FIRST_AUDIO_RUNS + 3):
        begun = time.perf_counter()
        with client.stream("POST", "/v1/audio/speech", json=body | {"seed": number}) as answer:
            answer.raise_for_status()
            chunks = answer.iter_bytes()
            next(chunks)
            waits.append((time.perf_counter() - begun) * 1e3)
            deque(chunks, maxlen=0)
    return statistics.median(waits[3:])


def speech_section(judge: Judge, client: httpx.Client, files: dict[str, str]) -> str:
    """Return the table of voices."""
    texts = sentences()
    heads = ["voice", "words wrong, raw %", "normalized %", "DistillMOS", "its lowest", "DNSMOS"]
    heads += ["word starts, ms: median", "p95"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for voice in voices_of(client, "kokoro-82m"):
        language, found = LANGUAGES[voice[0]][:2], Judged()
        for text in texts[language]:
            judge.judge(text, language, speak(client, "kokoro-82m", voice, text), found)
        lines.append(found.row(f"kokoro-82m {voice}"))
        print(lines[-1], flush=True)
    for voice in REFERENCE:
        found = Judged()
        for text, speech in zip(texts["en"], reference_speech(files, voice, texts["en"]), strict=True):
            judge.judge(text, "en", speech, found)
        lines.append(found.row(f"PyTorch {voice}"))
        print(lines[-1], flush=True)
    return "\n".join(lines)


def house_section(judge: Judge, client: httpx.Client, count: int) -> str:
    """Return the table of the voices in the box, each beside its teacher on the same sentences."""
    texts = sentences() | {"en": HELD_OUT.read_text(encoding="utf-8").splitlines()[:count]}
    heads = ["voice", "sentences", "words wrong, %", "teacher's", "DistillMOS", "lowest tenth", "lowest", "teacher's"]
    lines = ["| " + " | ".join([*heads, "DNSMOS", "likeness"]) + " |", "|" + "---|" * (len(heads) + 2)]
    for voice in voices_of(client, "house"):
        language, ours, theirs = LANGUAGES[voice[0]][:2], Judged(), Judged()
        for text in texts[language]:
            speech, model = (speak(client, name, voice, text) for name in ("house", "kokoro-82m"))
            judge.judge(text, language, speech, ours)
            judge.judge(text, language, model, theirs)
            ours.likeness.append(judge.likeness(speech, model))
        opinions = ours.distill
        cells = [voice, len(opinions), f"{ours.share:.1f}", f"{theirs.share:.1f}", f"{np.mean(opinions):.2f}"]
        cells += [f"{np.percentile(opinions, 10):.2f}", f"{min(opinions):.2f}", f"{np.mean(theirs.distill):.2f}"]
        cells += [f"{np.mean(ours.dnsmos):.2f}", f"{np.mean(ours.likeness):.2f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
        print(lines[-1], flush=True)
        for number in np.argsort(opinions)[:3]:
            print(f"    {opinions[number]:.2f} {texts[language][number]}", flush=True)
    return "\n".join(lines)


def kokoro_section(runs: int) -> tuple[str, dict[str, Any]]:
    """Return the table of times of Kokoro and its peers, and the report that it is from."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        script = str(Path(__file__).with_name("kokoro_peers.py"))
        command = [sys.executable, script, "--real", str(BUILT), "--runs", str(runs), "--bfloat16", "--onnx"]
        subprocess.run([*command, "--json", str(report)], check=True)
        found: dict[str, Any] = json.loads(report.read_text())
    names = list(found[TEXTS[0]]["peers"])
    lines = ["| text | audio, s | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 2)]
    for text in TEXTS:
        rows = found[text]["peers"]
        times = " | ".join(f"{rows[name]['median_ms']:.0f}" for name in names)
        lines.append(
            f"| {text if len(text) < 50 else f'{len(text)} characters'} | {rows[names[0]]['audio_s']:.1f} | {times} |"
        )
    return "\n".join(lines), found


def figures(speed: dict[str, Any], first: float, people: dict[str, Any] | None) -> str:
    """Return the README's figures."""
    rows = speed[TEXTS[2]]["peers"]
    best = min((name for name in rows if name.startswith("nightingale")), key=lambda name: rows[name]["median_ms"])
    mine = rows[best]["median_ms"]
    peers = ", ".join(
        f"{rows[name]['median_ms'] / mine:.1f} times as fast as {title}"
        for name, title in ((INT8, "ONNX Runtime with its 8 bits"), ("pytorch fp32", "PyTorch"))
        if name in rows
    )
    lines = [
        f"- Kokoro-82M speaks a sentence of {len(TEXTS[2])} characters {peers}: in {mine:.0f} ms.",
        f'- Its first audio of "{TEXTS[1]}" is at the client after {first:.0f} ms.',
    ]
    if people is not None:
        own, theirs = people["nightingale"], people["faster-whisper int8"]
        lines.append(
            f"- Whisper base takes {own.seconds / theirs.seconds:.2f} times as long as faster-whisper's int8, with "
            f"{own.share(english=True).split(' of ')[0]} of the words wrong where that has "
            f"{theirs.share(english=True).split(' of ')[0]}."
        )
    return "\n".join(lines) + "\n"


@contextmanager
def started(folder: Path, settings: dict[str, str]) -> Iterator[httpx.Client]:
    """Yield a client of a server that has the real models and the voices in the box."""
    with (
        serve(folder, NIGHTINGALE_PRELOAD="house", **settings) as server,
        httpx.Client(base_url=server.url, timeout=300) as client,
    ):
        yield client


def main() -> None:
    """Measure, write the page, and put the figures into the README."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=Path, help="table of recordings of people")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument(
        "--sentences", type=int, default=100, help="held-out sentences of each English voice in the box"
    )
    parser.add_argument("--house", action="store_true", help="measure the voices in the box alone")
    given = parser.parse_args()
    instructions = kernels.description()
    settings = {"NIGHTINGALE_DATA_DIR": str(BUILT), "NIGHTINGALE_DEFAULT_MODEL": "kokoro-82m"}
    if given.house:
        with tempfile.TemporaryDirectory() as folder, started(Path(folder), settings) as client:
            house = house_section(Judge(), client, given.sentences)
        section = _PAGE[_PAGE.index(HOUSE_HEADING) : _PAGE.index(VOICES_HEADING)].format(house=house)
        before, after = PAGE.read_text(encoding="utf-8").split(VOICES_HEADING)
        PAGE.write_text(before.partition(HOUSE_HEADING)[0] + section + VOICES_HEADING + after, encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as folder:
        files = real_files(BUILT, Path(folder))
        speed, report = kokoro_section(given.runs)
        people = None
        recognition = "Not measured: no recordings were given."
        if given.recordings is not None:
            sides = {"nightingale": ours(BUILT / "models" / "whisper-base", 8)}
            source = Path(folder) / "sources" / "base"
            sides |= {f"faster-whisper {kind}": faster_whisper(source, kind) for kind in ("int8", "float32")}
            people, audio = compare(given.recordings, sides)
            recognition = f"{audio:.0f} s of recordings.\n\n{people_table(people)}"
        with started(Path(folder), settings) as client:
            waits = {
                (model, text): first_audio(client, model, REFERENCE[0], text)
                for model in ("kokoro-82m", "house")
                for text in TEXTS[:3]
            }
            judge = Judge()
            house = house_section(judge, client, given.sentences)
            voices = speech_section(judge, client, files)
    shown = figures(report, waits["kokoro-82m", TEXTS[1]], people)
    first = ["| model | " + " | ".join(TEXTS[:3]) + " |", "|---|---|---|---|"]
    first += [
        f"| {model} | " + " | ".join(f"{waits[model, text]:.0f}" for text in TEXTS[:3]) + " |"
        for model in ("kokoro-82m", "house")
    ]
    today = datetime.datetime.now(datetime.UTC).date()
    page = _PAGE.format(
        date=f"{today.day} {today:%B %Y}", machine=f"{platform.machine()}, two cores, {instructions}", figures=shown,
        house=house, voices=voices, recognition=recognition, kokoro=speed, first="\n".join(first),
    )  # fmt: skip
    PAGE.write_text(page, encoding="utf-8")
    README.write_text(FIGURES.sub(lambda _: shown, README.read_text(encoding="utf-8")), encoding="utf-8")


_PAGE: Final = (Path(__file__).with_name("quality_page.md")).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
