"""Identifiers of sessions, items and events, in the form of OpenAI's."""

from __future__ import annotations

import secrets


def new_id(prefix: str) -> str:
    """Return a new identifier: the prefix, an underscore and 24 hexadecimal digits."""
    return f"{prefix}_{secrets.token_hex(12)}"
