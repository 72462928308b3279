"""The answer as OpenLineage events: one run for each block, with its rows in a facet of ours.

What matters is in the facet `odf_why`, whose values are texts: clients of OpenLineage lose members
of the datasets themselves, and long numbers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from odf_storage.datasets.job_payloads.why_job import WhyAnswer, WhyInput, WhyStep

MEDIA_TYPE = "application/vnd.openlineage+json"
_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = "https://openlineage.io/spec/facets/"
_VERSION = f"{_FACETS}1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet"
_COLUMNS = f"{_FACETS}1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet"
_SQL = f"{_FACETS}1-1-0/SQLJobFacet.json#/$defs/SQLJobFacet"


def run_events(answer: WhyAnswer, base: str) -> list[dict[str, Any]]:
    """Return an event for each step; `base` is the URL of the node, with a slash at the end."""
    namespace = base.rstrip("/")
    return [_event(step, namespace) for step in _steps(answer.step)]


def _steps(step: WhyStep) -> Iterator[WhyStep]:
    yield step
    for each in step.inputs:
        yield from _steps(each)


def _event(step: WhyStep, namespace: str) -> dict[str, Any]:
    run = uuid.uuid5(uuid.NAMESPACE_URL, f"{step.row.dataset}/{step.block.hash}")
    job: dict[str, Any] = {"namespace": namespace, "name": step.row.dataset, "facets": {}}
    if step.how.queries:
        query = ";\n".join(step.how.queries)
        job["facets"]["sql"] = _facet(
            namespace, _SQL, query=query, dialect=step.how.engine or "sql"
        )
    return {
        "eventTime": step.block.system_time,
        "eventType": "COMPLETE",
        "producer": namespace,
        "schemaURL": _SCHEMA,
        "run": {"runId": str(run), "facets": {}},
        "job": job,
        "inputs": [_input(each, namespace) for each in step.why],
        "outputs": [_output(step, namespace)],
    }


def _output(step: WhyStep, namespace: str) -> dict[str, Any]:
    facets = {
        "version": _facet(namespace, _VERSION, datasetVersion=step.block.hash),
        "odf_why": _own(
            namespace,
            alias=step.row.alias,
            offset=str(step.row.offset),
            operation=step.row.operation,
            values=_json(step.row.values),
            check=step.check.verdict,
        ),
    }
    ids = {each.alias.rpartition("/")[2]: each.dataset for each in step.why}
    fields = {
        column: {"inputFields": [_field(namespace, ids, each) for each in cell.columns]}
        for column, cell in step.where.items()
        if cell.columns
    }
    if fields:
        facets["columnLineage"] = _facet(namespace, _COLUMNS, fields=fields)
    return {"namespace": namespace, "name": step.row.dataset, "facets": facets}


def _field(namespace: str, ids: dict[str, str], column: str) -> dict[str, str]:
    name, _, field = column.partition(".")
    return {"namespace": namespace, "name": ids.get(name, name), "field": field}


def _input(given: WhyInput, namespace: str) -> dict[str, Any]:
    rows = _json([msgspec.to_builtins(each) for each in given.rows])
    facet = _own(namespace, alias=given.alias, rows=rows, count=str(given.count))
    if given.unread is not None:
        facet["unread"] = given.unread
    return {"namespace": namespace, "name": given.dataset, "facets": {"odf_why": facet}}


def _own(namespace: str, **content: Any) -> dict[str, Any]:
    return _facet(namespace, f"{namespace}/system/openlineage/OdfWhyDatasetFacet.json", **content)


def _facet(producer: str, schema: str, **content: Any) -> dict[str, Any]:
    return {"_producer": producer, "_schemaURL": schema, **content}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
