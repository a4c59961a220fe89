"""Identification of the language of a text: by its script if that decides, else by the model of py3langid.

py3langid is naive Bayes over byte n-grams, 139 languages, with its model in its wheel. It was compared with fastText's
lid.176.ftz and with lingua on short sentences of 50 languages. It knows more of them (African ones, Galician), its
confidence is low where it is wrong, and it needs no network library. It takes about 0.7 s to load: call `warm` early.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Final

from app.errors import UnsupportedLanguageError
from app.text.scripts import count_scripts, language_by_script
from app.translation.text.codes import FLORES, resolve

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_SAMPLE: Final = 2000
"""Characters that are read. More do not raise the confidence, and the cost is bounded."""

# Text that does not depend on the language.
_NOISE: Final = re.compile(r"(?:https?://|www\.)\S{1,2000}|\S{1,100}@\S{1,100}|[\d_]+")

# Labels of py3langid that are not the ISO 639 code of the FLORES-200 language. None: FLORES-200 lacks the language.
_LABELS: Final[dict[str, str | None]] = {
    "no": "nob_Latn", "sdh": "ckb_Arab", "gug": "grn_Latn", "uzs": None, "pcm": "eng_Latn",
}  # fmt: skip

# Prior of a language, relative to the average. It decides for single words and for close relatives.
_PRIOR: Final = {
    "eng_Latn": 4.0,
    **dict.fromkeys(
        ("spa_Latn", "fra_Latn", "deu_Latn", "rus_Cyrl", "arb_Arab", "por_Latn", "ita_Latn", "hin_Deva"), 2.5
    ),
    **dict.fromkeys(("nld_Latn", "pol_Latn", "tur_Latn", "pes_Arab", "vie_Latn", "ukr_Cyrl", "ron_Latn"), 1.5),
    **dict.fromkeys(("ind_Latn", "hrv_Latn", "srp_Cyrl", "swe_Latn", "swh_Latn", "tgl_Latn", "nob_Latn"), 1.2),
    **dict.fromkeys(("arz_Arab", "ary_Arab", "san_Deva", "crh_Latn", "ltg_Latn", "lij_Latn", "vec_Latn"), 0.3),
    "bos_Latn": 0.7,
}
_PRIOR_OF_OTHERS: Final = 0.3
# Words that are often sent alone and too short for n-grams.
_EVERYDAY: Final = {
    "eng_Latn": "hello hi yes no please thanks thank you good morning evening night goodbye bye sorry ok okay",
    "spa_Latn": "hola sí si no gracias por favor buenos días buenas tardes noches adiós perdón",
    "fra_Latn": "bonjour salut oui non merci bonsoir bonne nuit au revoir pardon",
    "deu_Latn": "hallo ja nein danke bitte guten tag morgen abend gute nacht tschüss entschuldigung",
    "ita_Latn": "ciao sì si no grazie prego buongiorno buonasera buonanotte arrivederci scusa come stai va",
    "por_Latn": "olá oi sim não obrigado obrigada bom dia boa tarde noite adeus desculpe por favor",
    "nld_Latn": "hallo hoi ja nee dank je bedankt goedemorgen goedenavond dag alsjeblieft",
    "swe_Latn": "hej ja nej tack god morgon natt förlåt",
    "pol_Latn": "cześć tak nie dziękuję proszę dzień dobry dobranoc przepraszam",
    "tgl_Latn": "kumusta ka salamat oo hindi paalam",
    "rus_Cyrl": "привет да нет спасибо пожалуйста здравствуйте доброе утро пока",
    "ukr_Cyrl": "привіт так ні дякую ласка добрий день",
    "bul_Cyrl": "здравей да не благодаря моля как си",
    "hin_Deva": "नमस्ते हाँ नहीं धन्यवाद",
    "arb_Arab": "مرحبا نعم لا شكرا السلام عليكم",
}
_EVERYDAY_WORDS: Final = {language: frozenset(words.split()) for language, words in _EVERYDAY.items()}
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


def _may_be_written(language: str, script: str) -> bool:
    own = language.partition("_")[2]
    return own == script or script not in _SCRIPTS or (language == "srp_Cyrl" and script == "Latn")


@lru_cache(maxsize=1 << 12)
def _reading(label: str, script: str) -> tuple[float, str | None]:
    """Return the prior of a label, and its language if FLORES-200 has it and `script` may write it."""
    language = _flores(label)
    if language is None:
        return _PRIOR_OF_OTHERS, None
    return _PRIOR.get(language, 1.0), language if _may_be_written(language, script) else None


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
