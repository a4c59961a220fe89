"""Voices and recognizers of this server, as Wyoming's `info` lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from app import __version__
from app.server.state import Services
from app.voices.aliases import describe
from models.contract import Description, ModelKind

_ATTRIBUTION: Final = {"name": "Nightingale", "url": "https://github.com/OHF-Voice/wyoming"}


def info(app: Services) -> dict[str, Any]:
    """Return the data of `info`: voices and recognizers of the models that are or were loaded."""
    speaks, hears = app.speech.default_model, app.recognition.default_model
    programs = [_program(name, model, default=name == speaks) for name, model in _served(app, "text-to-speech", speaks)]
    recognizers = [
        {**_artifact(name, f"Nightingale, model {name}"), "languages": list(model.languages)}
        for name, model in _served(app, "speech-recognition", hears)
    ]
    empty: list[dict[str, Any]] = []
    others = dict.fromkeys(("handle", "intent", "wake", "mic", "snd"), empty)
    return {"asr": [_hearing_program(recognizers)] if recognizers else [], "tts": programs, **others}


def _served(app: Services, kind: ModelKind, default: str | None) -> Iterator[tuple[str, Description]]:
    """Yield the models of one kind that are loaded, or were and can be again; the default one first."""
    names = [default] if default is not None else []
    names += [each.name for each in app.catalog.models() if each.kind == kind and each.name not in names]
    for name in names:
        held = app.worker.state(name)
        if held.available and held.description is not None:
            yield name, held.description


def _artifact(name: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "attribution": _ATTRIBUTION,
        "installed": True,
        "version": __version__,
    }


def _hearing_program(models: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the one program that recognizes: Home Assistant reads the first alone."""
    return {
        **_artifact("nightingale", "Nightingale, speech recognition"),
        "models": models,
        "supports_transcript_streaming": True,
        # The client tells where a recording ends.
        "requires_external_vad": True,
        "prefers_auto_gain_enabled": False,
        "prefers_noise_reduction_enabled": False,
    }


def _program(name: str, model: Description, *, default: bool) -> dict[str, Any]:
    voices = [
        {
            **_artifact(
                voice.id if default else f"{name}/{voice.id}",
                f"{voice.id} ({describe(voice.gender, voice.language)})",
            ),
            "languages": [_tag(voice.language)],
            "speakers": None,
        }
        for voice in model.voices
    ]
    return {
        **_artifact("nightingale" if default else f"nightingale-{name}", f"Nightingale, model {name}"),
        "voices": voices,
        "supports_synthesize_streaming": True,
    }


def _tag(language: str) -> str:
    """Return a tag as BCP-47 writes it: en-US for `en-us`. Home Assistant compares it with its own."""
    primary, *rest = language.split("-")
    return "-".join([primary.lower(), *(part.upper() if len(part) == 2 else part.title() for part in rest)])
