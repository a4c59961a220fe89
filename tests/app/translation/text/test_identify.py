"""Identification of languages, without a network."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.translation.text.codes import FLORES
from app.translation.text.identify import identify, warm

TABLE = Path(__file__).with_name("languages.tsv").read_text(encoding="utf-8")
SENTENCES = [line.split("\t") for line in TABLE.splitlines()[1:]]


@pytest.mark.parametrize(("language", "text"), SENTENCES)
def test_sentences(language: str, text: str) -> None:
    best = identify(text)[0]
    assert best.language == language
    assert best.confidence > 0.3


@pytest.mark.parametrize(
    "text", ["", " ", "123", "!!!", "😀", "3.14 + 2", "http://example.com/fr", "a@b.example", "\ud800", "\0"]
)
def test_what_is_no_language_is_not_believed(text: str) -> None:
    assert identify(text)[0].confidence == 0.0


@pytest.mark.parametrize("text", ["I", "ok", "xq zv", "Blorp"])
def test_a_word_or_two_prove_little(text: str) -> None:
    assert identify(text)[0].confidence < 0.5


def test_a_language_that_flores_lacks_is_not_certain() -> None:
    assert identify("Demat deoc'h, penaos emañ kont ganeoc'h hiziv an deiz ?")[0].confidence < 0.05  # Breton


def test_alternatives_come_best_first() -> None:
    guesses = identify("Kako si danas?", limit=4)
    assert len(guesses) == 4
    assert [guess.confidence for guess in guesses] == sorted((guess.confidence for guess in guesses), reverse=True)
    assert len({guess.language for guess in guesses}) == 4
    assert sum(guess.confidence for guess in guesses) <= 1.0 + 1e-6
    assert {guess.language for guess in guesses} & {"hrv_Latn", "bos_Latn", "slv_Latn"}
    assert [guess.language for guess in identify("東京", limit=3)] == ["zho_Hant", "jpn_Jpan"]


def test_a_foreign_name_does_not_change_the_language() -> None:
    assert identify("The Japanese word 東京 means the eastern capital.")[0].language == "eng_Latn"
    assert identify("iPhone と MacBook を買いました。")[0].language == "jpn_Jpan"
    assert identify("这家店的美の茶叶饮料很好喝，我们每天都来。")[0].language == "zho_Hans"
    assert identify("Η εταιρεία Microsoft ανακοίνωσε νέα προϊόντα.")[0].language == "ell_Grek"


def test_shouting_is_understood() -> None:
    assert identify("WO IST DER NÄCHSTE BAHNHOF, BITTE?")[0].language == "deu_Latn"


@given(st.text(max_size=60), st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_any_text_has_a_guess(text: str, limit: int) -> None:
    guesses = identify(text, limit)
    assert 1 <= len(guesses) <= limit
    assert all(guess.language in FLORES and 0.0 <= guess.confidence <= 1.0 for guess in guesses)


def test_a_book_is_sampled() -> None:
    page = "The weather is nice today and we go for a walk. " * 42  # more than the sample
    assert identify(page + "x" * 10_000_000) == identify(page)


def test_threads_agree() -> None:
    warm()
    texts = [text for _, text in SENTENCES] * 4
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(identify, texts)) == [identify(text) for text in texts]


def test_it_starts_without_a_network_library() -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*_): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "socket.getaddrinfo = refuse\n"
        "from app.translation.text.identify import identify\n"
        "assert identify('Il fait beau aujourd’hui.')[0].language == 'fra_Latn'\n"
        "print([name for name in ('requests', 'urllib3', 'httpx', 'huggingface_hub') if name in sys.modules])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"
