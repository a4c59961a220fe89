"""SSML against a real server: a recognizer hears the right words, and pauses, marks and warnings have their places."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.clients import RATE, converse, samples, speak, websocket


def longest_silence(pcm: np.ndarray) -> float:
    loud = np.flatnonzero(np.abs(pcm) > 1e-3)
    return float(np.diff(loud).max() / RATE)


def test_tags_are_obeyed_and_not_read_aloud(house_server: str, recognize: Callable[..., str]) -> None:
    text = """<speak version="1.1" xml:lang="en-US"><p>Please open the <sub alias="window">XYZ</sub>,</p>
    <break time="1500ms"/><p>and close the <phoneme alphabet="ipa" ph="dɔɹ">gate</phoneme>.</p></speak>"""
    pcm = samples(speak(house_server, text))
    assert 1.5 <= longest_silence(pcm) < 2.5
    heard = recognize(pcm, RATE).split()
    assert {"window", "close", "door"} <= set(heard)
    assert not {"break", "speak", "gate", "alias"} & set(heard)


def test_ssml_that_says_nothing_else_changes_no_sample(house_server: str) -> None:
    text = "The weather is fine today."
    assert speak(house_server, f"<speak>{text}</speak>").content == speak(house_server, text).content


def test_rate_volume_and_voice(house_server: str) -> None:
    def said(content: str) -> np.ndarray:
        return samples(speak(house_server, f"<speak>{content}</speak>"))

    text = "The weather is fine today."
    plain = said(text)
    assert len(said(f"<prosody rate='50%'>{text}</prosody>")) > 1.4 * len(plain)
    soft = said(f"<prosody volume='-12dB'>{text}</prosody>")
    assert np.abs(soft).max() == pytest.approx(np.abs(plain).max() / 4, rel=0.05)
    assert np.abs(said(f"<prosody volume='x-loud'>{text}</prosody>")).max() <= 1.0
    other = samples(speak(house_server, text, voice="af_heart"))
    assert np.array_equal(said(f"<voice name='af_heart'>{text}</voice>"), other)
    assert np.array_equal(said(f"<voice name='nobody af_heart'>{text}</voice>"), other)
    assert np.array_equal(said(f"<voice gender='female'>{text}</voice>"), other)


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("<speak>\n <b>a</speak>", "invalid_markup", "line 2, column 8"),
        ("<speak>Hello. <voice name='nobody'>Hello.</voice></speak>", "unknown_voice", "nobody"),
        ("<speak xml:lang='de-DE'>Hallo.</speak>", "unsupported_language", "de-DE"),
        ("<speak> </speak>", "nothing_to_speak", "nothing"),
    ],
)
def test_refusals_are_errors_of_the_request(house_server: str, text: str, code: str, reason: str) -> None:
    reply = speak(house_server, text, input_type="ssml")
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["code"] == code
    assert reason in error["message"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/v1/text-to-speech/am_michael?output_format=wav_24000", 'Stop. <break time="2.0s" /> Go on.'),
        ("/v1/speak?encoding=linear16", r"Stop. \{pause:2s\} Go on."),
    ],
)
def test_pauses_of_elevenlabs_and_deepgram(house_server: str, path: str, text: str) -> None:
    assert longest_silence(samples(speak(house_server, text, path=path))) >= 2.0


def send(socket: ClientConnection, kind: str, **fields: object) -> None:
    socket.send(json.dumps({"type": kind, **fields}))


def collect(socket: ClientConnection) -> list[dict[str, Any]]:
    """Return the events up to the answer of a set."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] not in ("done", "error"):
        message = socket.recv(timeout=120)
        if isinstance(message, str):
            events.append(json.loads(message))
    return events


@pytest.mark.parametrize("start", [{"input": "ssml"}, {}])
def test_fragments_over_a_socket(house_server: str, start: dict[str, str]) -> None:
    text = (
        "<speak>Hello <mark name='a'/>world. <break time='1s'/><mark name='b'/>How are <emphasis>you</emphasis> "
        "<blink>now</blink>?<break time='200ms'/><mark name='c'/></speak>"
    )
    with connect(websocket(house_server)) as socket:
        send(socket, "start", timestamps=True, **start)
        for begin in range(0, len(text), 3):
            send(socket, "text", text=text[begin : begin + 3])
        send(socket, "flush")
        events = collect(socket)
        # The session goes on, also after a document that is malformed.
        send(socket, "text", text="<speak>It is late. Half a <ta")
        send(socket, "flush")
        failed = collect(socket)
        send(socket, "text", text="<speak>Fine.</speak>")
        send(socket, "flush")
        assert collect(socket)[-1]["type"] == "done"
    assert [event["ignored"] for event in events if event["type"] == "warning"] == [["blink"]]
    chunks = [event for event in events if event["type"] == "chunk"]
    assert [chunk["text"] for chunk in chunks if chunk["text"]] == ["Hello world.", "How are you now?"]
    words = [word for chunk in chunks for word in chunk["words"]]
    assert [word["text"] for word in words] == [text[word["char_start"] : word["char_end"]] for word in words]
    marks = {mark["name"]: mark["time"] for chunk in chunks for mark in chunk["marks"] or ()}
    times = {word["text"]: word["start"] for word in words}
    assert marks["a"] == times["world"]
    assert marks["b"] == times["How"]
    assert marks["c"] == pytest.approx(events[-1]["audio_duration"], abs=1e-3)
    assert failed[-1]["error"]["code"] == "invalid_markup"
    assert "line 1" in failed[-1]["error"]["message"]
    assert not failed[-1]["fatal"]


def test_elevenlabs_socket_takes_tags_cut_anywhere(house_server: str, recognize: Callable[..., str]) -> None:
    text = 'Open the <phoneme alphabet="ipa" ph="wˈɪndO">gate</phoneme>. <break time="1.5s" /> It is late. '
    address = websocket(house_server, "/v1/text-to-speech/am_michael/stream-input?output_format=pcm_24000")
    _, answers = converse(
        address, *({"text": text[begin : begin + 4]} for begin in range(0, len(text), 4)), {"text": ""}
    )
    assert answers.pop()["isFinal"]
    pcm = np.frombuffer(b"".join(base64.b64decode(answer["audio"]) for answer in answers), "<i2")
    assert longest_silence(pcm / 32_768) >= 1.5
    assert "window" in recognize(pcm, RATE).split()
