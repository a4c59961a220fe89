"""Measure live recognition: how late words are final, how often shown words change, and how many are lost.

    python -m loadtest.streaming_recognition --count 20 [--model NAME] [--voice-model NAME] [--voice NAME] [--speed 1]
        [--texts FILE] [--policies agreement,attention]

An installed voice speaks sentences; the times of its words are the reference. Their audio is pushed in pieces as fast
as it is spoken, and each policy recognizes the same audio. Reported for each:

- `lag`: from the end of a spoken word to the moment at which it is final (committed, or in the final text);
- `final`: from the end of the sentence's audio to its final text;
- `flicker`: words that were shown and taken back or changed, for each word of the final text;
- `lost`: words of the reference that the final text lacks; `wrong`: its word error rate, with the words that are new;
- `busy`: seconds of the model thread for a second of audio.

With `--speed 0` audio is pushed at once: then times mean nothing, and the rest stays.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import soxr

from app.assembly import Engine
from app.audio.vad import SAMPLE_RATE, Samples
from app.cli.local import open_speech
from app.config import load_settings
from app.observability.metrics import Labels
from app.recognition.agreement import PolicyName
from app.recognition.events import LiveHypothesis, LiveOptions, LiveUtterance
from app.recognition.service import RecognitionService
from app.speech.options import SpeechOptions
from models.timeline import Timeline

CHUNK_SECONDS = 0.1
# Silence before and after each sentence: the pause that ends its utterance.
SILENCE = 1.0
TEXTS = (
    "The bakery on the corner opens before sunrise.",
    "My neighbor keeps three small dogs in her garden.",
    "We missed the last train and had to walk home.",
    "The children built a snowman beside the old fence.",
    "He has been learning the violin for two years.",
    "The river rose quickly after the storm.",
    "Turn left at the second traffic light.",
    "The cat slept on the warm windowsill all afternoon.",
)
_WORD = re.compile(r"[\w']+")


@dataclass(frozen=True, slots=True)
class Spoken:
    """Audio at SAMPLE_RATE, its words in lower case, and the second at which each ends."""

    pcm: Samples
    words: list[str]
    ends: list[float]


@dataclass(slots=True)
class Result:
    """Figures of one policy."""

    lags: list[float] = field(default_factory=list)
    finals: list[float] = field(default_factory=list)
    flicker: int = 0
    lost: int = 0
    wrong: int = 0
    words: int = 0
    written: int = 0
    busy: float = 0.0
    audio: float = 0.0


def words_of(text: str) -> list[str]:
    """Return the words of a text, without case and marks."""
    return _WORD.findall(text.lower())


async def speak(texts: Sequence[str], model: str | None, voice: str | None) -> list[Spoken]:
    """Return each text as an installed voice speaks it. Words without times have their share of the audio."""
    found = []
    async with open_speech(load_settings(None), model) as speech:
        for text in texts:
            stream = await speech.open(SpeechOptions(model=model, voice=voice), Timeline())
            stream.feed(text)
            stream.finish()
            pieces, timed = [], []
            async for chunk in stream:
                pieces.append(chunk.pcm)
                timed += [(each, word.end) for word in chunk.words for each in words_of(word.text)]
            stream.close("ok")
            rate = speech.synthesizer.sample_rate
            pcm = np.concatenate(pieces)
            words = words_of(text)
            if [word for word, _ in timed] != words:
                size = len(text)
                timed = [(one[0].lower(), one.end() / size * pcm.size / rate) for one in _WORD.finditer(text)]
            silence = np.zeros(round(SILENCE * SAMPLE_RATE), np.float32)
            audio = np.concatenate([silence, soxr.resample(pcm, rate, SAMPLE_RATE), silence]).astype(np.float32)
            found.append(Spoken(audio, words, [SILENCE + end for _, end in timed]))
    return found


@asynccontextmanager
async def recognition(model: str | None) -> AsyncIterator[RecognitionService]:
    """Load and warm a recognizer."""
    async with Engine.open(load_settings(None), warmup=True) as engine:
        await engine.recognition.model(model)
        yield engine.recognition


async def measure(
    service: RecognitionService, spoken: Spoken, options: LiveOptions, speed: float, into: Result
) -> None:
    """Recognize one sentence as it is spoken, and add its figures."""
    timeline = Timeline()
    name, _ = await service.model(options.model)
    live = await service.live(options, timeline, Labels(name, "openai", True))
    begun = time.perf_counter()

    async def push() -> None:
        step = round(CHUNK_SECONDS * SAMPLE_RATE)
        for start in range(0, spoken.pcm.size, step):
            if speed:
                due = begun + min(start + step, spoken.pcm.size) / SAMPLE_RATE / speed
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await live.push(spoken.pcm[start : start + step])
        await live.finish()

    pushing = asyncio.create_task(push())
    final: list[str] = []
    # Moment at which each word of the text so far was final, and the words that were shown last.
    when: list[float] = []
    shown: dict[int, list[str]] = {}
    before: dict[int, int] = {}
    ended = 0.0
    async for event in live:
        now = (time.perf_counter() - begun) * (speed or 1)
        if isinstance(event, LiveHypothesis):
            words = words_of(event.committed + event.pending)
            into.flicker += changed(shown.get(event.item, []), words)
            shown[event.item] = words
            committed = len(words_of(event.committed))
        elif isinstance(event, LiveUtterance):
            words = words_of(event.text)
            into.flicker += changed(shown.get(event.item, []), words)
            final += words
            committed = len(words)
            ended = now
        else:
            continue
        when += [now] * (committed - before.get(event.item, 0))
        before[event.item] = committed
    await pushing
    live.close("ok")
    into.finals.append(ended - spoken.ends[-1])
    into.audio += spoken.pcm.size / SAMPLE_RATE
    into.busy += timeline.busy
    into.words += len(spoken.words)
    into.written += len(final)
    matcher = SequenceMatcher(None, spoken.words, final, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            into.lags += [when[c + k] - spoken.ends[a + k] for k in range(b - a) if c + k < len(when)]
        else:
            into.wrong += max(b - a, d - c)
            into.lost += max(0, (b - a) - (d - c))


def changed(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many words of `old` are not in their place in `new`."""
    same = next(
        (k for k, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )
    return len(old) - same


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile; NaN without values."""
    return float(np.percentile(values, share)) if values else float("nan")


def report(name: str, found: Result) -> str:
    """Return the line of one policy."""
    words = max(1, found.words)
    return (
        f"{name:<10} lag {percentile(found.lags, 50):6.2f} {percentile(found.lags, 95):6.2f}   "
        f"final {percentile(found.finals, 50):6.2f} {percentile(found.finals, 95):6.2f}   "
        f"flicker {found.flicker / max(1, found.written):5.2f}   lost {found.lost / words:6.1%}   "
        f"wrong {found.wrong / words:6.1%}   busy {found.busy / max(found.audio, 1e-9):5.2f}"
    )


async def main(arguments: argparse.Namespace) -> int:
    """Measure every policy on the same audio."""
    texts = arguments.texts.read_text(encoding="utf-8").splitlines() if arguments.texts else list(TEXTS)
    texts = [text for text in texts if text.strip()][: arguments.count]
    spoken = await speak(texts, arguments.voice_model, arguments.voice)
    async with recognition(arguments.model) as service:
        name, recognizer = await service.model(arguments.model)
        print(f"{name}: {len(texts)} sentences; seconds at p50 and p95")
        policies: list[PolicyName] = arguments.policies
        for policy in policies:
            if policy == "attention" and not getattr(recognizer, "takes_prefix", False):
                print(f"{policy:<10} the model does not tell to what it listens")
                continue
            result = Result()
            for each in spoken:
                options = LiveOptions(model=arguments.model, language=arguments.language, policy=policy)
                await measure(service, each, options, arguments.speed, result)
            print(report(policy, result), flush=True)
    return 0


def parse(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", help="recognizer; default: the server's")
    parser.add_argument("--language", default="en")
    parser.add_argument("--voice-model", help="model that speaks; default: the server's")
    parser.add_argument("--voice")
    parser.add_argument("--texts", type=Path, help="file of sentences, one a line")
    parser.add_argument("--count", type=int, default=len(TEXTS))
    parser.add_argument("--speed", type=float, default=1.0, help="of real time; 0: at once")
    parser.add_argument(
        "--policies", type=lambda text: text.split(","), default=["agreement", "attention"], help="separated by commas"
    )
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(parse())))
