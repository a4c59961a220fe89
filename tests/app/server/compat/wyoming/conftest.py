"""Servers that listen for Wyoming."""

from typing import Any

import pytest


@pytest.fixture
def start_wyoming(start_server: Any) -> Any:
    """`start_wyoming(**settings)`: a server that listens for Wyoming, and its port."""

    def begin(**settings: object) -> tuple[Any, int]:
        server = start_server(wyoming_port=0, **settings)
        return server, server.wyoming_port

    return begin
