"""Dialogues and voice marks over HTTP and WebSocket, between models of different rates."""

import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import numpy as np
import pytest
import soundfile

from tests.app.conftest import ToneCatalog
from tests.app.server.cloning import cloned
from tests.app.server.streams import send, session
from tests.app.standins import Parrot

DIALOGUE = "/v1/audio/dialogue"
ELEVEN = "/v1/text-to-dialogue"
SPEECH = "/v1/audio/speech"


def post(server: Any, path: str = DIALOGUE, **body: object) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=60)


def say(server: Any, text: str, **body: object) -> httpx.Response:
    return post(server, SPEECH, input=text, **body)


def line(text: str, voice: str) -> dict[str, str]:
    return {"text": text, "voice": voice}


def samples(reply: httpx.Response) -> np.ndarray:
    assert reply.status_code == 200, reply.text
    pcm, rate = soundfile.read(io.BytesIO(reply.content), dtype="float32")
    assert rate == 24_000
    return pcm


def pitches(pcm: np.ndarray) -> list[int]:
    """Return the pitches that last for 100 ms, in the order in which they are heard; 0 is silence."""
    pieces = pcm[: pcm.size // 1_200 * 1_200].reshape(-1, 1_200)
    # The period of each piece: its spectrum is too coarse for 150 Hz.
    heard = [0 if np.abs(piece).max() < 0.01 else _pitch(piece) for piece in pieces]
    steady = [one for one, other in pairwise(heard) if one == other]
    return steady[:1] + [pitch for before, pitch in pairwise(steady) if pitch != before]


def _pitch(piece: np.ndarray) -> int:
    return min((440, 150), key=lambda pitch: abs(np.count_nonzero(np.diff(np.sign(piece))) / 0.1 - pitch))


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> Any:
    """A server with two models: `tone` hums 440 Hz at 24 kHz, `parrot` 150 Hz at 12 kHz."""
    from app.config import Settings
    from tests.app.conftest import ToneCatalog, start, stop

    catalog = ToneCatalog(parrot=Parrot(sample_rate=12_000))
    running = start(Settings.model_validate({"preload": ("parrot",), "max_input_characters": 2_000}), catalog)
    yield running
    stop(running)


def test_speakers_of_two_models_take_turns(both: Any) -> None:
    said = {"How are you today?": "steady", "I am fine.": "own", "That is good to hear.": "tone/silky"}
    reply = post(both, inputs=[line(*each) for each in said.items()])
    assert reply.headers["x-sample-rate"] == "24000"
    pcm = samples(reply)
    assert pitches(pcm) == [440, 0, 150, 0, 440]
    silences = np.diff(np.flatnonzero(np.abs(pcm) > 1e-3)) / 24_000
    assert sorted(silences)[-2:] == pytest.approx([0.5, 0.5], abs=0.01)
    # A mark and SSML say the same.
    marked = say(both, "How are you today? [voice:own] I am fine. [voice:silky]That is good to hear.")
    assert pitches(samples(marked)) == [440, 0, 150, 0, 440]
    ssml = say(both, "<speak>How are you today? <voice name='parrot/own'>I am fine.</voice> That is good.</speak>")
    assert pitches(samples(ssml)) == [440, 0, 150, 0, 440]


def test_the_first_speaker_decides_the_rate(both: Any) -> None:
    reply = post(both, inputs=[line("I am fine.", "parrot/own"), line("Good.", "tone/steady")])
    assert reply.headers["x-sample-rate"] == "12000"


@pytest.mark.parametrize(
    ("body", "param", "reason"),
    [
        ({"inputs": []}, "inputs", "at least 1"),
        ({"inputs": [line(" ", "steady")]}, "inputs", "empty"),
        ({"inputs": [line("Yes.", "steady"), line("\n", "steady")]}, "inputs[1].text", "empty"),
        ({"inputs": [line("Yes.", "steady"), line("No.", " ")]}, "inputs[1].voice", "empty"),
        ({"inputs": [line("Yes.", "steady"), line("No.", "nobody")]}, "inputs[1].voice", "accepted are: steady"),
        ({"inputs": [line("Yes.", "nothing/steady")]}, "model", "nothing"),
        ({"inputs": [line("a", "steady")] * 1_001}, "inputs", "at most 1000 items"),
        ({"inputs": [line("a" * 1_500, "steady")] * 2}, "inputs", "at most 2000"),
        ({"inputs": [line("Yes.", f"v{number}") for number in range(33)]}, "inputs", "at most 32"),
        ({"inputs": [{"text": "Yes."}]}, "inputs", "'inputs.0.voice'"),
        ({"inputs": [line("Yes.", "steady") | {"voice_id": "steady"}]}, "inputs", "'inputs.0.voice_id'"),
        ({"inputs": "Yes."}, "inputs", "list"),
        ({"inputs": [line("<speak>a<b></speak>", "steady")]}, "inputs[0].text", "line 1"),
        ({"inputs": [line("…", "steady")]}, "input", "nothing"),
        ({"inputs": [line("Yes.", "steady")], "input": "Yes."}, "input", "Unknown parameter"),
        ({"inputs": [line("Yes.\ud800", "steady")]}, "inputs", "'inputs.0.text': Value error, it holds half of a UTF"),
    ],
)
def test_a_dialogue_that_cannot_be_spoken_is_an_error(server: Any, body: dict, param: str, reason: str) -> None:
    reply = httpx.post(
        server.url + DIALOGUE, content=json.dumps(body), headers={"content-type": "application/json"}, timeout=60
    )
    assert reply.status_code in (400, 404), reply.text
    error = reply.json()["error"]
    assert error["param"] == param
    assert reason in error["message"]
    assert server.tone.begun == []


@pytest.mark.parametrize(
    ("inputs", "status", "code"),
    [
        ([{"text": "Yes.", "voice_id": "nobody"}], 404, "voice_not_found"),
        ([{"text": "Yes.", "voice_id": f"v{number}"} for number in range(11)], 400, "invalid_request"),
        ([{"text": "", "voice_id": "steady"}], 400, "empty_input"),
        ([{"text": "[slow]" * 8_000, "voice_id": "steady"}], 400, "text_too_long"),
        ([], 400, "invalid_request"),
    ],
)
@pytest.mark.parametrize("path", ["", "/stream", "/with-timestamps", "/stream/with-timestamps"])
def test_errors_have_the_shape_of_elevenlabs(server: Any, path: str, inputs: list, status: int, code: str) -> None:
    reply = post(server, ELEVEN + path, inputs=inputs)
    assert reply.status_code == status
    assert reply.json()["detail"]["status"] == code


SSML = "<speak>One. <blink>Two.</blink> <voice name='silky'>Three.</voice></speak>"
TAGS = {"text": "Hello. [whispers] It is late. [laughs] Yes. [pause:1s] No.", "voice_id": "steady"}
MARKED = "One. [voice:nobody] two. [VOICE: silky ] Three. [voice:] four."
AS_TEXT = ["One.", "[voice:silky] two."]


@pytest.mark.parametrize(
    ("path", "body", "ignored", "spoken"),
    [
        (ELEVEN, {"inputs": [TAGS]}, "tag whispers, tag laughs", ["Hello.", "It is late.", "Yes.", "No."]),
        (SPEECH, {"input": MARKED}, "voice nobody", ["One.", "[voice:nobody] two.", "Three.", "[voice:] four."]),
        # A client can have marks read as text, and so they are on the surfaces of others.
        (SPEECH, {"input": "One. [voice:silky] two.", "voice_marks": False}, None, AS_TEXT),
        ("/v1/text-to-speech/steady", {"text": "One. [voice:silky] two."}, None, AS_TEXT),
        ("/v1/speak", {"text": "One. [voice:silky] two."}, None, AS_TEXT),
        # Lines may hold SSML. Marks of a text are text in them.
        (DIALOGUE, {"inputs": [line(SSML, "steady"), line("<think>No.</think>\nFour. [voice:silky] Five.", "steady")]},
         "blink", ["One.", "Two.", "Three.", "Four.", "[voice:silky] Five."]),
    ],
)  # fmt: skip
def test_what_is_spoken_and_what_is_named(
    server: Any, path: str, body: dict[str, Any], ignored: str | None, spoken: list[str]
) -> None:
    reply = post(server, path, **body)
    assert (reply.status_code, reply.headers.get("x-ignored")) == (200, ignored)
    assert server.tone.computed == spoken


def test_every_character_belongs_to_one_voice_and_has_its_time(server: Any) -> None:
    inputs = [
        {"text": "Hello [laughs] there. Good morning. ", "voice_id": "steady"},
        {"text": "Good day!", "voice_id": "silky"},
    ]
    text = "".join(each["text"] for each in inputs)
    whole = post(server, ELEVEN + "/with-timestamps?output_format=pcm_24000", inputs=inputs).json()
    assert "".join(whole["alignment"]["characters"]) == text
    segments = whole["voice_segments"]
    assert [each["voice_id"] for each in segments] == ["steady", "silky"]
    assert [each["dialogue_input_index"] for each in segments] == [0, 1]
    spans = [(each["character_start_index"], each["character_end_index"]) for each in segments]
    assert spans == [(0, len(inputs[0]["text"])), (len(inputs[0]["text"]), len(text))]
    reply = post(server, ELEVEN + "/stream/with-timestamps?output_format=pcm_24000", inputs=inputs)
    found = ""
    voices = []
    for each in map(json.loads, reply.text.splitlines()):
        characters = each["alignment"]["characters"] if each["alignment"] else []
        found += "".join(characters)
        for segment in each["voice_segments"]:
            assert segment["character_end_index"] <= len(characters)
            voices.append((segment["voice_id"], segment["start_time_seconds"]))
    assert found == text
    assert [voice for voice, _ in voices] == ["steady", "steady", "silky"]
    assert [time for _, time in voices] == sorted(time for _, time in voices)
    assert voices[-1][1] == pytest.approx(segments[1]["start_time_seconds"], abs=1e-3)


def test_of_very_many_names_of_a_voice_few_are_looked_for(server: Any) -> None:
    with patch.object(ToneCatalog, "models", autospec=True, side_effect=ToneCatalog.models) as models:
        reply = post(server, inputs=[line("Hi.", "nobody " * 2_000)])
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "inputs[0].voice")
    assert models.call_count < 50


def test_subtitles_hold_the_words_and_no_marks(server: Any) -> None:
    reply = say(server, "One. [voice:silky] Two [voice:nobody].", response_format="vtt")
    assert reply.headers["x-ignored"] == "voice nobody"
    rows = [row for row in reply.text.splitlines() if row and "-->" not in row]
    assert rows == ["WEBVTT", "One.", "Two [voice:nobody]."]


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("[voice:silky]", 400, "nothing_to_speak"),
        ("[voice:silky] [voice:steady] …", 400, "nothing_to_speak"),
        ("Yes. [voice:absent/steady] No.", 503, "model_not_installed"),
    ],
)
def test_marks_of_a_text_that_cannot_be_spoken(server: Any, text: str, status: int, code: str) -> None:
    reply = say(server, text)
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)


def test_words_keep_their_characters_over_a_socket(server: Any) -> None:
    text = "One. [voice:silky] Two more. [voice:nobody] Three. "
    with session(server, timestamps=True) as socket:
        for begin in range(0, len(text), 3):
            send(socket, "text", text=text[begin : begin + 3])
        send(socket, "flush")
        events = []
        while not events or events[-1]["type"] != "done":
            message = socket.recv(timeout=60)
            if isinstance(message, str):
                events.append(json.loads(message))
    assert [event["ignored"] for event in events if event["type"] == "warning"] == [["voice nobody"]]
    words = [word for event in events if event["type"] == "chunk" for word in event["words"]]
    assert [word["text"] for word in words] == ["One", "Two", "more", "voice", "nobody", "Three"]
    assert [text[word["char_start"] : word["char_end"]] for word in words] == [word["text"] for word in words]


def test_phonemes_leave_marks_out(server: Any) -> None:
    assert post(server, "/v1/phonemes", input="One. [voice:silky] Two.").json()["spoken"] == "One. Two."


def test_phonemes_of_a_voice_that_reads_text_are_an_error(both: Any) -> None:
    reply = post(both, "/v1/phonemes", input="One. [voice:own] Two.")
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "model")


def test_each_line_is_translated_and_spoken_in_its_voice(translating: Any) -> None:
    lines = [line("Good morning.", "steady"), line("Good evening.", "silky")]
    assert post(translating, inputs=lines, translate_to="fr", source="en").status_code == 200
    assert say(translating, "Yes. [voice:silky] No.", translate_to="fr", source="en").status_code == 200
    assert translating.tone.computed == ["GOOD MORNING.", "GOOD EVENING.", "YES.", "NO."]


def test_events_of_a_dialogue_tell_its_failure(server: Any) -> None:
    body = {"inputs": [line("One.", "steady"), line("Two.", "broken")], "stream_format": "sse"}
    events: list[str] = []
    with (
        pytest.raises(httpx.RemoteProtocolError),
        httpx.stream("POST", server.url + DIALOGUE, json=body, timeout=60) as reply,
    ):
        events += (json.loads(each[6:])["type"] for each in reply.iter_lines() if each)
    assert events == ["speech.audio.delta", "error"]


def test_a_cloned_voice_speaks_beside_a_model_s_own(start_server: Any, tmp_path: Path) -> None:
    running = start_server(data_dir=str(tmp_path / "data"), preload=("parrot",), recognition_gate=False)
    voice = cloned(running, 700.0)
    spoken = [line("Hello there.", "own"), line("Good day.", f"parrot/{voice}"), line("Yes.", voice)]
    reply = post(running, inputs=spoken, model="parrot")
    assert reply.status_code == 200, reply.text
    pitches = [None if each.conditioning is None else 1 for each in running.parrot.requests]
    assert pitches == [None, 1, 1]
    # A model that clones nobody cannot speak in it, and the line is named.
    refused = post(running, inputs=[line("One.", "steady"), line("Two.", voice)])
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "inputs[1].voice")
    # By chance the same mark stands in a text: it is read.
    marked = say(running, f"One. [voice:{voice}] Two.", voice="steady")
    assert marked.headers["x-ignored"] == f"voice {voice}"
