"""Checks of the names of this server and of the sites of pages, from the headers that a browser sets.

A page may send requests to any address without its visitor's doing. Its site is in `Origin` and `Sec-Fetch-Site`, which
no script can set. A page whose name is made to resolve to this machine (DNS rebinding) has this server's own origin for
its browser; only `Host` shows the difference.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import Scope

from app.config import is_loopback
from app.errors import CrossSiteError, HostNotAllowedError, InvalidRequestError

# RFC 9110 section 7.2: a name, an IPv4 address or an IPv6 address in brackets, and perhaps a port.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::\d{0,5})?")
# The public DNS has no such names: RFC 6761, RFC 6762, RFC 8375, and the reserved "internal".
_PRIVATE_SUFFIXES = (".localhost", ".local", ".home.arpa", ".internal")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Hosts:
    """Names under which a server may be asked.

    Always `localhost`, the loopback addresses, the address that it listens on, and `allowed` (`*`: all). A server that
    others reach also accepts every address, and every name that the public DNS cannot have: a page of another site
    cannot hide behind these.
    """

    def __init__(self, listening: str, allowed: Iterable[str]) -> None:
        self._names = {listening.lower(), *allowed}
        self._public = not is_loopback(listening)

    def check(self, headers: Headers) -> None:
        """Raise HostNotAllowedError if `Host` is another name, InvalidRequestError if it is malformed."""
        given = headers.get("host")
        if given is None:
            return  # HTTP/1.0, which no browser speaks
        found = _HOST.fullmatch(given)
        if found is None:
            raise InvalidRequestError("The header 'Host' is not a name or an address, and maybe a port.")
        name = (found.group(1) or found.group(2)).lower().removesuffix(".")
        if "*" in self._names or name in self._names or self._is_own(name):
            return
        raise HostNotAllowedError(
            f"This server is not asked for as '{name[:100]}': list that name in the setting 'allowed_hosts', or use "
            "its address. Without API keys, other names are refused."
        )

    def _is_own(self, name: str) -> bool:
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost" or (self._public and ("." not in name or name.endswith(_PRIVATE_SUFFIXES)))
        return self._public or (getattr(address, "ipv4_mapped", None) or address).is_loopback


def check_one_host(scope: Scope, headers: Headers) -> None:
    """Raise InvalidRequestError unless there is one `Host` (RFC 9112 section 3.2), or none in HTTP/1.0."""
    count = len(headers.getlist("host"))
    if count > 1 or (count == 0 and scope.get("http_version") != "1.0"):
        raise InvalidRequestError("A request needs the header 'Host', once.")


def check_origin(headers: Headers, accepted: tuple[str, ...]) -> None:
    """Raise CrossSiteError if a page of another site sends this. Only browsers send the two headers.

    `accepted`: origins of pages that may send requests, in lower case; `*` is any.
    """
    origins = headers.getlist("origin")
    origin = ", ".join(origins).lower()
    if "*" in accepted or origin in accepted:
        return
    same_site = headers.get("sec-fetch-site", "none").lower() in ("same-origin", "none")
    if same_site and (not origins or _is_same(origin, headers.get("host", "").lower())):
        return
    who = f"Pages of {origin[:100]}" if origin not in ("", "null") else "Pages without an origin, such as files,"
    shown = origin[:100] or "null"
    raise CrossSiteError(f"{who} may not use this server: list '{shown}' in the setting 'cors_origins' if they may.")


def _is_same(origin: str, host: str) -> bool:
    scheme, _, own = origin.partition("://")
    port = _DEFAULT_PORTS.get(scheme, "")
    return bool(own) and own.removesuffix(port) == host.removesuffix(port)
