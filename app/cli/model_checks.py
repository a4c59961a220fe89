"""Checks and timings of the installed models in this process, for `nightingale doctor`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import soxr

from app.cli.local import LocalSpeech, open_speech
from app.config import Settings
from app.engine.catalog import Catalog, ModelInfo
from app.engine.jobs import CancelToken, ModelJob
from app.errors import ServiceError
from app.speech.options import SpeechOptions
from app.speech.verification import compare, spoken_words
from app.text.planner import get_phonemizer
from models.contract import (
    AudioChunk,
    ModelError,
    OutsideCoverageError,
    Pcm,
    RecognitionRequest,
    RecognizedSegment,
    Recognizer,
    Sampling,
    TokenSynthesizer,
    TranslationRequest,
    Translator,
)
from models.timeline import Stage, Timeline

MAX_RUNS = 50
# Seconds of noise that recognizers hear.
NOISE_SECONDS = 3.0
TOKENS = 102  # about four seconds of speech, the length of published figures
# Texts of 4, 12 and 44 characters, the lengths of published figures; the others are only spoken and checked.
TIMED = ("Yes.", "Hello world.", "The quick brown fox jumps over the lazy dog.")
CHECK_SENTENCES = ("On 3 May, 12 of 45 people paid $7.50 each.", "Is the train on time, or is it late again?")
# NLLB reads 16 tokens of the first. The phrase book knows only the second.
TRANSLATED = ("The weather is fine today, and the train leaves in the morning.", "Where is the train station?")
# Each English voice says this, and a recognizer hears it.
CHECK_SENTENCE = "The train to the city leaves in ten minutes."
MIN_LEVEL_DB, MAX_PEAK = -40.0, 0.999
MIN_SECONDS_PER_CHARACTER, MAX_SECONDS_PER_CHARACTER = 0.02, 0.5
"""Seconds of speech for each character of a text."""


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of the runs of some work in one model, and what it yielded. `unit` names what `amount` counts.

    `work` names the work, such as "12 characters". `token` is the time of each token, `first_audio` the median time to
    the first piece of audio, where they differ.
    """

    work: str
    first: float
    median: float
    worst: float
    runs: int
    amount: float
    unit: str
    token: float | None = None
    first_audio: float | None = None


@dataclass(frozen=True, slots=True)
class HeardVoice:
    """Words that a recognizer heard a voice say: `errors` of `words` are not those of CHECK_SENTENCE."""

    voice: str
    text: str
    words: int
    errors: int


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """Result of one model: seconds to load, times, problems in words, and what its voices were heard to say."""

    model: str
    load: float
    times: tuple[Times, ...]
    problems: tuple[str, ...]
    heard: tuple[HeardVoice, ...] = ()


def check_models(settings: Settings, seconds: float, progress: Callable[[str], None]) -> list[ModelCheck]:
    """Load, try and time each installed model, for about `seconds` in all, loading not counted."""
    catalog = Catalog(settings)
    installed = [model for model in catalog.models() if model.status == "ready"]
    result = []
    ear = _Ear(catalog)
    for model in installed:
        progress(model.name)
        result.append(_checked(catalog, settings, model, seconds / len(installed), ear))
    return result


class _Ear:
    """The recognizer of requests that name none, loaded when a voice is first heard. It stays on this thread."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._recognizer: Recognizer | None = None
        name = catalog.default_recognizer()
        self.name = name if name is not None and catalog.present(name) else None

    def judges(self, model: str) -> bool:
        """Return whether words that the recognizer gets wrong are the fault of a voice of `model`.

        The bundled recognizer only knows the bundled voices: of other models it cannot tell.
        """
        return self.name is not None and self._catalog.judges(self.name, model)

    def hear(self, voice: str, pcm: Pcm, rate: int) -> HeardVoice | None:
        """Return what the recognizer hears in CHECK_SENTENCE, float32 [samples]; None: it does not know English."""
        if self.name is None:
            return None
        if self._recognizer is None:
            recognizer = self._catalog.load(self.name)
            assert isinstance(recognizer, Recognizer)  # noqa: S101  (the catalog says so)
            self._recognizer = recognizer
        one = self._recognizer
        if "en" not in one.languages:
            return None
        sound = np.asarray(soxr.resample(pcm, rate, one.sample_rate), np.float32)
        items = one.recognize(RecognitionRequest(sound, "en", temperature=0.0), Timeline(), lambda: False)
        text = "".join(item.text for item in items if item is not None).strip()
        phonemizer = get_phonemizer("en-us")
        result = compare(spoken_words(CHECK_SENTENCE, phonemizer), spoken_words(text, phonemizer))
        return HeardVoice(voice, text, result.words, result.errors)


def _checked(catalog: Catalog, settings: Settings, model: ModelInfo, seconds: float, ear: _Ear) -> ModelCheck:
    found = catalog.verify(model.name)
    check = _tried(catalog, settings, model, seconds, ear)
    # A checkpoint that somebody put there is no fault, if it works.
    if not found.wrong or (found.foreign and not check.problems):
        return check
    shown = ", ".join(f"{file.path} ({file.state})" for file in found.wrong[:3])
    more = "; ".join(("", *(problem.removeprefix(f"{model.name}: ") for problem in check.problems)))
    problem = (
        f"{model.name}: {len(found.wrong)} files are not as pinned, such as {shown}{more}: nightingale models verify"
    )
    return replace(check, problems=(f"{problem} {model.name}",))


def _tried(catalog: Catalog, settings: Settings, model: ModelInfo, seconds: float, ear: _Ear) -> ModelCheck:
    try:
        if model.kind == "translation":
            return _check_translator(catalog, model.name, seconds)
        if model.kind == "speech-recognition":
            return check_recognizer(catalog, model.name, seconds)
        check, said = asyncio.run(_check_synthesizer(settings, model.name, seconds, speaks=ear.judges(model.name)))
        heard = tuple(found for voice, pcm, rate in said if (found := ear.hear(voice, pcm, rate)) is not None)
        lost = [one for one in heard if one.errors > one.words / 2]
        problems = (
            f"{model.name}: {ear.name} hears voice {one.voice} say '{one.text}', not '{CHECK_SENTENCE}'" for one in lost
        )
        return replace(check, problems=(*check.problems, *problems), heard=heard)
    except (ServiceError, ModelError) as error:
        return ModelCheck(model.name, 0.0, (), (f"{model.name}: {error}",))
    except Exception as error:  # the report is wanted most where something is broken
        return ModelCheck(model.name, 0.0, (), (f"{model.name}: {type(error).__name__}: {error}",))


async def _check_synthesizer(
    settings: Settings, name: str, seconds: float, *, speaks: bool
) -> tuple[ModelCheck, list[tuple[str, Pcm, int]]]:
    """Return the check and, if `speaks`, CHECK_SENTENCE by each English voice, with its sample rate."""
    started = time.perf_counter()
    async with open_speech(settings, name) as speech:
        load = time.perf_counter() - started
        times, problems = [], []
        forced = isinstance(speech.synthesizer, TokenSynthesizer)
        share = seconds / (len(TIMED) + forced)
        for text in (*TIMED, *CHECK_SENTENCES):
            most, until = (MAX_RUNS, time.perf_counter() + share) if text in TIMED else (1, 0.0)
            first, timeline = await _speak(speech, text)
            problems += [f"{name}: '{text}' {fault}" for fault in faults(first, speech.synthesizer.sample_rate, text)]
            runs = [timeline.total_seconds * 1e3]
            while len(runs) <= most and time.perf_counter() < until:
                again, timeline = await _speak(speech, text)
                runs.append(timeline.total_seconds * 1e3)
                if not np.array_equal(again, first):
                    problems.append(f"{name}: '{text}' is another sound when it is spoken again")
                    break
            if text in TIMED:
                times.append(_times(f"{len(text)} characters", runs, timeline.audio_seconds, "s", _token(timeline)))
        if forced:
            times.append(await _force_tokens(speech, share))
        voices = [one.id for one in speech.synthesizer.voices if speaks and one.language.startswith("en")]
        said = [
            (voice, (await _speak(speech, CHECK_SENTENCE, voice))[0], speech.synthesizer.sample_rate)
            for voice in voices
        ]
    return ModelCheck(name, load, tuple(times), tuple(problems)), said


async def _speak(speech: LocalSpeech, text: str, voice: str | None = None) -> tuple[Pcm, Timeline]:
    timeline = Timeline()
    options = SpeechOptions(model=speech.name, voice=voice, seed=1)
    pieces = [pcm async for pcm in speech.speak(text, options, timeline)]
    return np.concatenate(pieces or [np.zeros(0, np.float32)]), timeline


class _ForcedJob(ModelJob[AudioChunk]):
    """Speech of exactly TOKENS tokens."""

    room = TOKENS

    def __init__(self, model: str, synthesizer: TokenSynthesizer) -> None:
        super().__init__(model, Timeline(), CancelToken())
        self._synthesizer = synthesizer

    def begin(self) -> Iterator[AudioChunk | None]:
        return self._synthesizer.forced(TIMED[-1], TOKENS, Sampling(), 1, self.timeline)


async def _force_tokens(speech: LocalSpeech, seconds: float) -> Times:
    """Time the speech of TOKENS tokens, and its first audio."""
    assert isinstance(speech.synthesizer, TokenSynthesizer)  # noqa: S101  (the caller knows)
    runs: list[float] = []
    firsts: list[float] = []
    for _ in _rounds(runs, seconds):
        job = _ForcedJob(speech.name, speech.synthesizer)
        start = time.perf_counter()
        ends, samples = [], 0
        async for chunk in speech.worker.submit(job):
            ends.append((time.perf_counter() - start) * 1e3)
            samples += chunk.pcm.size
        firsts.append(ends[0])
    audio = samples / speech.synthesizer.sample_rate
    first_audio = median(firsts[1:] or firsts)
    return _times(f"{TOKENS} speech tokens", runs, audio, "s", _token(job.timeline), first_audio)


def _token(timeline: Timeline) -> float | None:
    """Return the milliseconds for each speech token; None for a model without."""
    if not timeline.tokens:
        return None
    stages = (Stage.T3_PREFILL, Stage.T3_DECODE)
    return sum(timeline.stages.get(stage, 0.0) for stage in stages) * 1e3 / timeline.tokens


def faults(pcm: Pcm, sample_rate: int, text: str) -> list[str]:
    """Return what is wrong with the sound of `text`, in words; empty where nothing is."""
    if not pcm.size:
        return ["has no sound"]
    if not np.isfinite(pcm).all():
        return ["has numbers that are not finite"]
    result = []
    level = 10 * np.log10(float(np.mean(np.square(pcm, dtype=np.float64))) + 1e-12)
    if level < MIN_LEVEL_DB:
        result.append(f"is almost silent ({level:.0f} dBFS)")
    if float(np.abs(pcm).max()) > MAX_PEAK:
        result.append("is clipped")
    seconds = pcm.size / sample_rate
    if not MIN_SECONDS_PER_CHARACTER * len(text) < seconds < MAX_SECONDS_PER_CHARACTER * len(text) + 1:
        result.append(f"takes {seconds:.1f} s for {len(text)} characters")
    return result


def _check_translator(catalog: Catalog, name: str, seconds: float) -> ModelCheck:
    started = time.perf_counter()
    translator = catalog.load(name)
    assert isinstance(translator, Translator)  # noqa: S101  (the catalog says so)
    load = time.perf_counter() - started
    target = next(code for code in ("fra_Latn", *translator.languages) if code in translator.targets("eng_Latn"))
    for text in TRANSLATED:
        runs: list[float] = []
        request = TranslationRequest(text, "eng_Latn", target)
        try:
            translator.check(request)
            for _ in _rounds(runs, seconds):
                each = translator.translate([request], Timeline(), lambda: False)
                (found,) = (translation for translation in each if translation is not None)
        except OutsideCoverageError:
            continue
        made = len(found.best.tokens)
        work = f"{found.source_tokens} to {made} tokens"
        return ModelCheck(name, load, (_times(work, runs, made, "tokens", median(runs[1:] or runs) / made),), ())
    return ModelCheck(name, load, (), (f"{name}: translates none of the {len(TRANSLATED)} sentences",))


def check_recognizer(catalog: Catalog, name: str, seconds: float) -> ModelCheck:
    """Load a recognizer and time it, for about `seconds`, on noise: it may write anything, but always the same."""
    started = time.perf_counter()
    recognizer = catalog.load(name)
    assert isinstance(recognizer, Recognizer)  # noqa: S101  (the catalog says so)
    load = time.perf_counter() - started
    noise = 0.05 * np.random.default_rng(0).standard_normal(round(NOISE_SECONDS * recognizer.sample_rate))
    request = RecognitionRequest(noise.astype(np.float32), recognizer.languages[0], temperature=0.0)
    runs: list[float] = []
    found: list[list[RecognizedSegment]] = []
    for _ in _rounds(runs, seconds, least=2):
        items = recognizer.recognize(request, Timeline(), lambda: False)
        found.append([item for item in items if item is not None])
    same = all(each == found[0] for each in found)
    problems = () if same else (f"{name}: hears something else in the same sound",)
    return ModelCheck(name, load, (_times(f"{NOISE_SECONDS:g} s of noise", runs, NOISE_SECONDS, "s"),), problems)


def _rounds(runs: list[float], seconds: float, least: int = 1) -> Iterator[None]:
    """Yield for each run of some work, and add its milliseconds to `runs`, until `seconds` or MAX_RUNS are over."""
    until = time.perf_counter() + seconds
    while len(runs) < least or (len(runs) <= MAX_RUNS and time.perf_counter() < until):
        start = time.perf_counter()
        yield
        runs.append((time.perf_counter() - start) * 1e3)


def _times(
    work: str,
    runs: Sequence[float],
    amount: float,
    unit: str,
    token: float | None = None,
    first_audio: float | None = None,
) -> Times:
    warm = runs[1:] or runs
    return Times(work, runs[0], median(warm), max(warm), len(warm), amount, unit, token, first_audio)
