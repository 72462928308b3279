"""Read and prune the audit log.

Route of the audit log, for administrators: which actor did what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId, MalformedDid
from odf_protocol.instant import NANOS, Instant, MalformedInstant
from odf_protocol.multihash import MalformedMultibase
from odf_storage.runtime.logs import trace_id
from odf_storage.stores.ports.accounts import AuditEntry, AuditFilter
from odf_storage.stores.registers.accounts.audit import AuditLog

from ..auth.access import Unauthenticated, unauthorized
from ..auth.actors import Actor
from ..http.answers import JsonAnswer
from ..http.deps import ActorDep, StoresDep

DAY_S = 86_400


def read_audit(
    log: AuditLog,
    actor: Actor,
    wanted: Mapping[str, str | None],
    *,
    before: int | None = None,
    limit: int = 100,
) -> Sequence[AuditEntry]:
    """Return entries, newest first. The actor must be an administrator.

    Raises:
        Unauthenticated: the actor is anonymous. Unauthorized: it is no administrator.
        UnreadableFilter.
    """
    if actor.account is None:
        raise Unauthenticated
    if not actor.account.is_admin:
        raise unauthorized()
    return log.page(filter_of(wanted), before=before, limit=limit)


def filter_of(wanted: Mapping[str, str | None]) -> AuditFilter:
    """Parse a filter from texts; see `AuditFilter`. Raises `UnreadableFilter`."""
    dataset, since, until = (wanted.get(name) for name in ("dataset", "since", "until"))
    try:
        return AuditFilter(
            actor=wanted.get("actor"),
            action=wanted.get("action"),
            dataset=DatasetId.parse(dataset) if dataset else None,
            since=Instant.parse(since) if since else None,
            until=Instant.parse(until) if until else None,
        )
    except (MalformedDid, MalformedMultibase, MalformedInstant) as bad:
        raise BadInput("UnreadableFilter", bad.message) from None


def forget_old_deeds(log: AuditLog, now: Instant, keep_days: int) -> int:
    """Delete entries older than `keep_days`; return their number."""
    return log.prune(before=Instant(now.ns - keep_days * DAY_S * NANOS))


def shown(audit_entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as JSON."""
    return {
        "number": audit_entry.number,
        "at": str(audit_entry.at),
        "actor": audit_entry.actor,
        "accountId": audit_entry.account,
        "action": audit_entry.action,
        "subject": audit_entry.subject,
        "outcome": audit_entry.outcome,
        "datasetId": str(audit_entry.dataset) if audit_entry.dataset else None,
        "address": audit_entry.address,
        "traceId": trace_id(audit_entry.trace),
        "facts": audit_entry.facts,
    }


router = APIRouter(prefix="/system", tags=["system"])


@router.get("/audit", summary="Who did what, newest first; for administrators")
async def audit(
    stores: StoresDep,
    actor: ActorDep,
    who: Annotated[str | None, Query(alias="actor")] = None,
    action: str | None = None,
    dataset: str | None = None,
    since: str | None = None,
    until: str | None = None,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return a page of the audit log. `next` is the `before` of the next page, with older
    entries."""
    wanted = {"actor": who, "action": action, "dataset": dataset, "since": since, "until": until}
    audit_entries = await run_in_threadpool(
        read_audit, stores.audit, actor, wanted, before=before, limit=limit
    )
    following = audit_entries[-1].number if len(audit_entries) == limit else None
    return JsonAnswer(
        {"deeds": [shown(audit_entry) for audit_entry in audit_entries], "next": following}
    )
