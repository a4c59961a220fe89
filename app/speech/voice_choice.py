"""Choice of the voice and the language of a speech request, from its options and the model's voices."""

from __future__ import annotations

from app import errors
from app.text.languages import is_spoken, language_name, normalize_language, primary_language
from app.voices.aliases import language_of
from app.voices.store import StoredVoice, is_voice_id
from models.contract import SAMPLING_RANGES, Sampling, Synthesizer


def may_be_cloned(voice: str, synthesizer: Synthesizer) -> bool:
    """Whether `voice` can be the id of a cloned voice, and is none of the model's own."""
    return is_voice_id(voice) and all(known.id != voice for known in synthesizer.voices)


def voice_for(lang: str | None, synthesizer: Synthesizer) -> str | None:
    """Return the first voice of a language that the default voice does not speak; None: the default will do."""
    if lang is None:
        return None
    wanted = primary_language(lang)
    spoken = primary_language(language_of(synthesizer.default_voice, synthesizer.voices))
    if wanted == spoken:
        return None
    return next((voice.id for voice in synthesizer.voices if primary_language(voice.language) == wanted), None)


def own_language(voice: str, cloned: StoredVoice | None, synthesizer: Synthesizer) -> str:
    """Return the language of a voice; of a cloned one that language, if the model speaks it, or the default voice's."""
    if cloned is None:
        return language_of(voice, synthesizer.voices)
    wanted = primary_language(cloned.language or "")
    spoken = {primary_language(known.language): known.language for known in reversed(synthesizer.voices)}
    return spoken.get(wanted) or language_of(synthesizer.default_voice, synthesizer.voices)


def spoken_language(lang: str, model: str, synthesizer: Synthesizer, param: str) -> str:
    """Return the tag under which a model speaks `lang`, or its nearest variety. Raises UnsupportedLanguageError."""
    near = [tag for tag in synthesizer.languages if primary_language(tag) == primary_language(lang)]
    if not near:
        accepted = ", ".join(f"{tag} ({language_name(tag)})" for tag in synthesizer.languages)
        hint = " It was made for no other; 'any_language' has it try." if is_spoken(lang) else ""
        raise errors.UnsupportedLanguageError(
            f"Model '{model}' does not speak '{lang[:40]}'; accepted are: {accepted}.{hint}", param=param
        )
    exact = normalize_language(lang) if is_spoken(lang) else lang
    return exact if exact in near else near[0]


def check_sampling(sampling: Sampling, model: str, synthesizer: Synthesizer) -> None:
    """Raise InvalidRequestError for a parameter that the model would ignore."""
    for name in sampling.given():
        if name not in synthesizer.parameters:
            taken = ", ".join(known for known in SAMPLING_RANGES if known in synthesizer.parameters)
            raise errors.InvalidRequestError(
                f"Model '{model}' takes no '{name}'; of such parameters it takes {taken or 'none'}.", param=name
            )
