"""Options of an interpretation, as a client gives them and as they were checked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from app.audio.vad import SPEECH, VoiceOptions
from app.speech.service import PreparedSpeech
from app.translation.plan import TranslationOptions
from models.contract import Sampling

# Seconds of silence after which a sentence is translated, and one that looks complete.
PAUSE: Final = 0.6
SENTENCE_PAUSE: Final = 0.25
DETECTION: Final = replace(SPEECH, min_silence=PAUSE)
MAX_SPEED: Final = 1.3
MAX_DELAY: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpretationOptions:
    """Options of one session. None means the default.

    `target` and `source` are names of languages; `source` None or "auto": the recognizer detects it.
    `recognition_model` hears, `translate_model` translates, and `model` speaks in `voice`. `speed` in [0.25, 4] is
    multiplied by up to `max_speed` while speech is behind. What would begin more than `max_delay` seconds late is
    written, not spoken.

    `prompt` and `keywords` help the recognizer. `detection` None: the client ends the utterances. `partials`: tell what
    is heard before it is sure. `clauses`: translate the first clause of a long sentence before the sentence ends.
    `anticipate`: translate the beginning of a sentence while the rest is being spoken. `clone_voice`: speak in the
    voice of who speaks, once enough was heard, with their `consent`; in `voice` until then.
    """

    target: str
    source: str | None = None
    recognition_model: str | None = None
    translate_model: str | None = None
    model: str | None = None
    voice: str | None = None
    any_language: bool = False
    speed: float = 1.0
    max_speed: float = MAX_SPEED
    max_delay: float = MAX_DELAY
    seed: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    detection: VoiceOptions | None = DETECTION
    partials: bool = True
    clauses: bool = False
    anticipate: bool = True
    clone_voice: bool = False
    consent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedInterpretation:
    """Options that were checked against loaded models. `route`: how to translate; `speech`: how to speak after that."""

    options: InterpretationOptions
    route: TranslationOptions
    speech: PreparedSpeech
