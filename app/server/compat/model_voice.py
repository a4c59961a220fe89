"""One name for model and voice: the protocols of some clients have room for no more."""

from __future__ import annotations

from app.engine.catalog import Catalog
from app.errors import UnknownModelError


def model_and_voice(name: str, catalog: Catalog) -> tuple[str | None, str | None]:
    """What `name` means: MODEL/VOICE, a model alone, or else a voice of the default model.

    Raises UnknownModelError for a MODEL/VOICE whose model the catalog does not have. Whether there is such a voice is
    for `SpeechService.prepare` to say.
    """
    model, slash, voice = name.partition("/")
    if slash:
        return catalog.resolve(model), voice or None
    try:
        return catalog.resolve(name), None
    except UnknownModelError:
        return None, name
