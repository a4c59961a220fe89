"""A whole text as a request brings it: plain, a document of SSML, or the lines of a dialogue.

Its markup is read, and its voices are prepared, before any of it is spoken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from app import errors
from app.llm_text.clean import Cleaner
from app.llm_text.hidden import hide
from app.speech.options import PreparedSpeech
from app.speech.planner import MAX_SILENCE_SECONDS, SILENCE_PER_CHARACTER
from app.speech.service import SpeechService
from app.speech.stream import SpeechStream
from app.speech.variants import Variants
from app.ssml.source import SsmlText, is_ssml
from app.text import marks
from app.text.types import PLAIN, Script, Style
from app.translation.text import codes
from app.voices.aliases import outdated_names

InputType = Literal["auto", "text", "llm", "ssml"]

# Characters of SSML that are read in one turn of the text thread.
_SLICE: Final = 2_000
# Characters of which one begins every pause in a text.
_MARKS: Final = frozenset("[<{")


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """Text that is spoken in one manner: that of its `script`, or `style`. It begins at character `offset`."""

    text: str
    offset: int = 0
    style: Style = PLAIN
    script: Script | None = None

    @property
    def manner(self) -> Style:
        """Manner in which the part is spoken."""
        return self.style if self.script is None else self.script.style


@dataclass(frozen=True, slots=True)
class SpeechDocument:
    """Parts of a text in order, and those of its markup that change nothing here. `variants`: its voices, prepared."""

    parts: tuple[DocumentPart, ...]
    ignored: tuple[str, ...] = ()
    variants: Variants | None = None

    async def prepare(self, service: SpeechService, speech: PreparedSpeech) -> tuple[PreparedSpeech, SpeechDocument]:
        """Return `speech` with the watermark that one of the voices needs, and the document with its voices.

        Raises ServiceError for a voice or a language that `speech` cannot take, and for pauses that last too long.
        """
        if any(part.script is not None or _MARKS.intersection(part.text) for part in self.parts):
            self._check_silence()
        variants = Variants(service, speech)
        for style in dict.fromkeys(replace(part.manner, gain=1.0) for part in self.parts):
            await variants.prepare(style)
        for part in self.parts:
            if part.script is None:
                await variants.parts(part.text, part.style)
        if speech.marker is None:
            speech = replace(speech, marker=variants.marker)
        variants.rewind()
        outdated = outdated_names(speech.options.voice, speech.synthesizer) if speech.options.voice else ()
        ignored = dict.fromkeys((*self.ignored, *outdated, *variants.ignored))
        return speech, replace(self, ignored=tuple(ignored), variants=variants)

    def _check_silence(self) -> None:
        """Raise MarkupError if the pauses last too long: a pause of seconds takes few characters."""
        seconds, characters = 0.0, 0
        for part in self.parts:
            pauses = [] if part.script is not None else marks.pauses(part.text)
            seconds += sum(pause.seconds for pause in pauses) + (part.script.pause or 0.0 if part.script else 0.0)
            characters += len("".join(marks.hide(part.text, pauses).split()))
        most = MAX_SILENCE_SECONDS + SILENCE_PER_CHARACTER * characters
        if seconds > most:
            raise errors.MarkupError(
                f"The pauses of the text last {seconds:.0f} seconds; at most {most:.0f} are accepted for its "
                f"{characters} characters."
            )

    def feed(self, stream: SpeechStream) -> None:
        """Have `stream` speak the document and end."""
        for part in self.parts:
            stream.feed(part.text, part.offset, script=part.script, style=part.style)
        stream.finish()


async def read_document(
    service: SpeechService, text: str, speech: PreparedSpeech, input_type: InputType, *, param: str = "input"
) -> SpeechDocument:
    """Return a text as a document. SSML is read on the text thread, in turns. Raises MarkupError, with line and column.

    The words of SSML are in the language of `speech`, or in that which is translated, unless it says otherwise.
    `param`: name of the text, for errors.
    """
    if input_type != "ssml" and (input_type != "auto" or is_ssml(text) is not True):
        shown = text if input_type == "text" else hide(text)
        if input_type == "llm":
            cleaner = Cleaner()
            shown = "".join(piece.text for piece in [*cleaner.feed(shown), *cleaner.flush()])
        return SpeechDocument((DocumentPart(shown),))
    language = speech.language if speech.route is None else codes.tag(speech.route.source or "en")
    source = SsmlText(language, translated=speech.route is not None)
    parts: list[DocumentPart] = []
    for start in range(0, len(text), _SLICE):
        slice_ = text[start : start + _SLICE]
        passages = await service.g2p.run(partial(source.feed, slice_, 0.0))
        parts += [DocumentPart(each.text, script=each.script) for each in passages]
    passages = await service.g2p.run(partial(source.flush, 0.0))
    parts += [DocumentPart(each.text, script=each.script) for each in passages]
    return SpeechDocument(tuple(parts), tuple(source.take_ignored()))


@dataclass(frozen=True, slots=True)
class Line:
    """Text of one speaker in a dialogue. `voice`: as `<voice>` of SSML names it. `lang` is a tag; None: the voice's."""

    text: str
    voice: str
    lang: str | None = None

    @property
    def style(self) -> Style:
        """Manner in which the line is spoken."""
        return Style(voice=self.voice, language=self.lang)


async def read_dialogue(
    service: SpeechService, lines: Sequence[Line], speech: PreparedSpeech, *, param: str
) -> SpeechDocument:
    """Read the lines of a dialogue; one that begins with `<speak>` is SSML. Raises MarkupError, with line and column.

    Characters are counted through all of them. `param`: name of the lines, for errors.
    """
    parts: list[DocumentPart] = []
    ignored: list[str] = []
    offset = 0
    for number, line in enumerate(lines):
        where = f"{param}[{number}].text"
        try:
            document = await read_document(service, line.text, speech, "auto", param=where)
        except errors.MarkupError as error:
            raise errors.MarkupError(error.message, param=where) from None
        parts += [_of_line(part, line, offset) for part in document.parts]
        ignored += document.ignored
        offset += len(line.text)
    return SpeechDocument(tuple(parts), tuple(dict.fromkeys(ignored)))


def _of_line(part: DocumentPart, line: Line, offset: int) -> DocumentPart:
    """Return a part of a line, `offset` characters further on; SSML that names no voice is spoken in the line's."""
    script = part.script
    if script is not None and script.style.voice is None:
        style = replace(script.style, voice=line.voice, language=script.style.language or line.lang)
        script = replace(script, style=style)
    return replace(part, offset=part.offset + offset, script=script, style=line.style)
