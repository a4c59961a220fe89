"""Sources of speakable text: SSML, and text of which only the beginning tells whether it is SSML."""

from __future__ import annotations

import re
from typing import Final

from app.llm_text.sources import PlainText, Speakable, TextSource
from app.ssml.reader import SsmlReader
from app.ssml.run import SsmlPassage

_MARGIN: Final = "\ufeff \t\r\n"
_ROOT: Final = "<speak"
_DOCTYPE: Final = "<!DOCTYPE speak"  # names the root
_BEFORE: Final = ("<?", "<!--")  # begin what may stand before the root
_MAX_UNDECIDED_CHARACTERS: Final = 4096  # characters: a stream's beginning is read again with each fragment
_PROLOG: Final = re.compile(rf"(?:[{_MARGIN}]|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)


def is_ssml(text: str) -> bool | None:
    """Return whether the root of a text is `<speak>`; None: `text`, its beginning, does not tell yet."""
    prolog = _PROLOG.match(text)
    begun = text[prolog.end() :] if prolog else text
    for root, after in ((_ROOT, "/>"), (_DOCTYPE, "[>")):
        if begun.startswith(root) and len(begun) > len(root):
            return begun[len(root)] in _MARGIN + after
    undecided = begun.startswith(_BEFORE) or any(each.startswith(begun) for each in (_ROOT, _DOCTYPE, *_BEFORE))
    return None if undecided and len(text) <= _MAX_UNDECIDED_CHARACTERS else False


class SsmlText(TextSource):
    """Source of the passages of one document between two flushes, as SsmlReader reads them.

    `feed` and `flush` raise MarkupError.
    """

    def __init__(self, language: str, *, translated: bool = False) -> None:
        self._language = language
        self._translated = translated
        self._reader: SsmlReader | None = None
        self._told: list[str] = []
        self._ignored: list[str] = []

    @property
    def pending(self) -> str:
        return ""  # nothing is translated ahead

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        if self._reader is None:
            self._reader = SsmlReader(self._language, translated=self._translated)
        return self._speakable(self._reader.feed(fragment))

    def queued(self, seconds: float, now: float) -> None:
        """Ignore the queue."""

    def flush(self, now: float) -> list[Speakable]:
        reader = self._reader
        if reader is None:
            return []
        done = self._speakable(reader.finish())
        self._reader = None
        return done

    def take_ignored(self) -> list[str]:
        new, self._ignored = self._ignored, []
        self._told += new
        return new

    def _speakable(self, passages: list[SsmlPassage]) -> list[Speakable]:
        if self._reader is not None:
            known = {*self._told, *self._ignored}
            self._ignored += [name for name in self._reader.ignored if name not in known]
        return [
            Speakable(each.text, "", each.start, each.end, 0.0, "sentence", (each.text,), each.script)
            for each in passages
        ]


class DetectedText(TextSource):
    """SsmlText for a text whose root is `<speak>`, else PlainText that hides. The beginning of each text decides."""

    def __init__(self, language: str, *, translated: bool = False) -> None:
        self._plain = PlainText(language, hides=True)
        self._ssml = SsmlText(language, translated=translated)
        self._source: TextSource | None = None
        self._begun = ""

    @property
    def pending(self) -> str:
        return self._begun if self._source is None else self._source.pending

    def feed(self, fragment: str, now: float) -> list[Speakable]:
        if self._source is None:
            fragment, self._begun = self._begun + fragment, ""
            found = is_ssml(fragment)
            if found is None:
                self._begun = fragment
                return []
            self._source = self._ssml if found else self._plain
        return self._source.feed(fragment, now)

    def queued(self, seconds: float, now: float) -> None:
        """Ignore the queue."""

    def flush(self, now: float) -> list[Speakable]:
        begun, self._begun = self._begun, ""
        source, self._source = self._source or self._plain, None
        return [*(source.feed(begun, now) if begun else []), *source.flush(now)]

    def take_ignored(self) -> list[str]:
        return self._ssml.take_ignored()

    @property
    def covered(self) -> int:
        return self._plain.covered
