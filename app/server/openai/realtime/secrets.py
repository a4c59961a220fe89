"""Client secrets: short-lived keys for clients that must not have a real one, such as web pages.

A secret holds its session, the time at which it expires and the name of the key that asked for it, signed with a key
that only this server has. So nothing is stored, and a secret ends with the key that asked for it, or with the server.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
import zlib
from dataclasses import dataclass
from typing import Any, Final

from app.engine.admission import client
from app.errors import InvalidRequestError

PREFIX: Final = "ek_"
# Characters of a secret: it travels in a header.
MAX_CHARACTERS: Final = 4_000
_SIGNATURE: Final = 32
_KEY: Final = bytearray(secrets.token_bytes(32))


def share_key(key: bytes) -> None:
    """Sign and read with `key` from now on. Processes that share it take each other's secrets."""
    _KEY[:] = key


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """Content of a secret. `owner`: name of the key that asked for it; None: no key was needed.

    `kind` "realtime" or "translation": the sockets it is for. `expires_at` in seconds since the epoch.
    """

    kind: str
    owner: str | None
    session: dict[str, Any]
    expires_at: int

    def sign(self) -> str:
        """Return the secret. Raises InvalidRequestError for a session that is too long."""
        fields = [self.kind, self.owner, self.session, self.expires_at]
        data = zlib.compress(json.dumps(fields, separators=(",", ":")).encode("utf-8", "replace"), 9)
        value = PREFIX + base64.urlsafe_b64encode(_sign(data) + data).decode().rstrip("=")
        if len(value) > MAX_CHARACTERS:
            raise InvalidRequestError(
                "The session is too long for a client secret; send the rest with session.update.", param="session"
            )
        return value


def sign_secret(kind: str, session: dict[str, Any], seconds: int) -> tuple[str, int]:
    """Return a secret of the key that asks for it, and the time at which it expires. Raises as `sign` does."""
    owner = client.get()
    secret = ClientSecret(kind, None if owner is None else owner.name, session, round(time.time()) + seconds)
    return secret.sign(), secret.expires_at


def read_secret(value: str) -> ClientSecret | None:
    """Return the content of a secret of this server that has not expired; None for anything else."""
    if not value.startswith(PREFIX) or len(value) > MAX_CHARACTERS:
        return None
    encoded = value.removeprefix(PREFIX)
    try:
        signed = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except ValueError:
        return None
    signature, data = signed[:_SIGNATURE], signed[_SIGNATURE:]
    if not hmac.compare_digest(signature, _sign(data)):
        return None
    result = ClientSecret(*json.loads(zlib.decompress(data)))
    return result if result.expires_at > time.time() else None


def _sign(data: bytes) -> bytes:
    return hmac.digest(_KEY, data, hashlib.sha256)
