"""Names of languages and the codes they mean."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ServiceError, UnsupportedLanguageError
from app.translation.text.codes import FLORES, name, resolve, spaces_sentences, spaces_words, tag

TABLE = Path(__file__).with_name("codes.tsv")


def test_the_order_is_that_of_the_language_ids() -> None:
    assert len(FLORES) == len(set(FLORES)) == 202
    ids = {code: 256001 + index for index, code in enumerate(FLORES)}
    known = {
        "eng_Latn": 256047, "fra_Latn": 256057, "deu_Latn": 256042, "spa_Latn": 256161, "ita_Latn": 256077,
        "por_Latn": 256141, "jpn_Jpan": 256079, "kor_Hang": 256098, "zho_Hans": 256200, "zho_Hant": 256201,
        "hin_Deva": 256068, "arb_Arab": 256011, "rus_Cyrl": 256147, "ace_Arab": 256001, "zul_Latn": 256202,
    }  # fmt: skip
    assert {code: ids[code] for code in known} == known


@pytest.mark.parametrize("row", TABLE.read_text(encoding="utf-8").splitlines()[1:])
def test_names(row: str) -> None:
    asked, code = row.split("\t")
    assert resolve(asked, FLORES) == code


@pytest.mark.parametrize("asked", ["", "xx", "klingon", "fr-", "ru-Latn", "pa-Arab", "auto", "zz-DE", "🙂", "a" * 9999])
def test_unknown_names_are_refused(asked: str) -> None:
    with pytest.raises(UnsupportedLanguageError) as caught:
        resolve(asked, FLORES)
    assert isinstance(caught.value, ServiceError)
    assert "English (eng_Latn, en)" in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("asked", "suggestion"),
    [
        ("Frensh", "French (fra_Latn, fr)"),
        ("fra_Latin", "fra_Latn"),
        ("Portugese", "Portuguese"),
        ("eng-Lat", "eng_Latn"),
    ],
)
def test_the_nearest_names_are_suggested(asked: str, suggestion: str) -> None:
    with pytest.raises(UnsupportedLanguageError, match="did you mean") as caught:
        resolve(asked, FLORES)
    assert suggestion in str(caught.value).partition("?")[0]


def test_a_language_that_the_model_lacks_is_named() -> None:
    with pytest.raises(
        UnsupportedLanguageError, match=r"does not translate Welsh \('cy'\)\. .* German \(deu_Latn, de\)"
    ):
        resolve("cy", ["eng_Latn", "deu_Latn"])


def test_only_available_codes_are_returned() -> None:
    assert resolve("zh", ["zho_Hant", "eng_Latn"]) == "zho_Hant"
    assert resolve("xyz_latn", ["xyz_Latn"]) == "xyz_Latn"


def test_every_code_tag_and_name_leads_back() -> None:
    for code in FLORES:
        assert resolve(code.swapcase(), FLORES) == code
        assert resolve(tag(code), FLORES) == code
        assert resolve(name(code).upper(), FLORES) == code
    assert len({tag(code) for code in FLORES}) == 202


@given(st.text(max_size=20))
def test_any_text_is_resolved_or_refused(asked: str) -> None:
    with contextlib.suppress(UnsupportedLanguageError):
        assert resolve(asked, FLORES) in FLORES


def test_tags_names_and_directions() -> None:
    assert [tag(code) for code in ("fra_Latn", "zho_Hans", "zho_Hant", "xyz_Latn")] == [
        "fr",
        "zh",
        "zh-Hant",
        "xyz-Latn",
    ]
    assert [name(code) for code in ("fra_Latn", "als_Latn", "xyz_Latn")] == ["French", "Albanian", "xyz_Latn"]
    assert not any(map(spaces_words, ("zho_Hans", "jpn_Jpan", "tha_Thai", "khm_Khmr")))
    assert spaces_words("kor_Hang")
    assert spaces_sentences("tha_Thai")
    assert not spaces_sentences("yue_Hant")
