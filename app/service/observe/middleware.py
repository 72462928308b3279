"""Follows every request from its first byte to its last: trace, count, log line, deed.

Stands around everything but `QuickReads`, which only counts. A request continues the trace of
its `traceparent` header, or begins one; the answer says which in `x-trace-id`, so that a
complaint can be looked up in the logs. Requests for a change go into the audit log,
by the route that was reached: a route that is added later is audited without doing anything.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odf_node.protocol.identity import DatasetId
from odf_node.storage.runtime.clock import Clock
from odf_node.storage.runtime.context import (
    add_facts,
    current_facts,
    current_trace,
    new_trace,
    part_of,
    trace_id,
)
from odf_node.storage.runtime.logs import line
from odf_node.storage.runtime.tracing import describe_span, span
from odf_node.storage.stores.ports.audit_values import AuditEntry

from ..auth.actors import Actor
from ..objects.object_path import ObjectPath, route_of_objects
from ..objects.quick_reads import NOSNIFF
from ..settings import Tenancy
from ..uploads.routes import ADDRESS
from .audit_writer import AuditWriter
from .counters import Counters

TRACE_HEADER = b"x-trace-id"
CHANGING = frozenset(("POST", "PUT", "PATCH", "DELETE"))
QUESTIONS = frozenset(("/platform/token/validate", "/graphql"))
"""Routes that are asked by POST and change nothing."""
NOWHERE = "other"
"""The route of what reached none: labels must not grow with what strangers type."""
REFUSED = (401, 403)
CRASHED = 500
ABNORMAL = 1006
"""The close code of a connection that just ended (RFC 6455)."""
_KNOWN = ("trace", "actor", "dataset")
_UPLOADS = f"/{ADDRESS}/"
_log = logging.getLogger("odf.node")


class Watched:
    """ASGI middleware: tells operators what happens behind it."""

    def __init__(
        self,
        inner: ASGIApp,
        counters: Counters,
        audit_writer: AuditWriter,
        clock: Clock,
        *,
        tenancy: Tenancy,
        tells_all: bool,
    ) -> None:
        self.inner, self.counters, self.audit_writer = inner, counters, audit_writer
        self.clock, self.tenancy, self.tells_all = clock, tenancy, tells_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.inner(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1")
        watch = _Watch(scope, send)
        method = scope.get("method", "WS")
        self.counters.in_flight += 1
        with (
            span(f"{method} request", "server", given) as trace,
            part_of(trace or new_trace(given)),
        ):
            watch.trace = trace_id(current_trace())
            try:
                await self.inner(scope, watch.receive(receive), watch.send)
            except BaseException:
                watch.status = watch.status or CRASHED
                raise
            finally:
                self.counters.in_flight -= 1
                self._tell(scope, method, watch)

    def _tell(self, scope: Scope, method: str, watch: _Watch) -> None:
        route, seconds = route_of(scope, self.tenancy), time.perf_counter() - watch.began
        add_facts(actor=_name(scope.get("state", {}).get("actor")))
        self.counters.answered(method, route, watch.status).add(watch.body_bytes)
        if scope["type"] == "http":
            self.counters.took(method, route, seconds)
        elif watch.accepted:
            self.counters.transferred(route.rpartition("/")[2], watch.code)
        self._describe(scope, method, route, watch)
        is_deed = self._is_deed(scope, method, route, watch)
        if is_deed:
            action = "push" if method == "WS" else f"{method} {route}"
            self.audit_writer.write(self._deed(scope, method, action, watch))
        if is_deed or self.tells_all:
            outcome = {"code": watch.code} if watch.accepted else {"status": watch.status}
            told = {"method": method, "path": _path(scope), **outcome, "seconds": seconds}
            _log.info(line("request", **told, bytes=watch.body_bytes))

    def _describe(self, scope: Scope, method: str, route: str, watch: _Watch) -> None:
        """The span, by the conventions of OpenTelemetry."""
        facts = current_facts()
        told: dict[str, Any] = {"http.request.method": method, "http.route": route}
        told |= {"url.path": _path(scope)}
        told |= {"http.response.status_code": watch.status, "enduser.id": facts.get("actor")}
        describe_span(f"{method} {route}", **told, **{"odf.dataset": facts.get("dataset")})

    def _is_deed(self, scope: Scope, method: str, route: str, watch: _Watch) -> bool:
        if scope["type"] == "websocket":
            return route.endswith("/push")
        if method not in CHANGING or route in QUESTIONS:
            return False
        return "route" in scope or watch.status in REFUSED

    def _deed(self, scope: Scope, method: str, action: str, watch: _Watch) -> AuditEntry:
        actor: Actor | None = scope.get("state", {}).get("actor")
        facts = dict(current_facts())
        dataset = facts.get("dataset")
        client = scope.get("client")
        more: dict[str, Any] = {key: value for key, value in facts.items() if key not in _KNOWN}
        return AuditEntry(
            at=self.clock(),
            actor=_name(actor) or "nobody",
            account=str(actor.account.id) if actor is not None and actor.account else None,
            action=action,
            subject=f"{method} {_path(scope)}",
            outcome=str(watch.code if watch.accepted else watch.status),
            dataset=DatasetId.parse(dataset) if dataset else None,
            address=client[0] if client else None,
            trace=current_trace(),
            facts=more,
        )


class _Watch:
    """What is seen of one request."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send, self._is_socket = send, scope["type"] == "websocket"
        self.began = time.perf_counter()
        self.trace: str | None = None
        self.status, self.body_bytes = 0, 0
        self.accepted, self.code = False, ABNORMAL

    def receive(self, receive: Receive) -> Receive:
        if not self._is_socket:
            return receive

        async def seen() -> MutableMapping[str, Any]:
            message = await receive()
            if message["type"] == "websocket.disconnect" and self.code == ABNORMAL:
                self.code = message.get("code") or ABNORMAL
            return message

        return seen

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
            message = {**message, "headers": self._headers(message.get("headers", ()))}
        elif kind in ("http.response.body", "websocket.http.response.body"):
            self.body_bytes += len(message.get("body", b""))
        elif kind == "websocket.accept":
            self.status, self.accepted = 101, True
        elif kind == "websocket.close":
            self.code = message.get("code", 1000)
        elif kind == "websocket.send":
            self.body_bytes += len(message.get("text") or message.get("bytes") or "")
        await self._send(message)

    def _headers(self, given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """As given, with what every answer has: its trace, and that its type is meant."""
        headers = [header for header in given if header[0].lower() != NOSNIFF[0]]
        headers.append(NOSNIFF)
        if self.trace:
            headers.append((TRACE_HEADER, self.trace.encode()))
        return headers


def route_of(scope: Scope, tenancy: Tenancy) -> str:
    """The pattern of the address, or `other`."""
    route = getattr(scope.get("route"), "path", None)
    if route is not None:
        return str(route)
    if scope["type"] == "websocket":
        last = scope["path"].rpartition("/")[2]
        return f"/{{dataset}}/{last}" if last in ("pull", "push") else NOWHERE
    path = ObjectPath.of(scope["path"], tenancy)
    return NOWHERE if path is None else route_of_objects(path.folder)


def _path(scope: Scope) -> str:
    """As it may be told: who knows the token of an upload may fetch the file."""
    path: str = scope["path"]
    before, uploads, slip = path.partition(_UPLOADS)
    return f"{before}{uploads}…" if slip and slip != "prepare" else path


def _name(actor: Actor | None) -> str | None:
    if actor is None:
        return None
    return actor.account.name if actor.account is not None else "anonymous"
