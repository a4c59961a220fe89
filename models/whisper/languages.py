"""Languages that Whisper knows, in the order of their tokens, and the names by which requests may call them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from models.contract import UnknownLanguageError

# Code -> name in English. Models before large-v3 know all but the last.
# fmt: off
LANGUAGES = {
    "en": "english", "zh": "chinese", "de": "german", "es": "spanish", "ru": "russian", "ko": "korean",
    "fr": "french", "ja": "japanese", "pt": "portuguese", "tr": "turkish", "pl": "polish", "ca": "catalan",
    "nl": "dutch", "ar": "arabic", "sv": "swedish", "it": "italian", "id": "indonesian", "hi": "hindi",
    "fi": "finnish", "vi": "vietnamese", "he": "hebrew", "uk": "ukrainian", "el": "greek", "ms": "malay",
    "cs": "czech", "ro": "romanian", "da": "danish", "hu": "hungarian", "ta": "tamil", "no": "norwegian",
    "th": "thai", "ur": "urdu", "hr": "croatian", "bg": "bulgarian", "lt": "lithuanian", "la": "latin",
    "mi": "maori", "ml": "malayalam", "cy": "welsh", "sk": "slovak", "te": "telugu", "fa": "persian",
    "lv": "latvian", "bn": "bengali", "sr": "serbian", "az": "azerbaijani", "sl": "slovenian", "kn": "kannada",
    "et": "estonian", "mk": "macedonian", "br": "breton", "eu": "basque", "is": "icelandic", "hy": "armenian",
    "ne": "nepali", "mn": "mongolian", "bs": "bosnian", "kk": "kazakh", "sq": "albanian", "sw": "swahili",
    "gl": "galician", "mr": "marathi", "pa": "punjabi", "si": "sinhala", "km": "khmer", "sn": "shona",
    "yo": "yoruba", "so": "somali", "af": "afrikaans", "oc": "occitan", "ka": "georgian", "be": "belarusian",
    "tg": "tajik", "sd": "sindhi", "gu": "gujarati", "am": "amharic", "yi": "yiddish", "lo": "lao", "uz": "uzbek",
    "fo": "faroese", "ht": "haitian creole", "ps": "pashto", "tk": "turkmen", "nn": "nynorsk", "mt": "maltese",
    "sa": "sanskrit", "lb": "luxembourgish", "my": "myanmar", "bo": "tibetan", "tl": "tagalog", "mg": "malagasy",
    "as": "assamese", "tt": "tatar", "haw": "hawaiian", "ln": "lingala", "ha": "hausa", "ba": "bashkir",
    "jw": "javanese", "su": "sundanese", "yue": "cantonese",
}
# fmt: on

_ALIASES = {
    "burmese": "my", "valencian": "ca", "flemish": "nl", "haitian": "ht", "letzeburgesch": "lb", "pushto": "ps",
    "panjabi": "pa", "moldavian": "ro", "moldovan": "ro", "sinhalese": "si", "castilian": "es", "mandarin": "zh",
    "jv": "jw", "nb": "no", "fil": "tl", "iw": "he", "cmn": "zh",
}  # fmt: skip

# Languages written without spaces between words.
UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


def language_code(name: str, known: Sequence[str]) -> str:
    """Return the code among `known` of a language: a code, a tag such as "en-US", or a name in English.

    Raises UnknownLanguageError, with the nearest codes.
    """
    wanted = name.strip().lower()
    names = {language: code for code, language in LANGUAGES.items()} | _ALIASES
    for each in (wanted, wanted.replace("_", "-").split("-")[0]):
        code = names.get(each, each)
        if code in known:
            return code
    near = difflib.get_close_matches(wanted, [*known, *names], 3, 0.6) or list(known)[:3]
    raise UnknownLanguageError(
        f"{name[:100]!r} is not among this model's {len(known)} languages; nearest: {', '.join(near)}"
    )
