"""Playback of one request: silences and lags from the times at which text was sent and sound arrived.

All times are seconds on one clock. The player starts with the first piece and plays without pause while it can. A
sentence is needed when the one before it has been played, or when its text was sent, whichever is later: a sentence
that the client has not sent yet is not missing. A late sentence starves the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loadtest.arrivals import Surface

# Shorter silences come from the clocks of a busy machine, not from a late sentence.
TOLERANCE = 0.005
# Stages of `done` and of `Server-Timing` that are not the model's own.
SERVER_STAGES = frozenset({"queue", "boundary", "g2p", "audio_encode", "total", "ttfa"})


@dataclass(frozen=True, slots=True)
class Piece:
    """`seconds` of sound that came at `at`, of sentence number `sentence`."""

    at: float
    seconds: float
    sentence: int = 0


@dataclass(slots=True)
class Trace:
    """One request as its client saw it; times in seconds since the run began.

    `due`: when it was to be sent; `sent`: when it was; `text_sent`: when its text was, after handshakes. `asked`: when
    its sentences' texts were sent, where they are not all sent at once. `error`: why it was not served. `server_first`
    and `stages` are what the server said of it: seconds to first audio from when it had the text, seconds a stage.
    `sentences` says whether pieces carry the number of their sentence: over plain HTTP nothing tells.
    """

    surface: Surface
    due: float = 0.0
    sent: float = 0.0
    text_sent: float = 0.0
    pieces: list[Piece] = field(default_factory=list)
    end: float = 0.0
    error: str | None = None
    refused: bool = False
    model: str | None = None
    sentences: bool = False
    asked: Sequence[float] = ()
    server_first: float | None = None
    stages: Mapping[str, float] = field(default_factory=dict)

    @property
    def audio(self) -> float:
        """Seconds of sound."""
        return sum(piece.seconds for piece in self.pieces)

    @property
    def first(self) -> float | None:
        """Seconds from when it was due to the first sound; the delay of a late client counts, too."""
        return self.pieces[0].at - self.due if self.pieces else None

    @property
    def total(self) -> float:
        """Seconds from when it was due to its end."""
        return self.end - self.due

    @property
    def outside(self) -> float | None:
        """Seconds from the text to the first sound outside the server's own measure: network and both event loops."""
        if self.server_first is None or not self.pieces:
            return None
        return self.pieces[0].at - self.text_sent - self.server_first

    @property
    def on_top(self) -> float | None:
        """Seconds from the text to the first sound that the model did not compute; only where there is one piece."""
        if not self.stages or len(self.pieces) != 1:
            return None
        model = sum(seconds for stage, seconds in self.stages.items() if stage not in SERVER_STAGES)
        return self.pieces[0].at - self.text_sent - model


@dataclass(frozen=True, slots=True)
class Heard:
    """Result of a playback. `silences`: seconds inserted in the middle. `lags`: lateness of each sentence in seconds.

    The first sentence's lag is the wait for the first sound. `gaps` counts the places where playback could have
    starved: without one the playback proves nothing.
    """

    silences: tuple[float, ...]
    lags: tuple[float, ...]
    gaps: int

    @property
    def underrun(self) -> float:
        """Seconds of silence in all."""
        return sum(self.silences)

    @property
    def continuous(self) -> bool:
        """Whether it was never starved."""
        return not self.silences


def play(trace: Trace) -> Heard:
    """Play the pieces of `trace` at the times at which they arrived."""
    silences: list[float] = []
    lags: list[float] = []
    until = 0.0
    sentence: int | None = None
    for index, piece in enumerate(trace.pieces):
        begins = piece.sentence != sentence
        asked = trace.due
        if begins and piece.sentence < len(trace.asked):
            asked = trace.asked[piece.sentence]
        # Within a sentence the player needs the next piece as soon as the last is played.
        needed = max(until, asked) if index else asked
        late = max(0.0, piece.at - needed)
        if index and late > TOLERANCE:
            silences.append(late)
        if begins and (index == 0 or trace.sentences):
            lags.append(late)
        sentence = piece.sentence
        until = max(until, piece.at) + piece.seconds
    return Heard(tuple(silences), tuple(lags), max(0, len(trace.pieces) - 1))
