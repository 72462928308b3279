"""Read and prune the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId, MalformedDid
from odf_protocol.instant import NANOS, Instant, MalformedInstant
from odf_protocol.multihash import MalformedMultibase
from odf_storage.runtime.context import trace_id
from odf_storage.stores.ports import AuditLog
from odf_storage.stores.ports.audit_values import AuditEntry, AuditFilter

from ..auth.access import Unauthenticated, Unauthorized
from ..auth.actors import Actor

DAY_S = 86_400


class UnreadableFilter(BadInput):
    """A dataset or a time in the filter cannot be parsed."""


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
        raise Unauthorized
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
        raise UnreadableFilter(bad.message) from None


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
