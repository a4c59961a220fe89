"""From the texts of a translation request to sentences for a model, and from its translations back to texts.

Models translate one sentence at a time and lose the rest of what they are given, so texts are split. The sentences of
all texts of a request go through the model together, in batches; equal ones go once.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from app import errors
from app.engine.service_errors import as_service_errors
from app.translation.text import codes
from app.translation.text.document import Document
from app.translation.text.glossary import Glossary, Protected
from app.translation.text.identify import Guess, identify
from models.contract import TranslationRequest, Translator
from models.timeline import Stage, Timeline

Format = Literal["text", "markdown", "html"]

MAX_BEAMS = 8
MAX_ALTERNATIVES = MAX_BEAMS - 1
# Below this confidence a language is not taken for granted.
SURE = 0.2
# Guesses to consider, and to name when none is sure.
GUESSES = 5
# Characters of a text that its language is told from.
SAMPLE = 2_000
# Characters of a sentence that an error quotes.
QUOTED = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationOptions:
    """How to translate. `source` None or "auto": detect it, for each text by itself.

    `beams` in [1, 8]; `alternatives` in [0, 7] further translations, for which the beams are raised if they are too
    few. `glossary` maps terms of the source to what must stand for them. With `best_guess` the likeliest language is
    taken, however unsure it is.
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
    """One text of a request. `language` is a FLORES-200 code, None where nothing has one.

    `confidence` in [0, 1] is None where the language was given. `document` is None for what stays as it is.
    """

    text: str
    language: str | None
    confidence: float | None
    document: Document | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that was checked against a loaded model. `draft`: tokens that may begin its first sentence's.

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
    """Sentence `index` of text `text_index`; `seconds` after the request's arrival it was there."""

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
    """Take `texts` apart and have the model say what it cannot do, before anything is computed.

    Returns the plan after steps that take little time each, so that others have their turns between. `source` is a
    FLORES-200 code, or None: the language of each text is detected. Raises LanguageNotDetectedError,
    UnsupportedLanguageError, OutsideCoverageError, TextTooLongError and InvalidRequestError.
    """
    with as_service_errors():
        glossary = Glossary(options.glossary)
    languages: Sequence[tuple[str | None, float | None]] = [(source, None)] * len(texts)
    if source is None:
        with timeline.measure(Stage.DETECT):
            languages = yield from _detect(texts, route.translator, options)
    planned = []
    for text, (language, confidence) in zip(texts, languages, strict=True):
        document = None
        # Nothing to say in a language, or said in the right one already.
        if text.strip() and language is not None and language != route.target:
            document = yield from Document.parsing(text, language, options.format)
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
            of = f" of text {number}" if len(plan.texts) > 1 else ""
            with as_service_errors(f"Sentence {quote(segment.text)}{of}: ", text_param="text"):
                plan.route.translator.check(request_for(plan, protected.text, planned.language))
    return seen


def request_for(plan: Plan, text: str, language: str) -> TranslationRequest:
    """One sentence as the model is asked for it."""
    return TranslationRequest(text, language, plan.route.target, plan.beams, plan.options.alternatives)


def _detect(
    texts: Sequence[str], translator: Translator, options: TranslationOptions
) -> Generator[None, None, list[tuple[str | None, float | None]]]:
    """The language of each text and how sure that is; (None, None) for a text without words."""
    samples = []
    for text in texts:
        samples.append(_sample(text, options.format))
        yield
    found: list[tuple[str | None, float | None]] = []
    together: Guess | None = None
    for text, sample in zip(texts, samples, strict=True):
        yield
        if not any(map(str.isalpha, sample)):
            found.append((None, None))
            continue
        guesses = identify(sample, GUESSES)
        best = next((guess for guess in guesses if guess.language in translator.languages), None)
        if best is not None and best.confidence < SURE and len(texts) > 1:
            # A word tells little by itself, and much beside the others of its list.
            if together is None:
                together = identify(" ".join(samples)[: 2 * SAMPLE])[0]
            if together.language in translator.languages and together.confidence >= SURE:
                best = together
        if best is None or (best.confidence < SURE and not options.best_guess):
            raise _not_detected(text, guesses, best, translator)
        found.append((best.language, best.confidence))
    return found


def _sample(text: str, text_format: Format) -> str:
    """The beginning of what a reader sees of `text`."""
    if text_format == "text":
        return text[:SAMPLE]
    words: list[str] = []
    size = 0
    for segment in Document.parse(text[: 20 * SAMPLE], "eng_Latn", text_format).segments:
        words.append(segment.text)
        size += len(segment.text)
        if size > SAMPLE:
            break
    return " ".join(words)


def _not_detected(
    text: str, guesses: Sequence[Guess], best: Guess | None, translator: Translator
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
    """The beginning of a client's text, for an error about it."""
    short = " ".join(text[: 2 * QUOTED].split())
    return f"'{short}'" if len(short) <= QUOTED else f"'{short[:QUOTED]}…'"
