"""Identification of the language of a text: by its script if that decides, else by the model of py3langid.

py3langid is naive Bayes over byte n-grams, 139 languages, with its model in its wheel. It was compared with fastText's
lid.176.ftz and with lingua on short sentences of 50 languages. It knows more of them (African ones, Galician), its
confidence is low where it is wrong, and it needs no network library. It takes about 0.7 s to load: call `warm` early.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from app.errors import UnsupportedLanguageError
from app.text.scripts import count_scripts, language_by_script
from app.text.word_sets import read_rows, word_set
from app.translation.text.codes import FLORES, resolve

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_SAMPLE: Final = 2000
"""Characters that are read. More do not raise the confidence, and the cost is bounded."""

# Text that does not depend on the language.
_NOISE: Final = re.compile(r"(?:https?://|www\.)\S{1,2000}|\S{1,100}@\S{1,100}|[\d_]+")

_ROWS: Final = read_rows(Path(__file__).with_name("identify.tsv"))
_LABELS: Final = {label: None if language == "-" else language for label, language in _ROWS["label"]}
_PRIOR: Final = {language: float(prior) for prior, languages in _ROWS["prior"] for language in languages.split()}
_PRIOR_OF_OTHERS: Final = 0.3
_EVERYDAY_WORDS: Final = {language: word_set(words) for language, words in _ROWS["everyday"]}
_EVERYDAY_WEIGHT: Final = 0.3
_WORD: Final = re.compile(r"[^\W\d_](?:[\w\u0900-\u0dff])*")
_loading: Final = Lock()
_SCRIPTS: Final = {"Latn", "Cyrl", "Arab", "Deva"}


@dataclass(frozen=True, slots=True)
class LanguageGuess:
    """Possible language of a text: FLORES-200 code, and confidence in [0, 1]."""

    language: str
    confidence: float


def identify(text: str, limit: int = 1) -> list[LanguageGuess]:
    """Return one to `limit` guesses, the best first. Never raises. Thread-safe.

    Confidence is low for a single word or a language that FLORES-200 lacks, and 0.0 for only digits or symbols.
    Only the first 2000 characters count.
    """
    sample = _NOISE.sub(" ", text[: 4 * _SAMPLE])[:_SAMPLE]
    counts = count_scripts(sample)
    total = counts.total()
    if not total:
        return [LanguageGuess("eng_Latn", 0.0)]
    decided = language_by_script(sample, counts)
    if decided is None:
        return _by_model(sample, counts.most_common(1)[0][0], limit)
    language, share = decided
    confidence = share * (1 - 0.5**total)
    guesses = [LanguageGuess(language, confidence)]
    if language in {"zho_Hans", "zho_Hant"} and total < 20:
        # A few Chinese characters may be a Japanese name.
        guesses = [LanguageGuess(language, 0.8 * confidence), LanguageGuess("jpn_Jpan", 0.2 * confidence)]
    return guesses[:limit]


def _by_model(sample: str, script: str, limit: int) -> list[LanguageGuess]:
    identifier = _identifier()
    weighted: dict[str, float] = {}
    everything = 0.0
    for label, probability in identifier.rank(sample.lower()):
        prior, language = _reading(label, script)
        weight = probability * prior
        everything += weight  # languages that FLORES-200 lacks also lower the confidence of the others
        if language is not None:
            weighted[language] = weighted.get(language, 0.0) + weight
    for language in _everyday(sample):
        weighted[language] = weighted.get(language, 0.0) + _EVERYDAY_WEIGHT * _PRIOR.get(language, 1.0)
        everything += _EVERYDAY_WEIGHT * _PRIOR.get(language, 1.0)
    best = sorted(weighted.items(), key=lambda item: -item[1])[:limit]
    if not best or everything <= 0.0:
        return [LanguageGuess("eng_Latn", 0.0)]
    # A few letters prove nothing, even if the model is sure.
    ceiling = min(1.0, sum(map(str.isalpha, sample)) / 8)
    return [LanguageGuess(language, min(ceiling, weight / everything)) for language, weight in best]


def _everyday(sample: str) -> list[str]:
    """Return the languages to whose everyday words all words of a very short text belong."""
    words = _WORD.findall(sample[:60].lower())
    if not 0 < len(words) <= 3 or len(sample) > 60:
        return []
    return [language for language, known in _EVERYDAY_WORDS.items() if known.issuperset(words)]


@lru_cache(maxsize=1 << 12)
def _reading(label: str, script: str) -> tuple[float, str | None]:
    """Return the prior of a label, and its language if FLORES-200 has it and `script` may write it."""
    language = _flores(label)
    if language is None:
        return _PRIOR_OF_OTHERS, None
    own = language.partition("_")[2]
    written = own == script or script not in _SCRIPTS or (language == "srp_Cyrl" and script == "Latn")
    return _PRIOR.get(language, 1.0), language if written else None


def _flores(label: str) -> str | None:
    if label in _LABELS:
        return _LABELS[label]
    try:
        return resolve(label, FLORES)
    except UnsupportedLanguageError:
        return None


def _identifier() -> LanguageIdentifier:
    with _loading:  # else two threads may load it twice
        return _load()


@lru_cache(maxsize=1)
def _load() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def warm() -> None:
    """Load the model, so that the first text does not wait for it."""
    identify("The weather is nice today.")
