"""HTTP as this client uses it: one connection pool, bounded bodies, statuses as typed errors.

A token is sent to the origin of the dataset only: the pool drops it on every redirect that
leaves that origin (a step from http to https of the same host does not).
"""

from __future__ import annotations

import functools
import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import httpx

from odf_node.protocol.errors import Damaged, NotFound, Refused, RemoteFailed

from .limits import LIMITS, ClientLimits, TooMuch
from .reach import GuardedTransport

CHUNK_BYTES = 256 * 1024
USER_AGENT = "odf-node-client"
RETRIED_STATUSES = frozenset({502, 503, 504})
T = TypeVar("T")


class TransferFailed(RemoteFailed):
    """The other side, or the way to it, did not do its part; nothing was changed here."""


class Unreachable(TransferFailed):
    """No connection, or it broke."""


class Unauthenticated(Refused):
    """The node wants a valid token."""


class Unauthorized(Refused):
    """The token does not allow this."""


class DatasetMissing(NotFound):
    """No dataset at that place, or none that may be seen."""


class RemoteDamaged(Damaged):
    """A block or object the chain names is damaged at that place, which says so itself."""


class RemoteMissing(NotFound):
    """A block or object the chain names is not at that place."""


DAMAGED = ":ObjectDamaged"
"""How the type of a problem ends that says that an object is not what its name says."""
PROBLEM_BYTES = 65_536


def open_http(limits: ClientLimits = LIMITS) -> httpx.Client:
    """A connection pool with the client's timeouts; use it as a context."""
    authorities = trusted()
    guarded = None if limits.networks is None else GuardedTransport(limits.networks, authorities)
    return httpx.Client(
        transport=guarded,
        verify=authorities,
        follow_redirects=True,
        max_redirects=5,
        timeout=httpx.Timeout(limits.idle_s, connect=limits.connect_s),
        headers={"user-agent": USER_AGENT, "accept-encoding": "identity"},
    )


@functools.cache
def trusted() -> ssl.SSLContext:
    """The authorities of TLS. Reading them takes tens of milliseconds, so it is done once."""
    return httpx.create_ssl_context()


def refuse_challenged(headers: Mapping[str, str], status: int) -> None:
    """Nodes hide datasets from bad tokens, and tell their bearers so. Raises `Unauthenticated`."""
    if "invalid_token" in headers.get("www-authenticate", ""):
        raise Unauthenticated("the node does not know this token, or it has expired", status=status)


def bearer(token: str | None) -> dict[str, str]:
    """The header that carries a token, if there is one."""
    return {"authorization": f"Bearer {token}"} if token else {}


def unreachable(url: str, error: Exception) -> TransferFailed:
    """What became of a request, in the client's own words."""
    cause = str(error) or type(error).__name__
    if isinstance(error, httpx.TransportError):
        return Unreachable(f"no answer from {origin(url)}: {cause}", url=url, cause=cause)
    return TransferFailed(f"request to {origin(url)} failed: {cause}", url=url, cause=cause)


def origin(url: str) -> str:
    """Scheme, host and port: what may be shown of any URL (the rest may be signed)."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class TooSlow(TransferFailed):
    """The other side sends, but so little that there would be no end of it."""


class Pace:
    """Watches how fast a body comes. One body, one pace."""

    def __init__(self, what: str, limits: ClientLimits) -> None:
        self._what, self._limits = what, limits
        self._began, self._received = time.monotonic(), 0

    def received(self, size: int) -> None:
        """Raises `TooSlow`."""
        self._received += size
        spent = time.monotonic() - self._began
        due = spent * self._limits.slowest_bytes_per_s
        if spent > self._limits.patience_s and self._received < due:
            raise TooSlow(
                f"{self._what} comes too slowly", bytes=self._received, seconds=int(spent)
            )


def read_bounded(
    response: httpx.Response, limit: int, what: str, *, limits: ClientLimits = LIMITS
) -> bytes:
    """The whole body, or `TooMuch` as soon as it is longer than `limit`, or `TooSlow`."""
    body, pace = bytearray(), Pace(what, limits)
    for chunk in response.iter_raw():
        pace.received(len(chunk))
        body += chunk
        if len(body) > limit:
            raise TooMuch(what, limit)
    return bytes(body)


def raise_for_object(response: httpx.Response, url: str, what: str) -> None:
    """Statuses of `blocks/`, `data/` and `checkpoints/`: anything but 2xx is an error."""
    status = response.status_code
    if response.is_success:
        return
    if status == 404:
        raise RemoteMissing(f"{what} is not at {origin(url)}", what=what)
    raise_for_access(status)
    if _problem_type(response).endswith(DAMAGED):
        raise RemoteDamaged(f"{what} is damaged at {origin(url)}", what=what)
    raise TransferFailed(f"{origin(url)} answered {status} for {what}", status=status, what=what)


def _problem_type(response: httpx.Response) -> str:
    """What kind of problem a document says it is; nothing if the answer is none."""
    if "problem+json" not in response.headers.get("content-type", ""):
        return ""
    try:
        said = json.loads(read_bounded(response, PROBLEM_BYTES, "the answer"))
    except ValueError:
        return ""
    return str(said.get("type", "")) if isinstance(said, dict) else ""


def raise_for_access(status: int) -> None:
    """401 and 403, wherever they come from."""
    if status == 401:
        raise Unauthenticated(
            "the node asks for a valid token; pass --token or set ODF_NODE_TOKEN, and ODF_NODE_URL "
            "to the node that one is for",
            status=401,
        )
    if status == 403:
        raise Unauthorized("the node does not allow this for this account", status=403)


class Overloaded(TransferFailed):
    """The server asks to come back later."""


def with_retries(action: Callable[[], T], *, attempts: int) -> T:
    """Repeat an idempotent action while the connection breaks, with growing pauses."""
    for attempt in range(1, attempts + 1):
        try:
            return action()
        except (Unreachable, Overloaded):
            if attempt == attempts:
                raise
            time.sleep(0.2 * 2**attempt)
    raise TransferFailed("no attempt was allowed")
