"""Languages of FLORES-200, in the order of NLLB-200's language ids, and more languages that models translate.

Each line of the files: code, preferred BCP-47 tag, English name, and other accepted names (older and ISO 639-2 codes,
macrolanguages that mean this member by default, regions that mean it, other English names).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple


class FloresLanguage(NamedTuple):
    """One language: FLORES-200 `code`, BCP-47 `tag`, English `name`, and other accepted names in lower case."""

    code: str
    tag: str
    name: str
    others: tuple[str, ...]


def _languages(file: str) -> tuple[FloresLanguage, ...]:
    languages = []
    for line in Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines():
        code, tag, name, others = line.split("|")
        languages.append(FloresLanguage(code, tag, name, tuple(other for other in others.split(", ") if other)))
    return tuple(languages)


FLORES_LANGUAGES: Final = _languages("flores.txt")
MORE_LANGUAGES: Final = _languages("flores_more.txt")
