"""Terms and addresses through a translation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import InvalidRequestError
from app.translation.text.glossary import Glossary


@pytest.mark.parametrize(
    ("terms", "source", "sent", "came", "restored"),
    [
        ({"hub": "moyeu"}, "The hub is new.", "The ZX1 is new.", "Le ZX1 est neuf.", "Le moyeu est neuf."),
        ({"hub": "moyeu"}, "A hubbub; the Hub!", "A hubbub; the ZX1!", "Le zx1 !", "Le moyeu !"),
        ({"a b": "1", "a": "2", "b": "3"}, "a b, b a", "ZX1, ZX2 ZX3", "ZX3 ZX1 ZX2", "2 1 3"),
        ({"Ape": "Ape", "ape": "singe"}, "Ape, ape, APE", "ZX1, ZX2, ZX3", "ZX1 ZX2 ZX3", "Ape singe Ape"),
        ({"C++": "C++"}, "In C++, C+++.", "In ZX1, ZX2+.", "En ZX1, ZX2+.", "En C++, C+++."),
        ({"显卡": "GPU"}, "我的显卡很快。", "我的ZX1很快。", "My ZX1 is fast.", "My GPU is fast."),
        ({"GPU": "显卡"}, "我的GPU很快。", "我的ZX1很快。", "我的 ZX1 很快。", "我的 显卡 很快。"),
        ({"東京": "Tokyo"}, "東京へ行く。", "ZX1へ行く。", "Go to ZX1.", "Go to Tokyo."),
        ({"กรุงเทพ": "Bangkok"}, "ไปกรุงเทพกัน", "ไปZX1กัน", "Go to ZX1", "Go to Bangkok"),
        ({"서울": "Seoul"}, "서울에서 만나요. 옛서울", "ZX1에서 만나요. 옛서울", "Meet in ZX1.", "Meet in Seoul."),
        ({"كتاب": "Book"}, "هذا كتاب جديد، كتابي", "هذا ZX1 جديد، كتابي", "ZX1 is new", "Book is new"),
        ({"שלום": "Peace"}, "שלום! השלום", "ZX1! השלום", "ZX1!", "Peace!"),
        ({"नमस्ते": "Hi", "नमस": "no"}, "नमस्ते दुनिया", "ZX1 दुनिया", "ZX1 world", "Hi world"),
        ({"कि": "that"}, "किताब कि की", "किताब ZX1 की", "ZX१", "that"),
        ({"ก": "k"}, "กิน ก", "กิน ZX1", "ZX1", "k"),
        ({"ab": "1", "ab c": "2", "ab cd": "3"}, "ab c, ab", "ZX1, ZX2", "ZX1 ZX2", "2 1"),
        ({"I": "Je"}, "I think, İstanbul I", "ZX1 think, İstanbul ZX2", "ZX2 ZX1", "Je Je"),
        ({}, "See https://a.b/c?d=e. Or a.b@c.de!", "See ZX1. Or ZX2!", "ZX1 ou ZX2", "https://a.b/c?d=e ou a.b@c.de"),
        ({"a": "x"}, "at a https://a.b/a", "at ZX1 ZX2", "ZX2 ZX1", "https://a.b/a x"),
        ({}, "{% if a %}Hi{% endif %} {{{b}}} $t(c.d) @:e.f.", "ZX1 Hi ZX2 ZX3 ZX4 ZX5.", "ZX1 Ho ZX2 ZX3 ZX4 ZX5.",
         "{% if a %} Ho {% endif %} {{{b}}} $t(c.d) @:e.f."),
        ({"mail": "Post"}, "{name}: %s of %1$s mail", "ZX1: ZX2 of ZX3 ZX4", "ZX4 ZX3 ZX2 ZX1", "Post %1$s %s {name}"),
        ({}, "{{ a.b }}, ${c}, {0:.2f}, {}", "ZX1, ZX2, ZX3, ZX4", "ZX4 ZX3 ZX2 ZX1", "{} {0:.2f} ${c} {{ a.b }}"),
        ({}, "%(n)d, %name% :page :smile:", "ZX1, ZX2 ZX3 ZX4", "ZX4 ZX3 ZX2 ZX1", ":smile: :page %name% %(n)d"),
        ({}, "%{a}%s%s <x id=1/> { b }", "ZX1 ZX2 ZX3 ZX4", "ZX4 ZX3 ZX2 ZX1", "{ b } <x id=1/> %s%s %{a}"),
        ({}, "<0>a</0> %1, $bc <%= c %>", "ZX1 a ZX2 ZX3, ZX4 ZX5", "ZX5 ZX1 ZX2 ZX3 ZX4", "<%= c %> <0> </0> %1 $bc"),
        ({}, "<x id=\"1\"/>Hi <g id='2'>you</g>", "ZX1 Hi ZX2 you ZX3", "ZX1 ZX2 ZX3", "<x id=\"1\"/> <g id='2'> </g>"),
        ({}, "On {d, date, short}, {n,number}", "On ZX1, ZX2", "ZX2 ZX1", "{n,number} {d, date, short}"),
        ({}, "100% sure, 5% off, 10:30, a::b, {a b}, x <y", "100% sure, 5% off, 10:30, a::b, {a b}, x <y", "", ""),
    ],
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
