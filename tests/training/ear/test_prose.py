"""Sentences of natural English in files of several forms."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest

from training.ear.prose import prose, sentences, source_of, spoken, text_of

PAGE = """<html><style>p { color: red; }</style><h1>A heading</h1><p>The caf&eacute; is closed.</p>
<p>Run <code>make</code> first. You can&rsquo;t miss it, can you?</p></html>"""
CAMPAIGN = """name= _ "Retreat"
message=_ "Hurry up! They're ""right"" behind us." # comment that is never said.
"""
GLOSSES = 'a living thing | something alive; "she saw it move"; "is that so?"'


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("page.html", PAGE, ["A heading", "You can't miss it, can you?"]),
        ("a.cfg", CAMPAIGN, ["Retreat", "Hurry up!", 'They\'re "right" behind us.']),
        ("wordnet/data.noun", GLOSSES, ["she saw it move", "is that so?"]),
        ("endless-sky/a.txt", "conversation\n\t`Who goes there?`\n", ["Who goes there?"]),
        ("a.txt", "Mr. Knightley was _very_ tall--so she thought.", ["Mr. Knightley was very tall — so she thought."]),
        (
            "long",
            f"{'She saw it, ' * 20}and left.",
            [*["She saw it" + 13 * ", She saw it"], "She saw it, " * 6 + "and left."],
        ),
        ("quotes", "One thing\nis sure.\n\t\t-- Nobody\n%\nTwo are not.\n", ["One thing is sure.", "Two are not."]),
    ],
)
def test_a_file_is_read_by_its_form(tmp_path: Path, name: str, content: str, found: list[str]) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")
    assert list(sentences(text_of(path))) == found


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("He paid $3.50 on May 3, didn't he?", "He paid three dollars and fifty cents on May third, didn't he?"),
        ('the "well-known" author (who left) is here', "The well known author, who left, is here."),
        ("Dr. Smith said 'yes'.", "Doctor Smith said yes."),
        ("Zxqv brmpf kltrn wqzz.", None),
        ("Nouns verbs adjectives pronouns prepositions", None),
    ],
)
def test_a_sentence_is_what_is_said(written: str, wanted: str | None) -> None:
    assert spoken(written) == wanted


def test_the_strings_of_an_r_package_and_the_quotations_of_a_dictionary_are_prose(tmp_path: Path) -> None:
    strings = [b"It was late,", b"and she left.", b"", "He said \u201cno\u201d.".encode()]
    marks = [b"\0\4\0\t", b"\0\4\0\t", b"\0\4\0\t", b"\0\0\x80\t"]
    data = b"X\n" + b"".join(mark + len(one).to_bytes(4, "big") + one for mark, one in zip(marks, strings, strict=True))
    (tmp_path / "data.rdb").write_bytes(len(data).to_bytes(4, "big") + zlib.compress(data))
    assert list(sentences(text_of(tmp_path / "data.rdb"))) == ["It was late, and she left.", 'He said "no".']
    (tmp_path / "a.dz").write_bytes(
        gzip.compress(b'Bath \\Bath\\, n. "A word."\n  "They bathe in\n  summer." --Waller.\n')
    )
    assert list(sentences(text_of(tmp_path / "a.dz"))) == ["They bathe in summer."]


def test_what_nobody_says_is_no_sentence() -> None:
    text = "See foo_bar() for it. Go to http://example.org now. Press Ctrl-C or use -x here. This one is good."
    assert list(sentences(text)) == ["This one is good."]


def test_a_share_of_a_folder_is_drawn_by_the_seed(tmp_path: Path) -> None:
    numbers = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write("\n\n".join(f"We saw {number} of them." for number in numbers))
    (tmp_path / "b.bin").write_bytes(b"\0\1The dog ran away.")
    drawn = prose(tmp_path, 4, 1)
    assert len(drawn) == 4
    assert drawn == prose(tmp_path, 4, 1)
    assert drawn != prose(tmp_path, 4, 2)
    assert len(prose(tmp_path, 99, 1)) == len(numbers)
    assert source_of("docs=12") == (Path("docs"), 12)
