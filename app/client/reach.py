"""Connections of a node on behalf of its users, only to allowed addresses.

`storage/runtime/networks.py` decides which addresses are allowed. Each connection is checked, so
neither a redirect nor a changed DNS name leads to a forbidden address.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx

from odf_node.storage.runtime.networks import reachable

PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}


def connected(url: str, networks: tuple[str, ...], timeout_s: float) -> socket.socket:
    """Connect to the host of a URL. Raises `HostRefused`, `OSError`."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    error: OSError = OSError(f"the host {host!r} has no address")
    for address in reachable(host, port, networks):
        try:
            return socket.create_connection((address, port), timeout_s)
        except OSError as broken:
            error = broken
    raise error


class GuardedTransport(httpx.HTTPTransport):
    """HTTP to allowed addresses only; the host name stays in `Host` and in TLS."""

    def __init__(self, networks: tuple[str, ...], trusted: ssl.SSLContext) -> None:
        super().__init__(verify=trusted, trust_env=False)
        self._networks = networks

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        error = _no_address(request)
        for pinned in _pinned(request, self._networks):
            try:
                return super().handle_request(pinned)
            except httpx.ConnectError as broken:
                error = broken
        raise error


class GuardedAsyncTransport(httpx.AsyncHTTPTransport):
    """`GuardedTransport` for asynchronous requests, which can have a total time limit."""

    def __init__(self, networks: tuple[str, ...], trusted: ssl.SSLContext) -> None:
        super().__init__(verify=trusted, trust_env=False)
        self._networks = networks

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        error = _no_address(request)
        for pinned in await asyncio.to_thread(lambda: [*_pinned(request, self._networks)]):
            try:
                return await super().handle_async_request(pinned)
            except httpx.ConnectError as broken:
                error = broken
        raise error


def _pinned(request: httpx.Request, networks: tuple[str, ...]) -> Iterator[httpx.Request]:
    """Yield the request for each address of its host.

    Raises `HostRefused`, `httpx.ConnectError`.
    """
    host, port = request.url.host, request.url.port or PORTS[request.url.scheme]
    try:
        addresses = reachable(host, port, networks)
    except (OSError, UnicodeError, ValueError) as error:
        raise _no_address(request) from error
    for address in addresses:
        yield httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )


def _no_address(request: httpx.Request) -> httpx.ConnectError:
    return httpx.ConnectError(f"the host {request.url.host!r} has no address")
