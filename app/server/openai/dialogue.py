"""`POST /v1/audio/dialogue`: lines that several voices speak in turn, as one recording or stream."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import Response

from app.errors import InvalidRequestError, UnknownVoiceError
from app.observability import metrics
from app.server.exchange import JsonRoute
from app.server.openai.speech import ANSWERS, SpeechResponse, check_text
from app.server.schemas import DialogueBody, SpeechBody, VoiceReference
from app.server.state import Services, services
from app.speech.document import Line, SpeechDocument, read_dialogue
from app.speech.options import PreparedSpeech, SpeechOptions
from app.speech.variants import MAX_VOICES

router = APIRouter(route_class=JsonRoute)

PATH = "/v1/audio/dialogue"


@router.post(PATH, response_class=Response, responses={200: {"content": {kind: {} for kind in ANSWERS}}})
async def dialogue(request: Request, body: DialogueBody) -> Response:
    """Speak `inputs` in turn, each in its voice."""
    lines = [
        Line(each.text, each.voice.id if isinstance(each.voice, VoiceReference) else each.voice, body.lang)
        for each in body.inputs
    ]
    given = {name: getattr(body, name) for name in body.model_fields_set - {"inputs"}}
    return DialogueResponse(services(request), spoken_body(lines, **given), lines)


def spoken_body(lines: Sequence[Line], **fields: object) -> SpeechBody:
    """Return the request for speech that has the words of `lines`, and `fields`."""
    return SpeechBody.model_validate({**fields, "input": "".join(line.text for line in lines), "input_type": "text"})


class DialogueResponse(SpeechResponse):
    """Response to a request for a dialogue.

    The first line decides the sample rate, and the language in which a recognizer listens. Other surfaces derive
    theirs: the names of the fields, the most voices.
    """

    text_field = "inputs"
    voice_field = "voice"
    voice_marks = False
    most_voices = MAX_VOICES

    def __init__(
        self, app: Services, body: SpeechBody, lines: Sequence[Line], surface: metrics.SurfaceName = "openai"
    ) -> None:
        super().__init__(app, body, surface)
        self._lines = lines

    def check(self, headers: Headers) -> None:
        """Check the lines, too. Raises InvalidRequestError."""
        super().check(headers)
        for number, line in enumerate(self._lines):
            check_text(line.text, self.app.settings.max_input_characters, f"{self.text_field}[{number}].text")
            if not line.voice.strip():
                param = self._voice_of(number)
                raise InvalidRequestError(f"'{param}' is empty; name a voice of GET /v1/audio/voices.", param=param)
        voices = len({line.voice for line in self._lines})
        if voices > self.most_voices:
            raise InvalidRequestError(
                f"The dialogue has {voices} voices; at most {self.most_voices} are accepted.", param=self.text_field
            )

    def _voice_of(self, number: int) -> str:
        return f"{self.text_field}[{number}].{self.voice_field}"

    async def choose(self, options: SpeechOptions) -> PreparedSpeech:
        """Return the voice of the first line. Raises ServiceError for any line's."""
        service = self.app.speech
        asked = await service.prepare(options, self.timeline, self.progress())
        speakers: dict[str, PreparedSpeech] = {}
        for number, line in enumerate(self._lines):
            if line.voice not in speakers:
                try:
                    speakers[line.voice] = await service.vary(asked, line.style)
                except UnknownVoiceError as error:
                    raise UnknownVoiceError(error.message, param=self._voice_of(number)) from None
        return speakers[self._lines[0].voice]

    async def read(self, speech: PreparedSpeech) -> SpeechDocument:
        """Return the lines, with their markup. Raises ServiceError."""
        return await read_dialogue(self.app.speech, self._lines, speech, param=self.text_field)
