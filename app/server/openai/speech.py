"""OpenAI's surface: speech (platform.openai.com, "Audio").

Audio is sent sentence by sentence. A reply of one piece has its exact length, in the HTTP head and in its own header. A
longer one is chunked, and a WAV then has 0xFFFFFFFF in its size fields. A failure after the first byte breaks the
connection: it never looks like a complete reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Send

from app.audio import subtitles
from app.audio.encoders import INFO, Format, check_format, choose_rate
from app.audio.subtitles import SUBTITLE_FORMATS, SubtitleFormat
from app.engine.admission import client
from app.errors import EmptyInputError, InvalidRequestError, TextTooLongError, UnsupportedFormatError
from app.observability import metrics
from app.server.audio_response import Reply, ReplyForm, negotiate
from app.server.exchange import JsonRoute, StreamExchange
from app.server.schemas import SpeechBody
from app.server.state import Services, services
from app.speech.document import SpeechDocument, read_document
from app.speech.options import PreparedSpeech, SpeechOptions, unused_speed
from app.speech.sentence import SpokenChunk
from app.speech.stream import SpeechStream

router = APIRouter(route_class=JsonRoute)

PATH = "/v1/audio/speech"
ANSWERS = [*(info.media_type for info in INFO.values()), *subtitles.MEDIA_TYPES.values(), "text/event-stream"]


@router.post(PATH, response_class=Response, responses={200: {"content": {kind: {} for kind in ANSWERS}}})
async def speech(request: Request, body: SpeechBody) -> Response:
    """Speak `input`."""
    return SpeechResponse(services(request), body)


def check_text(text: str, limit: int, field: str = "input") -> None:
    """Raise EmptyInputError or TextTooLongError unless `text`, the client's `field`, has 1 to `limit` characters."""
    if not text.strip():
        raise EmptyInputError(f"'{field}' is empty; send the text to speak.", param=field)
    if len(text) > limit:
        raise TextTooLongError(f"'{field}' has {len(text)} characters; at most {limit} are accepted.", param=field)


class SpeechResponse(StreamExchange[SpeechStream]):
    """Response to a request for speech, or for its subtitles.

    Other surfaces derive theirs: the name of the text, the form of errors and of replies.
    """

    text_field = "input"
    voice_marks = True  # `[voice:NAME]` changes the voice, unless the request says otherwise

    def __init__(self, app: Services, body: SpeechBody, surface: metrics.SurfaceName = "openai") -> None:
        super().__init__(app)
        self._body = body
        self.streams_events = body.stream_format == "sse"
        self._format: Format = "pcm"
        self._subtitles: SubtitleFormat | None = None
        self._rate = 0
        self.ignored = body.unknown_fields()
        self._labels = metrics.Labels(model="none", surface=surface, streaming=self.streams_events)

    def check(self, headers: Headers) -> None:
        """Choose the format, and check the text. Raises InvalidRequestError."""
        self._format, self._subtitles = self._choose_format(headers)
        check_text(self._body.input, self.app.settings.max_input_characters, self.text_field)
        if self._body.sample_rate is not None and self._body.sample_rate <= 0:
            raise InvalidRequestError("'sample_rate' must be positive.", param="sample_rate")

    def _choose_format(self, headers: Headers) -> tuple[Format, SubtitleFormat | None]:
        """Return the encoding of the audio, and the subtitles that are sent in its place, if any."""
        if self._body.response_format is None:
            default = check_format(self.app.settings.default_format)
            return negotiate(", ".join(headers.getlist("accept")), default), None
        for kind in SUBTITLE_FORMATS:
            if kind == self._body.response_format:
                if self.streams_events:
                    raise UnsupportedFormatError(f"'{kind}' is sent whole; it has no 'stream_format' sse.")
                return "pcm", kind
        try:
            return check_format(self._body.response_format), None
        except UnsupportedFormatError as error:
            raise UnsupportedFormatError(f"{error.message[:-1]}, and {' or '.join(SUBTITLE_FORMATS)}.") from None

    async def prepare(self) -> SpeechStream:
        """Return a stream that speaks the text. Raises what `SpeechService.prepare` raises, and OverloadedError."""
        body = self._body
        marks = self.voice_marks and body.voice_marks
        speech = await self.choose(SpeechOptions.of(body, voice=body.voice_name, voice_marks=marks))
        self._rate = choose_rate(self._format, speech.synthesizer.sample_rate, body.sample_rate)
        self._labels = replace(self._labels, model=speech.model)
        make = await self.app.verifiers(speech, body.verify)
        document = await self.read(speech)
        speech, document = await document.prepare(self.app.speech, speech)
        self.ignored += (*document.ignored, *unused_speed(speech.options.speed, speech.synthesizer))
        admitted = self.app.admission.open(speech.model, client.get())
        stream = SpeechStream(
            self.app.speech,
            speech,
            self.timeline,
            self._labels,
            admitted,
            make() if make else None,
            document.variants,
        )
        document.feed(stream)
        return stream

    async def choose(self, options: SpeechOptions) -> PreparedSpeech:
        """Return the voice of the request. Raises ServiceError."""
        return await self.app.speech.prepare(options, self.timeline, self.progress())

    async def read(self, speech: PreparedSpeech) -> SpeechDocument:
        """Return the text, with its markup. Raises ServiceError."""
        body = self._body
        return await read_document(self.app.speech, body.input, speech, body.input_type, param=self.text_field)

    async def answer(self, stream: SpeechStream) -> None:
        """Send the audio of `stream`, or its subtitles."""
        chunks = aiter(stream)
        # Made while the model computes: once it has, everything is waited for.
        characters, stall_seconds = len(self._body.input), self.app.settings.stall_seconds
        form = ReplyForm(self._format, self._rate, self.streams_events, characters, stall_seconds)
        reply = self.make_reply(stream, self.send, form)
        first = await anext(chunks)
        if self._subtitles is not None:
            rest = [chunk.without_audio() async for chunk in chunks]
            await self._send_subtitles(self._subtitles, stream, [first, *rest])
        elif stream.verified and not self.streams_events:
            # The result goes into the head: all is heard before the first byte.
            await reply.whole(first, chunks)
        elif await stream.is_whole():
            await reply.whole(first)
        else:
            await reply.streamed(first, chunks)

    def make_reply(self, stream: SpeechStream, send: Send, form: ReplyForm) -> Reply:
        """Return the writer of the answer's bytes."""
        return Reply(stream, send, form)

    async def _send_subtitles(self, kind: SubtitleFormat, stream: SpeechStream, chunks: Sequence[SpokenChunk]) -> None:
        for chunk in chunks:
            stream.delivered(chunk, sent=False)
        headers = {"server-timing": self.timeline.server_timing(), "cache-control": "no-store"}
        if (report := await stream.verification()) is not None:
            headers |= report.headers()
        text = subtitles.render(subtitles.cues(chunks), kind)
        await self.respond_in_time(Response(text, headers=headers, media_type=subtitles.MEDIA_TYPES[kind]))

    def note_rejected(self) -> None:
        """Count a request that is refused before anything is computed."""
        metrics.record(self.timeline, self._labels, "rejected", metrics.Playback())
