"""Names of languages of recognition, with the codes that Whisper lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import UnsupportedLanguageError
from app.recognition.languages import english_name, resolve
from models.whisper.languages import LANGUAGES

CODES = list(LANGUAGES)
TABLE = Path(__file__).with_name("languages.tsv")


def test_every_language_has_its_name_or_another_of_the_same_language() -> None:
    unnamed = [code for code in CODES if english_name(code) == code]
    assert unnamed == []
    # Each name is understood as the language that it names.
    assert [code for code in CODES if resolve(english_name(code), CODES) != code] == []
    assert [english_name(code) for code in ("en", "fr", "ja", "jw", "la")] == [
        "english", "french", "japanese", "javanese", "latin",
    ]  # fmt: skip


@pytest.mark.parametrize("row", TABLE.read_text(encoding="utf-8").splitlines()[1:])
def test_names_of_users(row: str) -> None:
    name, code = row.split("\t")
    assert resolve(name, CODES) == code


@pytest.mark.parametrize("name", ["klingon", "", "xx", "-", "x" * 10_000, "d", "en" * 40])
def test_what_is_no_language_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedLanguageError) as refused:
        resolve(name, CODES, "languages")
    assert refused.value.body()["param"] == "languages"
    assert len(refused.value.message) < 700
