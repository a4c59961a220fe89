"""Instructions in words: what they change, and that nobody's words cost time or break a header."""

import time

import pytest

from app.server.error_responses import header_text
from app.speech.instructions import Instructions
from app.speech.service import SpeechOptions
from models.contract import Sampling
from tests.app.standins import Parrot, Tone


def applied(text: str, **options: float) -> SpeechOptions:
    return Instructions.read(text).applied(SpeechOptions(**options), speed_given="speed" in options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("Speak slowly.", 0.75),
        ("SLOWER, please", 0.75),
        ("very slow", 0.5),
        ("Speak very, very slowly and slow down!", 0.5),
        ("a bit faster", 1.125),
        ("Talk at a slightly quicker pace", 1.125),
        ("speed up", 1.25),
        ("Read this really fast", 1.5),
        ("not too fast", 0.875),
        ("Don’t rush.", 0.875),
        ("don't speak slowly", 1.125),
        ("slow down a little", 0.875),
        ("less fast", 0.75),
        ("slow, but not too slow", 0.875),
        ("fast and slow", 1.0),
        ("habla despacio", 0.75),
        ("Habla muy rápido", 1.5),
        ("parle lentement", 0.75),
        ("ne parle pas trop vite", 0.875),
        ("Bitte langsam sprechen", 0.75),
        ("nicht zu schnell", 0.875),
        ("parla molto lentamente", 0.5),
        ("fale devagar", 0.75),
        ("the fastidious slowpoke", 1.0),
        ("", 1.0),
    ],
)
def test_speed(text: str, speed: float) -> None:
    assert (applied(text).rate, applied(text).speed) == (pytest.approx(speed), 1.0)
    assert (applied(text, speed=2.0).rate, applied(text, speed=2.0).speed) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("text", "decibels"),
    [
        ("loud", 4.0),
        ("Very loud!", 8.0),
        ("Shout it", 8.0),
        ("softly", -6.0),
        ("whisper", -12.0),
        ("in a low voice", -6.0),
        ("a little quieter", -3.0),
        ("not loud", -3.0),
        ("don't whisper", 2.0),
        ("not fast, but loud", 4.0),
        ("habla en voz baja", -6.0),
        ("à voix basse", -6.0),
        ("leise", -6.0),
        ("ad alta voce", 4.0),
        ("baixinho", -6.0),
        ("quiet " * 1_000, -12.0),
        ("slow", 0.0),
    ],
)
def test_volume(text: str, decibels: float) -> None:
    assert applied(text).gain == pytest.approx(10 ** (decibels / 20))


@pytest.mark.parametrize(
    ("text", "exaggeration"),
    [
        ("excited", 0.75),
        ("Sound extremely enthusiastic", 1.0),
        ("calm and soothing", 0.0),
        ("calmly", 0.25),
        ("not too dramatic", 0.375),
        ("monotone", 0.0),
        ("slowly", None),
    ],
)
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
