"""Verifiers of streams: the recognizer and the front end of their language."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.server.state import Services
from app.speech.service import PreparedSpeech
from app.speech.verifier import Mode, Verifier


async def verifiers(app: Services, speech: PreparedSpeech, mode: Mode) -> Callable[[], Verifier] | None:
    """Return a maker of verifiers, one a stream of `speech`; None: `mode` is off. Waits for the model that hears."""
    if mode == "off":
        return None
    listener = await app.recognition.listener(speech.language)
    phonemizer = None if listener is None else await app.speech.phonemizer(speech.language)
    # A model that draws nothing would say the same again.
    return partial(Verifier, listener, phonemizer, retries=mode == "retry" and bool(speech.synthesizer.parameters))
