"""The edge around Ray's proxy, with ASGI messages as Ray sends them; with a real Ray: tests/cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn.config

from app.cluster import proxy as edge
from app.server.http_protocol import HttpProtocol
from app.server.websocket_protocol import WebSocketProtocol

Messages = list[dict[str, Any]]
RAYS = {"type": "http.response.start", "headers": [(b"content-type", b"text/plain")]}
OURS = {"type": "http.response.start", "headers": [(b"x-replica", b"r1"), (b"x-request-id", b"a")]}


def run(messages: Messages, *, path: str = "/v1/audio/speech", kind: str = "http", **scope: Any) -> Messages:
    """Return the messages that a client gets when Ray's proxy sends `messages` and returns."""
    sent: Messages = []
    seen: list[Any] = []

    async def proxy(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        seen.append(scope)
        for message in messages:
            if message["type"].endswith("disconnect"):
                await receive()
            else:
                await send(dict(message))

    async def receive() -> dict[str, Any]:
        return {"type": f"{kind}.disconnect", "code": 1000}

    async def send(message: Any) -> None:
        sent.append(message)

    asked = {"type": kind, "path": path, "method": "POST", "headers": scope.pop("headers", []), **scope}
    asyncio.run(edge.ProxyMiddleware(proxy, stall_seconds=1.0)(asked, receive, send))
    if seen:
        asked["seen"] = seen[0]
    sent.append(asked)
    return sent


def answer(sent: Messages) -> tuple[int, dict[str, str], Any]:
    start, body = sent[0], sent[1]
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], headers, json.loads(body["body"])


def body(text: bytes = b"x", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": text, "more_body": more}


def test_what_a_replica_says_passes_even_when_it_is_a_refusal() -> None:
    sent = run([{**OURS, "status": 503}, body(b"busy")])
    assert sent[0]["status"] == 503
    assert sent[1]["body"] == b"busy"
    assert len(sent) == 3


def test_the_second_request_id_is_dropped() -> None:
    both = {**OURS, "status": 200, "headers": [*OURS["headers"], (b"x-request-id", b"b")]}
    names = [name for name, _ in run([both, body()])[0]["headers"]]
    assert names.count(b"x-request-id") == 1


@pytest.mark.parametrize(
    ("status", "told", "code"), [(429, 429, "saturated"), (503, 503, "unavailable"), (404, 503, "unavailable")]
)
def test_what_ray_says_is_said_in_our_words(status: int, told: int, code: str) -> None:
    head = {**RAYS, "status": status, "headers": [(b"retry-after", b"3")]}
    sent = run([head, body(b"Request dropped due to backpressure")], headers=[(b"x-request-id", b"mine")])
    found, headers, error = answer(sent)
    assert (found, error["error"]["code"]) == (told, code)
    assert headers["x-request-id"] == error["error"]["request_id"] == "mine"
    assert int(headers["retry-after"]) == (3 if status == 429 else int(headers["retry-after"]))
    assert len(sent) == 3


def test_a_reply_that_never_began_is_a_503() -> None:
    status, headers, error = answer(run([]))
    assert status == 503
    assert headers["retry-after"] == "1"
    assert "has ended" in error["error"]["message"]


def test_a_reply_that_has_begun_is_not_made_to_look_whole() -> None:
    sent = run([{**OURS, "status": 200}, body(more=True)])
    assert [each["type"] for each in sent[:-1]] == ["http.response.start", "http.response.body"]
    assert sent[1]["more_body"]


def test_a_socket_that_loses_its_replica_is_closed_with_a_code() -> None:
    accept = {"type": "websocket.accept", "headers": [(b"x-replica", b"r1")]}
    sent = run([accept, {"type": "websocket.send", "text": "{}"}], kind="websocket")
    assert sent[2]["type"] == "websocket.close"
    assert sent[2]["code"] == 1012
    assert 0 < len(sent[2]["reason"].encode()) < 124


@pytest.mark.parametrize("end", [{"type": "websocket.close", "code": 1000}, {"type": "websocket.disconnect"}])
def test_a_socket_that_ended_is_not_closed_again(end: dict[str, Any]) -> None:
    accept = {"type": "websocket.accept", "headers": [(b"x-replica", b"r1")]}
    closes = [each for each in run([accept, end], kind="websocket")[:-1] if each["type"] == "websocket.close"]
    assert len(closes) == (end["type"] == "websocket.close")


def test_a_refused_handshake_says_so_as_http_where_the_server_can() -> None:
    refusal = [{**RAYS, "status": 429}, body()]
    extensions = {"websocket.http.response": {}}
    sent = run(refusal, kind="websocket", extensions=extensions, path="/v1/audio/stream")
    assert [each["type"] for each in sent[:2]] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert answer(sent)[0] == 429
    assert [each["type"] for each in run(refusal, kind="websocket")[:-1]] == ["websocket.close"]


def test_the_proxy_s_server_has_the_bounds_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (uvicorn.config.HTTP_PROTOCOLS, uvicorn.config.WS_PROTOCOLS):
        monkeypatch.setitem(known, "auto", known["auto"])
    monkeypatch.setenv("NIGHTINGALE_MAX_CONNECTIONS", "7")
    monkeypatch.setenv("NIGHTINGALE_MESSAGES_PER_SECOND", "9")
    edge.middlewares()
    config = uvicorn.Config("app.cluster.proxy:ProxyMiddleware", lifespan="off")
    config.load()
    made: Any = [config.http_protocol_class, config.ws_protocol_class]
    assert [each.func for each in made] == [HttpProtocol, WebSocketProtocol]
    assert made[0].args == made[1].args
    limits = made[0].args[0].limits
    assert (limits.connections, limits.frames_per_second) == (7, 9)


def test_what_only_a_replica_can_answer_is_not_asked_of_any() -> None:
    sent = run([{**OURS, "status": 200}, body()], path="/metrics")
    assert answer(sent)[0] == 404
    assert "seen" not in sent[-1]


def test_clients_do_not_steer_ray() -> None:
    given = [(b"X-Request-Disconnect-Disabled", b"?1"), (b"x-request-timeout-seconds", b"1"), (b"accept", b"*/*")]
    seen = run([{**OURS, "status": 200}, body()], headers=given)[-1]["seen"]
    assert [name for name, _ in seen["headers"]] == [b"accept", b"x-request-id"]


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_client_that_reads_nothing_is_gone_for_its_replica(kind: str) -> None:
    told: Messages = []

    async def proxy(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        async def hear() -> None:
            told.append(await receive())

        hearing = asyncio.create_task(hear())
        await send({**OURS, "type": OURS["type"] if kind == "http" else "websocket.accept", "status": 200})
        await send(body(more=True) if kind == "http" else {"type": "websocket.send", "bytes": b"x"})
        await hearing

    async def never() -> Any:
        await asyncio.Event().wait()

    passed: list[str] = []

    async def send(message: Any) -> None:
        passed.append(message["type"])
        if len(passed) > 1:
            await never()

    scope = {"type": kind, "path": "/v1/audio/stream", "method": "POST", "headers": []}
    asyncio.run(asyncio.wait_for(edge.ProxyMiddleware(proxy, stall_seconds=0.05)(scope, never, send), 30))
    assert [each["type"] for each in told] == [f"{kind}.disconnect"]
    # Nothing after it: it could not be sent either.
    assert len(passed) == 2


def test_rays_own_paths_are_rays() -> None:
    sent = run([{**RAYS, "status": 503}, body(b"unhealthy")], path="/-/healthz")
    assert sent[1]["body"] == b"unhealthy"


def test_a_replica_marks_its_answers_and_leaves_its_lifespan_alone() -> None:
    sent: Messages = []

    async def app(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        await send({"type": "lifespan.startup.complete"})
        await send({"type": "websocket.accept"})

    async def send(message: Any) -> None:
        sent.append(message)

    for kind in ("lifespan", "websocket"):
        asyncio.run(edge.Marked(app, "r1")({"type": kind}, lambda: None, send))  # type: ignore[arg-type, return-value]
    assert [each.get("headers") for each in sent] == [None, None, None, [(b"x-replica", b"r1")]]
