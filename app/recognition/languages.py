"""Languages of recognition: the names of users, and the ISO 639 codes that a model lists."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from app.errors import UnsupportedLanguageError
from app.translation.text import codes

# Names of languages that FLORES-200 does not have, and models of recognition do.
_OTHERS: Final = {"br": "Breton", "haw": "Hawaiian", "la": "Latin"}
# Characters of a language that a message quotes.
_QUOTED: Final = 40


def english_name(code: str) -> str:
    """Return the English name of a language in lower case, as OpenAI's answers have it; the code if it has none."""
    flores = _flores((code,)).get(code)
    return (_OTHERS.get(code, code) if flores is None else codes.name(flores)).lower()


def resolve(name: str, known: Sequence[str], param: str = "language") -> str:
    """Return the code in `known` for an ISO 639 code, BCP-47 tag or English name. Raises UnsupportedLanguageError."""
    key = name.strip().lower().replace("_", "-")
    if key in known:
        return key
    flores = _flores(tuple(known))
    try:
        result = codes.resolve(name, tuple(flores.values()))
        return next(code for code, own in flores.items() if own == result)
    except UnsupportedLanguageError:
        pass
    for code in known:
        if code == key.partition("-")[0] or (code in _OTHERS and key == _OTHERS[code].lower()):
            return code
    raise UnsupportedLanguageError(
        f"The model does not recognize the language '{name[:_QUOTED]}'; accepted are {', '.join(known)}, and the "
        "English names of these languages.",
        param=param,
    )


@lru_cache(maxsize=32)
def _flores(known: tuple[str, ...]) -> dict[str, str]:
    """Return the FLORES-200 code of each code, where it has one."""
    result = {}
    for code in known:
        try:
            result[code] = codes.resolve(code, codes.FLORES)
        except UnsupportedLanguageError:
            continue
    return result


def spaces_sentences(code: str | None) -> bool:
    """Whether a space stands between two sentences of a language; so it is where the language is not known."""
    flores = None if code is None else _flores((code,)).get(code)
    return flores is None or codes.spaces_sentences(flores)
