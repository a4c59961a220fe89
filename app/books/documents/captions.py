"""Subtitles: SubRip (.srt) and WebVTT (www.w3.org/TR/webvtt1). Each cue is a passage with its times.

Files of both kinds are seldom as they should be: a line of times begins a cue wherever it stands, and a cue whose times
are wrong is named in the warnings while the others are spoken.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html import unescape
from itertools import pairwise
from typing import Final, Literal

from app.books.documents.blocks import one_line
from app.books.documents.chapters import MAX_CHARACTERS
from app.books.documents.markup import decode_text
from app.books.documents.types import Chapter, Document, DocumentError, Passage, bounded
from app.text.word_sets import word_set

MAX_CUES: Final = 100_000
MAX_FILE_SECONDS: Final = 48 * 3600.0
MAX_SILENCE_SECONDS: Final = 600.0
"""Seconds that subtitles of any length may last, and those for each character: sixty times as long as its speech."""
SECONDS_PER_CHARACTER: Final = 4.0
# Characters of one cue, and of a line of times.
MAX_CUE_CHARACTERS: Final = 10_000
_MAX_PART_CHARACTERS: Final = 500
_MAX_TIMES_CHARACTERS: Final = 300

_ACCEPTED: Final = "Accepted are cues with times such as '00:00:01,000 --> 00:00:02,500'"
_TIME: Final = r"(-?)(?:(\d{1,4}):)?(\d{1,3}):(\d{1,2})(?:[.,:]\s?(\d{1,9}))?(?!\d)"
_TIMES: Final = re.compile(rf"\s*+{_TIME}\s*+([-–—=]{{1,3}}\s?>|[-–—→]|(?<=\s))\s*+{_TIME}(?:\s++(\S.*))?\s*")
_START: Final = re.compile(rf"\s*{_TIME}\s*(?:[-–—=]{{1,3}}>|\Z)")
# A line that should have been one of times.
_BROKEN: Final = re.compile(r"(?=[^\n]*\d:\d)\s*\S{0,20}\s{0,3}-{1,2}>\s{0,3}\S{0,20}\s*")
_SETTING: Final = re.compile(r"[A-Za-z]+\d?:\S*")

_WORD_TIME: Final = r"<(?:\d{1,4}:){1,2}\d{1,2}(?:[.,]\d{1,6})?>"
# Readings above characters (ruby), word times, tags of both kinds, and codes of Advanced SubStation and MicroDVD.
_TAG: Final = re.compile(
    rf"<rt>[^<]{{0,200}}(?:</rt>|(?=</ruby>))|{_WORD_TIME}|<\s{{0,2}}/?\s{{0,2}}i\s{{0,2}}>"
    r"|</?(?:[bcisuq]|em|strong|ruby|rt|rb|tt|font|span|p|div|center)(?:\.[^\s<>]{0,100})?"
    r"(?:\s+[\w:-]{1,40}\s?=[^<>]{0,200})?\s{0,3}/?>"
    r"|</?(?:v|lang)(?:\.[^\s<>]{0,100})?(?:\s[^<>]{0,200})?>|\{\\[^{}\n]{0,200}\}|\{[ycfsp]:[^{}\n]{0,50}\}",
    re.I,
)
_CLOSING: Final = re.compile(r"</([a-z]\w{0,30})\s{0,3}>", re.I)
_OTHER_TAG: Final = re.compile(r"</?([a-z]\w{0,30})(?:[\s.][^<>]{0,200})?>", re.I)
_BREAK: Final = re.compile(r"<br\s?/?>|(?<![:\\])\\[Nn]", re.I)
# Pronunciations, which stay; "[door slams]", "(MUSIC)", "♪ la la ♪", a sharp alone.
_SOUND: Final = re.compile(
    r"\[[^\[\]\n]{1,200}\]\(/[^/\n]{0,200}/\)"
    r"|[\[【［](?P<square>[^\[\]【】［］]{0,200})[\]】］](?::(?=\s))?|[(（](?P<round>[^()（）]{0,200})[)）]"
    r"|(?P<sung>[♪♫]{1,4}[^♪♫]{0,300}[^♪♫\s][^\S\n]{0,9}[♪♫]{1,4})|(?P<sign>[♪♫]|(?<!\S)#(?!\S))"
)
_NOTHING: Final = re.compile(r"\s*speaker[ _]?\d{1,3}\s*|[\W_]*", re.I)
_SENTENCE_END: Final = re.compile(r"[^\W\d_][.!?。！？]\s*$")
# Who speaks or is spoken of: nobody says so of a sound.
_PERSON: Final = re.compile(r"\b(?:I|you|he|she|it|we|they|me|my)\b", re.I)
# Words of descriptions of sounds, those with the ending "s", "es" or "ing", and words that begin no description.
_SOUNDS: Final = word_set(
    "aplausos applaudissements applaus applause applausi beifall breathing cough crosstalk crying disparos expletive "
    "footsteps gasp gelächter gemidos giggle grita gunfire gunshot gémit hustet inaudible inaudível indistinct "
    "ininteligible ininteligível jubel kichert klingelt lachen lacht laugh laughter llora music musica musik musique "
    "música noise panting piange pleure rire rires risadas risas risata risate risos räuspert ríe sanglots schluchzt "
    "schuss seufzt sic sigh silence soluços sospira sospiro soupir soupire soupirs spari stöhnt suspira suspiro "
    "sussurra susurra tiros tonnerre tose tosse tossisce tousse unintelligible unverständlich weeping weint"
)
_SOUNDING: Final = word_set(
    "bang bark beep chatter cheer chuckl clap clapp cough creak exhal gasp giggl groan grunt gunshot honk howl hum "
    "humm inhal laugh moan mumbl murmur ring rustl scoff scream shatter shout sigh sing slam slamm sneez sniff sniffl "
    "snor sob sobb stammer thud whimper whisper whistl yawn yell"
)
_NO_SOUND: Final = word_set("a an and or of the my his her our und der die das et le la les un une y el los las e il")
_WORD: Final = re.compile(r"([^\W\d_]+?)(e?s|ing)?(?![^\W\d_])")
_DASH: Final = re.compile(r"(?m)^[^\S\n]*(?:[-–—]{1,2}(?![-–—\d])|>{2,3})[^\S\n]*")
_BEFORE: Final = 80
# A cue of captions that roll goes on where the one before ends, with its last lines; seconds, and lines.
_ROLLING_GAP: Final = 0.05
_ROLLING_LINES: Final = 4
_ROLLING_WORDS: Final = 3


@dataclass(slots=True)
class _Cue:
    """Cue `number` of the file, from 1, with its line of times. It lasts from `start` to `end`, in seconds."""

    number: int
    times: str
    start: float
    end: float
    lines: list[str] = field(default_factory=list)

    def warning(self, reason: str) -> str:
        return f"Cue {self.number} ({self.times[:60]}) {reason}."


def read_captions(data: bytes, kind: Literal["srt", "vtt"]) -> Document:
    """Read subtitles, in order of their starts. Raises DocumentError: no cues, too many, no times that can be used."""
    text = decode_text(data).replace("\r\n", "\n").replace("\r", "\n")
    if kind == "vtt" and not text.lstrip().startswith("WEBVTT"):
        raise DocumentError("The file is no WebVTT: it does not begin with 'WEBVTT'.")
    warnings: list[str] = []
    cues = list(_cues(text, kind, warnings))
    if not cues and not warnings:
        raise DocumentError(f"The file has no subtitles. {_ACCEPTED}.")
    for cue in cues:
        cue.lines = _spoken_lines("\n".join(cue.lines), kind)
    cues = [cue for cue in cues if any(map(str.isalnum, "".join(cue.lines)))]
    most = MAX_SILENCE_SECONDS + SECONDS_PER_CHARACTER * sum(len(line) for cue in cues for line in cue.lines)
    cues = sorted(_in_time(cues, most, warnings), key=lambda cue: cue.start)
    passages = [part for cue in _unrolled(cues) for part in _parts(" ".join(cue.lines), cue.start, cue.end)]
    if not passages:
        raise DocumentError(" ".join(["The subtitles have no text that can be spoken.", *warnings[:1]]))
    characters = sum(len(passage.text) for passage in passages)
    seconds = max(passage.end or 0.0 for passage in passages)
    if seconds > most:
        raise DocumentError(
            f"The subtitles last {seconds:.0f} seconds for {characters} characters of text; at most {most:.0f} are "
            "accepted. A time in them may be wrong."
        )
    if characters > MAX_CHARACTERS:
        raise DocumentError(f"The subtitles have more than {MAX_CHARACTERS} characters, which is the limit.")
    return Document("", "", None, None, (Chapter("", tuple(passages)),), bounded(warnings))


def _parts(text: str, start: float, end: float) -> Iterator[Passage]:
    """Yield a long cue in parts, each with its share of the time: a turn of a job ends between two."""
    said = 0
    for part in textwrap.wrap(text, _MAX_PART_CHARACTERS) if len(text) > _MAX_PART_CHARACTERS else [text]:
        share = (end - start) / len(text)
        yield Passage(
            part, start + said * share, end if said + len(part) >= len(text) else start + (said + len(part)) * share
        )
        said += len(part) + 1


# From lines to cues.


def _cues(text: str, kind: str, warnings: list[str]) -> Iterator[_Cue]:
    """Yield the cues of a file with their lines. Raises DocumentError: too many cues, or a cue too long."""
    body: list[str] = []
    cue: _Cue | None = None
    count = 0
    numbered = False
    for line in text.split("\n"):
        times = _times(line, body, kind) if ":" in line and len(line) <= _MAX_TIMES_CHARACTERS else None
        if times is None:
            body.append(line)
            continue
        count += 1
        if count > MAX_CUES:
            raise DocumentError(f"The subtitles have more than {MAX_CUES} cues, which is the limit.")
        numbered = numbered or (count == 1 and _without_number(body, kind) is not body)
        if cue is not None:
            yield _with_lines(cue, _without_number(body, kind) if numbered or kind == "vtt" else body, kind)
        start, end, rest = times
        cue = _Cue(count, line.strip(), start, end)
        # Text behind the times is the text of a SubRip cue, unless it has settings or coordinates.
        body = [] if kind == "vtt" or all(map(_SETTING.fullmatch, rest.split())) else [rest]
        if math.isnan(start):
            warnings.append(cue.warning("has times that cannot be read, and is left out"))
            cue = None
        elif math.isnan(end):
            warnings.append(cue.warning("has an end that cannot be read, and is spoken from its start on"))
            cue.end = start
    if cue is not None:
        cut = numbered and len(body) > 1 and not body[-2].strip()
        yield _with_lines(cue, _without_number(body, kind) if cut else body, kind)


def _times(line: str, before: list[str], kind: str) -> tuple[float, float, str] | None:
    """Return start, end and the rest of a line of times; NaN for those that cannot be read; None for another line.

    Of SubRip, times without an arrow or of minutes alone begin a cue only behind a blank line or its number.
    """
    if match := _TIMES.fullmatch(line):
        exact = ">" in match[6] and (kind == "vtt" or (match[5] and match[11]) or (match[2] and match[8]))
        if exact or not before or not before[-1].strip() or before[-1].strip().isdecimal():
            return _seconds(*match.groups()[:5]), _seconds(*match.groups()[6:11]), match[12] or ""
    begin = _START.match(line)
    # A time alone behind the number of a cue has lost the other one.
    lone = begin is not None and begin[2] and begin[5] and before and before[-1].strip().isdecimal()
    if match is None and (lone or _BROKEN.fullmatch(line)):
        return math.nan if begin is None else _seconds(*begin.groups()), math.nan, ""
    return None


def _seconds(sign: str | None, hours: str | None, minutes: str, seconds: str, fraction: str | None) -> float:
    whole = int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds)
    value = whole + int((fraction or "0").ljust(3, "0")[:3]) / 1000
    return -value if sign else value


def _without_number(body: list[str], kind: str) -> list[str]:
    """Return the lines before a line of times without the number of its cue."""
    last = len(body) - 1
    while last >= 0 and not body[last].strip():
        last -= 1
    if last < 0 or not body[last].strip().isdecimal():
        return body
    begun = last == 0 or not body[last - 1].strip()
    # Blank lines between a number and its times come where each line is followed by one.
    return body[:last] if begun or (last == len(body) - 1 and kind == "srt") else body


def _with_lines(cue: _Cue, body: list[str], kind: str) -> _Cue:
    """Return a cue with its text: of WebVTT the lines before the first one that is empty."""
    cue.lines = body[: body.index("")] if kind == "vtt" and "" in body else body
    if sum(map(len, cue.lines)) > MAX_CUE_CHARACTERS:
        raise DocumentError(
            f"A cue of the subtitles has more than {MAX_CUE_CHARACTERS} characters, which is the limit."
        )
    return cue


# From the text of a cue to what is said.


def _spoken_lines(text: str, kind: str) -> list[str]:
    text = _TAG.sub("", _BREAK.sub("\n", text)).replace("\\h", " ")
    if closed := {name.lower() for name in _CLOSING.findall(text)}:
        text = _OTHER_TAG.sub(lambda found: "" if found[1].lower() in closed else found[0], text)
    if kind == "vtt":
        text = unescape(text)
    text = _DASH.sub("", _SOUND.sub(_without_sound, text))
    return list(filter(None, map(one_line, text.split("\n"))))


def _without_sound(found: re.Match[str]) -> str:
    """Return a part of a cue, or a space where it is a sound and not what somebody says."""
    if found["sung"] or found["sign"]:
        return " "
    square = found["square"] is not None
    inner = found["square"] if square else found["round"]
    if inner is not None and (_is_sound(inner, square=square) or (square and _NOTHING.fullmatch(inner))):
        return " "
    # A pronunciation, a number, "(a)", "list[i]".
    before = found.string[max(0, found.start() - 1)]
    short = inner is None or len(inner.strip()) < 1 + inner.isascii()
    if short or any(map(str.isdecimal, inner)) or (found[0][0] == "[" and before.isalnum()):
        return found[0]
    if not square and not inner.isascii() and len(inner.strip()) < 3 and found[0][0] == "（":
        return " "
    said = _SENTENCE_END.search(inner) is not None
    if inner != inner.upper() and (said and len(inner.split()) > 2 if square else said or _PERSON.search(inner)):
        return found[0]
    return found[0] if _in_sentence(found, inner, square=square) else " "


def _is_sound(inner: str, *, square: bool) -> bool:
    """Return whether words in brackets describe a sound wherever they stand: "[phone rings]", not "(wedding rings)"."""
    words = [(each[0], each[1]) for each in _WORD.finditer(inner.lower())]
    sounding = _SOUNDING if square or len(words) == 1 else frozenset[str]()
    known = any(word in _SOUNDS or (word != stem and stem in sounding) for word, stem in words)
    return (known and len(words) < 5 and words[0][0] not in _NO_SOUND) or "♪" in inner


def _in_sentence(found: re.Match[str], inner: str, *, square: bool) -> bool:
    """Return whether words in brackets are a part of the sentence around them: in its line, at its end, or a noun."""
    before = found.string[max(0, found.start() - _BEFORE) : found.start()]
    after = found.string[found.end() : found.end() + _BEFORE]
    left, right = before.rpartition("\n")[2].strip(" -–—>"), after.partition("\n")[0].strip(" .,-–—…")
    if (inner == inner.upper() and not left and not right) or found[0][-1] == ":":
        return False
    before, after = before.rstrip(), after.lstrip()
    opened = bool(before) and before[-1] not in '.!?…:;"”’»。！？-–—>)]♪'
    ended = after[:1] in tuple(",.;:!?…")
    goes_on = ended or after[:1].islower()
    if not square or _PERSON.fullmatch(inner.strip()):
        return goes_on or (opened and not square)
    return opened and (ended or bool(left and right) or (goes_on and inner.lower().split(maxsplit=1)[0] in _NO_SOUND))


# Times that are wrong, and captions that roll.


def _in_time(cues: list[_Cue], most: float, warnings: list[str]) -> Iterator[_Cue]:
    """Yield cues with times in order; `most`: seconds that the subtitles may last."""
    for cue, following in zip(cues, [*cues[1:], None], strict=False):
        start, end = max(0.0, cue.start), max(0.0, cue.end)
        if cue.start < 0:
            warnings.append(cue.warning("begins before 0, and is spoken at 0"))
        elif cue.end < cue.start:
            warnings.append(cue.warning("ends before it begins, and is spoken from its start on"))
        end = max(start, end)
        # A file of which one time alone is far away has that one wrong.
        wrong = following is not None and 0 <= following.start <= most
        if start > MAX_FILE_SECONDS or (wrong and start > most):
            warnings.append(cue.warning("has a time that is far away, and is left out"))
            continue
        if following is not None and end > most and wrong:
            warnings.append(cue.warning("has an end that is far away, and lasts until the next cue begins"))
            end = max(start, following.start)
        yield replace(cue, start=start, end=min(end, MAX_FILE_SECONDS))


def _unrolled(cues: list[_Cue]) -> list[_Cue]:
    """Return cues without the lines that a cue repeats of the one before, in a file of captions that roll.

    Such a file has many cues that go on with the last lines of the one before and add to them, or flash them once more.
    Where somebody says a thing twice in any other file, both are spoken.
    """
    repeated = [0, *(_repeated(before, cue) for before, cue in pairwise(cues))]
    signs = [
        count
        for count, cue in zip(repeated, cues, strict=False)
        if count and (count < len(" ".join(cue.lines).split(" ")) or cue.end - cue.start <= _ROLLING_GAP)
    ]
    if 3 * len(signs) < len(cues) - 1 or sum(signs) < _ROLLING_WORDS or not signs:
        return cues
    left = [
        replace(cue, lines=[" ".join(" ".join(cue.lines).split(" ")[count:])]) if count else cue
        for count, cue in zip(repeated, cues, strict=False)
    ]
    return [cue for cue in left if any(map(str.isalnum, cue.lines[0]))]


def _repeated(before: _Cue, cue: _Cue) -> int:
    """Return how many words at the start of a cue are the last lines of the one before once more."""
    if cue.start - before.end > _ROLLING_GAP:
        return 0
    words = " ".join(cue.lines).split(" ")
    for first in range(max(0, len(before.lines) - _ROLLING_LINES), len(before.lines)):
        last = " ".join(before.lines[first:]).split(" ")
        if words[: len(last)] == last:
            return len(last)
    return 0
