"""The answer as W3C PROV-JSON: rows are entities, blocks activities.

The form is one that Python's and Java's readers both keep whole: an attribute is an array of typed
values, ids have no colon behind their prefix, and there are no bundles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from odf_storage.datasets.job_payloads.why_job import WhyAnswer, WhyInput, WhyStep

MEDIA_TYPE = "application/prov+json"
ROWS = 1000
"""Limit of rows of one input that are entities; a range that is longer is one entity."""
Document = dict[str, dict[str, Any]]


def prov_json(answer: WhyAnswer, base: str) -> Document:
    """Return the document; `base` is the URL of the node, with a slash at the end."""
    made: Document = {
        "prefix": {"odf": f"{base}system/prov#", "row": f"{base}row/", "block": f"{base}block/"},
        "entity": {},
        "activity": {},
        "wasGeneratedBy": {},
        "used": {},
        "wasDerivedFrom": {},
    }
    for step in _steps(answer.step):
        _add(made, step)
    return {name: part for name, part in made.items() if part}


def _steps(step: WhyStep) -> Iterator[WhyStep]:
    yield step
    for each in step.inputs:
        yield from _steps(each)


def _add(made: Document, step: WhyStep) -> None:
    row, block = _row_id(step.row.dataset, step.row.offset), f"block:{step.block.hash}"
    made["entity"].setdefault(row, {}).update(
        {
            "odf:dataset": _text(step.row.dataset),
            "odf:alias": _text(step.row.alias),
            "odf:offset": _text(step.row.offset),
            "odf:operation": _text(step.row.operation),
            "odf:stands": [{"$": "true" if step.row.stands else "false", "type": "xsd:boolean"}],
            "odf:values": _text(msgspec.json.encode(step.row.values).decode()),
            "odf:check": _text(step.check.verdict),
        }
    )
    how = {name: value for name, value in msgspec.to_builtins(step.how).items() if value}
    made["activity"][block] = {
        "prov:endTime": step.block.system_time,
        **{
            f"odf:{name}": _text(value if isinstance(value, str) else msgspec.json.encode(value))
            for name, value in how.items()
        },
    }
    _relate(made, "wasGeneratedBy", {"prov:entity": row, "prov:activity": block})
    for each in step.why:
        for source, facts in _sources(each):
            made["entity"].setdefault(source, {}).update(facts)
            _relate(made, "used", {"prov:activity": block, "prov:entity": source})
            _relate(
                made,
                "wasDerivedFrom",
                {"prov:generatedEntity": row, "prov:usedEntity": source, "prov:activity": block},
                {"odf:role": facts["odf:role"]} if "odf:role" in facts else {},
            )


def _sources(given: WhyInput) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the entities of an input: its rows, or what of it was read but not named."""
    same = {"odf:dataset": _text(given.dataset), "odf:alias": _text(given.alias)}
    if given.unread is not None:
        yield f"row:{_part(given.dataset)}", {**same, "odf:unread": _text(given.unread)}
        return
    left = ROWS
    for each in given.rows:
        if each.end - each.start < left:
            for offset in range(each.start, each.end + 1):
                facts = {**same, "odf:offset": _text(offset), "odf:role": _text(each.role)}
                yield _row_id(given.dataset, offset), facts
            left -= each.end - each.start + 1
        else:
            facts = {**same, "odf:offset": _text(f"{each.start}-{each.end}")}
            name = f"{_row_id(given.dataset, each.start)}-{each.end}"
            yield name, {**facts, "odf:role": _text(each.role)}


def _relate(
    made: Document, kind: str, ends: dict[str, str], more: dict[str, Any] | None = None
) -> None:
    made[kind][f"_:{kind}{len(made[kind])}"] = {**ends, **(more or {})}


def _row_id(dataset: str, offset: int) -> str:
    return f"row:{_part(dataset)}/{offset}"


def _part(dataset: str) -> str:
    return dataset.rpartition(":")[2]


def _text(value: object) -> list[dict[str, str]]:
    text = value.decode() if isinstance(value, bytes) else str(value)
    return [{"$": text, "type": "xsd:string"}]
