"""Terms and addresses through a translation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import InvalidRequestError
from app.translation.text.glossary import Glossary

# What goes in, and what comes out, by the name of the test.
CASES = json.loads(Path(__file__).with_name("glossary_cases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("terms", "source", "sent", "came", "restored"),
    CASES["terms"],
)  # fmt: skip
def test_terms(terms: dict[str, str], source: str, sent: str, came: str, restored: str) -> None:
    protected = Glossary(terms).protect(source)
    assert protected.text == sent
    assert protected.restore(came) == restored


@pytest.mark.parametrize(
    "translation", ["Rien.", "ZX1", "ZX1 ZX1", "ZX1 ZX2 ZX3", "ZX1 ZX22", "aZX1 ZX2", "ZX1 ZX2b", "ZX0 ZX1"]
)
def test_a_lost_or_doubled_placeholder_is_reported(translation: str) -> None:
    assert Glossary({"hub": "moyeu", "rim": "jante"}).protect("A hub and a rim.").restore(translation) is None


def test_nothing_to_protect() -> None:
    protected = Glossary({"hub": "moyeu"}).protect("Nothing of it.")
    assert (protected.text, protected.targets) == ("Nothing of it.", ())
    assert protected.restore("Rien. ZX1") == "Rien. ZX1"


def test_the_text_may_hold_placeholders() -> None:
    protected = Glossary({"hub": "moyeu"}).protect("The hub ZX1, QJ7.")
    assert protected.text == "The XQ1 ZX1, QJ7."
    assert protected.restore("Le XQ1 ZX1, QJ7.") == "Le moyeu ZX1, QJ7."
    everything = " ".join(f"{prefix}1" for prefix in ("ZX", "QJ", "XQ", "ZQ", "JX", "QZ", "ZXQJ"))
    assert Glossary({"hub": "moyeu"}).protect(f"{everything} hub").restore("ZXQJQJ1") == "moyeu"


_TERM = st.lists(st.sampled_from([*"aAbßİςZ1 的ไ한", "कि", "ab"]), min_size=1, max_size=3).map("".join)


@given(
    st.dictionaries(_TERM, _TERM, max_size=5),
    st.lists(st.sampled_from([*"aAbßİς .,Z1的ไ한", "ZX1", "कि", " ab ", "a@b.cd"]), max_size=20).map("".join),
)
@settings(max_examples=400, deadline=None)
def test_untouched_placeholders_restore_what_was_meant(terms: dict[str, str], source: str) -> None:
    try:
        glossary = Glossary(terms)
    except InvalidRequestError:
        assert any(not term.strip() or not target.strip() for term, target in terms.items())
        return
    protected = glossary.protect(source)
    restored = protected.restore(protected.text)
    assert restored is not None
    assert all(target in restored for target in protected.targets)
    # Terms that map to themselves leave the text unchanged, except for case and the spaces around placeholders.
    same = Glossary({term: term.strip() for term in terms}).protect(source)
    unchanged = same.restore(same.text) or ""
    assert "".join(unchanged.casefold().split()) == "".join(source.casefold().split())


def test_terms_side_by_side() -> None:
    protected = Glossary({"显卡": "GPU", "东京": "Tokyo"}).protect("东京显卡RTX")
    assert protected.text == "ZX1 ZX2 RTX"
    assert protected.restore("ZX1 ZX2 RTX") == "Tokyo GPU RTX"


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"": "x"}, "empty on one side"),
        ({"x": " "}, "empty on one side"),
        ({"x" * 201: "y"}, "longer than 200 characters"),
        ({f"t{index}": "x" for index in range(10_001)}, "10001 terms is too long; at most 10000"),
    ],
)
def test_glossaries_that_cannot_be_used(terms: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        Glossary(terms)


def test_many_terms_in_a_long_text() -> None:
    glossary = Glossary({f"term{index}": f"begriff{index}" for index in range(5000)})
    protected = glossary.protect("term1 and term4999, no term5000. " * 2000)
    assert len(protected.targets) == 4000
    assert protected.restore(protected.text) == "begriff1 and begriff4999, no term5000. " * 2000
