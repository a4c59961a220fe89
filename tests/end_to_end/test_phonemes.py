"""`POST /v1/phonemes` against a real server: the same words and phonemes as speech, with their origin."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.text.planner import get_phonemizer
from app.text.types import PhonemizedSentence

TEXT = "Dr. Lee paid $5 for [Nguyen](/wˈɪn/), the zyz\u00adzyvaq. The FBI is late: it's 7:05pm!\n\nGo [pause:0.5s] now."


def ask(server: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{server}/v1/phonemes", json=body, timeout=180)


def sources(reply: httpx.Response) -> dict[str, str]:
    return {token["text"]: token["source"] for token in reply.json()["tokens"]}


def test_each_part_of_the_text_has_its_words_phonemes_and_origin(house_server: str) -> None:
    reply = ask(house_server, input=TEXT)
    assert reply.status_code == 200, reply.text
    by_text = {token["text"]: token for token in reply.json()["tokens"]}
    assert set(by_text["$5"]) == {"text", "spoken", "phonemes", "source"}
    assert (by_text["$5"]["spoken"], by_text["Dr."]["spoken"]) == ("five dollars", "doctor")
    origins = {"$5": "money", "Nguyen": "markup", "zyz\u00adzyvaq": "espeak", "paid": "lexicon", "Dr.": "abbreviation"}
    origins |= {"7:05": "clock", "FBI": "letters", "!": "punctuation"}
    assert origins.items() <= sources(reply).items()
    assert reply.json()["spoken"].startswith("doctor Lee paid five dollars for Nguyen, the zyzzyvaq.")


def test_phonemes_are_those_that_the_model_reads(house_server: str) -> None:
    spoken = [each.phonemes for each in get_phonemizer("en-us").segments(TEXT) if isinstance(each, PhonemizedSentence)]
    assert ask(house_server, input=TEXT).json()["phonemes"].split() == " ".join(spoken).split()


def test_tokens_hold_every_letter_and_digit_of_the_text(house_server: str) -> None:
    text = "On 3 Dec. 2024, 192.168.0.1 cost £5m-£10m; e-mail a.b@example.com & 3/4 of C++."
    tokens = ask(house_server, input=text).json()["tokens"]
    held = "".join(c for token in tokens for c in token["text"] if c.isalnum())
    assert held == "".join(c for c in text if c.isalnum())


def test_the_language_decides(house_server: str) -> None:
    def bath(**options: str) -> str:
        reply = ask(house_server, input="The bath.", **options).json()
        return next(str(token["phonemes"]) for token in reply["tokens"] if token["text"] == "bath")

    assert bath() == bath(lang="en-us") == "bˈæθ"
    assert bath(lang="en-gb") == bath(voice="bm_fable") == "bˈɑːθ"
    assert sources(ask(house_server, input="Hola.", lang="es"))["Hola"] == "espeak"
    assert sources(ask(house_server, input="Hallo.", lang="de", any_language=True))["Hallo"] == "espeak"


def test_punctuation_after_a_given_pronunciation_is_kept(house_server: str) -> None:
    text = "Yes, [Nguyen](/wˈɪn/), you. Is it [Nguyen](/wˈɪn/)? It is [Nguyen](/wˈɪn/)."
    assert ask(house_server, input=text).json()["spoken"] == "Yes, Nguyen, you. Is it Nguyen? It is Nguyen."


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 400, "input"),
        ({"input": " "}, 400, "empty"),
        ({"input": "…"}, 400, "nothing to speak"),
        ({"input": "a" * 20_001}, 400, "20000"),
        ({"input": "Hi.", "lang": "tlh"}, 400, "tlh"),
        ({"input": "Hallo.", "lang": "de"}, 400, "any_language"),
        ({"input": "Hi.", "model": "nobody"}, 404, "nobody"),
        ({"input": "Hi.", "speed": 2}, 400, "speed"),
        ({"input": "[a](/&/)"}, 400, "phonemes"),
        ({"input": 5}, 400, "input"),
    ],
)
def test_bad_requests_are_told_why(house_server: str, body: dict[str, Any], status: int, says: str) -> None:
    reply = ask(house_server, **body)
    assert reply.status_code == status, reply.text
    assert says in reply.json()["error"]["message"] + str(reply.json()["error"]["param"])
