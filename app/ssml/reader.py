"""Reader of SSML (W3C Speech Synthesis Markup Language 1.1) that arrives in fragments cut anywhere.

Expat parses it. A document type is read over: its declarations and other entities are refused, so that nothing is
expanded, and nothing is fetched.
Text outside any `<speak>` is taken for the content of one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NoReturn
from xml.parsers import expat

from app.errors import MarkupError
from app.ssml import values
from app.ssml.run import Run, SsmlPassage
from app.text.alphabets import to_symbols
from app.text.languages import nearest_language, primary_language
from app.text.marks import break_seconds
from app.text.markup import SUPERSCRIPTS
from app.text.say_as import KINDS, words_of
from app.text.types import Reading, Style, TextSpan

MAX_DEPTH: Final = 64
"""Most elements inside each other."""
MAX_VOICES: Final = 32
"""Most voices of one document."""
MAX_IGNORED: Final = 20
"""Most names of ignored parts that are kept."""

_ROOT: Final = "<speak>"
_ROOTS: Final = ("<speak", "<?", "<!")
_UNSPOKEN: Final = frozenset(("metadata", "meta", "lexicon", "lookup", "desc", "title"))
_SPACE: Final = re.compile(r"\s+")
_Attributes = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Element:
    """An open element, and how the text in it is spoken."""

    name: str
    style: Style
    language: str | None = None
    stress: float | None = None
    silent: bool = False


@dataclass(frozen=True, slots=True)
class _Capture:
    """An open element whose text is read in another way: where its text begins, and its attributes."""

    depth: int
    position: int
    attributes: _Attributes


class SsmlReader:
    """Reader of one document. `language` is that of the request, a tag of `app.text.languages`.

    `translated`: the text is to be translated from `language`, or that of the root. Then `<sub>` and `<say-as>` become
    their words, what holds for single words is left out, and rate and volume change at the ends of sentences only.
    """

    def __init__(self, language: str, *, translated: bool = False) -> None:
        self.ignored: list[str] = []
        self._language = self._source = language
        self._translated = translated
        self._run = Run(language)
        self._done: list[SsmlPassage] = []
        self._stack: list[_Element] = []
        self._capture: _Capture | None = None
        self._voices: set[tuple[str, str | None, str | None]] = set()
        self._spoken = False
        self._verbatim = False  # inside CDATA
        self._waiting = ""  # text before it is known whether there is a root
        self._wrapped = False
        self._begun = False
        self._tag: list[str] = []  # a tag that is not complete
        self._raw = b""  # what expat may still ask about, from byte _base and character _position on
        self._base = self._position = 0
        self._parser = parser = expat.ParserCreate("utf-8")
        self._failed_at = (1, 0)
        parser.StartElementHandler = self._located(self._start)
        parser.EndElementHandler = self._located(self._end)
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._located(self._check_doctype)
        parser.SkippedEntityHandler = self._located(self._refuse_entity)
        parser.StartCdataSectionHandler = lambda: self._set_verbatim(True)
        parser.EndCdataSectionHandler = lambda: self._set_verbatim(False)

    def feed(self, fragment: str) -> list[SsmlPassage]:
        """Add a fragment. Return the passages that are complete. Raises MarkupError, with line and column."""
        if not self._begun:
            self._waiting += fragment
            text = self._waiting.lstrip("\ufeff \t\r\n")
            if not text or any(root.startswith(text) for root in _ROOTS):
                return []
            self._begun = True
            self._wrapped = not text.startswith(_ROOTS)
            if self._wrapped:
                self._position = -len(_ROOT)
                self._parse(_ROOT)
            fragment, self._waiting = self._waiting.removeprefix("\ufeff"), ""
        self._parse_tags(fragment)
        if self._capture is None:  # the text of a reading stays together
            self._done += self._run.sentences()
        return self._take()

    def finish(self) -> list[SsmlPassage]:
        """End the document and return the rest of it. Raises MarkupError, with line and column."""
        if not self._begun and self._waiting.strip("\ufeff \t\r\n"):
            self._begun = self._wrapped = True
            self._position = -len(_ROOT)
            self._parse(_ROOT + self._waiting)
        if self._begun:
            self._parse("".join(self._tag) + ("</speak>" if self._wrapped else ""), final=True)
        self._done += self._run.close()
        return self._take()

    def _take(self) -> list[SsmlPassage]:
        done, self._done = self._done, []
        if self._run.mixed:
            self._ignore("prosody within a sentence")
        return done

    # Positions

    def _parse_tags(self, fragment: str) -> None:
        """Parse text up to a tag that is not complete: expat would read its beginning again with each fragment."""
        if self._tag and ">" not in fragment:
            self._tag.append(fragment)
            return
        text = "".join([*self._tag, fragment])
        opened = text.rfind("<")
        cut = len(text) if opened < 0 or ">" in text[opened:] else opened
        self._tag = [text[cut:]] if cut < len(text) else []
        self._parse(text[:cut])

    def _parse(self, text: str, *, final: bool = False) -> None:
        data = text.encode("utf-8", "replace")
        self._raw += data
        try:
            self._parser.Parse(data, final)
        except expat.ExpatError as error:
            message = f"the SSML is malformed: {expat.ErrorString(error.code)}"
            hint = "; write &amp; for & and &lt; for <" if error.code in _UNESCAPED else ""
            raise MarkupError(f"{message} ({self._place(error.lineno, error.offset)}){hint}") from None
        except MarkupError as error:
            raise MarkupError(f"{error} ({self._place(*self._failed_at)})") from None
        self._index(self._parser.CurrentByteIndex)

    def _located(self, handler: Callable[..., None]) -> Callable[..., None]:
        """Return `handler`, which then also notes the place of its error: expat moves on after it."""

        def handle(*arguments: object) -> None:
            try:
                handler(*arguments)
            except MarkupError:
                self._failed_at = self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber
                raise

        return handle

    def _place(self, line: int, column: int) -> str:
        shift = len(_ROOT) if self._wrapped and line == 1 else 0
        return f"line {line}, column {max(0, column - shift) + 1}"

    def _index(self, byte: int) -> int:
        """Return the character of the document at a byte, and forget the bytes before it."""
        count = byte - self._base
        if count > 0:
            self._position += len(self._raw[:count].decode("utf-8", "replace"))
            self._raw = self._raw[count:]
            self._base = byte
        return self._position

    def _set_verbatim(self, value: bool) -> None:
        self._verbatim = value

    def _check_doctype(self, name: str, system: str | None, public: str | None, has_declarations: bool) -> None:
        if has_declarations:
            raise MarkupError("SSML may not declare anything in its document type; leave [...] out of <!DOCTYPE>")

    def _refuse_entity(self, name: str, is_parameter: bool) -> NoReturn:
        raise MarkupError(f"the entity &{name[:40]}; is not known in SSML; write the character itself")

    # Elements

    def _start(self, name: str, attributes: _Attributes) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise MarkupError(f"SSML elements are nested too deep; at most {MAX_DEPTH} are accepted")
        if not self._stack:
            self._open_root(name, attributes)
            return
        outer = self._stack[-1]
        element = replace(outer, name=name)
        if outer.silent:
            pass
        elif self._capture is not None and name != "mark":
            self._ignore(f"{name} inside {self._stack[self._capture.depth - 1].name}")
        elif name in _UNSPOKEN:
            element = replace(element, silent=True)
            if name == "lexicon":
                self._ignore("lexicon")
        elif (opened := _OPENERS.get(name)) is not None:
            element = opened(self, element, attributes)
        else:
            self._ignore(name)
        self._stack.append(element)
        if name in _CAPTURED and self._capture is None and not element.silent:
            self._begin_style(element)
            self._capture = _Capture(len(self._stack), self._run.length, attributes)

    def _open_root(self, name: str, attributes: _Attributes) -> None:
        if name != "speak":
            raise MarkupError(f"the root of SSML is <speak>, not <{name[:40]}>")
        language = attributes.get("xml:lang")
        if self._translated and language:
            self._language, self._source = self._nearest(language) or self._language, language
            self._run = Run(self._language, language)
        if self._translated:
            language = None
        self._stack.append(_Element(name, Style(language=language)))
        self._run.style = self._stack[0].style

    def _end(self, name: str) -> None:
        if self._capture is not None and self._capture.depth == len(self._stack):
            capture, self._capture = self._capture, None
            self._read(name, capture)
        element = self._stack.pop()
        if element.silent:
            return
        if name in ("p", "paragraph"):
            self._cut()
            self._run.gap = None if self._spoken else 0.0
        elif name in ("s", "sentence"):
            self._cut()

    def _text(self, data: str) -> None:
        element = self._stack[-1]
        data = data.translate(SUPERSCRIPTS) if element.name == "sup" else data
        start = self._index(self._parser.CurrentByteIndex)
        if element.silent:
            return
        if data.isspace() and self._run.ends_with_space:
            return
        self._begin_style(element)
        self._spoken = self._spoken or not data.isspace()
        begun = self._run.length
        if self._raw[:1] == b"&" and not self._verbatim:
            end = self._raw.find(b";") + 1
            self._run.add(" " if data.isspace() else data, start, start + end)
        elif data.isspace():
            self._run.add(self._folded(data), start, start + len(data))
        else:
            self._add_words(data, start)
        if element.language is not None or element.stress is not None:
            self._run.span(TextSpan(begun, self._run.length, element.language, element.stress))

    def _add_words(self, data: str, start: int) -> None:
        """Add text with its white space folded: line ends and indentation mean nothing in XML."""
        position = 0
        for match in _SPACE.finditer(data):
            self._run.add(data[position : match.start()], start + position, start + match.start())
            if not self._run.ends_with_space:
                self._run.add(self._folded(match.group()), start + match.start(), start + match.end())
            position = match.end()
        self._run.add(data[position:], start + position, start + len(data))

    def _folded(self, space: str) -> str:
        """Return the one space that white space means; a line's end after a hyphen, which may divide a word."""
        divides = "\n" in space and self._run.text_from(max(0, self._run.length - 1)) in ("-", "‐", "\u00ad")
        return "\n" if divides else " "

    def _begin_style(self, element: _Element) -> None:
        before, after = self._run.style, element.style
        if before != after:
            if not self._translated or replace(before, rate=after.rate, gain=after.gain) != after:
                self._cut()
            self._run.style = after

    def _cut(self) -> None:
        self._done += self._run.finish()

    def _read(self, name: str, capture: _Capture) -> None:
        """Have the text of an element that ends here read as its attributes say."""
        run, given = self._run, capture.attributes
        said = given.get("alias") or given.get("ph") or ""
        if run.length == capture.position and name != "say-as" and not (self._translated and name == "phoneme"):
            at = self._index(self._parser.CurrentByteIndex)
            run.add(said, at, at)
        start, end = capture.position, run.length
        if start == end:
            return
        word = run.text_from(start)
        while start < end - 1 and word[:1].isspace():
            start, word = start + 1, word[1:]
        self._spoken = True
        if self._translated and name != "phoneme":
            say_as = (given.get("interpret-as", ""), given.get("format", "")) if name == "say-as" else None
            written = word.rstrip()
            words = words_of(written, Reading(start, end, start, end, alias=said, say_as=say_as), self._language)
            run.reword(start, words + word[len(written) :])
        elif name == "sub":
            run.read(Reading(start, end, start, end, alias=said))
        elif name == "phoneme":
            english = (self._stack[-1].language or self._language).startswith("en")
            phonemes = to_symbols(said, word, alphabet=given.get("alphabet", "ipa"), english=english)
            if self._translated:
                self._ignore("phoneme")
            else:
                run.read(Reading(start, end, start, end, phonemes=phonemes))
        else:
            kind, form = given.get("interpret-as", ""), given.get("format", "")
            run.read(Reading(start, end, start, end, say_as=(kind, form)))

    # The change of each element. Each function returns the element with its manner of speaking.

    def _open_paragraph(self, element: _Element, attributes: _Attributes) -> _Element:
        self._cut()
        if element.name in ("p", "paragraph") and self._spoken:
            self._run.gap = None
        return self._open_language(element, attributes)

    def _open_language(self, element: _Element, attributes: _Attributes) -> _Element:
        language = attributes.get("xml:lang") or (attributes.get("lang") if element.name == "lang" else None)
        if language is None:
            return element
        nearest = self._nearest(language)
        if self._translated:
            if primary_language(language) != primary_language(self._source):
                self._ignore(f"lang {language[:20]}")
            return element
        if nearest is None:
            self._ignore(f"lang {language[:20]}")
            return element
        return replace(element, language=None if nearest == self._language else nearest)

    def _open_break(self, element: _Element, attributes: _Attributes) -> _Element:
        self._cut()
        self._run.pause += break_seconds(attributes.get("time"), attributes.get("strength"))
        self._run.pause = min(self._run.pause, 60.0)
        return element

    def _open_prosody(self, element: _Element, attributes: _Attributes) -> _Element:
        style = element.style
        for name, value in attributes.items():
            if name == "rate":
                style = replace(style, rate=min(max(style.rate * values.rate(value), 0.1), 10.0))
            elif name == "volume":
                style = replace(style, gain=min(style.gain * values.gain(value), values.MAX_GAIN))
            else:
                self._ignore(f"prosody {name}")
        return replace(element, style=style)

    def _open_emphasis(self, element: _Element, attributes: _Attributes) -> _Element:
        level = attributes.get("level", "moderate").strip().lower()
        stress = values.STRESSES.get(level)
        if stress is None:
            raise MarkupError(f"emphasis level {level[:40]!r} is unknown; accepted are: {', '.join(values.STRESSES)}")
        if self._translated:
            self._ignore("emphasis")
            return element
        style = element.style
        if level == "strong":
            rate, gain = values.STRONG
            style = replace(style, rate=style.rate * rate, gain=min(style.gain * gain, values.MAX_GAIN))
        return replace(element, stress=stress, style=style)

    def _open_voice(self, element: _Element, attributes: _Attributes) -> _Element:
        name = " ".join((attributes.get("name") or "").split())
        language = attributes.get("xml:lang") or attributes.get("language") or attributes.get("languages")
        if self._translated and language and not name:
            self._ignore("voice language")
            language = None
        gender = (attributes.get("gender") or "").strip().lower() or None
        for other in sorted(set(attributes) - {"name", "xml:lang", "language", "languages", "gender"}):
            self._ignore(f"voice {other}")
        if not (name or language or gender):
            return element
        language = None if name or language is None else language.split()[0] if language.strip() else None
        self._voices.add((name, language, gender))
        if len(self._voices) > MAX_VOICES:
            raise MarkupError(f"the SSML has more than {MAX_VOICES} voices")
        return replace(
            element, language=None, style=replace(element.style, voice=name, language=language, gender=gender)
        )

    def _open_phoneme(self, element: _Element, attributes: _Attributes) -> _Element:
        if not attributes.get("ph", "").strip():
            raise MarkupError('<phoneme> needs its pronunciation, as in <phoneme alphabet="ipa" ph="wˈɪn">')
        return element

    def _open_sub(self, element: _Element, attributes: _Attributes) -> _Element:
        if not attributes.get("alias", "").strip():
            raise MarkupError('<sub> needs the text to speak, as in <sub alias="World Wide Web Consortium">')
        return element

    def _open_say_as(self, element: _Element, attributes: _Attributes) -> _Element:
        kind = attributes.get("interpret-as", "")
        if kind.strip().lower() not in KINDS:
            self._ignore(f"say-as {kind[:20]}".strip())
        return element

    def _open_mark(self, element: _Element, attributes: _Attributes) -> _Element:
        name = attributes.get("name", "")
        if not name:
            raise MarkupError('<mark> needs a name, as in <mark name="here"/>')
        self._run.mark(name)
        return element

    def _open_audio(self, element: _Element, attributes: _Attributes) -> _Element:
        raise MarkupError(
            "<audio> is not accepted: this server fetches nothing and mixes no recordings; leave the element out"
        )

    def _nearest(self, language: str) -> str | None:
        return nearest_language(language, self._language)

    def _ignore(self, name: str) -> None:
        """Note a part that changes nothing here."""
        if name not in self.ignored and len(self.ignored) < MAX_IGNORED:
            self.ignored.append(name[:60])


_CAPTURED: Final = frozenset(("sub", "phoneme", "say-as"))
_UNESCAPED: Final = frozenset(
    expat.errors.codes[message]
    for message in (expat.errors.XML_ERROR_INVALID_TOKEN, expat.errors.XML_ERROR_UNDEFINED_ENTITY)
)
_Opener = Callable[[SsmlReader, _Element, _Attributes], _Element]
_OPENERS: Final[dict[str, _Opener]] = {
    "p": SsmlReader._open_paragraph, "paragraph": SsmlReader._open_paragraph, "s": SsmlReader._open_paragraph,
    "sentence": SsmlReader._open_paragraph, "break": SsmlReader._open_break, "emphasis": SsmlReader._open_emphasis,
    "prosody": SsmlReader._open_prosody, "say-as": SsmlReader._open_say_as, "sub": SsmlReader._open_sub,
    "phoneme": SsmlReader._open_phoneme, "voice": SsmlReader._open_voice, "lang": SsmlReader._open_language,
    "mark": SsmlReader._open_mark, "audio": SsmlReader._open_audio,
    **dict.fromkeys(("token", "w", "sup"), lambda reader, element, attributes: element),
}  # fmt: skip
