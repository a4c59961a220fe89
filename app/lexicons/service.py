"""Lexicons of a request: its own words, those that it names, and the server's. An uploaded one belongs to its key."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from app import errors
from app.config import Settings
from app.engine.admission import key_name
from app.engine.turns import Turns
from app.lexicons.store import LexiconStore, StoredLexicon
from app.text.lexicon import Lexicon
from app.text.lexicon_files import parse_reading, read_lexicon
from app.threads import REQUESTS

MAX_NAME: Final = 100
"""Most characters of a lexicon's name."""
# Seconds for which the server's own files are not looked at again.
_POLL_SECONDS: Final = 1.0


class LexiconService:
    """Lexicons of one server. For the event loop."""

    def __init__(self, settings: Settings) -> None:
        self.store = LexiconStore(settings.data_dir / "lexicons", most=settings.max_lexicons)
        self._common: tuple[Lexicon, ...] = ()
        self._looked = -_POLL_SECONDS
        # Each thread that works on many entries slows down the event loop and the models.
        self.turns = Turns(2)

    async def resolve(
        self, named: Sequence[str | Lexicon], own: Mapping[str, str], language: str | None
    ) -> tuple[Lexicon, ...]:
        """Return the lexicons of a request, the first to be asked first.

        Args:
            named: Ids of uploaded lexicons, or lexicons.
            own: Words of the request and their readings: `/phonemes/`, or other words.
            language: Language of the request, if it names one.

        Raises:
            NotFoundError: A lexicon does not exist, or belongs to another key.
            InvalidLexiconError: A reading of `own` cannot be used.
        """
        result: list[Lexicon] = []
        if own:
            async with self.turns.place():
                result.append(await REQUESTS.run(_own, own, language))
        result += [each if isinstance(each, Lexicon) else await self.read(await self.get(each)) for each in named]
        if time.monotonic() - self._looked >= _POLL_SECONDS:
            self._looked = time.monotonic()
            self._common = await REQUESTS.run(self.store.common)
        return (*result, *self._common)

    async def add(self, name: str, data: bytes | Lexicon, language: str | None = None) -> StoredLexicon:
        """Keep a file, or a lexicon, for the request's key.

        Raises InvalidLexiconError, InvalidRequestError, QuotaExceededError, StorageError.
        """
        if not 1 <= len(name.strip()) <= MAX_NAME:
            raise errors.InvalidRequestError(f"'name' needs 1 to {MAX_NAME} characters.", param="name")
        async with self.turns.place():
            lexicon = data if isinstance(data, Lexicon) else await REQUESTS.run(read_lexicon, data, language)
            if not lexicon.entries:
                raise errors.InvalidLexiconError("The lexicon has no entry.")
            return await REQUESTS.run(self.store.add, name.strip(), lexicon, key_name())

    async def lexicons(self) -> list[StoredLexicon]:
        """Return the uploaded lexicons that the request's key may use, the oldest first."""
        return [each for each in await REQUESTS.run(self.store.lexicons) if each.owner in (None, key_name())]

    async def get(self, lexicon: str) -> StoredLexicon:
        """Return an uploaded lexicon. Raises NotFoundError if the request's key may use none of that id."""
        result = await REQUESTS.run(self.store.get, lexicon)
        if result is None or result.owner not in (None, key_name()):
            raise errors.NotFoundError(f"There is no lexicon '{lexicon[:40]}'.", param="lexicons")
        return result

    async def read(self, stored: StoredLexicon) -> Lexicon:
        """Return the entries of a lexicon that `get` found. Raises NotFoundError where they are gone or damaged."""
        async with self.turns.place():
            result = await REQUESTS.run(self.store.read, stored)
        if result is None:
            raise errors.NotFoundError(f"There is no lexicon '{stored.id}'.", param="lexicons")
        return result

    async def remove(self, lexicon: str) -> None:
        """Delete a lexicon. Raises NotFoundError, PermissionDeniedError for one that another made, StorageError."""
        if (await self.get(lexicon)).owner != key_name():
            raise errors.PermissionDeniedError(f"Lexicon '{lexicon}' was made without a key.")
        if not await REQUESTS.run(self.store.remove, lexicon):
            raise errors.NotFoundError(f"There is no lexicon '{lexicon[:40]}'.", param="lexicons")


def _own(own: Mapping[str, str], language: str | None) -> Lexicon:
    return Lexicon([parse_reading(word, said, language=language) for word, said in own.items()])
