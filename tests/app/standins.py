"""Small, deterministic synthesizers, a translator and a recognizer, which exist for what a real one does not do on
demand: be slow, fail, be counted, be absent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from app.engine.jobs import ModelJob
from app.text.languages import LANGUAGES
from models import contract
from models.timeline import Stage, Timeline

RATE = 24_000
SECONDS_PER_PHONEME = 0.02
LEVEL = 0.5
FREQUENCY = 440.0
VOICES = ("steady", "silky", "slow", "gated", "gated_second", "broken", "breaks_second", "chunky", "hung")


class WarmAtOnce:
    """A model whose warm-up is one step."""

    def warm(self, progress: Callable[[contract.WarmupStep], None]) -> None:
        progress(contract.WarmupStep("all", 1, 1, 0.0))


def held(gate: threading.Event, cancelled: Callable[[], bool]) -> Iterator[None]:
    """Yield until the gate is open. Raises Cancelled."""
    while not gate.wait(0.005):
        yield
        if cancelled():
            raise contract.Cancelled


@dataclass
class Tone:
    """A sine of SECONDS_PER_PHONEME per phoneme. The voice decides how it behaves."""

    sample_rate: int = RATE
    max_phonemes: int = 200
    default_voice: str = "steady"
    gate: threading.Event = field(default_factory=threading.Event)
    begun: list[str] = field(default_factory=list)
    computed: list[str] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    warm_steps: int = 3
    warm_gate: threading.Semaphore | None = None

    reads: contract.Reads = "phonemes"
    parameters: frozenset[str] = frozenset()
    changes_speed: bool = True
    watermarked: bool = False
    symbols: frozenset[str] = frozenset(chr(code) for code in range(32, 0x3000))
    languages: tuple[str, ...] = tuple(language.tag for language in LANGUAGES)
    voices: tuple[contract.Voice, ...] = tuple(
        contract.Voice(name, "en-us", "female" if name == "silky" else "male") for name in VOICES
    )

    def check_voice(self, voice: str) -> None:
        if voice not in {known.id for known in self.voices}:
            accepted = ", ".join(known.id for known in self.voices)
            raise contract.UnknownVoiceError(f"Unknown voice '{voice[:40]}'; accepted are: {accepted}.")

    def warm(self, progress: Callable[[contract.WarmupStep], None]) -> None:
        for step in range(self.warm_steps):
            if self.warm_gate is not None:
                self.warm_gate.acquire()
            progress(contract.WarmupStep(f"bucket {step}", step + 1, self.warm_steps, 0.0))

    def stream(
        self, request: contract.SpeechRequest, timeline: Timeline, cancelled: Callable[[], bool]
    ) -> Iterator[contract.AudioChunk]:
        self.threads.add(threading.get_ident())
        self.begun.append(request.text)
        if request.voice == "broken" or (request.voice == "breaks_second" and len(self.begun) > 1):
            raise RuntimeError("a failure inside the model")
        with timeline.measure(Stage.DECODER):
            if request.voice == "hung":
                self.gate.wait()
            if request.voice == "slow":
                for _ in range(100):
                    time.sleep(0.01)
                    if cancelled():
                        raise contract.Cancelled
            gated = request.voice == "gated" or (request.voice == "gated_second" and len(self.begun) > 1)
            while gated and not self.gate.wait(0.005):
                if cancelled():
                    raise contract.Cancelled
        seconds = SECONDS_PER_PHONEME / request.speed
        size = round(len(request.phonemes) * seconds * RATE)
        pcm = (LEVEL * np.sin(2 * np.pi * FREQUENCY * np.arange(size) / RATE)).astype(np.float32)
        ends = tuple((index + 1) * seconds for index in range(len(request.phonemes)))
        count = 5 if request.voice == "chunky" else 1
        for index, part in enumerate(np.array_split(pcm, count)):
            self.computed.append(f"{request.text}/{index}" if count > 1 else request.text)
            last = index == count - 1
            yield contract.AudioChunk(part, ends if last else (), last)


@dataclass
class Parrot(WarmAtOnce):
    """Reads text and clones voices: hums SECONDS_PER_PHONEME a character at the pitch of the recording.

    Its own voice hums at 300 Hz. `gate` holds up conditioning and `hold` speech while they are cleared.
    """

    sample_rate: int = RATE
    max_phonemes: int = 60
    default_voice: str = "own"
    voices: tuple[contract.Voice, ...] = (contract.Voice("own", "en-us", "male"),)
    languages: tuple[str, ...] = ("en-us",)
    reads: contract.Reads = "text"
    symbols: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset({"exaggeration", "temperature"})
    changes_speed: bool = False
    watermarked: bool = False
    reference_seconds: tuple[float, float] = (2.0, 5.0)
    requests: list[contract.SpeechRequest] = field(default_factory=list)
    heard: list[float] = field(default_factory=list)
    given_up: int = 0
    gate: threading.Event = field(default_factory=threading.Event)
    hold: threading.Event = field(default_factory=threading.Event)
    array: str = "pitch"

    def __post_init__(self) -> None:
        self.gate.set()
        self.hold.set()

    def check_voice(self, voice: str) -> None:
        if voice != "own":
            raise contract.UnknownVoiceError(f"Unknown voice '{voice[:40]}'; accepted are: own.")

    def condition(
        self, pcm: np.ndarray, sample_rate: int, timeline: Timeline, cancelled: Callable[[], bool]
    ) -> Iterator[contract.Conditioning | None]:
        seconds = pcm.size / sample_rate
        if seconds < self.reference_seconds[0]:
            raise contract.UnusableReferenceError(f"{seconds:.1f} seconds; at least 2 are needed")
        self.heard.append(seconds)
        try:
            yield from held(self.gate, cancelled)
        except (contract.Cancelled, GeneratorExit):
            self.given_up += 1
            raise
        spectrum = np.abs(np.fft.rfft(pcm))
        pitch = np.argmax(spectrum) * sample_rate / pcm.size
        yield contract.Conditioning({self.array: np.array([pitch], np.float32)})

    def check_conditioning(self, conditioning: contract.Conditioning) -> None:
        if set(conditioning.arrays) != {self.array}:
            raise contract.WeightsError(f"missing {self.array}")

    def stream(
        self, request: contract.SpeechRequest, timeline: Timeline, cancelled: Callable[[], bool]
    ) -> Iterator[contract.AudioChunk | None]:
        self.requests.append(request)
        if request.speed != 1.0:
            raise contract.ModelRequestError(f"the parrot speaks at speed 1 only, not {request.speed:g}")
        pitch = 300.0 if request.conditioning is None else float(request.conditioning.arrays[self.array][0])
        size = round(len(request.text) * SECONDS_PER_PHONEME * RATE)
        pcm = (LEVEL * np.sin(2 * np.pi * pitch * np.arange(size) / RATE)).astype(np.float32)
        with timeline.measure(Stage.T3_DECODE):
            timeline.tokens += len(request.text)
            timeline.drafted += 10
            timeline.accepted += 4
        first, rest = pcm[: size // 4], pcm[size // 4 :]
        yield contract.AudioChunk(first, last=False)
        yield from held(self.hold, cancelled)
        yield contract.AudioChunk(rest)


@dataclass
class Shout(WarmAtOnce):
    """Translates by writing capitals, a word a step, all sentences of a batch together. Words decide how it behaves."""

    languages: tuple[str, ...] = (
        "eng_Latn", "fra_Latn", "spa_Latn", "deu_Latn", "zho_Hans", "zho_Hant", "jpn_Jpan", "arb_Arab", "heb_Hebr",
        "tha_Thai", "hin_Deva", "kor_Hang", "rus_Cyrl",
    )  # fmt: skip
    max_batch: int = 32
    gate: threading.Event = field(default_factory=threading.Event)
    batches: list[list[contract.TranslationRequest]] = field(default_factory=list)
    closed: int = 0

    @property
    def begun(self) -> list[str]:
        return [request.text for batch in self.batches for request in batch]

    def targets(self, source: str) -> list[str]:
        able = ("eng_Latn",) if source == "kor_Hang" else self.languages
        return [language for language in able if language != source]

    def check(self, request: contract.TranslationRequest) -> None:
        if "quark" in request.text:
            raise contract.OutsideCoverageError("'quark' is not in the phrase book")
        if len(request.text) > 550:
            raise contract.InputTooLongError("a sentence of more than 550 characters")
        if request.source == "kor_Hang" and request.target != "eng_Latn":
            raise contract.UnknownLanguageError("Korean is translated to English only")

    def translate(
        self, batch: Sequence[contract.TranslationRequest], timeline: Timeline, cancelled: Callable[[], bool]
    ) -> Iterator[contract.Translation | None]:
        assert 0 < len(batch) <= self.max_batch
        self.batches.append(list(batch))
        with timeline.measure(Stage.TRANSLATE_ENCODE):
            left = {index: request.text.split() for index, request in enumerate(batch)}
        step = 0
        try:
            while left:
                step += 1
                with timeline.measure(Stage.TRANSLATE_DECODE):
                    while any("gated" in words for words in left.values()) and not self.gate.wait(0.005):
                        if cancelled():
                            raise contract.Cancelled
                    if any("broken" in words for words in left.values()):
                        raise RuntimeError("a failure inside the model")
                    time.sleep(0.01 * any("slow" in words for words in left.values()))
                for index in [index for index, words in left.items() if len(words) <= step]:
                    yield self._translation(index, batch[index], len(left.pop(index)))
                if cancelled():
                    raise contract.Cancelled
                yield None
        finally:
            self.closed += 1

    @staticmethod
    def _translation(index: int, request: contract.TranslationRequest, words: int) -> contract.Translation:
        text = request.text.upper()
        if "forgetful" in request.text:
            text = "FORGOTTEN."
        others = tuple(
            contract.Hypothesis(f"{text[:-1]} {rank}{text[-1:]}", -1.0 - rank, (1,) * words)
            for rank in range(1, request.alternatives + 1)
        )
        score = -0.5 if request.beams > 1 else float("nan")
        return contract.Translation(index, contract.Hypothesis(text, score, (1,) * words), others, words + 2)


@dataclass
class Ear(WarmAtOnce):
    """Hears a segment of three words in each second that begins; words of the prompt decide how it behaves.

    The spoken language is English, and French where the prompt says so. It hears words in silence, too. `says` are its
    next answers, one a recording; an empty one hears nothing. `score` is that of every draft.
    """

    sample_rate: int = 16_000
    languages: tuple[str, ...] = ("en", "fr", "de", "jw", "zh")
    gate: threading.Event = field(default_factory=threading.Event)
    requests: list[contract.RecognitionRequest] = field(default_factory=list)
    says: list[str] = field(default_factory=list)
    score: float | None = None
    closed: int = 0

    def check(self, request: contract.RecognitionRequest) -> None:
        if request.language not in (None, *self.languages):
            raise contract.UnknownLanguageError(f"the language '{request.language}' is not known")
        if "endless" in request.prompt:
            raise contract.InputTooLongError("a prompt that is too long")

    def encode_text(self, text: str) -> tuple[int, ...]:
        return tuple(range(len(text.split())))

    def recognize(
        self, request: contract.RecognitionRequest, timeline: Timeline, cancelled: Callable[[], bool]
    ) -> Iterator[contract.RecognizedSegment | None]:
        self.requests.append(request)
        for start, end in request.parts or ((0, request.pcm.size),):
            part = replace(request, pcm=request.pcm[start:end])
            for segment in self._recognize(part, timeline, cancelled):
                yield None if segment is None else segment.moved(start / self.sample_rate)

    def _recognize(
        self, request: contract.RecognitionRequest, timeline: Timeline, cancelled: Callable[[], bool]
    ) -> Iterator[contract.RecognizedSegment | None]:
        with timeline.measure(Stage.MEL), timeline.measure(Stage.ENCODE):
            seconds = request.pcm.size / self.sample_rate
        if self.says:
            if text := self.says.pop(0):
                yield contract.RecognizedSegment(0.0, seconds, text, request.language or "en", draft_score=self.score)
            return
        try:
            for index in range(-(-request.pcm.size // self.sample_rate)):
                with timeline.measure(Stage.DECODE):
                    if "broken" in request.prompt and index == 1:
                        raise RuntimeError("a failure inside the model")
                    if index and "gated" in request.prompt:
                        yield from held(self.gate, cancelled)
                yield self._segment(request, index, min(seconds, index + 1.0))
        finally:
            self.closed += 1

    def _segment(self, request: contract.RecognitionRequest, index: int, end: float) -> contract.RecognizedSegment:
        language = request.language or ("fr" if "french" in request.prompt else "en")
        written = "en" if request.task == "translate" else language
        texts = [f" {written}", " second", f" {index}."]
        span = (end - index) / len(texts)
        words = tuple(
            contract.RecognizedWord(text, index + place * span, index + (place + 1) * span, 0.9)
            for place, text in enumerate(texts)
        )
        tokens = tuple(
            contract.RecognizedToken(place, text.encode(), -0.1 * (place + 1)) for place, text in enumerate(texts)
        )
        return contract.RecognizedSegment(
            start=float(index),
            end=end,
            text="".join(texts),
            language=language,
            tokens=tokens,
            words=words if request.word_times else (),
            temperature=request.temperature or 0.0,
            mean_logprob=-0.2,
            compression=1.25,
            no_speech=0.01,
            language_probability=1.0 if request.language else 0.75,
        )


@dataclass
class Scribe(WarmAtOnce):
    """Answers with the last message in capitals, or the next of `says`, a word a step. Words decide how it behaves."""

    context: int = 500
    takes_tools: bool = True
    sampling: contract.TokenSampling = field(default_factory=contract.TokenSampling)
    gate: threading.Event = field(default_factory=threading.Event)
    conversations: list[list[dict[str, Any]]] = field(default_factory=list)
    requests: list[contract.GenerationRequest] = field(default_factory=list)
    says: list[str] = field(default_factory=list)
    closed: int = 0

    def prompt(self, messages: Sequence[Any], tools: Sequence[Any] = (), *, reasoning: bool = False) -> tuple[int, ...]:
        self.conversations.append([dict(message) for message in messages])
        text = messages[-1]["content"]
        if "refused" in text:
            raise contract.ModelRequestError("roles must alternate")
        return tuple((("THINK " if reasoning else "") + text).encode())

    def check(self, request: contract.GenerationRequest) -> None:
        if len(request.prompt) >= self.context:
            raise contract.InputTooLongError(f"{len(request.prompt)} tokens; at most {self.context - 1} are accepted")

    def generate(
        self, request: contract.GenerationRequest, timeline: Timeline, cancelled: Callable[[], bool]
    ) -> Iterator[contract.GeneratedText | None]:
        self.requests.append(request)
        words = (self.says.pop(0) if self.says else bytes(request.prompt).decode().upper()).split()
        cached, room = 2, request.max_tokens
        try:
            for number, word in enumerate(words, 1):
                with timeline.measure(Stage.LLM_DECODE):
                    if word == "BROKEN":
                        raise RuntimeError("a failure inside the model")
                    if word == "GATED":
                        yield from held(self.gate, cancelled)
                if word == "THINK":
                    yield contract.GeneratedText("Well.", "reasoning", 1, cached)
                elif word == "CALL":
                    call = contract.ToolCall("clock", '{"city": "Zürich"}')
                    yield contract.GeneratedText("", tokens=1, tool_calls=(call,), finish_reason="tool_calls")
                    return
                else:
                    last = number in (len(words), room)
                    reason = ("length" if number == room else "stop") if last else None
                    drawn = contract.TokenLogprob(word.encode(), -0.5)
                    logprobs = () if request.logprobs is None else (replace(drawn, likeliest=(drawn,)),)
                    yield contract.GeneratedText(f"{word} ", "text", 1, cached, logprobs, (), reason)
                    if last:
                        return
                cached = 0
        finally:
            self.closed += 1


class IdleJob(ModelJob[Any]):
    """A job that does nothing."""

    def begin(self) -> Iterator[None]:
        return iter(())
