"""Voices of this server, as Wyoming's `info` lists them."""

from __future__ import annotations

from typing import Any, Final

from app import __version__
from app.engine.model_loader import ModelStatus
from app.server.state import Services
from app.voices.aliases import describe
from models.contract import Synthesizer

_ATTRIBUTION: Final = {"name": "Nightingale", "url": "https://github.com/OHF-Voice/wyoming"}


def info(app: Services) -> dict[str, Any]:
    """Return the data of `info`: the voices of the default model, then those of the other models that are loaded."""
    names = [app.speech.default_model]
    names += [each.name for each in app.catalog.models() if each.kind == "text-to-speech" and each.name not in names]
    programs = []
    for name in names:
        held = app.worker.state(name)
        if held.status is ModelStatus.READY and held.synthesizer is not None:
            programs.append(_program(name, held.synthesizer, default=name == app.speech.default_model))
    empty: list[dict[str, Any]] = []
    others = dict.fromkeys(("asr", "handle", "intent", "wake", "mic", "snd"), empty)
    return {"tts": programs, **others}


def _program(name: str, model: Synthesizer, *, default: bool) -> dict[str, Any]:
    artifact = {"attribution": _ATTRIBUTION, "installed": True, "version": __version__}
    voices = [
        {
            **artifact,
            "name": voice.id if default else f"{name}/{voice.id}",
            "description": f"{voice.id} ({describe(voice.gender, voice.language)})",
            "languages": [_tag(voice.language)],
            "speakers": None,
        }
        for voice in model.voices
    ]
    return {
        **artifact,
        "name": "nightingale" if default else f"nightingale-{name}",
        "description": f"Nightingale, model {name}",
        "voices": voices,
        "supports_synthesize_streaming": True,
    }


def _tag(language: str) -> str:
    """Return a tag as BCP-47 writes it: en-US for `en-us`. Home Assistant compares it with its own."""
    primary, *rest = language.split("-")
    return "-".join([primary.lower(), *(part.upper() if len(part) == 2 else part.title() for part in rest)])
