"""Steps on a client's text before a model, and texts that make them slow.

Time is CPU time of the thread, without other processes. A text of eight times the length may take 2.5 times as long for
each doubling. This separates a linear step from a quadratic one (64 times) even on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from app.audio.subtitles import cues, render
from app.errors import MarkupError, ServiceError
from app.llm_text.hidden import HiddenParts, hide
from app.llm_text.live import LiveText
from app.llm_text.policy import BoundaryOptions, BoundaryPolicy
from app.speech.sentence import SpokenChunk
from app.text import marks
from app.text.lexicon_files import read_lexicon
from app.text.planner import TextPlanner, get_phonemizer
from app.text.sentence_buffer import SentenceBuffer
from app.translation.text.document import Format, SegmentedDocument
from app.translation.text.glossary import Glossary
from app.translation.text.identify import identify

TIMES: Final = 8
LIMIT: Final = 2.5**3
# Seconds below which the measurement is only noise of the clock.
MIN_SECONDS: Final = 0.004
ATTEMPTS: Final = 6
# Characters that fill a buffer: from then on every fragment costs the same.
FULL: Final = 1_000

Step = Callable[[str], object]


def _consume(segments: Iterable[object]) -> None:
    for _ in segments:
        pass


def _document(form: Format) -> Step:
    def step(text: str) -> None:
        document = SegmentedDocument.parse(text, "eng_Latn", form)
        changed = [segment.text + " y" for segment in document.segments]
        document.lost(changed)
        document.join(changed, "fra_Latn")

    return step


_TERMS: Final = {
    "the cat": "le chat",
    **{". " * n + "a": "b" for n in range(1, 20)},
    **{"a" * n: "b" for n in range(1, 99)},
}


def _protect(text: str) -> None:
    protected = Glossary(_TERMS).protect(text)
    protected.runs()
    protected.restore(protected.text)


def _buffer(size: int, share: int = 1) -> Step:
    def step(text: str) -> None:
        buffer = SentenceBuffer()
        buffer.feed(_repeat(text, FULL))
        for start in range(0, len(text) // share, size):
            buffer.feed(text[start : start + size])
        buffer.ends_sentence()
        buffer.flush()

    return step


def _live(size: int, share: int = 1) -> Step:
    def step(text: str) -> None:
        live = LiveText(BoundaryPolicy("en"))
        live.feed(_repeat(text, FULL), 0.0)
        for start in range(0, len(text) // share, size):
            live.feed(text[start : start + size], start / 1000)
            live.next_deadline()
        live.flush(len(text))

    return step


def _hidden(text: str) -> None:
    parts = HiddenParts()
    for start in range(0, len(text), 7):
        parts.feed(text[start : start + 7])
    parts.flush()
    hide(text)


def long_sentence(text: str) -> None:
    """Hold all of `text` at once: the limit of a sentence hides quadratic time."""
    buffer = SentenceBuffer(limit=len(text))
    buffer.feed(text)
    buffer.ends_sentence()


def long_clause(text: str) -> None:
    """Hold all of a model's text at once."""
    live = LiveText(BoundaryPolicy("en", options=BoundaryOptions(limit=len(text))))
    live.feed(text, 0.0)
    live.next_deadline()


def _phonemize(language: str) -> Step:
    def step(text: str) -> None:
        with suppress(ServiceError):
            _consume(get_phonemizer(language).segments(text))

    return step


def _read(text: str) -> None:
    with suppress(ServiceError):
        _consume(TextPlanner("en").segments(text, symbols=frozenset(), max_phonemes=300))


def _marks(text: str) -> None:
    with suppress(MarkupError):
        marks.hide(text, marks.parse(text))


def _lexicon(text: str) -> None:
    with suppress(ServiceError):
        read_lexicon(f"a{text}b")


def _subtitles(text: str) -> None:
    import numpy as np

    pieces = [
        SpokenChunk(np.zeros(1, np.float32), start, 1.0, text[start : start + 600], start, start + 600, ())
        for start in range(0, len(text), 600)
    ]
    render(cues(pieces), "vtt")


STEPS: Final[dict[str, Step]] = {
    "text": _document("text"),
    "markdown": _document("markdown"),
    "html": _document("html"),
    "glossary": _protect,
    "identify": lambda text: identify(text, 5),
    "fragments": _buffer(1000),
    "small fragments": _buffer(7, 4),
    "hidden parts": _hidden,
    "a model's text": _live(1000),
    "a model's tokens": _live(5, 8),
    "English": _phonemize("en-us"),
    "German": _phonemize("de"),
    "Spanish": _phonemize("es"),
    "read by the model": _read,
    "marks": _marks,
    "a mark": lambda text: _marks(f"a <break {text}/> b"),
    "lexicon": _lexicon,
    "subtitles": _subtitles,
}

# Fragments that were, or may be, slow in some step. The short test uses these.
FRAGMENTS: Final = (
    "\n", " ", "https://a1 ", "[a](/a/)", "[", "[a](", "![", "*a ", "`a", "|-", "<a ", "<a b='", "<!--", "&a",
    "(a, ", "'a' ", "a.", "1,", "%", "x", "—", "中。", "e\u0301", "😀", "।", "http://www.a.b/c( ",
    "<think>", "</think>\n", "\n|", "\n```", "<|start|>a", "](http://a(", "\n[^1]:", "<details type",
    "<answer>", "</answer>", "<|tool>", "【1", "\ue200", ":c", "<a =", "](a", "\n> ", "$5", "$1+a", "<sup>1",
)  # fmt: skip
# Fragments of the random texts of the long test.
MORE: Final = (
    *FRAGMENTS, "\t", "\n\n", "\r\n", "  \n", "\u2028", "\x00", "\u00ad", "\u200d", "\ufeff", "]", "](",
    "](/", ")", "))", "]]", "[[", "[^1]", "[^", "[a]: /b\n", "[a][b]", "[pause:1s]", "[pause:", "``", "``` ",
    "`", "**", "***", "_a_", "__", "~~", "==", "- ", "1. ", "> ", "# ", "---\n", "===\n", "a|b\n", "|-|-|\n",
    "    a\n", "- a\n", "<b>x", "</b>", "<p>a", "<code>", "<pre>", "<script>", "<think>", "<br>", "<td>", "<?",
    "<!", "<a href=\"", "<b title=\">\">", "&amp;", "&#1;", "&nbsp;", "\"", "'", "“", "»", "’s ", "``", "1",
    "1.5", "1,000", "10:30 ", "1/2/", "1 1/2 ", "+1 555 ", "(555) ", "1st ", "1990s ", "10 kg ", "5'6\"", "$1",
    "€", "½", "²", "①", "٣", "IV ", "a1", "1a", "Mr. ", "e.g. ", "U.S. ", "Ph. D. ", "No. 1", "A. ", "...", "!",
    "? ", "!?", "…", ";", ":", ", ", "(", "{", "{{a}}", ":a:", "\\", "\\[", "$$", "$a$", "^{", "_{", "\\frac{",
    "@", "a@b.c ", "#a", "/", "www.", "a.com/", "file.py ", "ZX1 ", "ZXQJ1 ", "é", "\u0301", "あ", "안", "ไทย",
    "ا", "א", "ﬁ", "İ", "ß", "ab ", "aB", "a-", "-", "--", " — ", "x" * 60 + " ", "Zyzzyva ", "The cat sat. ",
    "the ", "a\n", "l'aujourd'hui ", "नमस्ते।", "「a」", "、", "• ", "™",
)  # fmt: skip


def _seconds(step: Step, text: str) -> float:
    begun = time.thread_time()
    step(text)
    return time.thread_time() - begun


def _repeat(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def grows(step: Step, unit: str, size: int) -> str | None:
    """Return a message if the time of `step` on repeated `unit` grows faster than linear, else None.

    `size` is in characters.
    """
    said = ""
    # Until the first window is full a character costs more: longer texts decide.
    for base, attempts in ((size, ATTEMPTS), (TIMES * size, 2)):
        small, large = _repeat(unit, base), _repeat(unit, TIMES * base)
        for _ in range(attempts):
            one = max(_seconds(step, small), MIN_SECONDS / TIMES)
            many = _seconds(step, large)
            if many < max(LIMIT * one, MIN_SECONDS):
                return None
            said = f"{unit!r}: {one * 1e3:.1f} ms for {base} characters, {many * 1e3:.1f} ms for {TIMES * base}"
    return said
