"""Options of an interpretation, as a client gives them and as they were checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from app.audio.vad import SPEECH, VoiceOptions
from app.speech.options import PreparedSpeech, SpeechOptions
from app.translation.plan import TranslationOptions

# Seconds of silence after which a sentence is translated, and one that looks complete.
PAUSE: Final = 0.6
SENTENCE_PAUSE: Final = 0.25
DETECTION: Final = replace(SPEECH, min_silence=PAUSE)
MAX_SPEED: Final = 1.3
MAX_DELAY: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpretationOptions:
    """Options of one session. None means the default.

    `speech` says how to translate and to speak: `translate_to` is the language to interpret to, and where `source` is
    None or "auto" the recognizer `recognition_model` detects it. Its speed is multiplied by up to `max_speed` while
    speech is behind. What would begin more than `max_delay` seconds late is written, not spoken.

    `prompt` and `keywords` help the recognizer. `detection` None: the client ends the utterances. `partials`: tell what
    is heard before it is sure. `clauses`: translate the first clause of a long sentence before the sentence ends.
    `anticipate`: translate the beginning of a sentence while the rest is being spoken. `clone_voice`: speak in the
    voice of who speaks, once enough was heard, with their `consent`; in `voice` until then.
    """

    speech: SpeechOptions
    recognition_model: str | None = None
    max_speed: float = MAX_SPEED
    max_delay: float = MAX_DELAY
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
