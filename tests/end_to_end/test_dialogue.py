"""Dialogues against a real server: ElevenLabs' SDK, a recognizer on each speaker, and the samples where they change."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator

import httpx
import numpy as np
import pytest
import soundfile
from elevenlabs import DialogueInput
from elevenlabs.client import ElevenLabs

from tests.clients import RATE, samples, speak
from tests.end_to_end.test_elevenlabs_sdk import elevenlabs

QUESTION = "Please open the window and close the door."
ANSWER = "The weather is fine today."
LINES = [("am_michael", QUESTION), ("af_heart", ANSWER), ("am_michael", ANSWER)]


@pytest.fixture
def client(server: str) -> Iterator[ElevenLabs]:
    with elevenlabs(server) as made:
        yield made


def inputs(*lines: tuple[str, str]) -> list[DialogueInput]:
    return [DialogueInput(text=text, voice_id=voice) for voice, text in lines]


def level(pcm: np.ndarray) -> float:
    """Return the level of the speech in `pcm`, without its silence, in decibels."""
    return 20 * float(np.log10(np.sqrt(np.mean(np.square(pcm[np.abs(pcm) > 0.01])))))


def test_each_speaker_of_the_sdk_is_heard_in_turn(client: ElevenLabs, share_heard: Callable[..., float]) -> None:
    reply = client.text_to_dialogue.convert_with_timestamps(
        inputs=inputs(*LINES), model_id="eleven_v3", seed=7, output_format="pcm_24000"
    )
    pcm = np.frombuffer(base64.b64decode(reply.audio_base_64), "<i2")
    text = "".join(text for _, text in LINES)
    assert reply.alignment is not None
    assert "".join(reply.alignment.characters) == text
    segments = reply.voice_segments
    assert [segment.voice_id for segment in segments] == [voice for voice, _ in LINES]
    assert [text[segment.character_start_index : segment.character_end_index] for segment in segments] == [
        said for _, said in LINES
    ]
    for segment, (_, said) in zip(segments, LINES, strict=True):
        part = pcm[round(segment.start_time_seconds * RATE) : round(segment.end_time_seconds * RATE)]
        assert share_heard(said, part, RATE) >= 0.6
    assert segments[-1].end_time_seconds == pytest.approx(pcm.size / RATE, abs=0.01)


def test_stream_of_the_sdk_is_what_convert_sends(client: ElevenLabs) -> None:
    made = inputs(*LINES[:2])
    whole = b"".join(client.text_to_dialogue.convert(inputs=made, output_format="pcm_24000"))
    assert b"".join(client.text_to_dialogue.stream(inputs=made, output_format="pcm_24000")) == whole
    pieces = list(client.text_to_dialogue.stream_with_timestamps(inputs=made, output_format="pcm_24000"))
    assert b"".join(base64.b64decode(piece.audio_base_64) for piece in pieces) == whole
    voices = [segment.voice_id for piece in pieces for segment in piece.voice_segments]
    assert list(dict.fromkeys(voices)) == ["am_michael", "af_heart"]
    mp3 = b"".join(client.text_to_dialogue.convert(inputs=made))
    pcm, rate = soundfile.read(io.BytesIO(mp3), dtype="float32")
    assert rate == 44_100
    assert pcm.size / rate == pytest.approx(len(whole) / 2 / RATE, abs=0.1)


def test_speakers_change_in_silence_and_at_one_level(house_server: str) -> None:
    parts = [samples(speak(house_server, ANSWER, voice=voice)) for voice in ("am_michael", "af_heart")]
    lines = [{"text": ANSWER, "voice": voice} for voice in ("am_michael", "af_heart")]
    pcm = samples(httpx.post(f"{house_server}/v1/audio/dialogue", json={"inputs": lines}))
    # The second speaker begins after the pause between two sentences, in place of 20 ms.
    assert pcm.size >= sum(part.size for part in parts)
    seam = pcm[parts[0].size - round(0.1 * RATE) : parts[0].size + round(0.1 * RATE)]
    assert np.abs(seam).max() < 0.02  # the last sound rings
    assert np.abs(np.diff(seam)).max() < 0.005
    loud = np.flatnonzero(np.abs(pcm) > 0.02)
    assert 0.4 < np.diff(loud).max() / RATE < 0.6
    one, other = level(pcm[: parts[0].size]), level(pcm[parts[0].size :])
    assert abs(one - other) < 2.0
    # A voice is as loud beside another as alone.
    assert one == pytest.approx(level(parts[0]), abs=0.1)
    assert other == pytest.approx(level(parts[1]), abs=0.1)
