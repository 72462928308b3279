"""HTTP for the client: one connection pool, bounded bodies, statuses as typed errors.

A token is sent only to the origin of the dataset. The pool drops it on every redirect to another
origin; a redirect from http to https of the same host counts as the same origin.

Servers between a client and a node: their answers, and repeats until one lets a request pass.

A proxy that loses patience answers 502, 503 or 504 although the node goes on and commits. So only
requests that have the same effect once and twice are repeated: reads, and posts with a key.
"""

from __future__ import annotations

import functools
import json
import ssl
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from odf_protocol.errors import Damaged, NodeError, NotFound, Refused, RemoteFailed

from .later import Later, httpx
from .limits import LIMITS, ClientLimits, one_line, too_much

if TYPE_CHECKING:
    from . import reach as reach
else:
    reach = Later(".reach")

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
        return reach.ForgivingClient(limits, verify=authorities, **_usual(limits))
    return httpx.Client(transport=reach.GuardedTransport(limits, authorities), **_usual(limits))


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
    if reach.INVALID in headers.get(reach.CHALLENGE, ""):
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
            raise TransferFailed(
                "TooSlow",
                f"{self._what} comes too slowly",
                bytes=self._received,
                seconds=int(spent),
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
            raise too_much(what, limit)
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
        raise Damaged("RemoteDamaged", f"{what} is damaged at {origin(url)}", what=what)
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


T = TypeVar("T")
Told = Callable[[NodeError, float], None]
"""Called with the error and the seconds of the pause before each repeat."""

REPEATED_STATUSES = frozenset({408, 429, 502, 503, 504, *range(520, 525)})
"""The last ones are those of content networks whose connection to the node failed."""
CONNECT_S = 8.0
"""Time for which a host that was never reached is tried: its address may be wrong."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
SHORTEST_PAUSE_S = 0.05
"""The first pause where a server names one, which may be none."""
SERVER_CHARS = 80
_ADVICE = {
    408: "it did not wait for the whole request: send it in smaller parts",
    413: "it takes no body of this size: send the file in parts or compressed (.gz, .zst, .zip), "
    "or have the limit of that server raised",
    429: "it takes fewer requests in this time: wait, then repeat",
    431: "it takes no headers of this size",
    502: "the node behind it did not answer; the request may have been done",
    503: "the node behind it is not reached; the request may have been done",
    504: "the node behind it did not answer in time; the request may have been done",
}


def is_foreign(status: int, body: bytes, document: Mapping[str, Any] | None) -> bool:
    """Whether an answer comes from another server than a node. `document` is its JSON, if it is
    an object.

    Nodes refuse with a problem document, with a word as the reference does, or with nothing.
    Gateways of clouds have JSON of their own, which names no type of a problem.
    """
    if document is not None:
        return status in _ADVICE and "type" not in document
    if body.lstrip()[:1] == b"<":
        return True
    return status in _ADVICE or status >= 500 or 300 <= status < 400


def foreign_answer(response: httpx.Response, url: str, body: bytes) -> str:
    """Return one sentence: who answered what, and what to do."""
    status = response.status_code
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    server = one_line(response.headers.get("server", ""))[:SERVER_CHARS]
    who = f"the server {server!r}" if server else "a proxy or another server"
    advice = _ADVICE.get(status, "check the address")
    if 300 <= status < 400 and (place := response.headers.get("location")):
        advice = f"use the address {one_line(place)[:500]}"
    said = "" if body.lstrip()[:1] == b"<" else one_line(body[:200].decode("utf-8", "replace"))
    return (
        f"{who} at {origin(url)}, not a node (there is no problem document), answered "
        f"{' '.join(filter(None, [str(status), phrase]))}"
        f"{f' ({said})' if said.strip() else ''}: {advice}"
    )


def answer_facts(response: httpx.Response) -> dict[str, Any]:
    """Return facts of a refusal for programs: when to repeat it, if the answer says so."""
    return _when(response.headers)


def _when(headers: Mapping[str, str]) -> dict[str, Any]:
    seconds = retry_after(headers.get("retry-after"))
    return {} if seconds is None else {"retry_after_s": seconds}


def retry_after(header: str | None) -> float | None:
    """Return the seconds that a `Retry-After` header asks for: a number, or a date."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header.strip()[:9])
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def refuse_overloaded(headers: Mapping[str, str], status: int, url: str, what: str) -> None:
    """Raise `Overloaded` for a status that asks to repeat the request later."""
    if status in REPEATED_STATUSES:
        raise Overloaded(
            f"{origin(url)} answered {status} for {what}", status=status, **_when(headers)
        )


def with_retries(action: Callable[[], T], *, limits: ClientLimits, broken: bool = True) -> T:
    """Repeat a request of a transfer that has the same effect once and twice.

    Answers with `Retry-After` are repeated for `repeat_s`, by a node that follows a stranger only
    for `reread_s`; other overload and, if `broken`, broken connections `attempts` times.
    """
    failures = 0

    def again(error: NodeError) -> bool:
        nonlocal failures
        if not isinstance(error, (Unreachable, Overloaded) if broken else Overloaded):
            return False
        if "retry_after_s" in error.facts:
            return True
        failures += 1
        return failures < limits.attempts

    seconds = limits.repeat_s if limits.networks is None else limits.reread_s
    return repeated(lambda _: action(), seconds=seconds, again=again)


def may_pass(error: NodeError) -> bool:
    """Whether the same request may succeed later: nothing answered, or a server before the node has
    no patience, or the node itself names a time."""
    asks = "answered_by" in error.facts or "retry_after_s" in error.facts
    return isinstance(error, Unreachable) or (
        asks and error.facts.get("status") in REPEATED_STATUSES
    )


def in_front(error: NodeError) -> bool:
    """Whether a server before the node asks to wait; the node itself said nothing."""
    return may_pass(error) and "answered_by" in error.facts


def repeated(
    action: Callable[[int], T],
    *,
    seconds: float,
    again: Callable[[NodeError], bool] = may_pass,
    told: Told | None = None,
) -> T:
    """Call `action(attempt)`, from 0, until it succeeds, raises another error than `again` accepts,
    or `seconds` have passed. Pauses grow, and are as long as `Retry-After` asks."""
    began, reached, attempt = time.monotonic(), False, 0
    while True:
        try:
            return action(attempt)
        except NodeError as error:
            if not again(error):
                raise
            reached = reached or not isinstance(error.__cause__, httpx.ConnectError)
            left = began + (seconds if reached else min(seconds, CONNECT_S)) - time.monotonic()
            asked = error.facts.get("retry_after_s")
            named = float(asked) if isinstance(asked, int | float) else None
            first = FIRST_PAUSE_S if named is None else SHORTEST_PAUSE_S
            pause = max(min(first * 2.0 ** min(attempt, 10), LONGEST_PAUSE_S), named or 0.0)
            if pause > left:
                raise
            if told is not None:
                told(error, pause)
        time.sleep(pause)
        attempt += 1
