"""Names of languages, and the phonemes of each language."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from app.errors import UnsupportedLanguageError
from app.text.languages import LANGUAGES, normalize_language, primary_language
from app.text.planner import get_phonemizer, made_phonemizer
from app.text.types import PhonemizedSentence

TABLE = Path(__file__).with_name("phonemes.tsv")


@pytest.mark.parametrize(
    ("given", "tag"),
    [("en", "en-us"), ("EN-US", "en-us"), ("en_GB", "en-gb"), ("a", "en-us"), ("b", "en-gb"), ("es-ES", "es"),
     ("fr", "fr-fr"), ("pt", "pt-br"), ("j", "ja"), ("zh-CN", "zh"), (" it ", "it"),
     ("de-AT", "de"), ("d", "de"), ("German", "de")],
)  # fmt: skip
def test_aliases(given: str, tag: str) -> None:
    assert normalize_language(given) == tag


@pytest.mark.parametrize("given", ["", "xx", "klingon", "en-us-x-y", "e" * 1000])
def test_unknown_languages_are_refused_with_the_list(given: str) -> None:
    with pytest.raises(UnsupportedLanguageError) as caught:
        get_phonemizer(given)
    assert all(language.tag in str(caught.value) for language in LANGUAGES)
    assert len(str(caught.value)) < 500


def test_a_phonemizer_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.text.planner._made", {})
    assert made_phonemizer("en-gb") is None
    made = get_phonemizer("en-gb")
    assert made_phonemizer("b") is made is get_phonemizer("en_GB")
    with pytest.raises(UnsupportedLanguageError):
        made_phonemizer("klingon")


@pytest.mark.parametrize(
    ("given", "code"),
    [("fra_Latn", "fr"), ("zho_Hant", "zh"), ("English", "en"), ("pt_BR", "pt"), ("arb_Arab", "ar"),
     ("yue_Hant", "yue"), ("sr-Latn", "sr"), ("xx-unknown", "xx"), ("", ""), ("_", "")],
)  # fmt: skip
def test_primary_language_of_anything(given: str, code: str) -> None:
    assert primary_language(given) == code


def test_names_are_unambiguous() -> None:
    names = [name for language in LANGUAGES for name in (language.tag, *language.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", TABLE.read_text(encoding="utf-8").splitlines()[1:])
def test_every_word_of_every_language_has_its_phonemes(row: str) -> None:
    language, text, phonemes, words = row.split("\t")
    utterances = [item for item in get_phonemizer(language).segments(text) if isinstance(item, PhonemizedSentence)]
    assert " ".join(item.phonemes for item in utterances) == phonemes
    assert sum(len(item.words) for item in utterances) == int(words)


@pytest.mark.parametrize(("language", "module"), [("ja", "fugashi"), ("zh", "jieba")])
def test_optional_languages_say_how_to_install_them_or_speak(language: str, module: str) -> None:
    if importlib.util.find_spec(module) is None:
        with pytest.raises(UnsupportedLanguageError, match=rf"nightingale extras install {language}\b"):
            get_phonemizer(language)
    else:
        text = "私は学生です。" if language == "ja" else "你好，世界。"
        (utterance,) = get_phonemizer(language).segments(text)
        assert "".join(word.text for word in utterance.words) == "".join(c for c in text if c.isalnum())
