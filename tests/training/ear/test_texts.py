"""Texts of the ear and its tokenizer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from training.corpus import held_out_keys, key_of
from training.ear.lines import TOKENS, Line, encode, read_lines, target, write_lines
from training.ear.texts import SPECIAL, spoken_lines, texts, train_tokenizer

COUNTS = {"template": 1500, "short": 300, "words": 300, "long": 100, "phrases": 100, "figures": 100}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Yes; of course.", "Yes, of course."),
        ("Wait — the train goes…", "Wait, the train goes"),
        ("He said: stop!", "He said, stop!"),
        ("It's late, …?", "It's late?"),
        ("Room 12.", None),
        ("…", None),
        ("a" * 200, None),
    ],
)
def test_signs_that_are_not_heard_become_commas(text: str, wanted: str | None) -> None:
    assert target(text) == wanted


@pytest.fixture(scope="module")
def made() -> list[str]:
    return texts(COUNTS, 1, ["The cat sat on the mat.", "I can't."])


def test_texts_are_the_seeds_and_never_held_out(made: list[str]) -> None:
    assert made == texts(COUNTS, 1, ["The cat sat on the mat.", "I can't."])
    assert made != texts(COUNTS, 2)
    left = texts({"prose": 2}, 1, ["The cat sat on the mat.", "I can't."], ["We saw the cat sat on the mat"])
    assert left == ["I can't."]
    assert not {key_of(text) for text in made} & held_out_keys()
    assert all(re.fullmatch(r"[A-Za-z .,?!']+", text) for text in made)
    assert len(made) > 1500


def test_tokens_say_the_text_again(made: list[str]) -> None:
    tokenizer = train_tokenizer(made)
    assert tokenizer.get_vocab_size() == TOKENS + len(SPECIAL)
    for line in made[:50]:
        ids = encode(tokenizer, line)
        assert max(ids) < TOKENS
        assert tokenizer.decode(ids) == f" {line}"
    assert sum(len(encode(tokenizer, line)) for line in made) < 0.6 * sum(map(len, made))


def test_lines_have_the_phonemes_of_one_utterance(tmp_path: Path) -> None:
    lines = spoken_lines(["I can't dance.", "One. Two."], 1, british=1.0)
    assert [line.text for line in lines] == ["I can't dance."]
    assert lines[0].american != lines[0].british
    written = [*lines, *spoken_lines(["Yes."], 1, british=0.0)]
    assert written[1] == Line("Yes.", written[1].american, "")
    write_lines(tmp_path / "lines.tsv.gz", written)
    assert read_lines(tmp_path / "lines.tsv.gz") == written
