"""Readings of English text."""

from __future__ import annotations

import pytest

from app.text.english.g2p import READERS
from app.text.english.normalize import normalize
from app.text.english.patterns import FINDER
from app.text.pieces import Piece, PieceKind


def pieces(text: str, offset: int = 0, *, british: bool = False) -> list[Piece]:
    return normalize(text, offset, READERS, british=british)


def read(text: str, *, british: bool = False) -> str:
    out = ""
    for piece in pieces(text, british=british):
        out += piece.text if piece.kind is PieceKind.PUNCTUATION or piece.glued or not out else f" {piece.text}"
    return out


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        # money
        ("It cost $5.", "It cost five dollars."),
        ("$1", "one dollar"),
        ("$3.50", "three dollars and fifty cents"),
        ("$0.99", "ninety nine cents"),
        ("£1.01", "one pound and one penny"),
        ("$5 million", "five million dollars"),
        ("$1.2bn", "one point two billion dollars"),
        ("€20 or 15€", "twenty euros or fifteen euros"),
        ("-$4", "minus four dollars"),
        ("$1,234.56", "one thousand two hundred thirty four dollars and fifty six cents"),
        ("$5/month", "five dollars per month"),
        ("20 USD", "twenty US dollars"),
        # numbers
        ("1,234,567", "one million two hundred thirty four thousand five hundred sixty seven"),
        ("3.14", "three point one four"),
        ("0.5", "zero point five"),
        ("It is -5 now", "It is minus five now"),
        ("21st", "twenty first"),
        ("the 1990s and '90s", "the nineteen nineties and nineties"),
        ("3/4", "three quarters"),
        ("1/2", "one half"),
        ("1 1/2 miles", "one and a half miles"),
        ("2½", "two and a half"),
        ("10-20", "ten to twenty"),
        ("1990–1995", "nineteen ninety to nineteen ninety five"),
        ("in 1905", "in nineteen oh five"),
        ("in 2005", "in two thousand five"),
        ("in 2024", "in twenty twenty four"),
        ("007", "zero zero seven"),
        ("192.168.0.1", "one hundred ninety two dot one hundred sixty eight dot zero dot one"),
        ("v2.0.1", "version two point zero point one"),
        ("24/7", "twenty four seven"),
        ("x² + y³", "x squared plus y cubed"),
        # times and dates
        ("5:30 p.m. today", "five thirty PM today"),
        ("at 9 am", "at nine AM"),
        ("at 10:00", "at ten o'clock"),
        ("at 14:05", "at fourteen oh five"),
        ("2024-03-05", "march fifth twenty twenty four"),
        ("3/4/2024", "march fourth twenty twenty four"),
        ("March 5, 2024", "March fifth, twenty twenty four"),
        ("5 May 2023", "the fifth of May twenty twenty three"),
        ("Oct. 5", "october fifth"),
        ("I may 5 times", "I may five times"),
        # units
        ("5km", "five kilometers"),
        ("1 kg", "one kilogram"),
        ("25°C", "twenty five degrees celsius"),
        ("50%", "fifty percent"),
        ("100 km/h", "one hundred kilometers per hour"),
        ("5'11\"", "five foot eleven"),
        ("1920x1080", "one thousand nine hundred twenty by one thousand eighty"),
        ("a ratio of 3:1", "a ratio of three to one"),
        ("$20-$30 or 7 p.m.–9 p.m.", "twenty dollars to thirty dollars or seven PM to nine PM."),
        ("6.02×10²³", "six point zero two times ten to the power of twenty three"),
        ("1e-5", "one times ten to the minus five"),
        ("H₂O", "H two O"),
        ("if x <= 10", "if x less than or equal to ten"),
        # numbers that are names
        ("open node.js, C# or .NET", "open node dot JS, C sharp or dot NET"),
        ("Rocky IV", "Rocky four"),
        ("Elizabeth I was queen", "Elizabeth the first was queen"),
        ("the class I took", "the class I took"),
        ("Baker St., London", "Baker street, London"),
        ("No.1", "number one"),
        # telephone
        ("Call (555) 123-4567.", "Call five five five one two three four five six seven."),
        ("+44 20 7946 0958", "plus four four two oh seven nine four six oh nine five eight"),
        # abbreviations
        ("Dr. Smith", "doctor Smith"),
        ("12 Main St. now", "twelve Main street now"),
        ("St. John", "saint John"),
        ("Smith vs. Jones", "Smith versus Jones"),
        ("fruit, e.g. apples", "fruit, for example apples"),
        ("No. 5", "number five"),
        ("Vol. 3, p. 12", "volume three, page twelve"),
        ("the U.S. Army", "the US Army"),
        ("He left the U.S.", "He left the US."),
        ("J. R. R. Tolkien", "J R R Tolkien"),
        ("I said so. It was I.", "I said so. It was I."),
        # Roman numerals
        ("Chapter IV", "Chapter four"),
        ("Louis XIV", "Louis the fourteenth"),
        ("World War II", "World War two"),
        # addresses
        ("bob.smith42@gmail.com", "bob dot smith forty two at gmail dot com"),
        ("See github.com/ml now.", "See github dot com slash ML now."),
        ("https://a.example.org/", "a dot example dot org"),
        # names on the net
        ("#MachineLearning", "hashtag Machine Learning"),
        ("@bob_smith", "at bob smith"),
        # symbols
        ("AT&T", "AT and T"),
        ("C++", "C plus plus"),
        ("5 - 3 = 2", "five minus three equals two"),
        ("2 * 3", "two times three"),
        ("a < b", "a less than b"),
        ("**bold** _it_ `code`", "bold it code"),
        # marks
        ("“Quoted,” she said -- or (maybe) not... Well?!", "Quoted, she said— or, maybe, not… Well?"),
        ("Yes!!! No", "Yes! No"),
        ("wait — what", "wait— what"),
        ("He said 'no'.", "He said no."),
        ("It’s Bob’s", "It's Bob's"),
        ("nice 😀 day", "nice day"),
        # letters and digits
        ("B2B", "B two B"),
        ("mp3", "MP three"),
        ("COVID-19", "COVID nineteen"),
        ("4K", "four K"),
        ("H2O", "H two O"),
    ],
)
def test_reading(text: str, spoken: str) -> None:
    assert read(text) == spoken


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("105", "one hundred and five"),
        ("3/4/2024", "the third of april twenty twenty four"),
        ("5km", "five kilometres"),
        ("2 L", "two litres"),
    ],
)
def test_british_reading(text: str, spoken: str) -> None:
    assert read(text, british=True) == spoken


def test_an_expansion_keeps_the_characters_it_came_from() -> None:
    text = "Pay $5.50 by 9 am."
    spans = [(piece.text, text[piece.start : piece.end]) for piece in pieces(text)]
    assert spans == [
        ("Pay", "Pay"), ("five", "$5.50"), ("dollars", "$5.50"), ("and", "$5.50"), ("fifty", "$5.50"),
        ("cents", "$5.50"), ("by", "by"), ("nine", "9"), ("AM", "am"), (".", "."),
    ]  # fmt: skip


def test_offset_is_added() -> None:
    assert [(piece.start, piece.end) for piece in pieces("one two", 100)] == [(100, 103), (104, 107)]


def test_every_kind_of_token_has_a_reader() -> None:
    signs = {name for name in FINDER.groupindex if name.endswith("_sign")}
    assert set(READERS) == set(FINDER.groupindex) - signs
