"""GET …/lineage: the inputs of a dataset, and the datasets that are derived from it."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from ..http.answers import JsonAnswer
from ..http.deps import ActorDep, BaseDep, ReadableDep, wired
from ..limits.shares import caller_of
from .lineage import LineageSources, lineage_of, shown, tracing
from .openlineage import events

MAX_STEPS = 100
DEFAULT_STEPS = 10
SourcesDep = Annotated[LineageSources, Depends(wired(LineageSources))]
Steps = Annotated[int, Query(ge=0, le=MAX_STEPS)]


async def lineage(
    request: Request,
    sources: SourcesDep,
    actor: ActorDep,
    entry: ReadableDep,
    base: BaseDep,
    upstream: Steps = DEFAULT_STEPS,
    downstream: Steps = DEFAULT_STEPS,
    columns: bool = False,
    form: Annotated[Literal["graph", "openlineage"], Query(alias="format")] = "graph",
) -> Response:
    """Return a graph, or OpenLineage events. Inputs that the caller may not read are ids only."""
    caller = caller_of(request.scope)
    trace = tracing(sources, caller)

    def work() -> Response:
        graph = lineage_of(sources, actor, entry, up=upstream, down=downstream)
        if form == "openlineage":
            return JsonAnswer({"events": events(graph, base.rstrip("/"), trace)})
        return JsonAnswer(shown(graph, trace if columns else None))

    return await sources.texts.run(caller, work)


def add_lineage_routes(routes: APIRouter, prefix: str) -> None:
    """Serve the lineage below the dataset addresses."""
    tags: list[str | Enum] = ["datasets"]
    routes.get(prefix + "/lineage", summary="Inputs and users of a dataset", tags=tags)(lineage)
