"""Aliases of voices: names of other services' voices, and words that describe a speaker.

Clients of another service's API often know no other names (pipecat accepts nothing else). So a name of OpenAI,
ElevenLabs or Deepgram stands for a voice of the model in use, of the same gender, and of the same language if possible.
The choice depends only on the model's list of voices, so it is stable. Genders and accents are those that the services
publish (elevenlabs.io "Voices", developers.deepgram.com "Voices and Languages"); OpenAI's follow the sound of its
voices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.text.languages import language_name, primary_language
from models.contract import Voice


class HasVoices(Protocol):
    """Voices of a model, which need not be loaded."""

    @property
    def voices(self) -> Sequence[Voice]: ...

    @property
    def default_voice(self) -> str: ...


# Accepted genders of a speaker.
GENDERS = ("female", "male")
_PERSONS = {"female": "woman", "male": "man"}

# The order decides which voice of that gender a name gets.
_OPENAI = {
    "female": "alloy nova shimmer coral sage marin",
    "male": "echo onyx fable ash ballad verse cedar",
}
# OpenAI's and Deepgram's British voices, and the Irish and Australian ones, which are nearer to these than to American.
_BRITISH = frozenset({"fable", "ballad", "pandora", "draco", "helios", "hyperion", "theia", "angus"})
# ElevenLabs' premade voices, of old and of today: name, id. River has no gender.
_ELEVENLABS = {
    ("female", "en-us"): """
        Rachel 21m00Tcm4TlvDq8ikWAM, Sarah EXAVITQu4vr4xnSDxMaL, Aria 9BWtsMINqrJLrRacOk9x, Bella hpp4J3VqNfWAUOO0d1Us,
        Domi AZnzlk1XvdvUeBnXmlld, Laura FGY2WhTYpPnrIDTdsKH5, Emily LcfcDJNUP1GQjkzn1xUU, Elli MF3mGyEYCl7XYWbV9V6O,
        Charlotte XB0fDUnXU5powFXDhCwa, Matilda XrExE9yKIg1WjnnlVkGX, Jessica cgSgspJ2msm6clMCkdW9,
        Gigi jBpfuIE2acCO8z3wKNLl, Freya jsCqWAovK2LkecY7zXl4, Grace oWAxZDx7w5VEj9dCyTzz, Serena pMsXgVXv3BLzUgSXRplE,
        Nicole piTKgcLEGmPE4e6mEKli, Glinda z9fAnlkpzviPz146aGWa, Mimi zrHiDhphv9ZnVXBqCLjz
    """,
    ("female", "en-gb"): """
        Alice Xb7hH8MSUJpSbSDYk0k2, Lily pFZP5JQG7iQjIQuC4Bku, Dorothy ThT5KcBeYPX3keUQqHPh
    """,
    ("male", "en-us"): """
        Adam pNInz6obpgDQGcFmaJgB, Antoni ErXwobaYiN019PkySvjV, Josh TxGEqnHWrfWFTfGW9XjX,
        Sam yoZ06aMxZJJ28mfd3POQ, Arnold VR6AewLTigWG4xSOukaG, Drew 29vD33N1CtxCmqQRPOHJ,
        Clyde 2EiwWnXFnvU5JabPnv8n, Paul 5Q0t7uMcjvnagumLfvZi, Roger CwhRBWXzGAHq8TQ4Fs17,
        Fin D38z5RcWu1voky8WS1ja, Thomas GBv7mTt0atIp3Br8iCZE, Callum N2lVS1w4EtoT3dr4eOWO,
        Patrick ODq5zmih8GrVes37Dizd, Harry SOYHLrjzK2X1ezoPC6cr, Liam TX3LPaxmHKxFdv7VOQHJ,
        Charlie IKne3meq5aSn9XLyUdCD, James ZQe5CZNOzWyzPSCn5a3c, Will bIHbv24MWmeRgasZH58o,
        Jeremy bVMeCyTHy58xNoL34h3p, Eric cjVigY5qzO86Huf0OWal, Michael flq6f7yk4E4fJM5XTYuZ,
        Ethan g5CIjZEefAph4nQFvHAz, Chris iP95p4xoKVk53GoZ742B, Brian nPczCjzI2devNBz1zQrb,
        Bill pqHfZKP75CvOlQylNhV4, Jessie t0jbNlBVZ17f02VDIeMI, Giovanni zcAOhNBS3c14rBihAFp1
    """,
    ("male", "en-gb"): """
        George JBFqnCBsd6RMkjVDRZzb, Daniel onwK4e9ZLuTAKqWW03F9, Dave CYw3kZ02Hs0563khs1Fj, Joseph Zlb1dXrM653N07WRdFW3
    """,
    (None, "en-us"): "River SAz9YHcvj6GT2YYXdXww",
}
# Deepgram's Aura voices of both generations, without their language.
_DEEPGRAM = {
    "female": """
        asteria luna stella athena hera thalia andromeda helena amalthea aurora callista cora cordelia delia electra
        harmonia iris janus juno minerva ophelia pandora phoebe selene theia vesta
        celeste estrella carina diana selena agustina antonia gloria olivia silvia agathe viktoria elara aurelia lara
        kara rhea beatrix daphne cornelia hestia leda livia melia maia cinzia demetra izanami uzume ama
    """,
    "male": """
        orion arcas perseus angus orpheus helios zeus apollo aries atlas draco hermes hyperion jupiter mars neptune
        odysseus pluto saturn
        nestor sirio alvaro aquila javier luciano valerio hector julius fabian sander lars roman dionisio elio flavio
        cesare perseo fujin ebisu
    """,
}
# `aura-2-thalia-en`: generation, name, language.
_AURA = re.compile(r"aura(?:-\d+)?-([a-z]+)-([a-z]{2})", re.IGNORECASE)
# Names that the bundled voices had until release 0.2. Releases 0.3 and 0.4 accept them.
RENAMED = {"rms": "am_michael", "slt": "af_heart"}
# One of them as the name of a voice, or as a term of a blend such as "rms(2)+slt(1)".
_OLD = re.compile(rf"(?<![^+\s])({'|'.join(RENAMED)})(?![^+\s(])")
# The first voice id in a name or in a blend such as "af_heart(2)+am_adam(1)".
_FIRST_ID = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class Alias:
    """A voice of another service. `rank` counts those of its gender and language there; gender None: unknown."""

    name: str
    gender: str | None
    language: str
    rank: int = 0


def _aliases() -> Iterator[tuple[str, Alias]]:
    for gender, names in _OPENAI.items():
        for rank, name in enumerate(names.split()):
            yield name, Alias(name, gender, _accent(name), rank)
    for (person, language), listed in _ELEVENLABS.items():
        for rank, entry in enumerate(listed.split(",")):
            name, voice_id = entry.split()
            alias = Alias(name.lower(), person, language, rank)
            yield name.lower(), alias
            yield voice_id, alias


def _accent(name: str) -> str:
    return "en-gb" if name in _BRITISH else "en-us"


_ALIASES = dict(_aliases())
_AURA_VOICES = {name: (gender, rank) for gender, names in _DEEPGRAM.items() for rank, name in enumerate(names.split())}


def find_aura(name: str) -> Alias | None:
    """Return Deepgram's voice `name`; None for a name of another form. Of a new one only the language is known."""
    aura = _AURA.fullmatch(name)
    if aura is None:
        return None
    called = aura[1].lower()
    gender, rank = _AURA_VOICES.get(called, (None, 0))
    language = aura[2].lower()
    if language == "en":
        # Athena is British in the first generation and American in the second.
        language = "en-gb" if name.lower() == "aura-athena-en" else _accent(called)
    return Alias(called, gender, language, rank)


def find_alias(name: str) -> Alias | None:
    """Return another service's voice by its name, in any case, or by its id; None: there is none."""
    return find_aura(name) or _ALIASES.get(name) or _ALIASES.get(name.lower())


def resolve_alias(name: str, model: HasVoices, lang: str | None = None) -> str:
    """Return `name` if the model knows it or no other service does; else the model's voice that stands for it.

    A namesake in its language comes first (Kokoro has af_alloy, am_echo, bm_fable and so on). `lang` is the language
    that will be spoken; None: the alias's own. It comes before the gender: one that learned another language may not
    be understood. Names that the model's voices had before get their present ones, also in a blend.
    """
    known = [voice.id for voice in model.voices]
    alias = None if name in known else find_alias(name)
    if alias is None:
        return name if name in known else _OLD.sub(lambda old: _present_name(old[1], known), name)
    able = [voice for voice in model.voices if alias.gender in (None, voice.gender)]
    for wanted in (lang, alias.language):
        fitting = (_in_language(able, wanted) or _in_language(model.voices, wanted)) if wanted is not None else []
        for voice in fitting:
            if voice.id.endswith("_" + alias.name):
                return voice.id
        if fitting and alias.gender is not None:
            exact = [[voice for voice in fitting if voice.language == tag] for tag in (wanted, alias.language)]
            chosen = next(filter(None, exact), fitting)
            return chosen[alias.rank % len(chosen)].id
        if fitting:
            return next((voice.id for voice in fitting if voice.id == model.default_voice), fitting[0].id)
    return able[alias.rank % len(able)].id if able and alias.gender is not None else model.default_voice


def _present_name(old: str, known: Sequence[str]) -> str:
    return RENAMED[old] if old not in known and RENAMED[old] in known else old


def outdated_names(voice: str | None, model: HasVoices) -> tuple[str, ...]:
    """Return what `x-ignored` says of a voice or blend: the names that voices of the model had before."""
    if voice is None:
        return ()
    known = [each.id for each in model.voices]
    names = [(old, _present_name(old, known)) for old in dict.fromkeys(_OLD.findall(voice))]
    return tuple(f"voice {old} (now {present})" for old, present in names if old != present)


def _in_language(voices: Sequence[Voice], wanted: str) -> list[Voice]:
    return [voice for voice in voices if primary_language(voice.language) == primary_language(wanted)]


def language_of(voice: str, voices: Sequence[Voice]) -> str:
    """Return the language of `voice`, or of the first voice of a blend; English if it is unknown."""
    match = _FIRST_ID.search(voice)
    first = match.group() if match else ""
    return next((known.language for known in voices if known.id == first), "en-us")


def describe(gender: str | None, language: str | None) -> str:
    """Return gender and language in words, such as `man, American English`; unknown ones are left out."""
    said = (_PERSONS.get(gender or ""), language and language_name(language))
    return ", ".join(part for part in said if part)
