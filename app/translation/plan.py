"""Plan of a translation request: its options, checked, and its texts, cut into sentences.

Models translate one sentence at a time and lose the rest, so texts are split. The sentences of all texts of a request
go through the model in batches; equal sentences go once.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from app import errors
from app.engine.service_errors import service_error
from app.translation.text import codes
from app.translation.text.document import SegmentedDocument
from app.translation.text.glossary import Glossary, Protected
from app.translation.text.identify import LanguageGuess, identify
from models.contract import ModelRequestError, TranslationRequest, Translator
from models.timeline import Stage, Timeline

Format = Literal["text", "markdown", "html"]

MAX_BEAMS = 8
MAX_ALTERNATIVES = MAX_BEAMS - 1
# Least confidence at which a detected language is taken.
SURE = 0.2
# Guesses to consider, and to name if none is sure.
GUESSES = 5
# Characters of a text from which its language is detected.
SAMPLE = 2_000
# Characters of a sentence that an error quotes.
QUOTED = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationOptions:
    """Options of one request. `source` None or "auto": detect the language of each text by itself.

    `beams` in [1, 8]; `alternatives` in [0, 7] further translations, for which the beams are raised if they are too
    few. `glossary` maps terms of the source to their translations. With `best_guess` the likeliest language is taken,
    however unsure it is.
    """

    target: str
    source: str | None = None
    model: str | None = None
    beams: int = 1
    alternatives: int = 0
    glossary: Mapping[str, str] = field(default_factory=dict)
    format: Format = "text"
    best_guess: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """A loaded model and the FLORES-200 code it translates to."""

    model: str
    translator: Translator
    target: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another translation. `score`: mean log-probability per token, None where it was not computed."""

    text: str
    score: float | None


@dataclass(frozen=True, slots=True)
class PlannedText:
    """One text of a request. `language` is a FLORES-200 code, None for a text without words.

    `confidence` in [0, 1] is None if the language was given. `document` is None for a text that stays as it is.
    """

    text: str
    language: str | None
    confidence: float | None
    document: SegmentedDocument | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that was checked against a loaded model. `draft`: tokens that may begin its first translation.

    `protected`: every sentence with its terms and addresses protected, by language and text.
    """

    route: Route
    options: TranslationOptions
    beams: int
    texts: tuple[PlannedText, ...]
    glossary: Glossary
    protected: Mapping[tuple[str, str], Protected]
    draft: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TranslatedSentence:
    """Sentence `index` of text `text_index`, translated `seconds` after the request's arrival."""

    text_index: int
    index: int
    source: str
    translation: Alternative
    alternatives: tuple[Alternative, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class TranslatedText:
    """One text of the request, translated. `source` and `confidence` as in PlannedText."""

    text: str
    source: str | None
    confidence: float | None
    alternatives: tuple[Alternative, ...]


def make_plan(
    texts: Sequence[str], route: Route, source: str | None, options: TranslationOptions, timeline: Timeline
) -> Generator[None, None, Plan]:
    """Take `texts` apart and check every sentence with the model, before anything is computed.

    Returns the plan at the end; each step takes little time, so that others have their turns between. `source` is a
    FLORES-200 code, or None: the language of each text is detected. Raises LanguageNotDetectedError,
    UnsupportedLanguageError, OutsideCoverageError, TextTooLongError and InvalidRequestError.
    """
    glossary = Glossary(options.glossary)
    languages: Sequence[tuple[str | None, float | None]] = [(source, None)] * len(texts)
    if source is None:
        with timeline.measure(Stage.DETECT):
            languages = yield from _detect(texts, route.translator, options)
    planned = []
    for text, (language, confidence) in zip(texts, languages, strict=True):
        document = None
        # A text without words, or in the target language already, stays as it is.
        if text.strip() and language is not None and language != route.target:
            document = yield from SegmentedDocument.parsing(text, language, options.format)
        planned.append(PlannedText(text, language, confidence, document))
        yield
    plan = Plan(route, options, max(options.beams, options.alternatives + 1), tuple(planned), glossary, {})
    return replace(plan, protected=(yield from _check(plan)))


def _check(plan: Plan) -> Generator[None, None, dict[tuple[str, str], Protected]]:
    seen: dict[tuple[str, str], Protected] = {}
    for number, planned in enumerate(plan.texts):
        if planned.document is None or planned.language is None:
            continue
        for segment in planned.document.segments:
            yield
            if (planned.language, segment.text) in seen:
                continue
            protected = seen[planned.language, segment.text] = plan.glossary.protect(segment.text)
            try:
                plan.route.translator.check(request_for(plan, protected.text, planned.language))
            except ModelRequestError as error:
                of = f" of text {number}" if len(plan.texts) > 1 else ""
                prefix = f"Sentence {quote(segment.shown(segment.text))}{of}: "
                told = type(error)(segment.shown(protected.shown(str(error))))
                raise service_error(told, prefix, text_param="text") from error
    return seen


def request_for(plan: Plan, text: str, language: str) -> TranslationRequest:
    """Return the model's request for one sentence."""
    return TranslationRequest(text, language, plan.route.target, plan.beams, plan.options.alternatives)


def _detect(
    texts: Sequence[str], translator: Translator, options: TranslationOptions
) -> Generator[None, None, list[tuple[str | None, float | None]]]:
    """Return the language of each text and its confidence; (None, None) for a text without words."""
    samples = []
    for text in texts:
        samples.append(_sample(text, options.format))
        yield
    result: list[tuple[str | None, float | None]] = []
    of_all: LanguageGuess | None = None
    for text, sample in zip(texts, samples, strict=True):
        yield
        if not any(map(str.isalpha, sample)):
            result.append((None, None))
            continue
        guesses = identify(sample, GUESSES)
        best = next((guess for guess in guesses if guess.language in translator.languages), None)
        if best is not None and best.confidence < SURE and len(texts) > 1:
            # One word says little of its language, all texts together say more.
            if of_all is None:
                of_all = identify(" ".join(samples)[: 2 * SAMPLE])[0]
            if of_all.language in translator.languages and of_all.confidence >= SURE:
                best = of_all
        if best is None or (best.confidence < SURE and not options.best_guess):
            raise _not_detected(text, guesses, best, translator)
        result.append((best.language, best.confidence))
    return result


def _sample(text: str, text_format: Format) -> str:
    """Return the beginning of `text` without its markup."""
    if text_format == "text":
        return text[:SAMPLE]
    words: list[str] = []
    size = 0
    for segment in SegmentedDocument.parse(text[: 20 * SAMPLE], "eng_Latn", text_format).segments:
        words.append(segment.text)
        size += len(segment.text)
        if size > SAMPLE:
            break
    return " ".join(words)


def _not_detected(
    text: str, guesses: Sequence[LanguageGuess], best: LanguageGuess | None, translator: Translator
) -> errors.InvalidRequestError:
    considered = ", ".join(f"{codes.name(guess.language)} ({guess.confidence:.2f})" for guess in guesses)
    if best is None and guesses[0].confidence >= SURE:
        known = ", ".join(codes.name(code) for code in list(translator.languages)[:6])
        return errors.UnsupportedLanguageError(
            f"{quote(text)} seems to be in a language that this model does not translate: {considered}. It knows "
            f"{known}{' and others' if len(translator.languages) > 6 else ''}; name the language in 'source' if it is "
            "one of them.",
            param="source",
        )
    return errors.LanguageNotDetectedError(
        f"The language of {quote(text)} cannot be told; considered were {considered}. Name it in 'source'."
    )


def quote(text: str) -> str:
    """Return the beginning of a client's text, quoted, for an error about it."""
    short = " ".join(text[: 2 * QUOTED].split())
    return f"'{short}'" if len(short) <= QUOTED else f"'{short[:QUOTED]}…'"
