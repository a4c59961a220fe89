"""Messages of the client of `WS /v1/audio/interpret`, as a discriminated union. Audio travels in binary frames."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, TypeAdapter

from app.audio.resample import MAX_RATE, MIN_RATE
from app.interpretation.options import MAX_DELAY, MAX_SPEED, PAUSE
from app.server.schemas import SamplingFields, Seed, Speed, UnicodeText
from app.server.streaming.events import Cancel, End, Flush, Message

MAX_KEYWORDS = 100


class InterpretationStart(SamplingFields, Message):
    """First message. `target` is the language to speak; `source` what is spoken, detected by default.

    `input_format` and `input_rate` (Hz): the audio that is sent, mono samples of 16 bits, or of G.711. `format` and
    `sample_rate`: the audio that comes back.
    `pause`: seconds of silence that end a sentence; null: `flush` does. `speed` is multiplied by up to `max_speed`
    while speech is behind; what would begin more than `max_delay` seconds late is written, not spoken. `partials`: tell
    what is heard before it is sure. `clauses`: translate the first clause of a long sentence before the sentence ends.
    `prompt` and `keywords` help the recognizer. `muted`: text only. `clone_voice`: speak in the voice of who speaks,
    once enough was heard, with their `consent`; in `voice` until then.
    """

    type: Literal["start"]
    target: UnicodeText
    source: UnicodeText | None = None
    recognition_model: UnicodeText | None = None
    translate_model: UnicodeText | None = None
    model: UnicodeText | None = None
    voice: UnicodeText | None = None
    any_language: StrictBool = False
    input_format: Literal["pcm", "mulaw", "alaw"] = "pcm"
    input_rate: Annotated[StrictInt, Field(ge=MIN_RATE, le=MAX_RATE)] = 16_000
    format: UnicodeText = "pcm"
    sample_rate: StrictInt | None = None
    speed: Speed = 1.0
    max_speed: Annotated[float, Field(ge=1.0, le=2.0)] = MAX_SPEED
    max_delay: Annotated[float, Field(ge=0.0, le=600.0)] = MAX_DELAY
    seed: Seed = 0
    pause: Annotated[float, Field(ge=0.1, le=5.0)] | None = PAUSE
    partials: StrictBool = True
    timestamps: StrictBool = False
    clauses: StrictBool = False
    anticipate: StrictBool = True
    muted: StrictBool = False
    clone_voice: StrictBool = False
    consent: StrictBool = False
    prompt: UnicodeText = ""
    keywords: Annotated[tuple[UnicodeText, ...], Field(max_length=MAX_KEYWORDS)] = ()


class Update(Message):
    """Change what to speak, and by what, in the sentences that follow. `updated` answers it."""

    type: Literal["update"]
    target: UnicodeText | None = None
    translate_model: UnicodeText | None = None
    model: UnicodeText | None = None
    voice: UnicodeText | None = None
    any_language: StrictBool | None = None
    speed: Speed | None = None


class Mute(Message):
    """Order to speak nothing from now on, and to drop what waits to be spoken, or to speak again. Text goes on."""

    type: Literal["mute"]
    muted: StrictBool = True


Incoming = Annotated[InterpretationStart | Update | Flush | Mute | Cancel | End, Field(discriminator="type")]
INCOMING: TypeAdapter[InterpretationStart | Update | Flush | Mute | Cancel | End] = TypeAdapter(Incoming)
