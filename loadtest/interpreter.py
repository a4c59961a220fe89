"""The interpreter: end of a spoken sentence to its translation and speech, and long sessions.

    python -m loadtest.interpreter [--minutes 2] [--fast] [--size ear] [--pause 1.0] [--partials] [--json FILE]

English sentences of the phrase book, spoken by the bundled voice, are interpreted into French with the bundled models.
The recognizer is a Whisper of random weights: it computes what a real one computes, with as many tokens as the words
need, and writes the words that are spoken in the audio it is given. So the times are those of the whole way, and no
quality is measured. Audio comes in real time, or with `--fast` as fast as it is taken.

The last column of the soak is the memory of the process. A sentence is lost if it was said and not spoken.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import soxr

from app.audio.vad import SAMPLE_RATE
from app.cli.local import open_interpretation, open_speech
from app.config import Settings, load_settings
from app.engine.catalog import Catalog
from app.interpretation.events import SentenceDone, SpeechPart
from app.interpretation.options import InterpretationOptions
from app.speech.options import SpeechOptions
from models.backend import mx
from models.contract import Model, Pcm, RecognitionRequest, RecognizedSegment, RecognizedWord, WarmupStep
from models.timeline import Stage, Timeline
from models.whisper import features
from models.whisper.config import WhisperConfig
from models.whisper.decoding import DecodingOptions, decode
from models.whisper.network import Whisper
from models.whisper.pipeline import drain
from models.whisper.steps import Steps
from models.whisper.text import WhisperTokenizer
from models.whisper.weights import load_weights, shapes

T = TypeVar("T")

# Any name of the catalog that recognizes speech: its weights are replaced.
NAME: Final = "whisper-tiny"
CHUNK_SECONDS: Final = 0.1
TOKENS_PER_WORD: Final = 1.4
# The recognizer in the box, and the smallest of Whisper's.
SIZES: Final = {
    "ear": WhisperConfig(80, 750, 256, 4, 8, 51865, 192, 256, 4, 3),
    "tiny": WhisperConfig(80, 1500, 384, 6, 4, 51865, 448, 384, 6, 4),
    "base": WhisperConfig(80, 1500, 512, 8, 6, 51865, 448, 512, 8, 6),
}
SENTENCES: Final = (
    "Where is the train station?",
    "I would like a coffee, please.",
    "Turn on the light in the kitchen.",
    "Where is the airport?",
    "I would like a tea, please.",
    "Turn on the light in the bathroom.",
)


@dataclass
class Talk:
    """Audio of one round, and its words with their places in seconds."""

    pcm: Pcm
    words: list[RecognizedWord]

    @property
    def seconds(self) -> float:
        """Length of a round."""
        return self.pcm.size / SAMPLE_RATE


async def spoken(settings: Settings, pause: float, sentences: Sequence[str] = SENTENCES) -> Talk:
    """Speak the sentences, with `pause` seconds after each."""
    pieces: list[Pcm] = [np.zeros(SAMPLE_RATE, np.float32)]
    words: list[RecognizedWord] = []
    async with open_speech(settings, "house") as speech:
        for sentence in sentences:
            begin = sum(piece.size for piece in pieces) / SAMPLE_RATE
            stream = await speech.open(SpeechOptions(voice="am_michael"), Timeline())
            stream.feed(sentence)
            stream.finish()
            chunks = [chunk async for chunk in stream]
            stream.close("ok")
            found = [word for chunk in chunks for word in chunk.words]
            ends = [word.char_start for word in found[1:]] + [len(sentence)]
            for word, end in zip(found, ends, strict=True):
                text = " " + sentence[word.char_start : end].strip()
                words.append(RecognizedWord(text, begin + word.start, begin + word.end, 0.9))
            pcm = np.concatenate([chunk.pcm for chunk in chunks])
            pieces += [soxr.resample(pcm, speech.synthesizer.sample_rate, SAMPLE_RATE)]
            pieces += [np.zeros(round(pause * SAMPLE_RATE), np.float32)]
    return Talk(np.concatenate(pieces).astype(np.float32), words)


class ForcedRecognizer:
    """Whisper of random weights, which writes the words of `talk`, said again and again."""

    sample_rate = SAMPLE_RATE
    languages = ("en",)

    def __init__(self, config: WhisperConfig, talk: Talk) -> None:
        network = Whisper(config)
        mx.random.seed(0)
        arrays = {name: mx.random.normal(shape) * 0.02 for name, shape in shapes(network).items()}
        load_weights(network, arrays, "random numbers")
        network.lower(8)
        self._config, self._talk = config, talk
        self._steps = Steps(network)
        with tempfile.TemporaryDirectory() as folder:
            self._tokenizer = WhisperTokenizer(_ranks(Path(folder)), config)

    def check(self, request: RecognitionRequest) -> None:
        """Accept everything."""

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text."""
        return tuple(self._tokenizer.encode_prompt(text))

    def warm(self, progress: Callable[[WarmupStep], None]) -> None:
        """Run a second of noise."""
        noise = np.random.default_rng(0).standard_normal(SAMPLE_RATE).astype(np.float32) * 0.01
        drain(self._compute(noise, 2, Timeline()))
        progress(WarmupStep("window", 1, 1, 0.0))

    def recognize(
        self, request: RecognitionRequest, timeline: Timeline, cancelled: Callable[[], bool]
    ) -> Iterator[RecognizedSegment | None]:
        """Compute, then write the words of the audio."""
        words = list(self._words(request.pcm))
        for _ in self._compute(request.pcm, max(1, round(TOKENS_PER_WORD * len(words))), timeline):
            yield None
        if words:
            text = "".join(word.text for word in words)
            seconds = request.pcm.size / SAMPLE_RATE
            timed = tuple(words) if request.word_times else ()
            yield RecognizedSegment(0.0, seconds, text, "en", words=timed)

    def _words(self, pcm: Pcm) -> Iterator[RecognizedWord]:
        """Yield the words that lie in `pcm`, whose first loud samples say which audio it is."""
        begin = _place(pcm, self._talk.pcm)
        end = begin + pcm.size / SAMPLE_RATE
        for word in self._talk.words:
            for start in (0.0, self._talk.seconds):
                if begin - 0.05 <= word.start + start and word.end + start <= end + 0.05:
                    yield RecognizedWord(word.text, word.start + start - begin, word.end + start - begin, 0.9)

    def _compute(self, pcm: Pcm, tokens: int, timeline: Timeline) -> Generator[None]:
        with timeline.measure(Stage.MEL):
            mel = drain(features.recording(pcm, self._config.n_mels, self._config.window))
        frames = features.padded_features(mel, 0, self._config.window, self._config.window)
        encoding = self._steps.encode(frames[None])
        memory = yield from _timed(encoding, timeline, Stage.ENCODE)
        options = DecodingOptions(language="en", limit=tokens)
        yield from _timed(decode(self._steps, self._tokenizer, memory, options, lambda: False), timeline, Stage.DECODE)


def _place(pcm: Pcm, whole: Pcm) -> float:
    """Return the second of `whole` at which `pcm` begins: where its loudest samples are."""
    top = int(np.argmax(np.abs(pcm)))
    key = pcm[max(0, top - 4) : top + 4]
    for found in np.flatnonzero(whole == key[0]):
        if np.array_equal(whole[found : found + key.size], key):
            begin = int(found) - max(0, top - 4)
            return (begin if begin >= 0 else begin + whole.size) / SAMPLE_RATE
    return float("inf")


def _ranks(folder: Path) -> Path:
    """Write a file of ranks of single bytes and pairs, as long as OpenAI's."""
    pieces = [bytes([first]) for first in range(256)]
    pieces += [bytes([first, second]) for first in range(256) for second in range(256)]
    lines = [f"{base64.b64encode(piece).decode()} {rank}" for rank, piece in enumerate(pieces[:50256])]
    path = folder / "multilingual.tiktoken"
    path.write_text("\n".join([*lines, "= 50256"]) + "\n", encoding="ascii")
    return path


def _timed(work: Generator[None, None, T], timeline: Timeline, stage: Stage) -> Generator[None, None, T]:
    while True:
        with timeline.measure(stage):
            try:
                next(work)
            except StopIteration as stop:
                found: T = stop.value
                return found
        yield


class ForcedCatalog(Catalog):
    """Catalog of this machine, with a forced recognizer in place of NAME."""

    def __init__(self, settings: Settings, config: WhisperConfig, talk: Talk) -> None:
        super().__init__(settings)
        self._config, self._forced = config, talk

    def present(self, name: str) -> bool:
        """Whether a model can be loaded."""
        return name == NAME or super().present(name)

    def load(self, name: str) -> Model:
        """Load a model."""
        return ForcedRecognizer(self._config, self._forced) if name == NAME else super().load(name)


@dataclass
class Report:
    """Figures of a session. `marks`: (seconds of audio, sentences, resident MiB, delay of the last sentence)."""

    endings: dict[str, int] = field(default_factory=dict)
    points: dict[str, list[float]] = field(default_factory=dict)
    stages: dict[str, list[float]] = field(default_factory=dict)
    marks: list[tuple[float, int, float, float]] = field(default_factory=list)
    said: int = 0
    heard_seconds: float = 0.0
    spoken_seconds: float = 0.0
    overlaps: int = 0

    def add(self, event: SentenceDone) -> None:
        """Count a sentence."""
        self.endings[event.ending] = self.endings.get(event.ending, 0) + 1
        points: dict[str, float] = dict(zip(map(str, event.latency), event.latency.values(), strict=True))
        if event.delay is not None:
            points["heard"] = event.delay
        for name, seconds in points.items():
            self.points.setdefault(name, []).append(seconds)
        for stage, seconds in event.timeline.stages.items():
            self.stages.setdefault(stage.value, []).append(seconds)

    def show(self) -> str:
        """Return the figures as Markdown."""
        lines = [
            f"{self.heard_seconds:.0f} s of audio, {self.said} sentences said, endings {self.endings}, "
            f"{self.spoken_seconds:.0f} s spoken, {self.overlaps} overlaps",
            "",
            "| end of a sentence to | p50 | p95 | most |",
            "|---|---:|---:|---:|",
        ]
        rows = [*self.points.items(), *((f"(stage {name})", values) for name, values in self.stages.items())]
        for name, values in rows:
            ordered = sorted(values)
            p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
            lines.append(f"| {name} | {statistics.median(values):.3f} | {p95:.3f} | {ordered[-1]:.3f} |")
        lines += ["", "| audio s | sentences | MiB | delay of the last |", "|---:|---:|---:|---:|"]
        lines += [f"| {at:.0f} | {count} | {memory:.0f} | {delay:.2f} |" for at, count, memory, delay in self.marks]
        return "\n".join(lines)


def resident() -> float:
    """Return the resident memory of this process in MiB; the most so far where the system does not tell it."""
    try:
        found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    except OSError:
        found = None
    return int(found[1]) / 1024 if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def interpret(arguments: argparse.Namespace) -> Report:
    """Run one session."""
    settings = load_settings(None).model_copy(update={"recognition_model": NAME})
    talk = await spoken(settings, arguments.pause)
    options = InterpretationOptions(
        speech=SpeechOptions(
            translate_to="fr", source="en", translate_model="phrasebook", model="house", voice="am_michael"
        ),
        partials=arguments.partials,
        anticipate=arguments.partials,
    )
    report = Report()
    catalog = ForcedCatalog(settings, SIZES[arguments.size], talk)
    rounds = max(1, round(arguments.minutes * 60 / talk.seconds))
    report.said = rounds * len(SENTENCES)
    async with open_interpretation(settings, options, catalog) as local:
        feeding = asyncio.create_task(_feed(local.session, talk.pcm, rounds, fast=arguments.fast))
        until, last = 0.0, 0.0
        async for event in local.session:
            if isinstance(event, SpeechPart):
                report.overlaps += event.start < until - 1e-6
                until = event.start + event.chunk.duration
                report.spoken_seconds += event.chunk.duration
                local.session.delivered(event)
            elif isinstance(event, SentenceDone):
                report.add(event)
                if event.error is not None:
                    print(event.error.message)
                at = local.session.clock.position
                if at - last >= arguments.every:
                    last = at
                    report.marks.append((at, sum(report.endings.values()), resident(), event.delay or 0.0))
                    print(f"{at:.0f} s of audio, {report.endings}", flush=True)
        await feeding
        report.heard_seconds = local.session.clock.position
        report.marks.append((report.heard_seconds, sum(report.endings.values()), resident(), 0.0))
    return report


async def _feed(session: Any, pcm: Pcm, rounds: int, *, fast: bool) -> None:
    size, begun = round(CHUNK_SECONDS * SAMPLE_RATE), time.monotonic()
    sent = 0.0
    for _ in range(rounds):
        for start in range(0, pcm.size, size):
            piece = pcm[start : start + size]
            sent += piece.size / SAMPLE_RATE
            if not fast:
                await asyncio.sleep(max(0.0, begun + sent - time.monotonic()))
            await session.push(piece)
    await session.finish()


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--every", type=float, default=60.0, help="seconds of audio between two rows")
    parser.add_argument("--fast", action="store_true", help="as fast as the audio is taken")
    parser.add_argument("--size", choices=tuple(SIZES), default="ear")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds of silence after each sentence")
    parser.add_argument("--partials", action="store_true", help="hypotheses while somebody speaks, and anticipation")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report = asyncio.run(interpret(arguments))
    print(report.show())
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(vars(report), indent=2))


if __name__ == "__main__":
    main()
