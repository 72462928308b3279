"""Observe every request from its first byte to its last: trace, counters, log line, audit entry.

This is the outermost layer of the service. A request continues the trace of its `traceparent`
header, or begins one; the response names the trace in `x-trace-id`, so that a complaint can be
found in the logs. Every request that may change something is written to the audit log, with its
route. New routes are audited automatically.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from odf_protocol.identity import DatasetId
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.logs import (
    add_facts,
    current_facts,
    current_trace,
    describe_span,
    is_tracing,
    line,
    new_trace,
    part_of,
    span,
    trace_id,
)
from odf_storage.stores.ports.accounts import AuditEntry

from ..auth.actors import Actor
from ..http.sending import Sending, Sharing
from ..uploads.routes import ADDRESS
from .audit_writer import AuditWriter
from .metrics import Counters

CHANGING = frozenset(("POST", "PUT", "PATCH", "DELETE"))
QUESTIONS = frozenset(("/platform/token/validate", "/graphql"))
"""Routes with POST that change nothing."""
NOWHERE = "other"
"""Label for requests without a route, so that the number of labels stays limited."""
REFUSED = (401, 403)
CRASHED = 500
_KNOWN = ("trace", "actor", "dataset")
_UPLOADS = f"/{ADDRESS}/"
_log = logging.getLogger("odf.node")


Inner = Callable[[Scope, Receive, Sending], Awaitable[None]]


class Observed:
    """ASGI application that observes `inner`; `lifespan` starts and ends the service."""

    def __init__(
        self,
        inner: Inner,
        lifespan: ASGIApp,
        counters: Counters,
        audit_writer: AuditWriter,
        clock: Clock,
        *,
        logs_all: bool,
        sharing: Sharing = Sharing(),
    ) -> None:
        self._inner, self._lifespan = inner, lifespan
        self._counters, self._audit_writer = counters, audit_writer
        self._clock, self._logs_all, self._sharing = clock, logs_all, sharing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        sending = Sending(scope, send, self._sharing)
        self._counters.in_flight += 1
        with span("request", "server", sending.traceparent) as known:
            trace = known or new_trace(sending.traceparent)
            sending.is_part_of(trace_id(trace))
            with part_of(trace):
                try:
                    await self._inner(scope, sending.receive(receive), sending)
                except BaseException:
                    sending.status = sending.status or CRASHED
                    raise
                finally:
                    self._counters.in_flight -= 1
                    self._tell(scope, sending)

    def _tell(self, scope: Scope, sent: Sending) -> None:
        route = getattr(scope.get("route"), "path", NOWHERE)
        method, seconds = sent.method, time.perf_counter() - sent.began
        self._counters.answered(method, route, sent.status).add(sent.body_bytes)
        if not sent.is_socket:
            self._counters.took(method, route, seconds)
        elif sent.accepted:
            self._counters.transferred(route.rpartition("/")[2], sent.code)
        is_deed = _is_deed(scope, method, route, sent)
        if not (is_deed or self._logs_all or is_tracing()):
            return
        add_facts(actor=_name(scope.get("state", {}).get("actor")))
        _describe(scope, route, sent)
        if is_deed:
            action = "push" if sent.is_socket else f"{method} {route}"
            self._audit_writer.write(self._deed(scope, action, sent))
        if is_deed or self._logs_all:
            outcome = {"code": sent.code} if sent.accepted else {"status": sent.status}
            shown = {"method": method, "path": _path(scope), **outcome, "seconds": seconds}
            _log.info(line("request", **shown, bytes=sent.body_bytes))

    def _deed(self, scope: Scope, action: str, sent: Sending) -> AuditEntry:
        actor: Actor | None = scope.get("state", {}).get("actor")
        facts = dict(current_facts())
        dataset = facts.get("dataset")
        client = scope.get("client")
        more: dict[str, Any] = {key: value for key, value in facts.items() if key not in _KNOWN}
        return AuditEntry(
            at=self._clock(),
            actor=_name(actor) or "nobody",
            account=str(actor.account.id) if actor is not None and actor.account else None,
            action=action,
            subject=f"{sent.method} {_path(scope)}",
            outcome=str(sent.code if sent.accepted else sent.status),
            dataset=DatasetId.parse(dataset) if dataset else None,
            address=client[0] if client else None,
            trace=current_trace(),
            facts=more,
        )


def _is_deed(scope: Scope, method: str, route: str, sent: Sending) -> bool:
    if sent.is_socket:
        return route.endswith("/push")
    if method not in CHANGING or route in QUESTIONS:
        return False
    found = scope.get("route")
    is_audited = found is not None and getattr(found, "is_audited", True)
    return is_audited or sent.status in REFUSED


def _describe(scope: Scope, route: str, sent: Sending) -> None:
    """Set the attributes of the span by the conventions of OpenTelemetry."""
    facts = current_facts()
    told: dict[str, Any] = {"http.request.method": sent.method, "http.route": route}
    told |= {"url.path": _path(scope)}
    told |= {"http.response.status_code": sent.status, "enduser.id": facts.get("actor")}
    describe_span(f"{sent.method} {route}", **told, **{"odf.dataset": facts.get("dataset")})


def _path(scope: Scope) -> str:
    """Return the path without an upload token: anyone who knows the token may fetch the file."""
    path: str = scope["path"]
    before, uploads, slip = path.partition(_UPLOADS)
    return f"{before}{uploads}…" if slip and slip != "prepare" else path


def _name(actor: Actor | None) -> str | None:
    if actor is None:
        return None
    return actor.account.name if actor.account is not None else "anonymous"
