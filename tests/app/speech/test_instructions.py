"""Instructions in words: what they change, and that nobody's words cost time or break a header."""

import time
from pathlib import Path

import pytest

from app.server.error_responses import header_text
from app.speech.instructions import Instructions
from app.speech.service import SpeechOptions
from models.contract import Sampling
from tests.app.standins import Parrot, Tone

TABLE = Path(__file__).with_name("instructions.tsv").read_text(encoding="utf-8")


def rows(kind: str) -> list[tuple[str, float | None]]:
    """The texts of a kind in instructions.tsv, each with what it changes."""
    found = [line.split("\t") for line in TABLE.splitlines()[1:]]
    return [(text, None if value == "none" else float(value)) for first, value, text in found if first == kind]


def applied(text: str, **options: float) -> SpeechOptions:
    return Instructions.read(text).applied(SpeechOptions(**options), speed_given="speed" in options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "speed"), rows("speed"))
def test_speed(text: str, speed: float) -> None:
    assert (applied(text).rate, applied(text).speed) == (pytest.approx(speed), 1.0)
    assert (applied(text, speed=2.0).rate, applied(text, speed=2.0).speed) == (1.0, 2.0)


@pytest.mark.parametrize(("text", "decibels"), [*rows("volume"), ("quiet " * 1000, -12.0)])
def test_volume(text: str, decibels: float) -> None:
    assert applied(text).gain == pytest.approx(10 ** (decibels / 20))


@pytest.mark.parametrize(("text", "exaggeration"), rows("emotion"))
def test_emotion(text: str, exaggeration: float | None) -> None:
    assert applied(text).preferred.exaggeration == exaggeration


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("Speak in a cheerful and positive tone.", ("positive",)),
        ("Speak like a pirate with a Scottish accent, slowly.", ("pirate", "Scottish accent")),
        ("Please speak slowly.", ()),
        ("pirate. Pirate? pirate!", ("pirate", "Pirate")),
        (" ".join(["strange word, "] * 500), ("strange word",)),
    ],
)
def test_words_that_are_in_no_table(text: str, unknown: tuple[str, ...]) -> None:
    assert Instructions.read(text).unknown == unknown


def test_words_that_a_model_has_no_use_for_are_named() -> None:
    asked = Instructions.read("slowly, cheerfully, loudly, like a pirate")

    def unused(model: Tone | Parrot, *, speed_given: bool = False, **options: object) -> tuple[str, ...]:
        return asked.unused(model, SpeechOptions(**options), speed_given=speed_given)  # type: ignore[arg-type]

    assert unused(Tone()) == ("instruction cheerfully", "instruction pirate")
    assert unused(Parrot()) == ("instruction slowly", "instruction pirate")
    assert unused(Tone(), speed_given=True)[0] == "instruction slowly"
    assert unused(Parrot(), sampling=Sampling(exaggeration=1.0))[1] == "instruction cheerfully"
    assert unused(Tone(), speed=2.1, speed_given=True)[0] == "speed above 2"
    assert unused(Tone(), speed=1.5, rate=1.5)[0] == "speed above 2"
    assert unused(Tone(), speed=2.0, speed_given=True)[0] == "instruction slowly"


@pytest.mark.parametrize(
    "text",
    ["slow " * 20_000, "a" * 100_000, "a'" * 50_000, "'" * 100_000, "x-y " * 25_000, "not " * 25_000, "日" * 100_000],
)
def test_a_hundred_thousand_characters_are_read_in_linear_time(text: str) -> None:
    begun = time.process_time()
    found = Instructions.read(text)
    assert time.process_time() - begun < 2.0  # it takes 0.06 s
    assert len(found.unknown) <= 20
    assert all(len(each) <= 80 for each in found.unknown)


def test_no_word_ends_a_header() -> None:
    unknown = Instructions.read("pirate\r\nx-evil: 1\r\n\r\n日本語 \x00 \u2028 é").unknown
    value = header_text(", ".join(unknown))
    assert value.isascii()
    assert value.isprintable()
    assert "\\u65e5" in value
