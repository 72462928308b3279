"""Flight calls in the metrics, the log and the audit log of the service, like HTTP requests.

A call has the method `FLIGHT`, the name of the call as its route, and the status that it would have
over HTTP. The audit log records requests for rows, like `POST /query`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from odf_storage.runtime.clock import Clock
from odf_storage.runtime.logs import line
from odf_storage.stores.ports.audit_values import AuditEntry

from ..auth.actors import Actor
from ..observe.audit_writer import AuditWriter
from ..observe.counters import Counters
from .bridge import Bridge
from .callers import host_of

METHOD = "FLIGHT"
ROWS = "DoGet"
REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_log = logging.getLogger("odf.node")


@dataclass(frozen=True)
class Watching:
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
class Observed:
    """Records calls, for the threads of calls. The counters are changed in the event loop."""

    watching: Watching
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
