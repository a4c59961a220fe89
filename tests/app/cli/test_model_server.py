"""`nightingale models load` and `unload`, against a server on a real socket."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import main
from tests.app.server.middleware.keys import ADA


def run(running: Any, *arguments: str) -> int:
    return main(["models", *arguments, "--url", running.url])


def status(running: Any) -> str:
    return str(httpx.get(running.url + "/v1/models/tone-two").json()["status"])


def test_a_model_is_loaded_and_unloaded(start_server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    running = start_server()
    assert run(running, "load", "tone-two") == 0
    assert capsys.readouterr().out.startswith("tone-two: loaded")
    assert status(running) == "ready"
    assert run(running, "unload", "tone-two") == 0
    assert capsys.readouterr().out == "tone-two: unloaded\n"
    assert status(running) == "available"


def test_progress_is_shown_until_it_takes_too_long(start_server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    running = start_server()
    running.second.warm_gate = threading.Semaphore(1)
    try:
        assert run(running, "load", "tone-two", "--timeout", "2") == 1
        told = capsys.readouterr().err
        assert "tone-two: loading, 1 of 3 shapes\n" in told
        assert told.endswith("nightingale: tone-two: still loading; the server goes on\n")
    finally:
        running.second.warm_gate.release(3)


def test_a_key_comes_from_a_file(start_server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys, key = tmp_path / "keys.toml", tmp_path / "key"
    keys.write_text(f'[ada]\nkey = "{ADA}"\nadmin = true\n')
    key.write_text(f"{ADA}\n")
    running = start_server(keys_file=keys)
    assert run(running, "load", "tone-two", "--key-file", str(key)) == 0
    assert run(running, "load", "tone-two") == 1
    assert "An API key is needed" in capsys.readouterr().err
    key.write_text("\n")
    assert run(running, "load", "tone-two", "--key-file", str(key)) == 2


@pytest.mark.parametrize(
    ("name", "told"),
    [("corrupt", "expected (2,)"), ("nothing", "Unknown model"), ("absent", "nightingale models pull absent")],
)
def test_failures_are_one_line(start_server: Any, capsys: pytest.CaptureFixture[str], name: str, told: str) -> None:
    assert run(start_server(), "load", name) == 1
    err = capsys.readouterr().err
    assert told in err and err.splitlines()[-1].startswith("nightingale: ")


def test_no_server_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert main(["models", "unload", "house", "--url", url]) == 1
    assert f"no server answers at {url}" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["models", "unload", "house", "--url", "house"])
    assert caught.value.code == 2
