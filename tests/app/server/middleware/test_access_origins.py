"""Names and sites: as values, and before a server that wants no keys."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from app.config import Settings
from app.errors import CrossSiteError, HostNotAllowedError, InvalidRequestError
from app.server.middleware.access import Hosts, check_origin

# What goes in, and what comes out, by the name of the test.
CASES = json.loads(Path(__file__).with_name("access_origins_cases.json").read_text(encoding="utf-8"))

LOOPBACK = Hosts("127.0.0.1", ())
EVERYWHERE = Hosts("0.0.0.0", ("tts.example.com",))  # noqa: S104


def fits(hosts: Hosts, name: str) -> bool:
    try:
        hosts.check(Headers({"host": name}))
    except HostNotAllowedError as error:
        assert "allowed_hosts" in error.message
        return False
    return True


@pytest.mark.parametrize(
    "name", ["localhost", "LocalHost.", "localhost:1", "127.0.0.1:8000", "127.9.8.7", "[::1]", "[::1]:80",
             "[::ffff:127.0.0.1]"],
)  # fmt: skip
def test_this_machine_s_own_names(name: str) -> None:
    assert fits(LOOPBACK, name)
    assert fits(EVERYWHERE, name)


@pytest.mark.parametrize(
    "name",
    ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1.nip.io"],
)
def test_names_that_anybody_can_have(name: str) -> None:
    assert not fits(LOOPBACK, name)
    assert not fits(EVERYWHERE, name)
    assert fits(Hosts("127.0.0.1", ("*",)), name)


@pytest.mark.parametrize("name", ["192.0.2.7:80", "[2001:db8::1]", "nightingale:8000", "box.local", "a.internal"])
def test_what_no_page_of_another_site_can_be_called(name: str) -> None:
    """Addresses, and names that the public DNS does not have: only where others are let in at all."""
    assert fits(EVERYWHERE, name)
    assert not fits(LOOPBACK, name)


def test_names_of_the_settings() -> None:
    assert fits(EVERYWHERE, "TTS.example.com:443")
    assert not fits(EVERYWHERE, "a.tts.example.com")
    assert fits(Hosts("speech.example.org", ()), "speech.example.org:8000")
    assert Settings(allowed_hosts=("TTS.Example.com.",)).allowed_hosts == ("tts.example.com",)
    for wrong in ("https://tts.example.com", "tts.example.com:443", "a b", ""):
        with pytest.raises(ValueError, match="without a scheme and a port"):
            Settings(allowed_hosts=(wrong,))


@pytest.mark.parametrize(
    "name", ["a b", "localhost@evil.example", "localhost/a", "[::1", "::1", "localhost:x", "", "é"]
)
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        LOOPBACK.check(Headers(raw=[(b"host", name.encode("latin-1"))]))


@pytest.mark.parametrize(("origin", "host", "accepted", "fits"), CASES["origins_of_pages"])
def test_origins_of_pages(origin: str | None, host: str, accepted: tuple[str, ...], fits: bool) -> None:
    headers = Headers({"host": host} | ({} if origin is None else {"origin": origin}))
    if fits:
        check_origin(headers, accepted)
    else:
        with pytest.raises(CrossSiteError):
            check_origin(headers, accepted)


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "Same-Site"}, False),
        ({"sec-fetch-site": "anything"}, False),
        ({"origin": "http://h:8000", "sec-fetch-site": "same-origin"}, True),
        ({"origin": "http://h:8000", "sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://h:3000", "sec-fetch-site": "same-site"}, False),
        ({"origin": "http://evil", "sec-fetch-site": "same-origin"}, False),
        ({"origin": ""}, False),
        ({"origin": "http://good", "sec-fetch-site": "cross-site"}, True),
        ({"origin": "HTTP://Good", "sec-fetch-site": "cross-site"}, True),
    ],
)
def test_both_headers_of_browsers_count(headers: dict[str, str], passes: bool) -> None:
    sent = Headers({"host": "h:8000"} | headers)
    if passes:
        check_origin(sent, ("http://good",))
    else:
        with pytest.raises(CrossSiteError, match="cors_origins"):
            check_origin(sent, ("http://good",))


def test_two_origins_are_none() -> None:
    raw = [(b"host", b"h"), (b"origin", b"http://h"), (b"origin", b"http://evil")]
    with pytest.raises(CrossSiteError):
        check_origin(Headers(raw=raw), ())


# Before a server.

SURFACES = {
    "/v1/audio/speech": {"input": "Hi.", "response_format": "pcm"},
    "/v1/text-to-speech/steady": {"text": "Hi."},
    "/v1/speak": {"text": "Hi."},
    "/v1/translate": {"text": "Hi.", "target": "fr"},
    "/translate": {"q": "Hi.", "target": "fr"},
    "/detect": {"q": "Wo ist bitte der Bahnhof?"},
    "/v1/audio/voices": {"name": "a"},
    "/v1/models/tone-two/unload": {},
}
FOREIGN = (
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:1"},
)


def ask_as(server: Any, host: str, path: str) -> ClientConnection:
    """Open a socket as a page of `host` does."""
    raw = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
    return connect(f"ws://{host}{path}", sock=raw, origin=f"http://{host}")  # type: ignore[arg-type]


@pytest.mark.parametrize("path", SURFACES)
def test_pages_of_other_sites_have_nothing_done(server: Any, path: str) -> None:
    for headers in FOREIGN:
        for content in ({"json": SURFACES[path]}, {"data": SURFACES[path]}, {"content": json.dumps(SURFACES[path])}):
            refused = httpx.post(server.url + path, headers=headers, **content)  # type: ignore[arg-type]
            assert refused.status_code == 403, (headers, refused.text)
            assert "cors_origins" in refused.text
    assert server.tone.begun == []
    for method in ("DELETE", "PUT", "PATCH"):
        assert httpx.request(method, server.url + path, headers=FOREIGN[0]).status_code == 403
    own = {"origin": server.url, "sec-fetch-site": "same-origin"}
    assert httpx.post(server.url + path, headers=own, json=SURFACES[path]).status_code != 403


def test_a_picture_on_another_site_loads_no_model(server: Any) -> None:
    path = server.url + "/v1/audio/voices?model=tone"
    assert httpx.get(path, headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}).status_code == 403
    assert httpx.get(path, headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status_code == 403
    assert httpx.get(path, headers={"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}).status_code == 200
    # A link there may lead to a page here.
    for page in ("/", "/dashboard", "/docs", "/web/style.css", "/readyz"):
        assert httpx.get(server.url + page, headers={"sec-fetch-site": "cross-site"}).status_code == 200


def test_another_name_is_refused_on_every_surface(server: Any) -> None:
    port = server.url.rpartition(":")[2]
    for host in (f"evil.example:{port}", "evil", "192.0.2.1"):
        with httpx.Client(base_url=server.url, headers={"host": host, "origin": f"http://{host}"}) as client:
            for path in ("/", "/livez", "/v1/models", "/v1/voices", "/metrics", "/nothing"):
                assert client.get(path).status_code == 403, path
            for path, body in SURFACES.items():
                refused = client.post(path, json=body)
                assert refused.status_code == 403, path
                assert "allowed_hosts" in refused.text
        for path in ("/v1/audio/stream", "/v1/speak", "/v1/text-to-speech/steady/stream-input"):
            with pytest.raises(InvalidStatus, match="403"), ask_as(server, host, path):
                pass
    assert server.tone.begun == []


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /livez HTTP/1.1\r\n", b"400"),
        ("GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", b"400"),
        ("GET /livez HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\n", b"400"),
        ("GET /livez HTTP/1.1\r\nHost:\r\n", b"400"),
        ("GET /livez HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\n", b"403"),
        ("GET /livez HTTP/1.1\r\nHost: evil.example\r\nForwarded: host=localhost\r\n", b"403"),
        ("GET http://localhost/livez HTTP/1.1\r\nHost: evil.example\r\n", b"403"),
        ("GET /livez HTTP/1.0\r\n", b"200"),
        ("GET /livez HTTP/1.0\r\nHost: evil.example\r\n", b"403"),
        ("GET /livez HTTP/1.1\r\nHost: localhost\r\n", b"200"),
    ],
)
def test_the_head_as_it_is_written(server: Any, head: str, status: bytes) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(f"{head}Connection: close\r\n\r\n".encode())
        assert raw.makefile("rb").readline().split()[1] == status


def test_a_configured_name_is_served(start_server: Any) -> None:
    running = start_server(allowed_hosts=("tts.example.com",))
    headers = {"host": "tts.example.com", "origin": "https://tts.example.com"}
    body = SURFACES["/v1/audio/speech"]
    assert httpx.post(running.url + "/v1/audio/speech", json=body, headers=headers).status_code == 200
    assert httpx.get(running.url + "/livez", headers={"host": "other.example.com"}).status_code == 403
    with ask_as(running, "tts.example.com", "/v1/audio/stream"):
        pass
