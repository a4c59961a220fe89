"""SSML to passages, whole and in fragments, and what is refused."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import MarkupError
from app.ssml.reader import MAX_DEPTH, SsmlReader
from app.ssml.run import SsmlPassage
from app.ssml.source import DetectedText, is_ssml
from app.text.planner import get_phonemizer
from app.text.tokens import join
from app.text.types import Bookmark, Script, TextSpan

CASES = json.loads(Path(__file__).with_name("reader_cases.json").read_text(encoding="utf-8"))
TABLE = Path(__file__).with_name("say_as.tsv")
LONG = """<?xml version="1.0" encoding="UTF-16"?>
<speak version="1.1" xmlns="http://www.w3.org/2001/10/synthesis" xml:lang="en-US">
  <p>Hello &amp; wel-
  come, é <mark name="a"/>to the   show. Next <emphasis>one</emphasis>!</p>
  <p><s>Say <say-as interpret-as="characters">ABC</say-as> now.</s><break time="1s"/>After
   <sub alias="World Wide Web">WWW</sub>. <![CDATA[a < b & c]]></p>
  <prosody rate="slow" volume="+6dB" pitch="high">Slowly.</prosody> <voice name="af_heart">Other.</voice>
  <blink>x</blink><mark name="z"/><metadata>not this</metadata></speak>"""


def read(text: str, size: int | None = None, *, translated: bool = False) -> tuple[list[SsmlPassage], list[str]]:
    reader = SsmlReader("en-us", translated=translated)
    passages: list[SsmlPassage] = []
    for start in range(0, len(text), size or len(text) or 1):
        passages += reader.feed(text[start : start + (size or len(text))])
    return passages + reader.finish(), reader.ignored


def only(content: str) -> Script:
    ((passage,), _) = read(f"<speak>{content}</speak>")
    return passage.script


def test_a_document_becomes_passages() -> None:
    passages, ignored = read(LONG)
    assert [passage.text.strip() for passage in passages] == [
        "Hello & wel-\ncome, é to the show.", "Next one!", "Say ABC now.", "After WWW.", "a < b & c", "Slowly.",
        "Other.", "x",
    ]  # fmt: skip
    assert [passage.script.pause for passage in passages] == [0, 0, None, 1, 0, None, 0, 0]
    assert ignored == ["prosody pitch", "blink"]
    first, second, third, fourth, _, slow, other, last = (passage.script for passage in passages)
    assert first.bookmarks == (Bookmark("a", 21),)
    assert second.spans == (TextSpan(5, 8, stress=2.0),)
    assert third.readings[0].say_as == ("characters", "")
    assert fourth.readings[0].alias == "World Wide Web"
    assert (slow.style.rate, round(slow.style.gain, 2)) == (0.75, 2.0)
    assert other.style.voice == "af_heart"
    assert last.bookmarks == (Bookmark("z", 2),)


@pytest.mark.parametrize("translated", [False, True])
@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_fragments_cut_anywhere_change_nothing(size: int, translated: bool) -> None:
    whole, pieces = read(LONG, translated=translated), read(LONG, size, translated=translated)
    assert [passage.text for passage in pieces[0]] == [passage.text for passage in whole[0]]
    for one, other in zip(whole[0], pieces[0], strict=True):
        assert one.script.readings == other.script.readings
        assert one.script.bookmarks == other.script.bookmarks
        assert (one.script.style, one.script.pause) == (other.script.style, other.script.pause)
        for position in range(len(one.text)):
            assert one.script.places.start(position) == other.script.places.start(position)
    assert pieces[1] == whole[1]


def test_a_sentence_leaves_before_the_document_ends() -> None:
    reader = SsmlReader("en-us")
    assert [each.text for each in reader.feed("<speak>It is late. The riv")] == ["It is late. "]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12), max_size=8))
def test_every_word_has_its_place_in_the_document(parts: list[str]) -> None:
    tags = ["<s>", "</s>", "<mark name='m'/>", "<w>", "</w>", "<break/>", "<!-- x -->", "<u>"]
    content = "".join(escape(part) + tag for part, tag in zip(parts, tags, strict=False))
    text = "<speak>" + re.sub(r"<u>|</s>|</w>|<s>|<w>", "", content) + "</speak>"
    passages, _ = read(text, 5)
    for passage in passages:
        for found in re.finditer(r"\w+", passage.text):
            start, end = passage.script.places.start(found.start()), passage.script.places.end(found.end())
            plain = re.sub(r"<[^<>]*>", "", text[start:end])
            assert plain == found.group()


@pytest.mark.parametrize(
    ("text", "reason"),
    [*CASES["wrong_documents_are_refused_with_their_place"], ("<speak>" + "<b>" * MAX_DEPTH, "nested too deep")],
)
def test_wrong_documents_are_refused_with_their_place(text: str, reason: str) -> None:
    with pytest.raises(MarkupError, match=reason) as caught:
        read(text)
    assert "line " in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("content", "texts", "ignored"), CASES["what_is_translated_is_whole_sentences_of_words"])
@pytest.mark.parametrize("size", [None, 1])
def test_what_is_translated_is_whole_sentences_of_words(
    content: str, texts: list[str], ignored: list[str], size: int | None
) -> None:
    passages, found = read(f"<speak>{content}</speak>", size, translated=True)
    assert [passage.text.strip() for passage in passages] == texts
    assert found == ignored
    assert not any(passage.script.readings or passage.script.spans for passage in passages)


def test_rate_and_volume_of_a_translation_are_those_of_most_of_a_sentence() -> None:
    text = (
        "<speak xml:lang='en'><prosody rate='slow'>Good <prosody volume='x-loud'>old</prosody> dogs bark. Most of this"
        "</prosody> is at the usual rate, after all. <prosody rate='fast'>Go!</prosody> <voice name='af_heart'>I go."
        "</voice></speak>"
    )
    passages, ignored = read(text, translated=True)
    assert [each.script.style.rate for each in passages] == [0.75, 1.0, 1.25, 1.0]
    assert [each.script.style.gain for each in passages] == [1.0] * 4
    assert [each.script.style.voice for each in passages] == [None, None, None, "af_heart"]
    assert {each.script.style.language for each in passages} == {None}
    assert ignored == ["prosody within a sentence"]


def test_the_root_names_the_language_of_what_is_translated() -> None:
    said = "<say-as interpret-as='ordinal'>3</say-as>"
    (passage,), _ = read(f"<speak xml:lang='fr-FR'>Le {said} jour.</speak>", translated=True)
    assert passage.text == "Le troisième jour."
    assert passage.script.style.language is None
    assert passage.script.source == "fr-FR"
    ((passage,), ignored) = read("<speak xml:lang='nl'><p xml:lang='nl'>Goede morgen.</p></speak>", translated=True)
    assert passage.script.source == "nl"
    assert ignored == []
    ((passage,), _) = read("<speak xml:lang='nl'>Goede morgen.</speak>")
    assert passage.script.source is None


@pytest.mark.parametrize("text", ["<speak>a & b</speak>", "<speak>\n<emphasis level='huge'>a</emphasis></speak>"])
def test_wrong_documents_are_not_translated(text: str) -> None:
    with pytest.raises(MarkupError, match=r"line \d, column \d"):
        read(text, translated=True)


def test_nothing_is_expanded_and_nothing_is_fetched() -> None:
    bomb = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))
    for declaration in (
        f"[<!ENTITY l0 'lol'>{bomb}]",
        "SYSTEM 'file:///etc/passwd'",
        "[<!ENTITY x SYSTEM 'http://a/'>]",
    ):
        with pytest.raises(MarkupError, match=r"document type|the entity &l9; .* \(line 1, column \d+\)"):
            read(f"<!DOCTYPE speak {declaration}><speak>&l9;&x;</speak>")


@pytest.mark.parametrize("prolog", CASES["a_document_may_have_a_prolog"])
@pytest.mark.parametrize("size", [1, 1_000])
def test_a_document_may_have_a_prolog(prolog: str, size: int) -> None:
    assert is_ssml(prolog + "<speak>") is True
    ((passage,), ignored) = read(f"{prolog}<speak>Two &amp; two.</speak>", size)
    assert (passage.text, ignored) == ("Two & two.", [])


def test_large_parts_take_no_long_time() -> None:
    begun = time.process_time()
    read(f"<speak a='{'x' * 1_000_000}'>a</speak>", 64)
    for content in ("<s>a</s>", "a<mark name='m'/>", "a<emphasis>b</emphasis>", "&amp;", "<sub alias='x'>b</sub>"):
        read("<speak>" + content * 2_000 + "</speak>", 500)
        read("<speak>" + content * 2_000 + "</speak>", 500, translated=True)
    many = "<prosody rate='slow'>a</prosody> <prosody volume='soft'>b</prosody> "
    read("<speak>" + many * 2_000 + "</speak>", 500, translated=True)
    assert time.process_time() - begun < 60  # quadratic work takes far longer


def test_a_reading_longer_than_any_sentence_stays_whole() -> None:
    passages, _ = read("<speak>" + "<sub alias='x'>bcd</sub>" * 2_000 + " end.</speak>", 100)
    assert sum(len(passage.script.readings) for passage in passages) == 2_000
    for passage in passages:
        assert all(0 <= each.start < each.end <= len(passage.text) for each in passage.script.readings)


def test_a_text_without_a_root_is_the_content_of_one() -> None:
    passages, _ = read("Hello <break time='1s'/> you", 1)
    assert [(passage.text.strip(), passage.script.pause) for passage in passages] == [("Hello", 0), ("you", 1)]
    assert passages[1].script.places.start(0) == 25


def test_phonemes_of_other_alphabets_become_the_models() -> None:
    for alphabet, written in (
        ("ipa", "təˈmeɪtoʊ"),
        ("x-sampa", "t@&quot;meItoU"),
        ("cmu-arpabet", "T AH0 M EY1 T OW0"),
    ):
        script = only(f'<phoneme alphabet="{alphabet}" ph="{written}">tomato</phoneme>')
        assert script.readings[0].phonemes.replace("ˈ", "") == "təmAtO", alphabet


@pytest.mark.parametrize("row", TABLE.read_text(encoding="utf-8").splitlines()[1:])
def test_what_say_as_says(row: str) -> None:
    content, spoken = row.split("\t")
    ((passage,), _) = read(f"<speak>{content}</speak>")
    (sentence,) = get_phonemizer("en-us").tokens(passage.text, script=passage.script)
    assert join(sentence, lambda token: token.spoken) == spoken


def test_voices_and_languages() -> None:
    assert only("<voice language='fr-FR' gender='female'>a</voice>").style.language == "fr-FR"
    assert only("I say <lang xml:lang='fr-FR'>bonjour</lang> now").spans == (TextSpan(6, 13, language="fr-fr"),)
    assert only("I say <lang xml:lang='en'>hello</lang> now").spans == ()
    _, ignored = read("<speak><lang xml:lang='tlh'>nuqneH</lang></speak>")
    assert ignored == ["lang tlh"]
    with pytest.raises(MarkupError, match="voices"):
        read("<speak>" + "".join(f"<voice name='v{n}'>a</voice>" for n in range(40)) + "</speak>")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *CASES["the_root_tells_what_a_text_is"],
        ("<?xml?>" * 5_000 + "<speak>", True),
        ("<!---->" * 5_000 + "<!--", False),
        (" " * 5_000, False),
    ],
)
def test_the_root_tells_what_a_text_is(text: str, found: bool | None) -> None:
    assert is_ssml(text) is found


def test_each_text_between_two_flushes_is_detected_anew() -> None:
    source = DetectedText("en-us")
    for text, script in (("<speak>One.</speak>", True), ("<Two> is plain. ", False), ("<sp", False)):
        pieces = [piece for character in text for piece in source.feed(character, 0.0)] + source.flush(0.0)
        assert [piece.script is not None for piece in pieces] == [script] * len(pieces)
        assert pieces


@pytest.mark.parametrize("size", [None, 1])
def test_raised_digits_stay_exponents(size: int | None) -> None:
    ((passage,), ignored) = read("<speak>10<sup>6</sup>, 10<sup>-3</sup>, x<sup>2</sup>, 19<sup>th</sup></speak>", size)
    assert (passage.text, ignored) == ("10⁶, 10⁻³, x², 19th", [])
