"""Servers between a client and a node: their answers, and repeats until one lets a request pass.

A proxy that loses patience answers 502, 503 or 504 although the node goes on and commits. So only
requests that have the same effect once and twice are repeated: reads, and posts with a key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeVar

import httpx

from odf_protocol.errors import NodeError

from .http import Overloaded, Unreachable, origin
from .limits import ClientLimits
from .text import one_line

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


def is_foreign(status: int, body: bytes) -> bool:
    """Whether an answer without a JSON document comes from another server than a node.

    Nodes refuse with a problem document, with a word as the reference does, or with nothing.
    """
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
