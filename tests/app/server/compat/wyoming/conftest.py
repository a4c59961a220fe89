"""Servers that listen for Wyoming."""

import re
from typing import Any

import pytest


@pytest.fixture
def start_wyoming(start_server: Any, caplog: pytest.LogCaptureFixture) -> Any:
    """`start_wyoming(**settings)`: a server that listens for Wyoming, and its port."""

    def begin(**settings: object) -> tuple[Any, int]:
        with caplog.at_level("INFO", "app.server.compat.wyoming.server"):
            server = start_server(wyoming_port=0, **settings)
        return server, int(re.findall(r"Wyoming listens on tcp://127\.0\.0\.1:(\d+)", caplog.text)[-1])

    return begin
