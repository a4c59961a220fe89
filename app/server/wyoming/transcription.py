"""One recording of a Wyoming client, and its transcript."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from app.audio.decoder_process import MAX_CHANNELS, MAX_RATE, MIN_RATE
from app.audio.pcm import Coding, frame_bytes, wav_header
from app.engine.spool import UploadReservation
from app.errors import ProtocolError, ServiceError, UnusableRecordingError
from app.observability import metrics
from app.recognition.service import RecognitionOptions
from app.recognition.stream import RecognitionStream
from app.recognition.transcript import Deltas
from app.server.exchange import recorded, run_until
from app.server.schemas import UnicodeText
from app.server.spooled_upload import SpooledUpload
from app.server.state import Services
from models.timeline import Timeline

# By the bytes of a sample. Of one byte nobody says whether it has a sign.
CODINGS: Final[dict[int, Coding]] = {2: "pcm", 3: "pcm24", 4: "pcm32"}
_MAX_WORDS: Final = 1_000

Write = Callable[[str, dict[str, Any]], Awaitable[None]]
_Words = Annotated[list[UnicodeText] | None, Field(max_length=_MAX_WORDS)]


class Transcribe(BaseModel):
    """Data of `transcribe`."""

    name: UnicodeText | None = None
    language: UnicodeText | None = None
    transcript_names: _Words = None
    transcript_terms: _Words = None

    @property
    def options(self) -> RecognitionOptions:
        """Options of the recognition."""
        keywords = (*(self.transcript_names or ()), *(self.transcript_terms or ()))
        return RecognitionOptions(model=self.name or None, language=self.language or None, keywords=keywords)


class AudioFormat(BaseModel):
    """Format of audio in `audio-start` and `audio-chunk`. `width`: bytes of a sample."""

    rate: Annotated[int, Field(ge=MIN_RATE, le=MAX_RATE)]
    width: Literal[2, 3, 4]
    channels: Annotated[int, Field(ge=1, le=MAX_CHANNELS)]


class Transcription:
    """Audio of one recording as it comes, which takes `place`, then its transcript. `close` it in the end."""

    def __init__(self, app: Services, request: Transcribe, form: AudioFormat, place: UploadReservation) -> None:
        settings = app.settings
        self._app = app
        self._request = request
        self._form = form
        self._upload = SpooledUpload(settings.max_recording_bytes)
        self._place = place
        self._coding = CODINGS[form.width]
        self._frame = frame_bytes(self._coding, form.channels)
        self._most = round(settings.recognition_seconds * form.rate) * self._frame

    async def put(self, form: AudioFormat, audio: bytes) -> None:
        """Add some audio. Raises ProtocolError, UnusableRecordingError and what the spool and the upload raise."""
        if form != self._form:
            raise ProtocolError("The format of the audio changed within a recording.")
        if self._upload.size + len(audio) > self._most:
            seconds = self._app.settings.recognition_seconds
            message = f"The recording is too long: at most {seconds:g} seconds are recognized."
            raise UnusableRecordingError(message, param="audio-chunk")
        self._place.add(len(audio))
        await self._upload.write(audio)

    async def recognize(self, write: Write) -> None:
        """Write the transcript: its segments as they come, then the whole. Raises ServiceError."""
        self._place.add(0, last=True)
        if self._upload.size < self._frame:
            await _finish(write, "", self._request.language, started=False)
            return
        with self._app.admission.admit():
            # Whoever runs this cancels it when the client leaves.
            await run_until(asyncio.Event().wait(), self._app.admission.aborted(), self._recognize(write))

    async def _recognize(self, write: Write) -> None:
        recognition, timeline = self._app.recognition, Timeline()
        labels = metrics.Labels(model="none", surface="wyoming", streaming=True)
        try:
            prepared = await recognition.prepare(self._request.options, self._read, timeline)
        except ServiceError:
            metrics.record_recognition(timeline, labels, "rejected", 0.0)
            raise
        labels = metrics.Labels(model=prepared.model, surface="wyoming", streaming=True)
        stream = RecognitionStream(recognition, prepared, timeline, labels)
        deltas, started = Deltas(), False
        async with recorded(stream, lambda: started):
            async for segment in stream:
                if not started:
                    await write("transcript-start", {"language": segment.language})
                    started = True
                await write("transcript-chunk", {"text": deltas.push(segment.text)})
            transcript = await stream.transcript()
            await _finish(write, transcript.text, transcript.language, started=started)

    async def _read(self) -> bytes:
        audio = await self._upload.read()
        return wav_header(self._form.rate, len(audio) // self._frame, self._coding, self._form.channels) + audio

    async def close(self) -> None:
        """Delete the audio."""
        self._place.close()
        await self._upload.close()


async def _finish(write: Write, text: str, language: str | None, *, started: bool) -> None:
    """Write the whole text: the one event that clients without streams read."""
    known = {} if language is None else {"language": language}
    if not started:
        await write("transcript-start", known)
    await write("transcript", {"text": text, **known})
    await write("transcript-stop", {})
