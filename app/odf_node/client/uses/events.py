"""Follow the server-sent events of a node, across broken connections and restarts of the node.

When a wait for news ends: after a period without news, or when another thread stops it.

Describe metadata events in one line each, for the log of the command line and for pages.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from odf_protocol.errors import Damaged

from ..nodes.http import DatasetMissing, Overloaded, bearer, missing_of, raise_for_access
from ..nodes.later import httpx
from ..nodes.limits import LIMITS, ClientLimits, too_much


class Ending:
    """Shared by the waiting thread and the threads that may stop it."""

    def __init__(self, patience_s: float | None = None) -> None:
        """The wait ends after `patience_s` seconds without news; with None it never does."""
        self._patience_s = patience_s
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.renew()

    def renew(self) -> None:
        """Restart the period without news."""
        self._since = time.monotonic()

    def stop(self) -> None:
        """End the wait now, also in another thread."""
        with self._lock:
            self._stopped.set()
            if self._socket is not None:
                _shut(self._socket)

    def is_stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopped.is_set()

    def is_over(self) -> bool:
        """Return whether the wait has ended."""
        return self.is_stopped() or self.left_s == 0

    @property
    def left_s(self) -> float | None:
        """Seconds until the wait ends without news; None if it never does."""
        if self._patience_s is None:
            return None
        return max(0.0, self._since + self._patience_s - time.monotonic())

    def wait(self, seconds: float) -> None:
        """Sleep for so many seconds, or until the wait ends."""
        self._stopped.wait(self.at_most(seconds))

    def at_most(self, seconds: float) -> float:
        """Return the seconds, or the seconds left if these are fewer."""
        return seconds if self.left_s is None else min(seconds, self.left_s)

    @contextmanager
    def reading(self, response: httpx.Response) -> Iterator[None]:
        """Let `stop` interrupt the read of a body within this context."""
        stream = response.extensions.get("network_stream")
        with self._lock:
            self._socket = None if stream is None else stream.get_extra_info("socket")
            if self._socket is not None and self.is_stopped():
                _shut(self._socket)
        try:
            yield
        finally:
            with self._lock:
                self._socket = None


def _shut(connection: socket.socket) -> None:
    """Wake a thread that reads from the connection."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the peer has already closed it


SILENT_S = 30.0
"""Seconds without a byte after which a connection counts as dead: nodes send keep-alive
comments."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
MAX_EVENT_BYTES = 64 * 1024 * 1024
PASSING = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Event:
    """One event. With its `id` a client resumes after it."""

    id: str
    kind: str
    data: dict[str, Any]


def follow(
    http: httpx.Client,
    url: str,
    token: str | None = None,
    *,
    last: str | None = None,
    rows: bool = False,
    retries: bool = True,
    ending: Ending | None = None,
    limits: ClientLimits = LIMITS,
) -> Iterator[Event]:
    """Yield the events at `url` (`…/events`) after the id `last`, each once, until the `ending`.

    Unless `retries` is false, reconnect when a connection breaks or the node is unavailable.
    `Ending.stop` takes effect at once, the end of the patience at the next comment of the node.

    Raises:
        Unauthenticated, Unauthorized, DatasetMissing: the caller may not follow it, or no longer.
        httpx.TransportError, Overloaded: there are no retries, or the patience ended while the
            node was unavailable.
        MalformedEvent. TooMuch: one event exceeds `MAX_EVENT_BYTES`.
    """
    end, pause_s = ending or Ending(), FIRST_PAUSE_S
    while not end.is_over():
        try:
            for event in _events(http, url, token, last, rows=rows, ending=end, limits=limits):
                last, pause_s = event.id or last, FIRST_PAUSE_S
                yield event
            end.wait(FIRST_PAUSE_S)  # the node ended the stream; a retry shows whether it stops
        except (httpx.TransportError, Overloaded) as error:
            if end.is_over() and isinstance(error, httpx.ReadTimeout):
                return  # not a failure: the read timed out at the end of the patience
            if retries:
                end.wait(pause_s)
            if end.is_stopped():
                return
            if end.is_over() or not retries:
                raise
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)


def _events(
    http: httpx.Client,
    url: str,
    token: str | None,
    last: str | None,
    *,
    rows: bool,
    ending: Ending,
    limits: ClientLimits,
) -> Iterator[Event]:
    headers = {"accept": "text/event-stream", "cache-control": "no-store", **bearer(token)}
    if last is not None:
        headers["last-event-id"] = last
    timeout = httpx.Timeout(ending.at_most(SILENT_S), connect=limits.connect_s)
    query = {"rows": "true"} if rows else {}
    with http.stream("GET", url, params=query, headers=headers, timeout=timeout) as response:
        status = response.status_code
        if status in PASSING:
            raise Overloaded(f"the node answers {status}", status=status)
        raise_for_access(status)
        if status == 404:
            raise missing_of(response, url)
        if status != 200 or "event-stream" not in response.headers.get("content-type", ""):
            raise DatasetMissing(f"nothing can be followed at {url}", status=status)
        with ending.reading(response):
            yield from _parsed(response, ending)


def _parsed(response: httpx.Response, ending: Ending) -> Iterator[Event]:
    """Yield the events in the lines of a response; skip comments."""
    fields: dict[str, str] = {}
    for line in _lines(response, ending):
        name, _, value = line.partition(":")
        if line and name:
            fields[name] = value.removeprefix(" ")
        elif not line and "data" in fields:
            try:
                data = json.loads(fields["data"])
            except ValueError:
                raise Damaged("MalformedEvent", "the data of an event are no JSON") from None
            if not isinstance(data, dict):
                raise Damaged("MalformedEvent", "the data of an event are no object")
            yield Event(fields.get("id", ""), fields.get("event", ""), data)
            fields = {}


def _lines(response: httpx.Response, ending: Ending) -> Iterator[str]:
    buffer = bytearray()
    for chunk in response.iter_raw():
        if ending.is_over():
            return
        buffer += chunk
        while (end := buffer.find(b"\n")) >= 0:
            yield buffer[:end].decode("utf-8", "replace").removesuffix("\r")
            del buffer[: end + 1]
        if len(buffer) > MAX_EVENT_BYTES:
            raise too_much("an event", MAX_EVENT_BYTES)
