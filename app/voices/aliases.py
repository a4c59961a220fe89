"""Aliases of voices: names of other services' voices, and words that describe a speaker.

Clients of another service's API often know no other names (pipecat accepts nothing else). So a name of OpenAI,
ElevenLabs or Deepgram stands for a voice of the model in use, of the same gender, and of the same language if possible.
The choice depends only on the model's list of voices, so it is stable. Genders and accents are those that the services
publish (elevenlabs.io "Voices", developers.deepgram.com "Voices and Languages"); OpenAI's follow the sound of its
voices.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
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


# `aliases.tsv`: voices of OpenAI; ElevenLabs' premade ones, of old and of today; Deepgram's Aura voices of both
# generations, without their language. Irish and Australian voices count as British, to which they are nearer. `rank`
# decides which voice of that gender a name gets.
def _read_aliases() -> tuple[dict[str, Alias], dict[str, Alias]]:
    """Return the voices of OpenAI and ElevenLabs by name and id, and those of Deepgram by name."""
    known: dict[str, Alias] = {}
    aura: dict[str, Alias] = {}
    with Path(__file__).with_name("aliases.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            alias = Alias(row["name"], row["gender"] or None, row["language"], int(row["rank"]))
            (aura if row["service"] == "deepgram" else known)[alias.name] = alias
            if row["id"]:
                known[row["id"]] = alias
    return known, aura


_ALIASES, _AURA_VOICES = _read_aliases()


def find_aura(name: str) -> Alias | None:
    """Return Deepgram's voice `name`; None for a name of another form. Of a new one only the language is known."""
    aura = _AURA.fullmatch(name)
    if aura is None:
        return None
    called = aura[1].lower()
    alias = _AURA_VOICES.get(called, Alias(called, None, "en-us"))
    if aura[2].lower() != "en":
        return replace(alias, language=aura[2].lower())
    # Athena is British in the first generation and American in the second.
    return replace(alias, language="en-gb") if name.lower() == "aura-athena-en" else alias


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
