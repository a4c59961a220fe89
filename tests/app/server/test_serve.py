"""Addresses on which a server does not start."""

from __future__ import annotations

import pytest

from app.config import Settings, SettingsError, is_loopback
from app.server.serve import serve


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", "localhost.example.com"])  # noqa: S104
def test_a_public_address_needs_keys_or_leave(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(SettingsError, match="allow_public"):
        serve(Settings(host=host))
