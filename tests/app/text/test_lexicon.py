"""User lexicons: files of both forms, and the words that they match."""

from __future__ import annotations

import pytest

from app.errors import InvalidLexiconError
from app.text.lexicon import Lexicon, LexiconEntry, find_readings, make_entry
from app.text.lexicon_files import MAX_BYTES, read_lexicon
from app.text.planner import TextPlanner, get_phonemizer
from app.text.types import Pause, PhonemizedSentence

LINES = "\ufeff# comment\n# language: en\nNguyen\t/wˈɪn/\nW3C = World Wide Web Consortium\nnew york\tthe big apple\n\n"
PLS = """<?xml version="1.0" encoding="UTF-8"?>
<lexicon version="1.0" xmlns="http://www.w3.org/2005/01/pronunciation-lexicon" alphabet="x-sampa" xml:lang="en-GB">
  <lexeme><grapheme>tomato</grapheme><grapheme>tomatoe</grapheme><phoneme>t@"mA:t@U</phoneme></lexeme>
  <lexeme role="a"><grapheme>tomb</grapheme><phoneme alphabet="ipa">x</phoneme><alias prefer="true">grave</alias>
    <example>A tomb.</example></lexeme>
</lexicon>"""


def matched(text: str, *entries: LexiconEntry, language: str = "en-us") -> list[str]:
    return [text[each.start : each.end] for each in find_readings(text, [Lexicon(entries)], language) if each]


def spoken(text: str, lexicon: Lexicon, language: str = "en-us") -> list[tuple[str, str, str]]:
    tokens = [token for each in get_phonemizer(language).tokens(text, lexicons=[lexicon]) for token in each]
    return [(token.text, token.spoken, token.source) for token in tokens]


def test_lines_of_two_columns() -> None:
    lexicon = read_lexicon(LINES.encode())
    assert lexicon.language == "en"
    assert [(entry.grapheme, entry.phonemes, entry.alias) for entry in lexicon.entries] == [
        ("Nguyen", "wˈɪn", ""),
        ("W3C", "", "World Wide Web Consortium"),
        ("new york", "", "the big apple"),
    ]


def test_pls() -> None:
    lexicon = read_lexicon(PLS)
    assert lexicon.language == "en-GB"
    assert [(entry.grapheme, entry.phonemes, entry.alias) for entry in lexicon.entries] == [
        ("tomato", "təˈmɑːtQ", ""),
        ("tomatoe", "təˈmɑːtQ", ""),
        ("tomb", "", "grave"),
    ]
    assert [lexicon.speaks(tag) for tag in ("en-gb", "en-us", "fr-fr")] == [True, False, False]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("word", "line 1.*tab"),
        ("good\tword\nbad\t/❓/", "line 2.*❓"),
        ("a" * 101 + "\tword", "line 1.*word"),
        ("a\t" + "b" * 501, "line 1.*alias"),
        ("<lexicon><lexeme></lexicon>", "line 1, column"),
        ("<pls/>", "root"),
        ("<!DOCTYPE l [<!ENTITY a 'b'>]><lexicon/>", "document type"),
        ("<lexicon>\n<lexeme><grapheme>a</grapheme></lexeme></lexicon>", "line 2.*<phoneme>"),
        ("<lexicon alphabet='nope'><lexeme><grapheme>a</grapheme><phoneme>a</phoneme></lexeme></lexicon>", "x-sampa"),
        ("<lexicon>" + "<a>" * 20, "deep"),
        (f"# language: {'x' * 36}\na\tb", "the language is no tag"),
        (f"<lexicon xml:lang='{'x' * 5_000}'/>", "the language is no tag"),
        (b"a\tb\xff", "UTF-8"),
        (b"a" * (MAX_BYTES + 1), "bytes"),
    ],
)
def test_wrong_files_are_refused_with_their_place(data: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidLexiconError, match=reason):
        read_lexicon(data)


def test_small_letters_match_any_case_and_others_their_own() -> None:
    us, york = make_entry("US", alias="United States"), make_entry("new york", alias="a")
    assert matched("US and us in New  York, NEW YORK", us, york) == ["US", "New  York", "NEW YORK"]
    assert matched("Us and us", make_entry("US", alias="a", any_case=True)) == ["Us", "us"]
    assert matched("Hello hello", make_entry("hello", alias="a", any_case=False)) == ["hello"]


def test_the_longest_entry_counts_and_whole_words_alone() -> None:
    entries = [
        make_entry("new", alias="a"),
        make_entry("new york", alias="b"),
        make_entry("new york city hall", alias="c"),
    ]
    assert matched("new york city, renew, newer, new york", *entries) == ["new york", "new york"]
    assert matched("C++ and C, C ++", make_entry("C++", alias="see plus plus")) == ["C++"]
    assert matched("co-op coop co op", make_entry("co-op", alias="a")) == ["co-op"]


def test_the_first_lexicon_that_knows_a_word_decides() -> None:
    first, second = Lexicon([make_entry("gate", alias="door")]), Lexicon([make_entry("gate", alias="wall")])
    (reading,) = find_readings("the gate", [Lexicon([], "en"), first, second], "en-us")
    assert reading.alias == "door"
    french = Lexicon([make_entry("gate", alias="porte")], "fr")
    (reading,) = find_readings("the gate", [french, second], "en-us")
    assert reading.alias == "wall"


def test_of_entries_that_differ_in_case_the_spelling_decides() -> None:
    entries = [make_entry("Us", alias="one"), make_entry("us", alias="two"), make_entry("US", alias="three")]
    found = [each and each.alias for each in find_readings("Us us US uS", [Lexicon(entries)], "en-us")]
    assert found == ["one", "two", "two", "two"]
    spellings = [Lexicon([make_entry(f"A{'b' * number}{'B' * (30 - number)}", alias="x") for number in range(31)])]
    assert list(find_readings(" ".join(["A" + "b" * 30, "A" + "B" * 30, "a" * 31]), spellings, "en-us"))
    assert not list(find_readings("a" + "b" * 30, spellings, "en-us"))


def test_others_have_turns_while_words_are_looked_up() -> None:
    lexicon = Lexicon([make_entry("gate", alias="door")])
    assert list(find_readings("wall " * 1_000, [lexicon], "en-us")).count(None) >= 4
    assert next(get_phonemizer("en-us").segments("wall " * 1_000, lexicons=[lexicon])) == Pause(0.0)


def test_what_a_lexicon_says_is_bounded_in_a_sentence_and_in_all() -> None:
    lexicon = Lexicon([make_entry("a", alias="word " * 100)])
    read = list(get_phonemizer("en-us").tokens("a " * 150, lexicons=[lexicon]))
    assert sum(token.spoken.count("word") for tokens in read for token in tokens) == 150 * 100
    assert max(sum(len(token.spoken) for token in tokens) for tokens in read) < 1_500
    with pytest.raises(InvalidLexiconError, match="100000"):
        list(get_phonemizer("en-us").tokens("a " * 250, lexicons=[lexicon]))


def test_words_are_read_as_the_lexicon_says() -> None:
    said = spoken("Nguyen's W3C in New York. [Nguyen](/nˈu/) renewed.", read_lexicon(LINES))
    assert ("Nguyen", "Nguyen", "user-lexicon") in said
    assert ("'s", "'s", "lexicon") in said
    assert ("W3C", "World Wide Web Consortium", "user-lexicon") in said
    assert ("New York", "the big apple", "user-lexicon") in said
    assert ("Nguyen", "Nguyen", "markup") in said


def test_a_model_that_reads_text_gets_the_other_words() -> None:
    planner = TextPlanner("en-us")
    segments = planner.segments("Nguyen of W3C.", symbols=frozenset(), max_phonemes=100, lexicons=[read_lexicon(LINES)])
    assert [each.phonemes for each in segments if isinstance(each, PhonemizedSentence)] == [
        "Nguyen of World Wide Web Consortium."
    ]


def test_other_languages() -> None:
    lexicon = read_lexicon("# language: fr\nSNCF\tchemins de fer\n")
    assert ("SNCF", "chemins de fer", "user-lexicon") in spoken("La SNCF roule.", lexicon, "fr-fr")
    assert all(source != "user-lexicon" for _, _, source in spoken("The SNCF is late.", lexicon))
