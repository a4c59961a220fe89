"""A server on loopback in the layout of a Hugging Face hub, with the faults a network has."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

REPOSITORY = "someone/tiny"
REVISION = "0123456789abcdef0123456789abcdef01234567"


# Bytes after which the gate may hold up an answer.
HELD_AT = 256 * 1024


@dataclass
class Hub:
    """Files to serve, faults to show, and the requests so far."""

    files: dict[str, bytes]
    served: dict[str, bytes] = field(default_factory=dict)  # contents that differ from what the listing promises
    listed: set[str] | None = None  # paths the listing names; None: all
    drop_after: dict[str, list[int]] = field(default_factory=dict)  # bytes after which each answer breaks off
    ignore_ranges: bool = False
    pace: float = 0.0  # seconds to wait after every 64 KiB
    gate: threading.Event = field(
        default_factory=threading.Event
    )  # holds up an answer after HELD_AT bytes while it is shut
    status: dict[str, int] = field(default_factory=dict)
    not_json: bool = False
    endless: set[str] = field(default_factory=set)  # paths whose answer has no end, "listing" among them
    packed: bool = False  # answers say that they are gzip
    elsewhere: bool = False  # files are redirected to another path, as to a content network
    sent: int = 0  # bytes of endless answers
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    endpoint: str = ""

    def ranges(self, path: str) -> list[str | None]:
        """The Range header of each GET of a file."""
        return [range_ for method, asked, range_ in self.requests if method == "GET" and asked.endswith("/" + path)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, path, self.headers.get("Range")))
        self.hub.headers.append(dict(self.headers))
        resolve = f"/{REPOSITORY}/resolve/{REVISION}/"
        if self.hub.elsewhere and path.startswith(resolve):
            self.answer(302, b"", {"Location": "/elsewhere/" + path.removeprefix(resolve)})
            return
        if self.hub.elsewhere:
            path = path.replace("/elsewhere/", resolve)
        if path == f"/api/models/{REPOSITORY}/revision/{REVISION}":
            self.listing()
        elif path.startswith(resolve):
            self.resolve(path.removeprefix(resolve))
        elif path.startswith((f"/api/models/{REPOSITORY}/", f"/{REPOSITORY}/resolve/")):
            self.refuse(404, "RevisionNotFound")
        else:
            self.refuse(404, "RepoNotFound")

    def listing(self) -> None:
        hub = self.hub
        names = hub.files.keys() if hub.listed is None else hub.listed
        siblings = []
        for name in sorted(names):
            content = hub.files[name]
            entry = {"rfilename": name, "size": len(content)}
            if not name.endswith(".json"):  # the hub keeps small text files outside its large-file storage
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 134}
            siblings.append(entry)
        body = json.dumps({"id": REPOSITORY, "modelId": REPOSITORY, "sha": REVISION, "siblings": siblings}).encode()
        if hub.not_json:
            body = b"<html>a captive portal</html>"
        if "listing" in hub.endless:
            self.pour()
            return
        self.answer(200, body, {"Content-Type": "application/json"})

    def resolve(self, name: str) -> None:
        hub = self.hub
        if name in hub.status:
            self.refuse(hub.status[name])
            return
        if name not in hub.files:
            self.refuse(404, "EntryNotFound")
            return
        if name in hub.endless:
            self.pour()
            return
        content = hub.served.get(name, hub.files[name])
        headers = {
            "ETag": f'"{hashlib.sha256(hub.files[name]).hexdigest()}"',
            "X-Repo-Commit": REVISION,
            "Accept-Ranges": "bytes",
        }
        status, start = 200, 0
        asked = self.headers.get("Range")
        if asked and not hub.ignore_ranges:
            start = int(asked.removeprefix("bytes=").split("-")[0])
            if start >= len(content):
                self.answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
                return
            status = 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        drops = hub.drop_after.get(name)
        self.answer(status, content[start:], headers, drops.pop(0) if drops else None)

    def pour(self) -> None:
        """200, and bytes until the client goes, or after 100 MB."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if self.hub.packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.close_connection = True
        piece = b" " * (1 << 20)
        try:
            while self.hub.sent < 100 << 20:
                self.wfile.write(piece)
                self.hub.sent += len(piece)
        except OSError:
            return

    def refuse(self, status: int, code: str | None = None) -> None:
        self.answer(status, b"", {"X-Error-Code": code} if code else {})

    def answer(self, status: int, body: bytes, headers: dict[str, str], drop_after: int | None = None) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        to_send = body if drop_after is None else body[:drop_after]
        for position in range(0, len(to_send), 65_536):
            try:
                self.wfile.write(to_send[position : position + 65_536])
            except (BrokenPipeError, ConnectionResetError):
                return
            if self.hub.pace:
                time.sleep(self.hub.pace)
            if position >= HELD_AT:
                self.hub.gate.wait(60)
        if drop_after is not None:
            self.close_connection = True


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that were killed are part of the test."""


@contextmanager
def serve(files: dict[str, bytes]) -> Iterator[Hub]:
    """Run a hub on a free port of loopback."""
    hub = Hub(files)
    hub.gate.set()
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub}))
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
