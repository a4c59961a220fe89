"""ElevenLabs' REST surface over a real socket: the answers and the errors of each path."""

import base64
import io
import json
from typing import Any

import av
import httpx
import numpy as np
import pytest

TWO = "Hello there, everybody.  This is the second sentence.\n"


def post(server: Any, voice: str = "steady", path: str = "", output: str | None = "pcm_24000", **body: object) -> Any:
    query = {} if output is None else {"output_format": output}
    return httpx.post(f"{server.url}/v1/text-to-speech/{voice}{path}", params=query, json={"text": TWO, **body})


@pytest.mark.parametrize("path", ["", "/stream"])
def test_audio_is_that_of_the_servers_own_surface(server: Any, path: str) -> None:
    reply = post(server, path=path, model_id="eleven_turbo_v2_5", voice_settings={"speed": 1.1, "stability": 0.3})
    own = {"input": TWO, "voice": "steady", "response_format": "pcm", "speed": 1.1}
    assert reply.status_code == 200
    assert reply.content == httpx.post(server.url + "/v1/audio/speech", json=own).content
    assert int(reply.headers["x-sample-rate"]) == 24_000


@pytest.mark.parametrize("path", ["", "/stream", "/with-timestamps", "/stream/with-timestamps"])
@pytest.mark.parametrize("output", ["mp3_22050_32", "mp3_44100_32", "mp3_44100_128", "mp3_44100_192"])
def test_mp3_has_the_bit_rate_of_its_name(server: Any, output: str, path: str) -> None:
    reply = post(server, path=path, output=output)
    data = reply.content
    if path.endswith("timestamps"):
        data = b"".join(base64.b64decode(json.loads(line)["audio_base64"]) for line in reply.text.splitlines())
    with av.open(io.BytesIO(data), format="mp3") as container:
        assert container.streams.audio[0].codec_context.bit_rate == int(output.split("_")[2]) * 1000


def test_opus_has_the_bit_rate_of_its_name(server: Any) -> None:
    sizes = [len(post(server, output=f"opus_48000_{kbits}").content) for kbits in (32, 64, 128, 192)]
    assert sizes == sorted(set(sizes))


def test_a_bit_rate_that_does_not_exist_is_refused_with_those_that_do(server: Any) -> None:
    for output, accepted in (("mp3_44100_100", "96, 112, 128"), ("opus_48000_999", "6 to 256")):
        reply = post(server, output=output)
        assert reply.status_code == 400
        assert reply.json()["detail"]["status"] == "unsupported_format"
        assert accepted in reply.json()["detail"]["message"]


def test_unknown_fields_of_newer_sdks_are_ignored(server: Any) -> None:
    extra = {"previous_text": "So.", "next_request_ids": ["x"], "pronunciation_dictionary_locators": [], "new": 1}
    assert post(server, **extra).content == post(server).content


@pytest.mark.parametrize("voice", ["steady", "chunky"])
@pytest.mark.parametrize("path", ["/with-timestamps", "/stream/with-timestamps"])
def test_times_cover_text_and_audio(server: Any, path: str, voice: str) -> None:
    reply = post(server, voice, path)
    assert reply.headers["content-type"] == "application/json"
    lines = [json.loads(line) for line in reply.text.splitlines()]
    assert len(lines) == 1 if path == "/with-timestamps" else len(lines) > 1
    audio = b"".join(base64.b64decode(line["audio_base64"]) for line in lines)
    assert audio == post(server, voice).content
    timed = [line["alignment"] for line in lines if line["alignment"]]
    assert "".join(character for piece in timed for character in piece["characters"]) == TWO
    starts = [second for piece in timed for second in piece["character_start_times_seconds"]]
    ends = [second for piece in timed for second in piece["character_end_times_seconds"]]
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    assert ends[-1] == pytest.approx(len(audio) / 2 / 24_000, abs=1e-3)
    assert all(line["normalized_alignment"] == line["alignment"] for line in lines)


def test_long_audio_is_whole(server: Any) -> None:
    """It is sent in pieces, whose base64 is that of all."""
    text = "Hello there. " + "[pause:10s] " * 6 + "Good bye now."
    timed, plain = (post(server, path=path, text=text) for path in ("/with-timestamps", ""))
    assert len(plain.content) > 60 * 48_000
    assert base64.b64decode(timed.json()["audio_base64"], validate=True) == plain.content
    assert len(timed.content) == int(timed.headers["content-length"])


def test_a_word_is_timed_by_the_model(server: Any) -> None:
    found = post(server, path="/with-timestamps").json()["alignment"]
    start = TWO.index("This")
    first = len(post(server, text="Hello there, everybody.").content) / 2 / 24_000
    # The second sentence begins with its word, after the pause between two.
    assert found["character_start_times_seconds"][start] == pytest.approx(first + 0.5, abs=0.021)


def test_text_models_share_a_sentences_time_evenly(cloning: Any) -> None:
    text = "Evenly it goes. And then comes more."
    whole = post(cloning, "own", "/with-timestamps", text=text, model_id="parrot").json()["alignment"]
    assert "".join(whole["characters"]) == text
    cut = text.index("And")
    for part in (whole["character_start_times_seconds"][:cut], whole["character_start_times_seconds"][cut:]):
        assert np.diff(part) == pytest.approx(np.diff(part).mean(), abs=2e-4)
    lines = post(cloning, "own", "/stream/with-timestamps", text=text, model_id="parrot").text.splitlines()
    timed = [line["alignment"] for line in map(json.loads, lines) if line["alignment"]]
    assert len(timed) == 4  # two pieces of each sentence
    assert "".join(character for piece in timed for character in piece["characters"]) == text
    starts = [second for piece in timed for second in piece["character_start_times_seconds"]]
    assert starts == sorted(starts)


def test_voices(server: Any) -> None:
    listed = httpx.get(server.url + "/v1/voices").json()["voices"]
    assert {"voice_id": "steady", "name": "steady", "category": "premade"}.items() <= listed[0].items()
    assert listed[0]["labels"] == {"language": "en-us", "gender": "male"}
    assert listed[0]["description"] == "man, American English"
    assert httpx.get(server.url + "/v1/voices/silky").json() == next(v for v in listed if v["voice_id"] == "silky")
    page = httpx.get(server.url + "/v2/voices").json()
    assert page["voices"] == listed
    assert page["total_count"] == len(listed)
    assert not page["has_more"]


@pytest.mark.parametrize("path", ["", "/stream", "/with-timestamps", "/stream/with-timestamps"])
@pytest.mark.parametrize(
    ("status", "code", "told", "changes"),
    [
        (400, "unsupported_format", "output_format", {"output": "mp3"}),
        (400, "unsupported_format", "output_format", {"output": "pcm_24000_128"}),
        (400, "unsupported_format", "8000", {"output": "pcm_96000"}),
        (400, "unsupported_format", "22050", {"output": "mp3_1234_64"}),
        (400, "invalid_request", "speed", {"voice_settings": {"speed": 9}}),
        (400, "invalid_request", "text", {"text": None}),
    ],
)
def test_refusals_have_elevenlabs_shape(
    server: Any, path: str, status: int, code: str, told: str, changes: dict[str, Any]
) -> None:
    reply = post(server, path=path, **changes)
    detail = reply.json()["detail"]
    assert (reply.status_code, detail["status"]) == (status, code)
    assert told in detail["message"]
    assert detail["request_id"] == reply.headers["x-request-id"]


def test_other_refusals_have_it_too(server: Any) -> None:
    url = server.url + "/v1/text-to-speech/steady"
    assert httpx.get(url).json()["detail"]["status"] == "method_not_allowed"
    assert httpx.get(server.url + "/v1/voices/nobody").json()["detail"]["status"] == "voice_not_found"
    assert httpx.get(server.url + "/v1/text-to-speech/a/b").json()["detail"]["status"] == "not_found"
