"""Bridge from the threads of calls to the event loop: a thread starts work there and waits for it.

When the client disconnects or the service stops, the work is cancelled.

Authentication of Flight calls by the header `authorization`, with a token or as `anonymous`.

A client without a token begins with a handshake as `anonymous`. The token in the response grants no
rights and is not stored: it only marks later calls as anonymous.

Flight calls in the metrics, the log and the audit log of the service, like HTTP requests.

A call has the method `FLIGHT`, the name of the call as its route, and the status that it would have
over HTTP. The audit log records requests for rows, like `POST /query`.

Errors as statuses of Flight calls, derived from the table of HTTP statuses.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from threading import Event
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc

from odf_protocol.errors import NodeError, Refused, Unavailable
from odf_storage.runtime.clock import Clock, Random
from odf_storage.runtime.logs import line
from odf_storage.stores.ports.accounts import AuditEntry

from ..auth.access import Unauthenticated, admit, refuse_bad_token
from ..auth.actors import ANONYMOUS, MAX_HEADER_CHARS, Actor, bearer_of, credentials
from ..auth.dataset_access import Callers
from ..errors import INTERNAL_MESSAGE, problem_of, status_of
from ..limits.shares import caller_of
from ..observe.audit_writer import AuditWriter
from ..observe.metrics import Counters
from ..query.engine import QueryTakesTooLong

T = TypeVar("T")
LOOK_S = 0.1
"""Seconds between two checks whether the client is still connected."""


class Bridge:
    """Runs work in the event loop of the service, for other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stopping = Event()

    def stop(self) -> None:
        """Refuse new work, and cancel running work."""
        self._stopping.set()

    def result(self, work: Callable[[], Awaitable[T]], has_left: Callable[[], bool]) -> T:
        """Run the work in the event loop and wait for it. Return its result or raise its error.

        If the work finishes despite its cancellation, its result is returned, so that the caller
        can close it.

        Raises:
            CallGivenUp: the client left, or the service stops.
        """
        self._refuse_to_begin()
        task: list[asyncio.Task[Any] | None] = []

        async def begun() -> T:
            task.append(asyncio.current_task())
            return await work()

        future, is_given_up = asyncio.run_coroutine_threadsafe(begun(), self._loop), False
        while not wait([future], LOOK_S).done:
            if self._loop.is_closed():
                raise _stopping()
            if task and task[0] and not is_given_up and (has_left() or self._stopping.is_set()):
                is_given_up = True
                self._loop.call_soon_threadsafe(task[0].cancel)
        return self._outcome(future)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the work in the event loop without waiting for it, even while the service stops."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(work(), self._loop)

    def later(
        self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> Callable[[], None]:
        """Run the work after a delay. Return a function that cancels it."""
        timers: list[asyncio.TimerHandle] = []
        self.soon(lambda: timers.append(self._loop.call_later(seconds, self.start, work)))
        return lambda: self.soon(lambda: timers[0].cancel())

    def soon(self, work: Callable[[], object]) -> None:
        """Call the function in the thread of the event loop. Do nothing if the loop is closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def _outcome(self, future: Future[T]) -> T:
        if future.cancelled():
            self._refuse_to_begin()
            raise Unavailable("CallGivenUp", "the client left before its answer")
        return future.result()

    def _refuse_to_begin(self) -> None:
        if self._stopping.is_set():
            raise _stopping()


def _stopping() -> Unavailable:
    return Unavailable("CallGivenUp", "the node is stopping; try again later")


HEADER = "authorization"
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_NOBODY = re.compile(rf"anon_[{_CROCKFORD}]{{26}}")
_BASIC = re.compile(r"[Bb][Aa][Ss][Ii][Cc] ")
_ANONYMOUS = {("anonymous", ""), ("anonymous", "anonymous"), ("kamu", "kamu")}
"""Names and passwords of anonymous calls. Older clients send the last pair."""


class CallersOfFlight:
    """Identifies the actors of calls, in the threads of calls."""

    def __init__(self, callers: Callers, random: Random, *, allow_anonymous: bool) -> None:
        self._callers, self._random = callers, random
        self._allow_anonymous = allow_anonymous

    def of(self, headers: Sequence[tuple[str, str | bytes]]) -> Actor:
        """Return the actor of a call with these headers.

        Raises:
            Unauthenticated, BasicRefused, MalformedBearer, TokenInvalid, TokenExpired,
            AnonymousRestricted.
        """
        found = [value for name, value in headers if name.lower() == HEADER]
        if not found:
            raise Unauthenticated
        actor = self._actor(found)
        refuse_bad_token(actor)
        admit(actor, allow_anonymous=self._allow_anonymous)
        return actor

    def answer_to(self, actor: Actor) -> str:
        """Return the value of the header that the client has to send with its next calls."""
        return f"Bearer {actor.bearer or nobody(self._random)}"

    def _actor(self, found: Sequence[str | bytes]) -> Actor:
        first = found[0] if isinstance(found[0], str) else found[0].decode("latin-1")
        if _BASIC.match(first) and len(found) == 1:
            if credentials(first[:MAX_HEADER_CHARS]) not in _ANONYMOUS:
                raise Refused(
                    "BasicRefused",
                    "Basic auth is only supported for 'anonymous' accounts with no password. "
                    "Authenticated users should use Bearer token auth mechanism.",
                )
            return ANONYMOUS
        bearer = bearer_of([(HEADER.encode(), first.encode("latin-1"))] * len(found))
        if bearer is not None and _NOBODY.fullmatch(bearer):
            return ANONYMOUS
        return self._callers.identify(bearer)


def nobody(random: Random) -> str:
    """Return a new token that marks calls as anonymous."""
    value = int.from_bytes(random(16), "big")
    return "anon_" + "".join(_CROCKFORD[value >> 5 * at & 31] for at in reversed(range(26)))


def share_of(actor: Actor, peer: str) -> str:
    """Return the caller whose share a call uses."""
    return caller_of({"state": {"actor": actor}, "client": (host_of(peer), 0)})


def host_of(peer: str) -> str:
    """Return the IP address of a peer. gRPC writes it as `ipv4:127.0.0.1:50312`."""
    kind, _, rest = peer.partition(":")
    return unquote(rest).rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else peer


METHOD = "FLIGHT"
ROWS = "DoGet"
REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_log = logging.getLogger("odf.node")


@dataclass(frozen=True)
class CallMetrics:
    """Metrics and audit log that record calls. With `logs_all`, the log has all calls."""

    counters: Counters
    audit: AuditWriter
    clock: Clock
    logs_all: bool


@dataclass(frozen=True)
class Ended:
    """A call that has ended. `sent` is the number of bytes in its response; `actor` is None if
    authentication failed."""

    name: str
    peer: str
    actor: Actor | None
    status: HTTPStatus
    sent: int
    seconds: float


@dataclass(frozen=True)
class ObservedCall:
    """Records calls, for the threads of calls. The counters are changed in the event loop."""

    watching: CallMetrics
    bridge: Bridge

    def ended(self, call: Ended) -> None:
        """Record the call in the event loop, soon."""
        self.bridge.soon(partial(self._tell, call))

    def _tell(self, call: Ended) -> None:
        watching, name, status = self.watching, call.name, int(call.status)
        watching.counters.answered(METHOD, name, status).add(call.sent)
        watching.counters.took(METHOD, name, call.seconds)
        account = call.actor.account if call.actor is not None else None
        shown = account.name if account else "nobody" if call.actor is None else "anonymous"
        is_deed = name == ROWS or call.status in REFUSED
        if is_deed:
            watching.audit.write(
                AuditEntry(
                    at=watching.clock(),
                    actor=str(shown),
                    account=str(account.id) if account else None,
                    action=f"{METHOD} {name}",
                    subject=f"{METHOD} {name}",
                    outcome=str(status),
                    dataset=None,
                    address=host_of(call.peer),
                    trace=None,
                    facts={},
                )
            )
        if is_deed or watching.logs_all:
            facts = {"method": METHOD, "path": name, "status": status, "actor": shown}
            _log.info(line("request", **facts, seconds=call.seconds, bytes=call.sent))


_BY_STATUS: dict[HTTPStatus, grpc.StatusCode] = {
    HTTPStatus.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.UNPROCESSABLE_ENTITY: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    HTTPStatus.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.TOO_MANY_REQUESTS: grpc.StatusCode.UNAVAILABLE,
    HTTPStatus.SERVICE_UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    HTTPStatus.NOT_IMPLEMENTED: grpc.StatusCode.UNIMPLEMENTED,
}


def told(error: Exception) -> tuple[HTTPStatus, grpc.StatusCode, str]:
    """Return the HTTP status of an error, the gRPC status, and the same message as over HTTP."""
    if not isinstance(error, NodeError):
        _log.error("a Flight call crashed", exc_info=error)
        return HTTPStatus.INTERNAL_SERVER_ERROR, grpc.StatusCode.INTERNAL, INTERNAL_MESSAGE
    status = status_of(error)
    code = _BY_STATUS.get(status, grpc.StatusCode.INTERNAL)
    if isinstance(error, QueryTakesTooLong):
        code = grpc.StatusCode.DEADLINE_EXCEEDED
    if code is grpc.StatusCode.INTERNAL:
        _log.error("a Flight call failed: %s: %s", error.code, error.message)
    return status, code, str(problem_of(error)["detail"])
