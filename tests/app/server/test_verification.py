"""Verification of speech over a real socket, with a recognizer that answers what the test tells it."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import pytest
import soundfile
from websockets.sync.client import connect

from tests.app.server.streams import say, session

GOOD, BAD, WORSE = "hello there my friend", "hello their own fiend", "what is it now then yes"

TEXT = "Hello there, my friend."
THRICE = " ".join([TEXT] * 3)
DRAWN = {"model": "parrot", "verify": "retry"}


def speak(server: Any, text: str = TEXT, **fields: object) -> httpx.Response:
    body = {"input": text, "verify": "report", **fields}
    return httpx.post(f"{server.url}/v1/audio/speech", json=body, headers={"prefer": "wait"})


def result(response: httpx.Response) -> tuple[str, int, int, int, str]:
    """Verdict, words, errors, attempts, and the model that heard."""
    assert response.status_code == 200, response.text
    names = ("x-words", "x-word-errors", "x-attempts")
    words, errors, attempts = (int(response.headers[name]) for name in names)
    return response.headers["x-verification"], words, errors, attempts, response.headers["x-verified-by"]


@pytest.mark.parametrize(
    ("heard", "verdict", "errors"),
    [(GOOD, "passed", 0), ("hello there my fiend", "passed", 1), (WORSE, "failed", 6), ("", "failed", 4)],
)
def test_a_sentence_is_reported(hearing: Any, heard: str, verdict: str, errors: int) -> None:
    hearing.ear.says[:] = [heard]
    response = speak(hearing)
    assert result(response) == (verdict, 4, errors, 1, "ear")
    audio, rate = soundfile.read(io.BytesIO(response.content))
    (request,) = hearing.ear.requests
    assert request.language == "en"
    assert request.draft == (0, 1, 2, 3)
    assert abs(request.pcm.size / 16_000 - len(audio) / rate) < 0.1


@pytest.mark.parametrize(("score", "verdict"), [(-14.0, "passed"), (-17.0, "failed"), (None, "failed")])
def test_a_likely_text_passes_though_it_was_spelled_otherwise(
    hearing: Any, monkeypatch: pytest.MonkeyPatch, score: float | None, verdict: str
) -> None:
    monkeypatch.setattr(hearing.ear, "score", score)
    hearing.ear.says[:] = [BAD]
    assert result(speak(hearing))[0] == verdict


@pytest.mark.parametrize(
    ("says", "text", "fields", "expected", "seeds"),
    [
        ([GOOD, WORSE, GOOD], THRICE, {}, ("failed", 12, 6, 3, "ear"), []),
        ([GOOD], TEXT, {"response_format": "srt"}, ("passed", 4, 0, 1, "ear"), []),
        # The draft is the text as it is spoken.
        (["it is five dollars"], "It is $5.", {}, ("passed", 4, 0, 1, "ear"), []),
        # A model that draws speaks again with the next seed, and the best of three is sent.
        ([WORSE, GOOD], TEXT, DRAWN | {"seed": 5}, ("passed", 4, 0, 2, "ear"), [5, 6]),
        ([WORSE, BAD, ""], TEXT, DRAWN, ("failed", 4, 2, 3, "ear"), [0, 1, 2]),
        # One that would say the same is not asked again.
        ([WORSE], TEXT, {"verify": "retry"}, ("failed", 4, 6, 1, "ear"), []),
    ],
    ids=["together", "subtitles", "draft", "again", "best", "same"],
)
def test_results(
    hearing: Any, says: list[str], text: str, fields: dict[str, Any], expected: tuple[Any, ...], seeds: list[int]
) -> None:
    hearing.parrot.requests.clear()
    hearing.ear.says[:] = says
    response = speak(hearing, text, **fields)
    assert result(response) == expected
    assert int(response.headers["content-length"]) == len(response.content)
    assert [request.seed for request in hearing.parrot.requests] == seeds
    assert hearing.ear.requests[-1].draft == (0, 1, 2, 3)
    if "response_format" in fields:
        assert TEXT in response.text


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [("Same.", "passed"), ("Different", "failed"), ("Well, same", "failed"), ("BROKEN", "failed")],
)
def test_a_language_model_is_the_second_judge(start_server: Any, answer: str, verdict: str) -> None:
    running = start_server(recognizer="ear", recognition_gate=False, verification_model="scribe")
    running.ear.says[:], running.scribe.says[:] = [BAD, GOOD], [answer]
    assert result(speak(running))[0] == verdict
    (message,) = running.scribe.conversations[-1]
    assert message["content"].endswith(f"First text: {TEXT}\nSecond text: {BAD}")
    # It is asked about failures alone.
    assert result(speak(running))[0] == "passed"
    assert len(running.scribe.conversations) == 1


def test_a_client_that_leaves_ends_the_hearing(hearing: Any, wait_until: Any) -> None:
    body = {"input": "Hello there. " * 20, "voice": "slow", "verify": "report"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{hearing.url}/v1/audio/speech", json=body, timeout=1.5)
    assert wait_until(hearing.idle)
    heard = len(hearing.ear.requests)
    assert heard <= 3  # a sentence takes a second
    speak(hearing, verify="off")
    assert len(hearing.ear.requests) == heard


def test_nothing_is_heard_unless_it_is_asked_for(hearing: Any) -> None:
    response = speak(hearing, verify="off")
    assert not [name for name in response.headers if name.startswith(("x-verif", "x-word"))]
    assert hearing.ear.requests == []


def test_without_a_recognizer_it_is_unheard(server: Any) -> None:
    assert result(speak(server)) == ("unheard", 0, 0, 1, "none")


def test_a_recognizer_that_fails_leaves_the_sentence_unheard(hearing: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(hearing.ear, "recognize", None)
    assert result(speak(hearing)) == ("unheard", 0, 0, 1, "ear")


@pytest.mark.parametrize(
    ("text", "model", "found"),
    [
        (TEXT, "tone-two", ("unheard", 0, 0, 1, "none")),
        (f"[voice:tone-two/steady] Not known. [voice:tone/steady] {TEXT}", "tone", ("unheard", 4, 1, 2, "ear")),
    ],
)
@pytest.mark.parametrize("mode", ["report", "retry"])
def test_a_voice_that_the_recognizer_does_not_know_is_unheard(
    hearing: Any, text: str, model: str, mode: str, found: tuple[object, ...]
) -> None:
    hearing.ear.says[:] = ["hello there my fiend"]
    assert result(speak(hearing, text, model=model, verify=mode)) == found


def test_events_end_with_the_result(hearing: Any) -> None:
    hearing.ear.says[:] = [BAD]
    response = speak(hearing, stream_format="sse")
    done = json.loads(response.text.strip().split("\n\n")[-1].removeprefix("data: "))
    assert done["verification"] == {
        "verdict": "failed", "words": 4, "word_errors": 2, "attempts": 1, "verified_by": "ear", "heard": BAD,
    }  # fmt: skip


def test_done_on_a_websocket_has_the_result(hearing: Any) -> None:
    hearing.ear.says[:] = [GOOD, WORSE]
    with session(hearing, verify="report") as socket:
        found = [say(socket, "Hello there, my friend.")[2]["verification"]["verdict"] for _ in range(2)]
    assert found == ["passed", "failed"]


def test_results_are_counted(hearing: Any) -> None:
    names = ("nightingale_verified_sentences_total{", "nightingale_verification_retries_total{")
    before = [hearing.count(name) for name in names]
    hearing.ear.says[:] = [WORSE, GOOD]
    speak(hearing, model="parrot", verify="retry")
    assert [hearing.count(name) for name in names] == [before[0] + 1, before[1] + 1]


def test_another_mode_is_refused(hearing: Any) -> None:
    response = speak(hearing, verify="perhaps")
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "verify"


def test_deepgram_s_surface_tells_the_result(hearing: Any) -> None:
    hearing.ear.says[:] = [GOOD]
    url, body = f"{hearing.url}/v1/speak", {"text": "Hello there, my friend."}
    assert result(httpx.post(url, params={"verify": "report"}, json=body)) == ("passed", 4, 0, 1, "ear")
    refused = httpx.post(url, params={"verify": "perhaps"}, json=body)
    assert (refused.status_code, refused.json()["err_code"]) == (400, "INVALID_REQUEST")
    hearing.ear.says[:] = [WORSE]
    with connect(hearing.url.replace("http", "ws", 1) + "/v1/speak?verify=report") as socket:
        for message in ({"type": "Speak", "text": body["text"]}, {"type": "Flush"}):
            socket.send(json.dumps(message))
        while '"Flushed"' not in str(told := socket.recv(timeout=60)):
            pass
    assert json.loads(told)["verification"]["verdict"] == "failed"


def test_elevenlabs_surface_tells_the_result(hearing: Any) -> None:
    hearing.ear.says[:] = [WORSE]
    url, body = f"{hearing.url}/v1/text-to-speech/steady/stream", {"text": "Hello there, my friend."}
    assert result(httpx.post(url, params={"verify": "report"}, json=body)) == ("failed", 4, 6, 1, "ear")
    refused = httpx.post(url, params={"verify": "perhaps"}, json=body)
    assert (refused.status_code, refused.json()["detail"]["param"]) == (400, "verify")
