"""A whole text as a request brings it: plain, or a document of SSML, which is read before its speech begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from app import errors
from app.engine.service_errors import REQUEST_ERRORS, service_error
from app.llm_text.sources import Speakable
from app.speech.service import PreparedSpeech, SpeechService
from app.speech.stream import SpeechStream
from app.ssml.source import SsmlText, is_ssml

InputType = Literal["auto", "text", "ssml"]

# Characters of SSML that are read in one turn of the text thread.
_SLICE: Final = 2_000


@dataclass(frozen=True, slots=True)
class Document:
    """Passages of SSML in order, and the parts of its markup that change nothing here."""

    passages: tuple[Speakable, ...]
    ignored: tuple[str, ...] = ()

    async def check(self, service: SpeechService, speech: PreparedSpeech) -> None:
        """Raise ServiceError for a voice or a language that `speech` cannot take, before any of it is spoken."""
        styles = {each.script.style for each in self.passages if each.script is not None}
        for style in {replace(style, rate=1.0, gain=1.0) for style in styles}:
            await service.vary(speech, style)

    def feed(self, stream: SpeechStream) -> None:
        """Have `stream` speak the document and end."""
        for each in self.passages:
            stream.feed(each.text, script=each.script)
        stream.finish()


def holds_ssml(text: str, input_type: InputType, *, translated: bool) -> bool:
    """Return whether a text is SSML. Raises InvalidRequestError where that is to be `translated`."""
    found = input_type == "ssml" or (input_type == "auto" and is_ssml(text) is True)
    if found and translated:
        raise errors.InvalidRequestError(NOT_TRANSLATED, param="translate_to")
    return found


NOT_TRANSLATED: Final = "SSML is spoken as it is written; leave 'translate_to' out, or send plain text."


async def read_document(service: SpeechService, text: str, language: str, *, param: str = "input") -> Document:
    """Read SSML on the text thread, in turns. Raises MarkupError, with line and column.

    Args:
        service: it has the text thread.
        text: the document.
        language: language of the request, in which its words are unless it says otherwise.
        param: name of the text, for errors.
    """
    source = SsmlText(language)
    passages: list[Speakable] = []
    try:
        for start in range(0, len(text), _SLICE):
            part = text[start : start + _SLICE]
            passages += await service.g2p.run(partial(source.feed, part, 0.0))
        passages += await service.g2p.run(partial(source.flush, 0.0))
    except REQUEST_ERRORS as error:
        raise service_error(error, text_param=param) from error
    return Document(tuple(passages), tuple(source.take_ignored()))
