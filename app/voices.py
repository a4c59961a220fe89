"""OpenAI's voice names, mapped to the voices a model has.

Clients written for OpenAI's API often know no other names (pipecat accepts nothing else). The mapping is stable: it
depends only on the model's list of voices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from models.contract import Synthesizer, Voice

# What may be said of a cloned voice's speaker.
GENDERS = ("female", "male")

# Each name with how it sounds at OpenAI; the order decides which voice of that gender it gets.
OPENAI_VOICES: dict[str, str] = {
    "alloy": "female",
    "nova": "female",
    "shimmer": "female",
    "coral": "female",
    "sage": "female",
    "marin": "female",
    "echo": "male",
    "onyx": "male",
    "fable": "male",
    "ash": "male",
    "ballad": "male",
    "verse": "male",
    "cedar": "male",
}

# The first voice id in a name or in a blend such as "af_heart(2)+am_adam(1)".
_FIRST_ID = re.compile(r"[\w-]+")


def resolve_alias(name: str, model: Synthesizer) -> str:
    """`name` itself when the model knows it or OpenAI does not; else the model's voice that stands for it."""
    if name not in OPENAI_VOICES or any(voice.id == name for voice in model.voices):
        return name
    english = [voice for voice in model.voices if voice.language.lower().startswith("en")] or list(model.voices)
    # Kokoro has namesakes: af_alloy, am_echo, bm_fable and so on.
    for voice in english:
        if voice.id.endswith("_" + name):
            return voice.id
    gender = OPENAI_VOICES[name]
    fitting = [voice for voice in english if voice.gender == gender]
    if not fitting:
        return model.default_voice
    peers = [peer for peer, of in OPENAI_VOICES.items() if of == gender]
    return fitting[peers.index(name) % len(fitting)].id


def language_of(voice: str, voices: Sequence[Voice]) -> str:
    """The language of `voice`, of the first voice of a blend, or English."""
    match = _FIRST_ID.search(voice)
    first = match.group() if match else ""
    return next((known.language for known in voices if known.id == first), "en-us")
