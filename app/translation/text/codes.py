"""Names of languages for translation: the names of users, and the FLORES-200 codes of models.

A FLORES-200 code is an ISO 639-3 language and an ISO 15924 script, as `fra_Latn`. If an ISO 639-1 code names a
macrolanguage, FLORES-200 names one member of it (`sq` is als_Latn, `az` azj_Latn).

A line of `flores.txt`, which is in the order of NLLB-200's language ids, and of `flores_more.txt`: code, preferred
BCP-47 tag, English name, and other accepted names (older and ISO 639-2 codes, macrolanguages that mean this member by
default, regions that mean it, other English names).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from app.errors import UnsupportedLanguageError


class FloresLanguage(NamedTuple):
    """One language: FLORES-200 `code`, BCP-47 `tag`, English `name`, and other accepted names in lower case."""

    code: str
    tag: str
    name: str
    others: tuple[str, ...]


def _languages(file: str) -> tuple[FloresLanguage, ...]:
    lines = Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    rows = (line.split("|") for line in lines)
    return tuple(
        FloresLanguage(code, tag, name, tuple(filter(None, others.split(", ")))) for code, tag, name, others in rows
    )


FLORES: Final[tuple[str, ...]] = tuple(row.code for row in _languages("flores.txt"))
"""The 202 codes in the order of NLLB's language ids, 256001 to 256202."""

_LANGUAGES: Final = (*_languages("flores.txt"), *_languages("flores_more.txt"))
_MAX_NAME_CHARACTERS: Final = 60
_COMMON: Final = frozenset(("eng_Latn", "spa_Latn", "fra_Latn", "deu_Latn", "zho_Hans", "arb_Arab"))
_BY_CODE: Final[dict[str, FloresLanguage]] = {row.code: row for row in _LANGUAGES}
_WITHOUT_WORD_SPACES: Final = frozenset(("Hans", "Hant", "Jpan", "Khmr", "Laoo", "Mymr", "Thai", "Tibt"))
_WITHOUT_SENTENCE_SPACES: Final = frozenset(("Hans", "Hant", "Jpan"))
_SUBTAG: Final = re.compile(r"[a-z0-9]{1,8}", re.ASCII)


def script(flores: str) -> str:
    """Return the ISO 15924 script of a code: `Latn`."""
    return flores.partition("_")[2]


def _key(name: str) -> str:
    return " ".join(name.strip().lower().replace("_", "-").replace("’", "'").split())


def _accepted() -> dict[str, tuple[str, ...]]:
    """Return the codes that each accepted name may mean, the likeliest first. Names are as `_key` returns them."""
    accepted: dict[str, list[str]] = {}
    for row in _LANGUAGES:
        for name in (row.code, row.tag, row.name, *row.others):
            accepted.setdefault(_key(name), []).append(row.code)
    # A language without a script means the member with that tag, else (zho, kas) the first one, then the others.
    for row in _LANGUAGES:
        language = row.code.partition("_")[0]
        for name in (language, row.tag.partition("-")[0]):
            codes = accepted.setdefault(_key(name), [])
            if row.code not in codes:
                codes.append(row.code)
        for name in (language, row.tag.partition("-")[0], *filter(_SUBTAG.fullmatch, row.others)):
            accepted.setdefault(f"{name}-{script(row.code).lower()}", [row.code])
    return {name: tuple(codes) for name, codes in accepted.items()}


_ACCEPTED: Final = _accepted()


def tag(flores: str) -> str:
    """Return the preferred BCP-47 tag: `fr` for fra_Latn, `zh-Hant` for zho_Hant."""
    row = _BY_CODE.get(flores)
    return row.tag if row else flores.replace("_", "-")


def name(flores: str) -> str:
    """Return the English name, or the code itself if it is not known."""
    row = _BY_CODE.get(flores)
    return row.name if row else flores


def known(flores: str) -> bool:
    """Return whether the code has a name and a tag."""
    return flores in _BY_CODE


def spaces_words(flores: str) -> bool:
    """Return whether the script sets spaces between words."""
    return script(flores) not in _WITHOUT_WORD_SPACES


def spaces_sentences(flores: str) -> bool:
    """Return whether the script sets spaces between sentences. Thai does, but not between words."""
    return script(flores) not in _WITHOUT_SENTENCE_SPACES


def resolve(name: str, available: Collection[str]) -> str:
    """Return the code among `available` that `name` means, in any case and with `-` or `_`.

    `name` is a FLORES-200 code (fra_Latn), an ISO 639-1 or 639-3 code (fr, fra), a BCP-47 tag (pt-BR, zh-Hant-TW) or
    an English name (French). A region that means nothing to the model is dropped. A script that the model does not
    write the language in is refused, except Latin for Serbian, which the model writes in Cyrillic.

    Raises UnsupportedLanguageError with the nearest suggestions.
    """
    key = _key(name[: 4 * _MAX_NAME_CHARACTERS])
    for code in available:
        if _key(code) == key:
            return code
    codes = _lookup(key)
    for code in codes:
        if code in available:
            return code
    raise UnsupportedLanguageError(_complaint(name, key, codes, available))


def _lookup(key: str) -> tuple[str, ...]:
    if key in _ACCEPTED:
        return _ACCEPTED[key]
    subtags = key.split("-")
    if len(key) > _MAX_NAME_CHARACTERS or not all(map(_SUBTAG.fullmatch, subtags)):
        return ()
    language, *rest = subtags
    script = next((subtag for subtag in rest if len(subtag) == 4 and subtag.isalpha()), "")
    region = next((subtag for subtag in rest if re.fullmatch("[a-z]{2}|[0-9]{3}", subtag)), "")
    if not (script or region):
        return ()
    if script:  # a script decides more than a region: zh-Hans-TW is simplified
        return _ACCEPTED.get(f"{language}-{script}", ())
    return _ACCEPTED.get(f"{language}-{region}") or _ACCEPTED.get(language, ())


def _complaint(asked: str, key: str, codes: tuple[str, ...], available: Collection[str]) -> str:
    quoted = repr(asked if len(asked) <= _MAX_NAME_CHARACTERS else asked[:_MAX_NAME_CHARACTERS] + "…")
    near = [] if codes else _nearest(key, available)
    reason = (
        f"this model does not translate {name(codes[0])} ({quoted})" if codes else f"no language is called {quoted}"
    )
    suggestion = f"; did you mean {' or '.join(map(_describe, near))}?" if near else "."
    known = sorted(available, key=lambda code: (code not in _COMMON, name(code)))
    more = f" and {len(known) - 6} more" if len(known) > 6 else ""
    return (
        f"{reason}{suggestion} Accepted are FLORES-200 codes, ISO 639 codes, BCP-47 tags and English names of "
        f"{', '.join(map(_describe, known[:6]))}{more}."
    )


def _nearest(key: str, available: Collection[str]) -> list[str]:
    names = {name: code for name, codes in _ACCEPTED.items() for code in codes if code in available}
    close = difflib.get_close_matches(key[:_MAX_NAME_CHARACTERS], names, n=6, cutoff=0.6)
    return list(dict.fromkeys(names[name] for name in close))[:3]


def _describe(code: str) -> str:
    return f"{name(code)} ({code}, {tag(code)})" if code in _BY_CODE else code
