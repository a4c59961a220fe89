"""Durations of phoneme tokens from a teacher's phone timings, without a trained aligner.

The teacher (flite) reports phones of its own set and their end times; the network reads misaki's symbols. One
dynamic program over the utterance matches the two strings (phones that sound alike are cheap to exchange; stress
marks, spaces and punctuation cost nothing to insert; a pause inside the utterance matches punctuation). Isotonic
regression then moves the boundaries as little as possible so that every token lasts at least one frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FRAME_RATE = 40.0  # frames a second: one duration unit of the network is 600 samples at 24 kHz

PUNCTUATION = frozenset(',.;:!?—…"()“”')
SILENT = frozenset(" ˈˌː") | PUNCTUATION
VOWELS = frozenset("AIOQWYaeiouæɑɐɒəɚɛɜɪɔʊʌᵊᵻ")
PAUSE = "pau"
_PAUSE_UNIT = "|"

# flite's American phone set in misaki's symbols; a phone of two symbols is split evenly.
PHONE_SYMBOLS = {
    "aa": "ɑ", "ae": "æ", "ah": "ʌ", "ao": "ɔ", "aw": "W", "ax": "ə", "ay": "I", "b": "b", "ch": "ʧ", "d": "d",
    "dh": "ð", "eh": "ɛ", "el": "l", "em": "m", "en": "n", "er": "ɜɹ", "ey": "A", "f": "f", "g": "ɡ", "hh": "h",
    "ih": "ɪ", "iy": "i", "jh": "ʤ", "k": "k", "l": "l", "m": "m", "n": "n", "ng": "ŋ", "ow": "O", "oy": "Y",
    "p": "p", "r": "ɹ", "s": "s", "sh": "ʃ", "t": "t", "th": "θ", "uh": "ʊ", "uw": "u", "v": "v", "w": "w",
    "y": "j", "z": "z", "zh": "ʒ",
}  # fmt: skip

_NEAR = {
    frozenset(pair): cost
    for cost, pairs in {
        0.1: ("ʌə", "əᵊ", "ɪᵻ", "əᵻ", "ʌɐ", "əɐ", "ɜə", "ɜɚ", "Tt", "Td", "ɾt", "ɾd", "ʔt"),
        0.2: ("əɪ", "ɑɔ", "iɪ", "ʊu"),
        0.3: ("sz", "Oɔ", "nŋ", "ʃʒ", "θð"),
        0.4: ("td", "ɛæ", "ɛɪ", "ɛA", "ʃʧ", "ʒʤ", "tʧ", "dʤ", "iə"),
        0.5: ("Aæ",),
    }.items()
    for pair in pairs
}
_NEVER = 9.0
_DROP_TOKEN = 0.8
_DROP_PHONE = 0.9
_DROP_PAUSE = 3.0


class AlignmentError(ValueError):
    """The phones and the phonemes cannot be aligned; the message says why."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One symbol's worth of teacher audio, `start` and `end` in seconds."""

    symbol: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Alignment:
    """Frames of each token (boundary, phonemes..., boundary), and how far it can be trusted.

    `cost` is the dynamic program's cost a sounding phoneme (0 is a perfect match, above 0.3 the teacher said
    something else); `shift` is the largest distance in frames that a boundary was moved.
    """

    durations: tuple[int, ...]
    cost: float
    shift: float


def units_of(phones: Sequence[tuple[str, float]]) -> list[Unit]:
    """Teacher phones (name, end in seconds) as units; the first and last pause are left out.

    Raises AlignmentError for a phone that is not in the teacher's set.
    """
    units: list[Unit] = []
    start = 0.0
    for index, (name, end) in enumerate(phones):
        if name == PAUSE:
            if 0 < index < len(phones) - 1:
                units.append(Unit(_PAUSE_UNIT, start, end))
        else:
            symbols = PHONE_SYMBOLS.get(name)
            if symbols is None:
                raise AlignmentError(f"the teacher's phone {name!r} is not known; known: {sorted(PHONE_SYMBOLS)}")
            step = (end - start) / len(symbols)
            units += [Unit(s, start + i * step, start + (i + 1) * step) for i, s in enumerate(symbols)]
        start = end
    return units


def exchange_cost(token: str, unit: str) -> float:
    """Cost of saying that `token` (misaki) sounds as `unit` (teacher)."""
    if unit == _PAUSE_UNIT:
        if token in PUNCTUATION:
            return 0.0
        return 0.6 if token == " " else _NEVER  # noqa: S105  (a phoneme, not a secret)
    if token in SILENT:
        return _NEVER
    if token == unit:
        return 0.0
    near = _NEAR.get(frozenset((token, unit)))
    if near is not None:
        return near
    if (token in VOWELS) != (unit in VOWELS):
        return 1.3
    return 0.7 if token in VOWELS else 0.9


def match(tokens: Sequence[str], units: Sequence[Unit]) -> tuple[list[Unit | None], float]:
    """The unit that each token is heard in (None: in no audio of its own), and the total cost."""
    rows, columns = len(tokens), len(units)
    cost = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    move = [[""] * (columns + 1) for _ in range(rows + 1)]
    drop_unit = [_DROP_PAUSE if unit.symbol == _PAUSE_UNIT else _DROP_PHONE for unit in units]
    for i in range(rows + 1):
        drop_token = 0.0 if i and tokens[i - 1] in SILENT else _DROP_TOKEN
        for j in range(columns + 1):
            options = []
            if i and j:
                options.append((cost[i - 1][j - 1] + exchange_cost(tokens[i - 1], units[j - 1].symbol), "both"))
            if i:
                options.append((cost[i - 1][j] + drop_token, "token"))
            if j:
                options.append((cost[i][j - 1] + drop_unit[j - 1], "unit"))
            if options:
                cost[i][j], move[i][j] = min(options, key=lambda option: option[0])
    matched: list[Unit | None] = [None] * rows
    i, j = rows, columns
    while i or j:
        step = move[i][j]
        if step == "both":
            matched[i - 1] = units[j - 1]
        i -= step != "unit"
        j -= step != "token"
    return matched, cost[rows][columns]


def isotonic(values: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to `values` in squared error (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, size = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean = (before * count + mean * size) / (count + size)
            size += count
        blocks.append((mean, size))
    return [mean for mean, size in blocks for _ in range(size)]


def at_least_one_frame(ends: Sequence[float], frames: int) -> list[int]:
    """Token ends in (fractional) frames -> durations of those tokens and of one last token up to `frames`.

    Every duration is at least 1 and they add up to `frames`. Raises AlignmentError if there are too few frames.
    """
    count = len(ends)
    if frames < count + 1:
        raise AlignmentError(f"{frames} frames cannot hold {count + 1} tokens")
    # Strictly increasing ends are a non-decreasing sequence after taking off the index.
    relaxed = isotonic([end - i - 1 for i, end in enumerate(ends)])
    whole = [min(max(round(value), 0), frames - count - 1) + i + 1 for i, value in enumerate(relaxed)]
    whole.append(frames)
    return [end - start for start, end in zip([0, *whole[:-1]], whole, strict=True)]


def _token_ends(tokens: Sequence[str], matched: Sequence[Unit | None], start: float, stop: float) -> list[float]:
    """Seconds at which the leading boundary and each token end, from the units they were matched to."""
    next_start = [stop] * (len(tokens) + 1)
    for i in range(len(tokens) - 1, -1, -1):
        unit = matched[i]
        next_start[i] = unit.start if unit is not None else next_start[i + 1]
    ends = [start]
    for i, unit in enumerate(matched):
        following = next_start[i + 1]
        if unit is not None:
            dropped_next = i + 1 < len(tokens) and matched[i + 1] is None and tokens[i + 1] not in SILENT
            # A dropped sounding token gets what lies between its neighbors; all else touches what follows.
            ends.append(min(unit.end, following) if dropped_next else following)
        else:
            ends.append(following)
    return ends


def align(phonemes: str, phones: Sequence[tuple[str, float]], frames: int) -> Alignment:
    """Align `phonemes` (misaki's symbols) with the teacher's `phones` (name, end in seconds) over `frames`.

    `phones` begins and ends with a pause. Raises AlignmentError when that is not so, when nothing sounds, or when
    there are fewer frames than tokens.
    """
    if len(phones) < 3 or phones[0][0] != PAUSE or phones[-1][0] != PAUSE:
        raise AlignmentError("the teacher's phones must begin and end with a pause, with speech between")
    body = phonemes.rstrip("".join(PUNCTUATION))
    sounding = sum(token not in SILENT for token in body)
    if not sounding:
        raise AlignmentError(f"nothing sounds in {phonemes!r}")
    matched, cost = match(body, units_of(phones))
    start, stop, end = phones[0][1], phones[-2][1], frames / FRAME_RATE
    seconds = _token_ends(body, matched, start, stop)
    tail = len(phonemes) - len(body)
    # Closing punctuation takes the first half of the last pause; the boundary token has the rest.
    seconds += [stop + (end - stop) * 0.5 * (k + 1) / tail for k in range(tail)]
    ends = [second * FRAME_RATE for second in seconds]
    durations = at_least_one_frame(ends, frames)
    reached, shift = 0, 0.0
    for wanted, duration in zip(ends, durations[:-1], strict=True):
        reached += duration
        shift = max(shift, abs(wanted - reached))
    return Alignment(tuple(durations), cost / sounding, shift)
