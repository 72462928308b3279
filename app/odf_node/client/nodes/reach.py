"""Connections to peers: within deadlines, and for a node on behalf of its users only to allowed
addresses.

`odf_storage/runtime/networks.py` decides which addresses are allowed. Each connection is checked,
so neither a redirect nor a changed DNS name leads to a forbidden address.

Reads with a token that the node does not know, or that has expired: tried again without it.

What everybody may read is then read, with a warning. Whatever needs the token fails as before, and
writes are sent once.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpcore

from odf_storage.runtime.networks import reachable

from .later import httpx
from .limits import ClientLimits
from .notices import Notice

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


class Deadlines:
    """Until when a thread waits for bytes of a peer: each read of a socket alone has a limit, but
    a peer that sends a byte now and then would keep it waiting for ever."""

    def __init__(self, limits: ClientLimits) -> None:
        self._answer_s = limits.answer_s
        self._end = float("inf") if limits.whole_s is None else time.monotonic() + limits.whole_s
        self._of_thread = threading.local()

    @contextmanager
    def answer(self) -> Iterator[None]:
        """Limit the waits of this thread until a response head is whole."""
        self._of_thread.until = time.monotonic() + self._answer_s
        try:
            yield
        finally:
            del self._of_thread.until

    def left(self, timeout: float | None) -> float | None:
        """Return the seconds that a wait may take. Raises `httpcore.ReadTimeout`."""
        until = min(self._end, getattr(self._of_thread, "until", self._end))
        left = until - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the answer takes too long")
        return left if timeout is None else min(left, timeout)


class _Stream(httpcore.NetworkStream):
    """A connection whose waits end at the deadlines."""

    def __init__(self, inner: httpcore.NetworkStream, deadlines: Deadlines) -> None:
        self._inner, self._deadlines = inner, deadlines

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadlines.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadlines.left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadlines.left(timeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._deadlines)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    """Connections whose waits end at the deadlines."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadlines.left(timeout)
        made = super().connect_tcp(host, port, left, local_address, socket_options)
        return _Stream(made, self._deadlines)


class PatientClient(httpx.Client):
    """A client, also through the proxies of the environment, that waits for the head of a response
    no longer than its limits say, however often a byte of it comes."""

    def __init__(self, limits: ClientLimits, **given: Any) -> None:
        super().__init__(**given)
        self._deadlines = Deadlines(limits)
        for transport in (self._transport, *self._mounts.values()):
            if isinstance(transport, httpx.HTTPTransport):
                transport._pool._network_backend = _Backend(self._deadlines)

    def send(self, request: httpx.Request, **given: Any) -> httpx.Response:
        with self._deadlines.answer():
            return super().send(request, **given)


class GuardedTransport(httpx.HTTPTransport):
    """HTTP to allowed addresses only, within deadlines; the host name stays in `Host` and in
    TLS."""

    def __init__(self, limits: ClientLimits, trusted: ssl.SSLContext) -> None:
        super().__init__(verify=trusted, trust_env=False)
        self._networks = limits.networks or ()
        self._deadlines = Deadlines(limits)
        self._pool = httpcore.ConnectionPool(
            ssl_context=trusted, network_backend=_Backend(self._deadlines)
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with self._deadlines.answer():
            return self._answer(request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
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


AUTHORIZATION, CHALLENGE = "authorization", "www-authenticate"
INVALID = "invalid_token"
_READS = frozenset({"GET", "HEAD"})
QUERY = "/query"
"""End of the address that answers queries, the one read that is a POST."""


class TokenNotKnown(Notice):
    """The node does not take the token; what was read is what everybody may read."""


class ForgivingClient(PatientClient):
    """A client that reads without a token that the node refuses."""

    def __init__(self, limits: ClientLimits, **given: Any) -> None:
        super().__init__(limits, **given)
        self._refused: set[tuple[str, str]] = set()
        """Origins, each with a token that it does not take."""

    def send(self, request: httpx.Request, **given: Any) -> httpx.Response:
        token = request.headers.get(AUTHORIZATION)
        if token is None or not _is_read(request):
            return super().send(request, **given)
        known = (_origin(request), token)
        if known in self._refused:
            return super().send(_without_token(request), **given)
        answer = super().send(request, **given)
        if answer.status_code != 401 and INVALID not in answer.headers.get(CHALLENGE, ""):
            return answer
        other = super().send(_without_token(request), **given)
        if not other.is_success:
            other.close()
            return answer
        answer.close()
        self._refused.add(known)
        warn(known[0])
        return other


def _is_read(request: httpx.Request) -> bool:
    return request.method in _READS or request.url.path.endswith(QUERY)


def _origin(request: httpx.Request) -> str:
    url = request.url
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _without_token(request: httpx.Request) -> httpx.Request:
    headers = request.headers.copy()
    del headers[AUTHORIZATION]
    return httpx.Request(
        request.method,
        request.url,
        headers=headers,
        stream=request.stream,
        extensions=request.extensions,
    )


def warn(where: str) -> None:
    warnings.warn(
        f"{where} does not know this token, or it has expired; read without it. Log in again "
        "(odf-node login), or unset ODF_NODE_TOKEN",
        TokenNotKnown,
        stacklevel=3,
    )
