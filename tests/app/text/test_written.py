"""Written forms of German, Spanish, French, Italian and Portuguese: any text, and sentences with abbreviations."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.text.planner import Phonemizer
from app.text.sentence_splitter import sentences
from app.text.written.forms import get_forms
from app.text.written.language import FILES

TABLE = Path(__file__).with_name("sentence_ends_written.tsv")
FORMS = {tag: get_forms(tag) for tag in FILES}
SIGNS = st.text("ABh/^√π₂⁻‰½0123456789.,:/-– hHº°ª€$£R%+=×kmgIVXLeraoCs²Srp()ñé'\u00a0@_wMöÄtU½", max_size=60)


@pytest.mark.parametrize("tag", FILES)
@given(text=st.one_of(SIGNS, st.text(max_size=40)))
def test_any_text_has_forms_in_order(tag: str, text: str) -> None:
    place = 0
    forms = FORMS[tag]
    assert forms is not None
    for first, last, said in forms.find(text):
        assert place <= first < last <= len(text)
        assert said.strip()
        assert not any(character.isdigit() for character in said)
        place = last


@pytest.mark.parametrize(
    ("unit", "times"),
    [("9", 600), ("9-", 300), ("1 111 ", 100), ("1.111.", 100), ("X", 600), ("12:", 200), ("€", 600), ("3.", 300),
     ("9" * 20 + " km", 1), ("a.b@", 150), ("www.", 150), ("1/2/", 150), ("+49 30 ", 90), ("Mai 3. ", 90),
     ("3. Mai bis ", 60), ("AB ", 200), ("1/2 ", 150), ("A1-", 200), ("XX-", 200), ("H2O", 200), ("a/b", 200),
     ('27" ', 150), ("U.S.", 150), ("1 m80 ", 100)],
)  # fmt: skip
@pytest.mark.parametrize("tag", FILES)
def test_long_forms_are_read(tag: str, unit: str, times: int) -> None:
    assert list(Phonemizer(tag).segments(f"a {unit * times}"))


@pytest.mark.parametrize("row", TABLE.read_text(encoding="utf-8").splitlines()[1:])
def test_abbreviations_end_no_sentence(row: str) -> None:
    language, *expected = row.split("\t")
    text = " ".join(expected)
    assert [text[start:end].strip() for start, end in sentences(text, 0, len(text), language)] == expected
