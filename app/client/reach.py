"""Connections of a node that acts for its users: to the public network only, and to ranges
its administrator allows.

A name is resolved once per connection, all of its addresses are checked, and the connection
goes to one of those: neither a redirect nor a name that changes its meaning leads elsewhere.
"""

from __future__ import annotations

import socket
import ssl
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx

from protocol.errors import Refused
from storage.networks import may_be_reached

PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}


class HostRefused(Refused):
    """A host that is not on the public network, nor in a range that is allowed."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the host {host!r} is not on the public network; the administrator of this node "
            "can allow its range",
            host=host,
        )


def addresses_of(host: str, port: int, networks: tuple[str, ...]) -> list[str]:
    """Addresses that may be connected to. Raises `HostRefused`, `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    texts = list(dict.fromkeys(str(address[4][0]).partition("%")[0] for address in found))
    if not all(may_be_reached(ip_address(text), networks) for text in texts):
        raise HostRefused(host)
    return texts


def connected(url: str, networks: tuple[str, ...], timeout_s: float) -> socket.socket:
    """A connection to the host of a URL. Raises `HostRefused`, `OSError`."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    error: OSError = OSError(f"the host {host!r} has no address")
    for address in addresses_of(host, port, networks):
        try:
            return socket.create_connection((address, port), timeout_s)
        except OSError as broken:
            error = broken
    raise error


class GuardedTransport(httpx.HTTPTransport):
    """HTTP to addresses that may be reached; the name stays in `Host` and in TLS."""

    def __init__(self, networks: tuple[str, ...], trusted: ssl.SSLContext) -> None:
        super().__init__(verify=trusted, trust_env=False)
        self._networks = networks

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        host, port = request.url.host, request.url.port or PORTS[request.url.scheme]
        try:
            addresses = addresses_of(host, port, self._networks)
        except (OSError, UnicodeError, ValueError) as error:
            raise httpx.ConnectError(f"the host {host!r} has no address") from error
        for number, address in enumerate(addresses, 1):
            pinned = httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return super().handle_request(pinned)
            except httpx.ConnectError:
                if number == len(addresses):
                    raise
        raise httpx.ConnectError(f"the host {host!r} has no address")
