"""Documents as sentences, and joined again."""

from __future__ import annotations

import gc
import json
import re
import sys
import tracemalloc
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.translation.text.document import Format, SegmentedDocument

# What goes in, and what comes out, by the name of the test.
CASES = json.loads(Path(__file__).with_name("document_cases.json").read_text(encoding="utf-8"))

FORMATS: list[Format] = ["text", "markdown", "html"]
LANGUAGES = ["eng_Latn", "zho_Hans", "jpn_Jpan", "tha_Thai", "arb_Arab", "heb_Hebr", "hin_Deva", "kor_Hang", "ell_Grek"]


def texts(source: str, language: str = "eng_Latn", form: Format = "text") -> list[str]:
    return [segment.text for segment in SegmentedDocument.parse(source, language, form).segments]


def same(source: str, language: str, form: Format) -> None:
    """Assert that sentences and parts join to the source, and that every sentence can be translated."""
    document = SegmentedDocument.parse(source, language, form)
    own = [segment.text for segment in document.segments]
    assert document.join(own) == source
    assert document.join(own, target=language) == source
    assert document.join([segment.parts or segment.text for segment in document.segments]) == source
    for segment in document.segments:
        assert segment.text == segment.text.strip()
        assert "\n" not in segment.text
        assert any(map(str.isalpha, segment.text))
        assert all(part == part.strip() and any(map(str.isalpha, part)) for part in segment.parts)


@given(st.text(max_size=120), st.sampled_from(LANGUAGES), st.sampled_from(FORMATS))
@settings(max_examples=300, deadline=None)
def test_any_text_survives(source: str, language: str, form: Format) -> None:
    same(source, language, form)


_MARKUP = st.sampled_from(
    [
        *"aZ .!?,\n\t\r*_`~[]()<>&\"'|#>-+=\\:$|1{}/", "  \n", "\n\n", "**", "```\n", "~~~", "](",
        "http://a.b/c_d", "a@b.cd",
        "<b>", "</b>", "<b/>", "<p>", "</p>", "<br>", "<code>", "</code>", "<pre>", "</pre>", "<script>",
        "</script>",
        "<!--", "-->", "<a href='x>y'>", "</a>", "&amp;", "&nbsp;", "&bogus;", "&#65;", "[r]: x\n", "[r]",
        "![i](x)", "[^1]",
        "- ", "1. ", "> ", "# ", "    ", "|-|-|\n", "---\n", "Hello there. ", "你好。", "สวัสดี ", "مرحبا؟ ",
        "नमस्ते। ", "ZX1", "😀",
        "\u2028", "\ud800", "\0", "X", "one two", "<span translate=no>", "</span>", "{{x}}", "$x$", " 3.5 ",
        "{n, plural, one {", "{s,select,a{", "} other {", "}}", "{n}", "#",
    ]
)  # fmt: skip


@given(st.lists(_MARKUP, max_size=40).map("".join), st.sampled_from(LANGUAGES), st.sampled_from(FORMATS))
@settings(max_examples=600, deadline=None)
def test_any_markup_survives(source: str, language: str, form: Format) -> None:
    same(source, language, form)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self.seen.append(tag)


def tags(source: str) -> list[object]:
    parser = _Tags()
    parser.feed(source)
    return parser.seen


_NODES = st.recursive(
    st.sampled_from(
        ["Hello you. ", "two words ", "Is it?", " & ", "&lt;tag&gt;", "<img src=a alt='b > c'>", "<code>x</code>"]
    ),
    lambda inner: st.builds(
        lambda name, children: f"<{name} title='It &amp; so. Yes'>{''.join(children)}</{name}>",
        st.sampled_from(["b", "i", "a", "p", "div", "span", "li", "em"]),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)


@given(st.lists(_NODES, max_size=5).map("".join), st.sampled_from(["upper", "lost", "reversed", "parts", "<evil>"]))
@settings(max_examples=300, deadline=None)
def test_tags_survive_any_translation(source: str, way: str) -> None:
    document = SegmentedDocument.parse(source, "eng_Latn", "html")
    translations: list[str | list[str]] = []
    for segment in document.segments:
        if way == "parts" and segment.parts:
            translations.append([part[::-1] for part in segment.parts])
        elif way == "upper":
            translations.append(segment.text.upper())
        elif way == "reversed":
            translations.append(" ".join(reversed(segment.text.split())))
        else:
            translations.append("nothing is left" if way == "lost" else "a < b <script>&amp;</b>")
    joined = document.join(translations)
    if way == "reversed":
        assert sorted(map(str, tags(joined))) == sorted(map(str, tags(source)))
    else:
        assert tags(joined) == tags(source)
    if way == "upper":
        assert document.lost(translations) == []


@pytest.mark.parametrize(("language", "source", "sentences"), CASES["sentences"])
def test_sentences(language: str, source: str, sentences: list[str]) -> None:
    assert texts(source, language) == sentences


def test_lines_that_a_program_wrapped_are_one_sentence() -> None:
    wrapped = "This is a long line of an e-mail that was wrapped at\nthe margin. And more.\nBest regards,\nBob"
    whole = "This is a long line of an e-mail that was wrapped at the margin."
    assert texts(wrapped) == [whole, "And more.", "Best regards,", "Bob"]
    chinese = "这是一个很长的句子" * 7 + "\n它在下一行继续。"
    assert texts(chinese, "zho_Hans") == [chinese.replace("\n", "")]
    poem = "Roses are red\nviolets are blue"
    assert texts(poem) == poem.split("\n")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("source", "sentences"), CASES["branches_of_messages_are_translated"])
def test_branches_of_messages_are_translated(source: str, sentences: list[str], form: Format) -> None:
    same(source, "eng_Latn", form)
    document = SegmentedDocument.parse(source, "eng_Latn", form)
    assert [segment.text for segment in document.segments] == sentences
    joined = document.join([segment.text.replace("file", "FILE") for segment in document.segments])
    assert joined == source.replace("file", "FILE")


def test_references_to_characters_stay_in_plain_text() -> None:
    assert texts("Fish&nbsp;and &lt;chips&gt; &eacute;") == ["Fish ZX1 and ZX2 chips ZX3 &eacute;"]


def test_a_space_is_set_between_sentences_where_the_source_has_none() -> None:
    document = SegmentedDocument.parse("你好。今天天气很好！\n我们去公园。", "zho_Hans", "text")
    english = ["Hello.", "The weather is nice!", "We go to the park."]
    assert document.join(english, target="eng_Latn") == "Hello. The weather is nice!\nWe go to the park."
    assert document.join(english, target="jpn_Jpan") == "Hello.The weather is nice!\nWe go to the park."
    bold = SegmentedDocument.parse("<b>你好。</b>再见。", "zho_Hans", "html")
    assert bold.join(["Hello.", "Bye."], target="eng_Latn") == "<b>Hello.</b> Bye."
    own = [segment.text for segment in bold.segments]
    assert bold.join(own, target="zho_Hant") == "<b>你好。</b>再见。"


HTML = (
    "<!doctype html><html><head><title>A title</title><style>p { content: 'Hi.' }</style></head><body>\n"
    '<p class="x" title="Not this.">Hello <b>big</b> world &amp; <i>all</i>.\n  <em>Second one.</em></p>'
    "<pre>keep\n me</pre><code>a<b</code><!-- no comment --><ul><li>One<li>T&eacute;</ul>"
    "First line<br>next line. <span translate='no'>Brand</span> is kept."
)


def test_html() -> None:
    document = SegmentedDocument.parse(HTML, "eng_Latn", "html")
    assert [segment.text for segment in document.segments] == [
        "A title", "Hello ZX1 big ZX2 world & ZX3 all ZX4.", "Second one.", "One", "Té", "First line", "next line.",
        "ZX1 is kept.",
    ]  # fmt: skip
    assert document.segments[1].parts == ("Hello", "big", "world &", "all")
    upper = document.join([segment.text.upper() for segment in document.segments])
    for kept in ("<!doctype html>", "content: 'Hi.'", 'title="Not this."', "<pre>keep\n me</pre>", "<code>a<b</code>"):
        assert kept in upper
    assert "HELLO <b>BIG</b> WORLD &amp; <i>ALL</i>.\n  <em>SECOND ONE.</em></p>" in upper
    assert "<li>ONE<li>TÉ</ul>FIRST LINE<br>NEXT LINE. <span translate='no'>Brand</span> IS KEPT." in upper


@pytest.mark.parametrize(("form", "source", "sentences"), CASES["what_is_text"])
def test_what_is_text(form: Format, source: str, sentences: list[str] | None) -> None:
    expected = [source.partition("\n")[0], "the first"] if sentences is None else sentences
    assert texts(source, "eng_Latn", form) == expected


def test_a_translation_is_escaped() -> None:
    document = SegmentedDocument.parse("<p>Tom &amp; <b>Ann</b></p>", "eng_Latn", "html")
    assert document.join(["a <script> & ZX1 b ZX2"]) == "<p>a &lt;script&gt; &amp; <b>b</b></p>"
    markdown = SegmentedDocument.parse("A star and *more*.", "eng_Latn", "markdown")
    assert markdown.join(["# a * b_c [d] ZX1 e ZX2."]) == r"\# a \* b\_c \[d\] *e*."
    assert SegmentedDocument.parse("First of May\n", "eng_Latn", "markdown").join(["1. Mai"]) == "1\\. Mai\n"


@pytest.mark.parametrize(
    ("translation", "joined"),
    [
        ("Le ZX1 grand ZX2 monde, ZX3 non ZX4.", "<p>Le <b>grand</b> monde, <i>non</i>.</p>"),
        ("ZX3 Non ZX4, le monde ZX1 grand ZX2.", "<p><i>Non</i>, le monde <b>grand</b>.</p>"),
        ("le zx1 grand zx 2 monde ZX3 non ZX4 !", "<p>le <b>grand</b> monde <i>non</i> !</p>"),
    ],
)
def test_markup_may_move(translation: str, joined: str) -> None:
    document = SegmentedDocument.parse("<p>The <b>big</b> world <i>no</i>.</p>", "eng_Latn", "html")
    assert document.lost([translation]) == []
    expected = joined.replace(" !", "!") if translation.endswith(" !") else joined
    assert document.join([translation]) == expected


@pytest.mark.parametrize(
    "translation",
    ["le grand monde", "ZX1 a ZX2 b ZX3", "ZX2 a ZX1 b ZX3 c ZX4", "ZX1 a ZX3 b ZX2 c ZX4", "ZX1 ZX1 ZX2 ZX3 ZX4"],
)
def test_lost_markup_is_reported_and_parts_take_its_place(translation: str) -> None:
    source = "<p>The <b>big</b> world <i>no</i>.</p>"
    document = SegmentedDocument.parse(source, "eng_Latn", "html")
    assert document.lost([translation]) == [0]
    assert tags(document.join([translation])) == tags(source)
    parts = [part.upper() for part in document.segments[0].parts]
    assert document.join([parts]) == "<p>THE <b>BIG</b> WORLD <i>NO</i>.</p>"
    with pytest.raises(ValueError, match="4 parts were to be translated; 1 translations"):
        document.join([["one"]])


def test_a_placeholder_is_never_mistaken() -> None:
    source = "Room ZX1 and <b>QJ2</b> are free."
    document = SegmentedDocument.parse(source, "eng_Latn", "html")
    assert document.segments[0].text == "Room ZX1 and XQ1 QJ2 XQ2 are free."
    assert document.join(["La salle ZX1 et XQ1 QJ2 XQ2."]) == "La salle ZX1 et <b>QJ2</b>."


MARKDOWN = """---
title: Hello there
---
# A title #

Some *emphasis*, **bold [link](http://x.y/a_b "t")**, `code here` and ![img](a.png).
A soft wrap
goes on. Second \\* star.\x20\x20
Hard break.

> Quote one
> goes on.

- [ ] Task one
- Item two
  continues

1. First
2. Second

```py
print("hello")
```

    indented code

| Head a | Head b |
|--------|:------:|
| cell `x|` | *two* |

[ref]: http://x.y
See [ref] and [text][ref]. A snake_case_name; 2 * 3. <div>block</div> $x+y$.

Setext
======
"""


def test_markdown() -> None:
    document = SegmentedDocument.parse(MARKDOWN, "eng_Latn", "markdown")
    assert [segment.text for segment in document.segments] == [
        "A title",
        "Some ZX1 emphasis ZX2, ZX3 bold ZX4 link ZX5, ZX6 and ZX7.",
        "A soft wrap goes on.", "Second * star.", "Hard break.", "Quote one goes on.", "Task one",
        "Item two continues", "First", "Second", "Head a", "Head b", "cell `x", "two",
        "See ZX1 ref ZX2 and ZX3 text ZX4.", "A snake_case_name; 2 * 3.", "block", "Setext",
    ]  # fmt: skip
    upper = document.join([segment.text.upper() for segment in document.segments])
    for kept in (
        "title: Hello there\n",
        'print("hello")',
        "    indented code",
        "- [ ] TASK ONE\n- ITEM TWO",
        "\nSETEXT\n===",
    ):
        assert kept in upper
    assert 'SOME *EMPHASIS*, **BOLD [LINK](http://x.y/a_b "t")**, `code here` AND ![img](a.png).' in upper
    assert "SEE [REF][ref] AND [TEXT][ref]. A SNAKE_CASE_NAME; 2 * 3. <div>BLOCK</div> $x+y$." in upper


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("source", CASES["nasty"])
def test_nasty_documents_survive(source: str, form: Format) -> None:
    for language in LANGUAGES:
        same(source, language, form)
        same(f"{source}\n\n{source} {source}", language, form)


@pytest.mark.parametrize(("form", "unit"), CASES["bombs"])
def test_bombs_take_linear_work_and_end(form: Format, unit: str) -> None:
    # Work is counted in calls of functions: twenty times the source, about twenty times the calls.
    def work(times: int) -> int:
        calls = 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        source = unit * times
        sys.setprofile(count)
        try:
            document = SegmentedDocument.parse(source, "eng_Latn", form)
            joined = document.join([segment.text for segment in document.segments])
        finally:
            sys.setprofile(None)
        assert joined == source
        return calls

    # Work inside a regular expression shows only as time: the test has two minutes.
    assert work(20_000) < 24 * work(1000)


@pytest.mark.parametrize(
    ("source", "text", "most"),
    [
        ('<p title="' + "y" * 10_000_000 + '">Hello there.</p>', "Hello there.", 1_000_000),
        ("<b>" * 40_000 + "x" + "</b>" * 40_000, "x", 3_000_000),
    ],
    ids=["a long attribute", "a bomb of tags"],
)
def test_large_parts_take_bounded_memory(source: str, text: str, most: int) -> None:
    tracemalloc.start()
    document = SegmentedDocument.parse(source, "eng_Latn", "html")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [segment.text for segment in document.segments] == [text]
    assert document.join(["Other."]) == source.replace(text, "Other.")
    assert peak < most


def test_long_text_is_split_as_short_text_is() -> None:
    source = "It is so. Dr. Smith said that. " * 1000  # longer than the splitter's window
    assert texts(source) == ["It is so.", "Dr. Smith said that."] * 1000
    assert max(map(len, texts("word " * 5000))) <= 600
    assert "".join(re.findall("w", " ".join(texts("word " * 5000)))) == "w" * 5000


def test_what_cannot_be_seen_keeps_placeholders_apart() -> None:
    document = SegmentedDocument.parse("Go <code>a</code>&shy;<code>b</code> now", "eng_Latn", "html")
    assert document.segments[0].text == "Go ZX1 ZX2 now"
    assert document.lost(["ZX1 ZX2"]) == []


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="format 'rtf' is unknown; accepted are text, markdown, html"):
        SegmentedDocument.parse("x", "eng_Latn", "rtf")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 translations are needed; 1 were given"):
        SegmentedDocument.parse("One. Two.", "eng_Latn", "text").join(["x"])


def test_a_sentence_of_plain_text_is_one_object() -> None:
    # A full collection of garbage stops the event loop for as long as it visits what the sentences keep.
    SegmentedDocument.parse("Warm.", "eng_Latn")
    gc.collect()
    before = len(gc.get_objects())
    document = SegmentedDocument.parse("Hello there. " * 1_000, "eng_Latn")
    gc.collect()
    assert len(document.segments) == 1_000
    assert len(gc.get_objects()) - before < 1_100
