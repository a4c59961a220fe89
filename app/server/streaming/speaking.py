"""Steps of a speech stream that every socket shares: encode its audio, record its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.audio.encoders import Encoder, encode
from app.errors import ServiceError
from app.observability import metrics
from app.speech.stream import SpeechStream, SpokenChunk
from models.timeline import Stage


async def encode_chunk(encoder: Encoder, stream: SpeechStream, chunk: SpokenChunk | None) -> bytes:
    """Return the encoded audio of `chunk`, which may be empty while a codec holds it; None: the end of the audio."""
    with stream.timeline.measure(Stage.AUDIO_ENCODE):
        return await encode(encoder, None if chunk is None else chunk.pcm)


@contextmanager
def recorded(stream: SpeechStream) -> Iterator[None]:
    """Close `stream` at the end of the block, with the outcome of the block. Errors pass through."""
    outcome: metrics.Outcome = "cancelled"
    try:
        yield
        outcome = "ok"
        stream.timeline.finish()
    except ServiceError as error:
        outcome = "rejected" if error.status < 500 else "failed"
        raise
    finally:
        stream.close(outcome)
