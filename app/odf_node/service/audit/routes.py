"""Route of the audit log, for administrators: which actor did what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ..http.answers import JsonAnswer
from ..http.deps import ActorDep, StoresDep
from .audit import read_audit, shown

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
