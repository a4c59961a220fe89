"""Keys and origins before a server on a socket."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.app.server.middleware.keys import ADA, FILE, HASHED, bearer

# A server that wants keys.


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def guarded(start_server: Any, keys_file: Path) -> Any:
    return start_server(keys_file=str(keys_file))


def speak(server: Any, headers: dict[str, str], **body: object) -> httpx.Response:
    body = {"input": "Hi.", "response_format": "pcm"} | body
    return httpx.post(server.url + "/v1/audio/speech", json=body, headers=headers, timeout=60)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {ADA}"},
        {"authorization": f"bearer  {ADA}"},
        {"authorization": f"Token {ADA}"},
        {"xi-api-key": ADA},
        {"xi-api-key": ADA, "authorization": "Bearer none"},
    ],
)
def test_every_client_s_way_of_sending_a_key(guarded: Any, headers: dict[str, str]) -> None:
    assert speak(guarded, headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ADA},
        {"authorization": f"Basic {ADA}"},
        {"authorization": "Bearer"},
        {"authorization": f"Bearer {ADA}x"},
        {"xi-api-key": HASHED},
        {"sec-websocket-protocol": f"{ADA}, token"},
    ],
)
def test_without_a_key_there_is_401(guarded: Any, headers: dict[str, str]) -> None:
    refused = speak(guarded, headers)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.json()["error"]["code"] == "invalid_api_key"
    assert refused.json()["error"]["request_id"] == refused.headers["x-request-id"]
    assert guarded.tone.begun == []


def test_nothing_is_done_for_strangers(guarded: Any) -> None:
    with httpx.Client(base_url=guarded.url) as client:
        for path in ("/livez", "/readyz", "/", "/dashboard", "/docs", "/openapi.json", "/web/style.css"):
            assert client.get(path).status_code == 200, path
        # The application's own list: a path that is added later is closed, too.
        paths = client.get("/openapi.json").json()["paths"]
        assert len(paths) > 10
        for path, methods in paths.items():
            if path in ("/livez", "/readyz"):
                continue
            for method in methods:
                assert client.request(method, path).status_code == 401, (method, path)
        for path in ("/dashboard/requests", "/playground/settings", "/metrics", "/nothing", "/web"):
            assert client.get(path).status_code == 401, path
        assert client.get("/web/../metrics").status_code in (401, 404)
        assert client.get("/web/%2e%2e/%2e%2e/config.py").status_code == 404
        # LibreTranslate's clients expect their own shape.
        assert isinstance(client.post("/translate", json={}).json()["error"], str)
        assert client.get("/metrics", headers=bearer(ADA)).status_code == 200


def test_a_stranger_s_body_is_not_read(guarded: Any) -> None:
    with httpx.Client(base_url=guarded.url) as client:
        refused = client.post("/v1/audio/speech", content=b"x" * 10_000_000)
    assert refused.status_code == 401
    assert refused.headers["connection"] == "close"


def test_metrics_may_be_open(start_server: Any, keys_file: Path) -> None:
    running = start_server(keys_file=str(keys_file), open_metrics=True)
    assert httpx.get(running.url + "/metrics").status_code == 200
    assert httpx.get(running.url + "/v1/models").status_code == 401


def test_keys_change_while_the_server_runs(guarded: Any, keys_file: Path, wait_until: Any) -> None:
    assert speak(guarded, bearer(ADA)).status_code == 200
    new = "new-0123456789-0123456789"
    keys_file.write_text(f'new = "{new}"')
    assert wait_until(lambda: speak(guarded, bearer(new)).status_code == 200)
    assert speak(guarded, bearer(ADA)).status_code == 401


# WebSockets.


def ready(socket: ClientConnection) -> bool:
    socket.send(json.dumps({"type": "start"}))
    return bool(json.loads(socket.recv(timeout=60))["type"] == "ready")


@pytest.mark.parametrize("headers", [bearer(ADA), {"xi-api-key": ADA}, {"authorization": f"token {ADA}"}])
def test_a_socket_is_opened_with_a_key(guarded: Any, headers: dict[str, str]) -> None:
    with connect(guarded.websocket_url, additional_headers=headers) as socket:
        assert ready(socket)


def test_a_browser_sends_its_key_as_a_subprotocol(guarded: Any) -> None:
    with connect(guarded.websocket_url, subprotocols=["token", ADA]) as socket:  # type: ignore[list-item]
        assert socket.subprotocol == "token"
        assert ready(socket)


def test_a_key_that_is_no_subprotocol_is_sent_encoded(start_server: Any, tmp_path: Path) -> None:
    odd = 'o/d=d+k@e:y,"0123456789'
    (tmp_path / "keys.toml").write_text(f"odd = '{odd}'")
    running = start_server(keys_file=str(tmp_path / "keys.toml"))
    encoded = base64.urlsafe_b64encode(odd.encode()).decode().rstrip("=")
    with connect(running.websocket_url, subprotocols=["token", f"base64url.{encoded}"]) as socket:  # type: ignore[list-item]
        assert socket.subprotocol == "token"
        assert ready(socket)
    # Another's, no base64 (its length), no UTF-8, and nothing.
    for wrong in (encoded[:-3], "a", "_w", ""):
        with (
            pytest.raises(InvalidStatus, match="401"),
            connect(running.websocket_url, subprotocols=["token", f"base64url.{wrong}"]),  # type: ignore[list-item]
        ):
            pass


@pytest.mark.parametrize("headers", [{}, bearer("wrong")])
def test_a_handshake_without_a_key_is_refused(guarded: Any, headers: dict[str, str]) -> None:
    with pytest.raises(InvalidStatus) as caught, connect(guarded.websocket_url, additional_headers=headers):
        pass
    assert caught.value.response.status_code == 401
    assert caught.value.response.headers["x-request-id"]
    assert json.loads(caught.value.response.body)["error"]["code"] == "invalid_api_key"
    with (
        pytest.raises(InvalidStatus, match="401"),
        connect(guarded.websocket_url, subprotocols=["token", "wrong"]),  # type: ignore[list-item]
    ):
        pass
    # Pages are open, sockets are not.
    with pytest.raises(InvalidStatus, match="401"), connect(guarded.url.replace("http", "ws", 1) + "/livez"):
        pass


def test_pages_of_other_sites_open_no_socket(start_server: Any) -> None:
    running = start_server(cors_origins=("https://good.example",))
    own = running.url
    for origin in (own, "https://good.example", None):
        with connect(running.websocket_url, origin=origin) as socket:
            assert ready(socket)
    for origin in ("https://evil.example", "null", "http://good.example"):
        with pytest.raises(InvalidStatus) as caught, connect(running.websocket_url, origin=origin):  # type: ignore[arg-type]
            pass
        assert caught.value.response.status_code == 403


# Browsers.


def preflight(server: Any, origin: str) -> httpx.Response:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
    }
    return httpx.request("OPTIONS", server.url + "/v1/audio/speech", headers=headers)


def test_pages_of_listed_origins_may_ask_and_read_refusals(start_server: Any, keys_file: Path) -> None:
    running = start_server(keys_file=str(keys_file), cors_origins=("https://good.example",))
    allowed = preflight(running, "https://good.example")
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://good.example"
    assert "authorization" in allowed.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-origin" not in preflight(running, "https://evil.example").headers
    for headers, status in ((bearer(ADA), 200), ({}, 401)):
        answer = speak(running, headers | {"origin": "https://good.example"})
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == "https://good.example"
        evil = speak(running, headers | {"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in evil.headers


@pytest.mark.parametrize("origins", [(), ("*",), ("https://good.example",)])
def test_credentials_of_browsers_are_never_asked_for(start_server: Any, origins: tuple[str, ...]) -> None:
    running = start_server(cors_origins=origins)
    for origin in ("https://good.example", "https://evil.example"):
        for answer in (preflight(running, origin), speak(running, {"origin": origin, "cookie": "a=b"})):
            assert "access-control-allow-credentials" not in answer.headers
            if not origins:
                assert "access-control-allow-origin" not in answer.headers
