"""HTTP for the client: one connection pool, bounded bodies, statuses as typed errors.

A token is sent only to the origin of the dataset. The pool drops it on every redirect to another
origin; a redirect from http to https of the same host counts as the same origin.
"""

from __future__ import annotations

import functools
import json
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from odf_protocol.errors import Damaged, NotFound, Refused, RemoteFailed

from .limits import LIMITS, ClientLimits, TooMuch
from .reach import GuardedTransport
from .stale_tokens import CHALLENGE, INVALID, ForgivingClient
from .text import one_line

CHUNK_BYTES = 256 * 1024
USER_AGENT = "odf-node-client"


class TransferFailed(RemoteFailed):
    """The peer or the network failed; nothing was changed here."""


class Unreachable(TransferFailed):
    """The connection could not be made, or it broke."""


class Unauthenticated(Refused):
    """The node requires a valid token."""


class Unauthorized(Refused):
    """The token does not allow this."""


class DatasetMissing(NotFound):
    """The dataset does not exist at that address, or the caller may not read it."""


class RemoteDamaged(Damaged):
    """The source reports that a block or object of the chain is damaged."""


class RemoteMissing(NotFound):
    """The source does not have a block or object of the chain."""


DAMAGED = ":ObjectDamaged"
"""The end of the problem type with which a node reports a damaged object."""
RENAMED = ":DatasetRenamed"
"""The end of the problem type of a dataset that has another name now."""
PROBLEM_BYTES = 65_536


def open_http(limits: ClientLimits = LIMITS) -> httpx.Client:
    """Return a connection pool with the client's timeouts; use it as a context."""
    authorities = trusted()
    if limits.networks is None:
        return ForgivingClient(limits, verify=authorities, **_usual(limits))
    return httpx.Client(transport=GuardedTransport(limits, authorities), **_usual(limits))


def _usual(limits: ClientLimits) -> dict[str, Any]:
    return {
        "follow_redirects": True,
        "max_redirects": 5,
        "timeout": httpx.Timeout(limits.idle_s, connect=limits.connect_s),
        "headers": {"user-agent": USER_AGENT, "accept-encoding": "identity"},
    }


@functools.cache
def trusted() -> ssl.SSLContext:
    """Return the certificate authorities, cached: reading them takes tens of milliseconds."""
    return httpx.create_ssl_context()


def refuse_challenged(headers: Mapping[str, str], status: int) -> None:
    """Raise `Unauthenticated` if the response says that the token is invalid.

    Nodes hide datasets from callers with invalid tokens, but say so in a header.
    """
    if INVALID in headers.get(CHALLENGE, ""):
        raise Unauthenticated("the node does not know this token, or it has expired", status=status)


def bearer(token: str | None) -> dict[str, str]:
    """Return the header with the token, if there is one."""
    return {"authorization": f"Bearer {token}"} if token else {}


def unreachable(url: str, error: Exception) -> TransferFailed:
    """Return the client's error for a failed request."""
    cause = str(error) or type(error).__name__
    if isinstance(error, httpx.TransportError):
        return Unreachable(f"no answer from {origin(url)}: {cause}", url=url, cause=cause)
    return TransferFailed(f"request to {origin(url)} failed: {cause}", url=url, cause=cause)


def origin(url: str) -> str:
    """Return scheme, host and port, which are safe to show (the rest of a URL may be signed)."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class TooSlow(TransferFailed):
    """The peer sends too slowly."""


class Pace:
    """Measures the speed of one body."""

    def __init__(self, what: str, limits: ClientLimits) -> None:
        self._what, self._limits = what, limits
        self._began, self._received = time.monotonic(), 0

    def received(self, size: int) -> None:
        """Count received bytes. Raises `TooSlow`."""
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
    """Return the whole body. Raises `TooMuch` as soon as it exceeds `limit`, and `TooSlow`."""
    body, pace = bytearray(), Pace(what, limits)
    for chunk in response.iter_raw():
        pace.received(len(chunk))
        body += chunk
        if len(body) > limit:
            raise TooMuch(what, limit)
    return bytes(body)


def raise_for_object(response: httpx.Response, url: str, what: str) -> None:
    """Raise for a status other than 2xx of `blocks/`, `data/` or `checkpoints/`."""
    status = response.status_code
    if response.is_success:
        return
    if status == 404:
        raise RemoteMissing(f"{what} is not at {origin(url)}", what=what)
    raise_for_access(status)
    if str(_problem(response).get("type", "")).endswith(DAMAGED):
        raise RemoteDamaged(f"{what} is damaged at {origin(url)}", what=what)
    raise TransferFailed(f"{origin(url)} answered {status} for {what}", status=status, what=what)


def dataset_missing(where: str, problem: Mapping[str, object] | None = None) -> DatasetMissing:
    """Return the error for a response 404; the problem document may say the name of today."""
    if problem and str(problem.get("type", "")).endswith(RENAMED):
        return DatasetMissing(
            f"no dataset at {where}: {one_line(str(problem.get('message')))}",
            at=where,
            location=one_line(str(problem.get("location"))),
        )
    return DatasetMissing(f"no dataset at {where}, or none that this account may see", at=where)


def missing_of(response: httpx.Response, where: str) -> DatasetMissing:
    """As `dataset_missing`, for a response whose body was not read."""
    return dataset_missing(where, _problem(response))


def _problem(response: httpx.Response) -> dict[str, Any]:
    """Return the problem document of a response; empty if it has none."""
    if "problem+json" not in response.headers.get("content-type", ""):
        return {}
    try:
        said = json.loads(read_bounded(response, PROBLEM_BYTES, "the answer"))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def raise_for_access(status: int) -> None:
    """Raise for the statuses 401 and 403."""
    if status == 401:
        raise Unauthenticated(
            "the node asks for a valid token; pass --token or set ODF_NODE_TOKEN, and ODF_NODE_URL "
            "to the node that one is for",
            status=401,
        )
    if status == 403:
        raise Unauthorized("the node does not allow this for this account", status=403)


class Overloaded(TransferFailed):
    """The server asks the client to retry later."""
