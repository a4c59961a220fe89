"""One name for model and voice, for protocols with a single field for both."""

from __future__ import annotations

from app.engine.catalog import Catalog
from app.errors import UnknownModelError


def model_and_voice(name: str, catalog: Catalog) -> tuple[str | None, str | None]:
    """Return the model and the voice of `name`: MODEL/VOICE, a model alone, or a voice of the default model.

    Raises UnknownModelError for a MODEL/VOICE whose model the catalog does not have. `SpeechService.prepare` checks the
    voice.
    """
    model, slash, voice = name.partition("/")
    if slash:
        return catalog.resolve(model), voice or None
    try:
        return catalog.resolve(name), None
    except UnknownModelError:
        return None, name
