"""livekit-agents' own text-to-speech plugins against a real server process. They need no room and no LiveKit server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import aiohttp
import pytest
from livekit.agents import APIConnectOptions, APIStatusError, tts
from livekit.agents.types import USERDATA_TIMED_TRANSCRIPT
from livekit.plugins import deepgram, elevenlabs, openai

# One try: what fails is to be seen.
ONCE = APIConnectOptions(max_retry=0, timeout=60)
OTHER = "She has lived in the city for twenty years."

Make = Callable[[str, aiohttp.ClientSession], tts.TTS]


def with_openai(url: str, _: aiohttp.ClientSession, **options: Any) -> tts.TTS:
    return openai.TTS(base_url=f"{url}/v1", api_key="none", **options)


def with_elevenlabs(url: str, session: aiohttp.ClientSession, **options: Any) -> tts.TTS:
    given = {"voice_id": "af_heart", **options}
    return elevenlabs.TTS(base_url=f"{url}/v1", api_key="none", http_session=session, **given)


def with_deepgram(url: str, session: aiohttp.ClientSession, **options: Any) -> tts.TTS:
    return deepgram.TTS(base_url=f"{url}/v1/speak", api_key="none", http_session=session, **options)


def service(make: Callable[..., tts.TTS], **options: Any) -> Any:
    name = "-".join([make.__name__[5:], *(f"{value}".lower() for value in options.values())])
    return pytest.param(lambda url, session: make(url, session, **options), id=name)


# OpenAI's is mp3 in events unless told otherwise, ElevenLabs' mp3_22050_32.
WHOLE = [
    service(with_openai),
    service(with_openai, model="tts-1"),
    service(with_openai, voice="af_heart", response_format="wav"),
    service(with_openai, response_format="pcm"),
    service(with_openai, response_format="opus"),
    service(with_openai, response_format="flac"),
    service(with_openai, response_format="aac"),
    service(with_elevenlabs),
    service(with_elevenlabs, encoding="mp3_44100_192"),
    service(with_elevenlabs, encoding="opus_48000_64"),
    service(with_elevenlabs, encoding="pcm_16000"),
    service(with_deepgram),
    service(with_deepgram, sample_rate=16_000),
]
STREAMS = [
    service(with_elevenlabs),
    service(with_elevenlabs, encoding="opus_48000_64"),
    service(with_elevenlabs, encoding="pcm_24000", auto_mode=False),
    service(with_elevenlabs, encoding="mp3_44100_128", chunk_length_schedule=[50, 90]),
    service(with_deepgram),
]


@dataclass
class Heard:
    """Result of one stream: 16-bit samples, and the words with their times."""

    audio: bytes = b""
    rate: int = 0
    words: list[Any] = field(default_factory=list)

    async def all_of(self, stream: Any) -> None:
        async for event in stream:
            frame = event.frame
            self.audio += bytes(frame.data.cast("b"))
            self.rate = frame.sample_rate
            self.words += frame.userdata.get(USERDATA_TIMED_TRANSCRIPT, [])

    @property
    def seconds(self) -> float:
        return len(self.audio) / 2 / self.rate


@asynccontextmanager
async def opened(make: Callable[..., Any], server: str, **options: Any) -> AsyncIterator[Any]:
    """A plugin of speech in either direction."""
    async with aiohttp.ClientSession() as session:
        made = make(server, session, **options)
        try:
            async with asyncio.timeout(100):
                yield made
        finally:
            await made.aclose()
            if isinstance(made, openai.STT):
                # The plugin leaves its connections open.
                await made._client.close()


@pytest.mark.parametrize("make", WHOLE)
async def test_a_whole_text_is_heard(make: Make, server: str, text: str, share_heard: Any) -> None:
    async with opened(make, server) as made:
        heard = Heard()
        async with made.synthesize(text, conn_options=ONCE) as stream:
            await heard.all_of(stream)
        assert heard.rate == made.sample_rate
        assert 4 < heard.seconds < 10
        assert share_heard(text, heard.audio, heard.rate) >= 0.6


@pytest.mark.parametrize("make", STREAMS)
async def test_a_stream_of_tokens_is_heard(
    make: Make, server: str, text: str, tokens: list[str], share_heard: Any
) -> None:
    """Twice over one connection, with words where the plugin has them."""
    async with opened(make, server) as made:
        for _ in range(2):
            heard = Heard()
            async with made.stream(conn_options=ONCE) as stream:
                for token in tokens:
                    stream.push_text(token)
                stream.flush()
                stream.end_input()
                await heard.all_of(stream)
            assert heard.rate == made.sample_rate
            assert 4 < heard.seconds < 10
            assert share_heard(text, heard.audio, heard.rate) >= 0.6
            if made.capabilities.aligned_transcript:
                assert "".join(heard.words).split() == text.split()
                # ElevenLabs' times are those within a message's audio: of a sentence or, by a schedule, a clause. The
                # plugin leaves them so.
                begun = [word.start_time for word in heard.words]
                restarts = [index for index, (one, other) in enumerate(pairwise(begun), 1) if other < one]
                assert text.split().index("Please") in restarts
                assert len(restarts) <= 2
                assert 0 <= min(begun) < max(begun) < heard.seconds


async def test_segments_come_one_after_the_other(server: str, share_heard: Any) -> None:
    async with opened(with_deepgram, server) as made:
        heard = Heard()
        async with made.stream(conn_options=ONCE) as stream:
            for sentence in (OTHER, "Please open the window."):
                stream.push_text(sentence)
                stream.flush()
            stream.end_input()
            await heard.all_of(stream)
        assert share_heard(f"{OTHER} Please open the window.", heard.audio, heard.rate) >= 0.6


async def test_an_answer_that_is_there_before_it_is_spoken(server: str) -> None:
    """The plugin flushes after every sentence, and waits for nothing."""
    async with opened(with_elevenlabs, server, encoding="pcm_24000") as made:
        heard = Heard()
        async with made.stream(conn_options=ONCE) as stream:
            for _ in range(30):
                stream.push_text("Good night. ")
            stream.end_input()
            await heard.all_of(stream)
        assert "".join(heard.words).split() == ["Good", "night."] * 30


@pytest.mark.parametrize(
    ("make", "surface"),
    [(with_openai, "openai"), (with_elevenlabs, "elevenlabs"), (with_deepgram, "deepgram")],
    ids=["openai", "elevenlabs", "deepgram"],
)
async def test_an_interruption_stops_the_server_and_the_next_turn_is_heard(
    make: Make, surface: str, server: str, text: str, share_heard: Any, cancelled: Callable[[str], float]
) -> None:
    def begin(made: tts.TTS, said: str) -> Any:
        """A stream whose last words may still come, if the plugin has streams."""
        if not made.capabilities.streaming:
            return made.synthesize(said, conn_options=ONCE)
        stream = made.stream(conn_options=ONCE)
        stream.push_text(said)
        return stream

    before = cancelled(surface)
    async with opened(make, server) as made:
        stream = begin(made, " ".join([text] * 20))
        await anext(stream)
        await stream.aclose()
        heard, stream = Heard(), begin(made, OTHER)
        if made.capabilities.streaming:
            stream.end_input()
        await heard.all_of(stream)
        await stream.aclose()
        assert heard.seconds < 6
        assert share_heard(OTHER, heard.audio, heard.rate) >= 0.6
    assert cancelled(surface) > before


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (lambda url, session: with_openai(url, session, voice="nobody"), (400, None)),
        (lambda url, session: with_openai(url, session, model="nothing"), (404, None)),
        (lambda url, session: with_elevenlabs(url, session, voice_id="nobody"), (404, 1008)),
        (lambda url, session: with_deepgram(url, session, model="nobody"), (400, 400)),
    ],
    ids=["openai voice", "openai model", "elevenlabs", "deepgram"],
)
async def test_errors_are_the_frameworks(make: Make, status: tuple[int, int | None], server: str) -> None:
    async with opened(make, server) as made:
        with pytest.raises(APIStatusError) as caught:
            async with made.synthesize("Hello.", conn_options=ONCE) as stream:
                await Heard().all_of(stream)
        assert caught.value.status_code == status[0]
        if isinstance(made, openai.TTS):
            assert "nobody" in str(caught.value) or "nothing" in str(caught.value)
        if status[1] is not None:
            with pytest.raises(APIStatusError) as caught:
                async with made.stream(conn_options=ONCE) as stream:
                    stream.push_text("Hello.")
                    stream.end_input()
                    await Heard().all_of(stream)
            assert caught.value.status_code == status[1]
