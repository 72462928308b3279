"""A lineage graph as OpenLineage events: a `DatasetEvent` for each root, a `JobEvent` for each
derivative, with its SQL, its inputs and the lineage of its columns.

The lineage is static: it describes definitions, not runs. Datasets are named by their ids, which do
not change when a dataset is renamed; their documentation contains the alias.
Source: OpenLineage 2-0-2.

GET …/lineage: the inputs of a dataset, and the datasets that are derived from it.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from odf_protocol.codec.manifests import to_data
from odf_protocol.columns.column_names import texts_of
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import DatasetKind
from odf_protocol.metadata.schema import bare_type

from ..http.answers import JsonAnswer
from ..http.deps import ActorDep, BaseDep, ReadableDep, wired
from ..limits.shares import caller_of
from .lineage import (
    Graph,
    GraphNode,
    LineageSources,
    Trace,
    inputs_of,
    lineage_of,
    origins,
    shown,
    tracing,
)

_CORE = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/"
_FACETS = "https://openlineage.io/spec/facets/"
_FACET_URLS = {
    "schema": "1-2-0/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet",
    "columnLineage": "1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet",
    "version": "1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet",
    "documentation": "1-1-0/DocumentationDatasetFacet.json#/$defs/DocumentationDatasetFacet",
    "sql": "1-1-0/SQLJobFacet.json#/$defs/SQLJobFacet",
}


def events(graph: Graph, namespace: str, trace: Trace) -> list[dict[str, Any]]:
    """Return one event for each dataset that the caller may see. `namespace` is the node's URL."""
    return [
        _job_event(graph, item, namespace, trace)
        if item.entry.kind is DatasetKind.Derivative
        else _event(
            "DatasetEvent", item, namespace, dataset=_dataset(graph, item, namespace, trace)
        )
        for item in graph.known.values()
    ]


def _job_event(graph: Graph, item: GraphNode, namespace: str, trace: Trace) -> dict[str, Any]:
    job: dict[str, Any] = {"namespace": namespace, "name": str(item.entry.id), "facets": {}}
    definition = item.state.transform
    if definition is not None:
        steps = definition.transform.queries or ()
        text = ";\n".join(step.query for step in steps)
        job["facets"]["sql"] = _facet(
            "sql", namespace, query=text, dialect=definition.transform.engine
        )
    return _event(
        "JobEvent",
        item,
        namespace,
        job=job,
        inputs=[_input(graph, one, namespace) for one in inputs_of(item.state)],
        outputs=[_dataset(graph, item, namespace, trace)],
    )


def _event(kind: str, item: GraphNode, producer: str, **content: Any) -> dict[str, Any]:
    return {
        "eventTime": str(item.state.system_time),
        "producer": producer,
        "schemaURL": _CORE + kind,
        **content,
    }


def _input(graph: Graph, one: DatasetId, namespace: str) -> dict[str, Any]:
    if one in graph.known:
        return _dataset(graph, graph.known[one], namespace)
    return {"namespace": namespace, "name": str(one), "facets": {}}


def _dataset(
    graph: Graph, item: GraphNode, namespace: str, trace: Trace | None = None
) -> dict[str, Any]:
    facets: dict[str, Any] = {
        "version": _facet("version", namespace, datasetVersion=str(item.state.head)),
        "documentation": _facet("documentation", namespace, description=_described(item)),
    }
    schema = item.state.data_schema
    if schema is not None:
        facets["schema"] = _facet(
            "schema",
            namespace,
            fields=[
                {
                    "name": f.name,
                    "type": _type(f.type),
                    **({"description": said.line} if (said := texts_of(f)) else {}),
                }
                for f in schema.fields
            ],
        )
    found = None if trace is None else origins(graph, item, trace)
    if found:
        facets["columnLineage"] = _facet(
            "columnLineage",
            namespace,
            fields={
                column: {"inputFields": [_field(namespace, *origin) for origin in parts]}
                for column, parts in found.items()
            },
        )
    return {"namespace": namespace, "name": str(item.entry.id), "facets": facets}


def _described(item: GraphNode) -> str:
    said = item.state.info.description if item.state.info else None
    return item.alias if said is None else f"{item.alias}: {said}"


def _field(namespace: str, one: DatasetId, column: str) -> dict[str, str]:
    return {"namespace": namespace, "name": str(one), "field": column}


def _type(data_type: Any) -> str:
    """Return the kind of an ODF type, without whether it is optional."""
    return str(to_data(bare_type(data_type))["kind"])


def _facet(name: str, producer: str, **content: Any) -> dict[str, Any]:
    return {"_producer": producer, "_schemaURL": _FACETS + _FACET_URLS[name], **content}


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
