"""Wyoming's own client, as Home Assistant uses it, against a real server process; a recognizer on what it receives."""

from __future__ import annotations

import asyncio
import io
import warnings
from contextlib import asynccontextmanager

import numpy as np
import pytest
import soundfile

with warnings.catch_warnings():
    # Python 3.12 and older have an audioop of their own, which the client takes.
    warnings.simplefilter("ignore", DeprecationWarning)
    from wyoming import asr, tts
    from wyoming.audio import AudioChunk, AudioStart, AudioStop
    from wyoming.client import AsyncTcpClient
    from wyoming.info import Describe, Info

SENTENCES = ["Please open the window and close the door.", "She has lived in the city for twenty years."]
TEXT = " ".join(SENTENCES)


@pytest.fixture
def port(house) -> int:
    """Port on which the server listens for Wyoming's clients."""
    return house.wyoming[1]


@asynccontextmanager
async def connected(port):
    async with asyncio.timeout(180):
        async with AsyncTcpClient("127.0.0.1", port) as client:
            yield client


async def read_audio(client, end):
    """Samples and rate, up to an event of type `end`."""
    rate, pcm = 0, b""
    while True:
        event = await client.read_event()
        assert event is not None
        if AudioStart.is_type(event.type):
            started = AudioStart.from_event(event)
            assert (started.width, started.channels) == (2, 1)
            rate = started.rate
        elif AudioChunk.is_type(event.type):
            pcm += AudioChunk.from_event(event).audio
        elif end.is_type(event.type):
            return np.frombuffer(pcm, "<i2"), rate
        else:
            assert AudioStop.is_type(event.type), event


@pytest.mark.parametrize("voice", [{"name": "af_heart"}, {"language": "en-US"}, {"name": "house/am_michael"}])
def test_synthesize(port, share_heard, voice):
    async def work():
        async with connected(port) as client:
            await client.write_event(tts.Synthesize(text=SENTENCES[0], voice=tts.SynthesizeVoice(**voice)).event())
            return await read_audio(client, AudioStop)

    pcm, rate = asyncio.run(work())
    assert rate == 24_000
    assert share_heard(SENTENCES[0], pcm, rate) >= 0.5


def test_streaming_as_home_assistant_does(port, share_heard):
    async def work():
        async with connected(port) as client:
            await client.write_event(tts.SynthesizeStart(voice=tts.SynthesizeVoice(name="am_michael")).event())
            for start in range(0, len(TEXT), 9):
                await client.write_event(tts.SynthesizeChunk(text=TEXT[start : start + 9]).event())
            await client.write_event(tts.Synthesize(text=TEXT, voice=tts.SynthesizeVoice(name="am_michael")).event())
            await client.write_event(tts.SynthesizeStop().event())
            return await read_audio(client, tts.SynthesizeStopped)

    pcm, rate = asyncio.run(work())
    assert 3 < pcm.size / rate < 12, "spoken twice, or in part"
    assert share_heard(TEXT, pcm, rate) >= 0.6


def test_transcribe_as_home_assistant_does(stand_ins, speech):
    samples, rate = soundfile.read(io.BytesIO(speech), dtype="int16")
    assert rate == 16_000
    audio = samples.tobytes()
    form = {"rate": rate, "width": 2, "channels": 1}

    async def work():
        async with connected(stand_ins.wyoming[1]) as client:
            await client.write_event(Describe().event())
            info = Info.from_event(await client.read_event())
            await client.write_event(asr.Transcribe(language="en").event())
            await client.write_event(AudioStart(**form).event())
            for start in range(0, len(audio), 2_048):
                await client.write_event(AudioChunk(**form, audio=audio[start : start + 2_048]).event())
            await client.write_event(AudioStop().event())
            events = []
            while not events or not asr.TranscriptStop.is_type(events[-1].type):
                events.append(await client.read_event())
            return info, events

    info, events = asyncio.run(work())
    (program,) = info.asr
    assert (program.installed, program.supports_transcript_streaming) == (True, True)
    assert program.models[0].languages[0] == "en"
    assert asr.TranscriptStart.from_event(events[0]).language == "en"
    chunks = [asr.TranscriptChunk.from_event(event).text for event in events if asr.TranscriptChunk.is_type(event.type)]
    (whole,) = [asr.Transcript.from_event(event) for event in events if asr.Transcript.is_type(event.type)]
    assert len(chunks) == 6
    assert whole.text == "".join(chunks) == " ".join(f"en second {number}." for number in range(6))
    assert whole.language == "en"
