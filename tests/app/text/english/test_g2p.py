"""English pronunciation: the lexicon's rules, homographs, function words, acronyms, words outside the lexicon."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from app.text import espeak
from app.text.english import g2p
from app.text.english.g2p import EnglishG2P
from app.text.english.lexicon import get_lexicon
from app.text.english.tagger import Tagger
from app.text.planner import get_phonemizer
from app.text.types import PhonemizedSentence

ROOT = Path(__file__).parents[4]
REFERENCE = Path(__file__).parent / "reference_en_us.tsv"
HOMOGRAPHS = Path(__file__).parent / "homographs.tsv"
TABLE = Path(__file__).parent / "phonemes.tsv"


def say(text: str, language: str = "en-us") -> str:
    utterances = [item for item in get_phonemizer(language).segments(text) if isinstance(item, PhonemizedSentence)]
    return " ".join(item.phonemes for item in utterances)


@pytest.mark.parametrize("line", REFERENCE.read_text(encoding="utf-8").splitlines(), ids=lambda line: line[:20])
def test_plain_sentences_are_as_misaki_says_them(line: str) -> None:
    """The reference was made by misaki 0.9.4's own lexicon code; 0.7.4's lexicon agrees on these sentences."""
    text, phonemes = line.split("\t")
    assert say(text) == phonemes


@pytest.mark.parametrize("row", HOMOGRAPHS.read_text(encoding="utf-8").splitlines()[1:])
def test_homographs(row: str) -> None:
    text, word, phonemes = row.split("\t")
    (utterance,) = (item for item in get_phonemizer("en").segments(text) if isinstance(item, PhonemizedSentence))
    (span,) = (span for span in utterance.words if span.text == word)
    assert utterance.phonemes[span.phoneme_start : span.phoneme_end] == phonemes


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("He bought that book", "DT"),
        ("in that case", "DT"),
        ("I think that people change", "IN"),
        ("the dog that barks", "WDT"),
        ("the tools that can help", "WDT"),
    ],
)
def test_that(text: str, tag: str) -> None:
    words = text.split()
    assert Tagger(words).tag(words.index("that")) == tag


@pytest.mark.parametrize("word", ["kubernetes", "zyzzyvaq", "café", "Kokoros", "résumé", "GitHub", "iPhone"])
def test_words_outside_the_lexicon_go_to_espeak(word: str) -> None:
    """What it says of them stands in the table."""
    assert get_lexicon(british=False).pronounce(word) is None
    assert f"\t{word}\t" in TABLE.read_text(encoding="utf-8")


@pytest.mark.parametrize("row", TABLE.read_text(encoding="utf-8").splitlines()[1:])
def test_function_words_acronyms_accents_and_words_outside_the_lexicon(row: str) -> None:
    language, text, phonemes = row.split("\t")
    assert say(text, language) == phonemes


def test_without_espeak_words_are_spelled_with_a_warning(monkeypatch: Any, tmp_path: Path, caplog: Any) -> None:
    found = espeak.find_espeak()
    assert found is not None
    monkeypatch.setattr(espeak, "find_espeak", lambda: espeak.EspeakPaths(found.library, str(tmp_path)))
    espeak.get_espeak.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            pieces = [g2p.Piece(g2p.PieceKind.WORD, "xqzt", 0, 4)]
            EnglishG2P(british=False).pronounce(pieces)
        letters = get_lexicon(british=False)
        assert pieces[0].phonemes == " ".join(filter(None, map(letters.spell, "xqzt")))
        assert "letter by letter" in caplog.text
    finally:
        espeak.get_espeak.cache_clear()


DAMAGED = """
import sys
from app.text import espeak
espeak.find_espeak = lambda: espeak.EspeakPaths(*sys.argv[1:])
sys.exit(0 if espeak.get_espeak("en-us") is None else 3)
"""


@pytest.mark.parametrize("damage", ["a file alone", "no dictionary", "a path too long"])
def test_data_that_espeak_cannot_use_does_not_end_the_process(damage: str, tmp_path: Path) -> None:
    found = espeak.find_espeak()
    assert found is not None
    data = tmp_path.joinpath(*(["x" * 90] * 2 if damage == "a path too long" else []), "espeak-ng-data")
    shutil.copytree(found.data, data)
    for file in data.iterdir() if damage == "a file alone" else [data / "en_dict"]:
        if damage != "a path too long" and file.is_file() and file.name != "phontab":
            file.unlink()
    command = [sys.executable, "-c", DAMAGED, found.library, str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "letter by letter" in done.stderr


DEADLY = """
from app.text import espeak
from app.text.planner import Phonemizer
voice = espeak.get_espeak("en-us")
assert voice.phonemes("'s" * 68) == ""
assert voice.phonemes("bat") == "b\u02c8\u00e6t"
voice._library._process.kill()
voice._library._process.wait()
assert voice.phonemes("'s" * 68) == ""
assert voice.phonemes("bat") == "b\u02c8\u00e6t"
for language in ("en-us", "fr-fr", "it", "hi"):
    assert list(Phonemizer(language).segments("a." * 200 + " " + "'s" * 200 + " " + "\u0939\u0968-" * 40))
"""


def test_words_that_espeak_dies_of_do_not_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", DEADLY], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_voices_that_alternate_keep_their_own_sounds() -> None:
    words, voices = ["bonjour", "nation", "garage"], [espeak.get_espeak(tag) for tag in ("fr-fr", "en-us", "it")]
    spoken = [[voice.phonemes(word) for word in words] for voice in voices if voice is not None]
    assert len(spoken) == 3 and spoken[0] != spoken[1] != spoken[2]
    for at, word in enumerate(words):
        assert [voice.phonemes(word) for voice in voices if voice is not None] == [each[at] for each in spoken]


KILLED = """
import os, signal, sys
from app.text.espeak import get_espeak
assert get_espeak("en-us").phonemes("hello")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_leaves_nothing_of_espeak_behind(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", KILLED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_importing_loads_neither_lexicons_nor_espeak() -> None:
    code = (
        "import sys, app.text.planner; bad = {m for m in sys.modules if m.split('.')[0] in "
        "('misaki', 'phonemizer', 'num2words', 'espeakng_loader', 'jieba', 'fugashi')}; "
        "sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[4])


def test_sentences_in_the_lexicon_take_milliseconds_of_the_processor() -> None:
    texts = [line.split("\t")[0] for line in REFERENCE.read_text(encoding="utf-8").splitlines()]
    say(" ".join(texts))
    best = min(_time(texts) for _ in range(3))
    assert best / len(texts) < 0.02


def _time(texts: list[str]) -> float:
    started = time.thread_time()
    for text in texts:
        say(text)
    return time.thread_time() - started


def test_threads_may_share_a_phonemizer() -> None:
    text = "Zyzzyvaq met Kubernetes in the U.S. and it cost $5. " * 3
    expected = say(text)
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(say(text))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 8
    assert get_phonemizer("en") is get_phonemizer("en-US")
