"""Services that every surface uses, carried by the application's state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from starlette.requests import HTTPConnection

from app.assembly import Engine
from app.engine.model_loader import ModelState
from app.engine.turns import Turns
from app.generation.judge import says_the_same
from app.speech.options import PreparedSpeech
from app.speech.verifier import Mode, Verifier

# Seconds between two checks whether everything is warm.
CHECK_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Services(Engine):
    """Parts of one application: the engine's, and `preload`: models that readiness waits for, by name."""

    preload: tuple[str, ...]
    # For recordings in JSON, and large messages of sockets.
    bodies: Turns = field(default_factory=partial(Turns, 1))
    turns: Turns = field(default_factory=partial(Turns, 1))

    def states(self) -> list[ModelState]:
        """Return the states of the models that readiness waits for."""
        return [self.worker.state(name) for name in self.preload]

    @property
    def ready(self) -> bool:
        """Whether every model of `preload` and the lexicons are or were warm, and the server does not drain.

        A model that was unloaded since is loaded by the next request for it.
        """
        warm = self.speech.front_end == "ready" and all(state.available for state in self.states())
        return warm and not self.admission.draining

    async def until_ready(self) -> bool:
        """Wait until the server is `ready`. Returns whether it is: false, it drains."""
        while not self.ready:
            if self.admission.draining:
                return False
            await asyncio.sleep(CHECK_SECONDS)
        return True

    async def verifiers(self, speech: PreparedSpeech, mode: Mode) -> Callable[[], Verifier] | None:
        """Return a maker of verifiers, one a stream of `speech`; None: `mode` is off. Waits for the recognizer."""
        if mode == "off":
            return None
        listener = await self.recognition.listener(speech.language)
        phonemizer = None if listener is None else await self.speech.phonemizer(speech.language)
        # A model that draws nothing would say the same again.
        retries = mode == "retry" and bool(speech.synthesizer.parameters)
        name = self.settings.verification_model
        judge = None if name is None else partial(says_the_same, self.generation, name)
        return partial(Verifier, listener, phonemizer, retries=retries, judge=judge)


def services(connection: HTTPConnection) -> Services:
    """Return the services of the application that serves `connection`. Raises TypeError before its start."""
    result = connection.app.state.services
    if not isinstance(result, Services):
        raise TypeError("the application was not started")
    return result
