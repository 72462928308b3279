"""A proposal as JSON, between the process that looks at a file and the one that shows it.

Convert a proposal to a manifest: YAML with comments, which reads back as the same dataset.
"""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from odf_protocol.codec.manifests import from_data, manifest, to_data
from odf_protocol.codec.yaml_text import to_yaml
from odf_protocol.metadata.schema import DataType
from odf_protocol.metadata.sources import MergeStrategy, ReadStep
from odf_protocol.typed import decode_json

from ..client.nodes.limits import one_line
from .columns import ProposedColumn
from .proposal import SHOWN_ROWS, Proposal
from .sample import SampleFormat

_PLAIN = (
    *("name", "key", "event_time", "description", "on_bad_rows", "looked_at", "is_whole"),
    *("notes", "questions"),
)
_LISTS = ("key", "notes", "questions")


def written(proposal: Proposal) -> bytes:
    """Return a proposal as JSON; the first values of its columns become texts."""
    return msgspec.json.encode(
        {
            **{name: getattr(proposal, name) for name in _PLAIN},
            "format": proposal.format.value,
            "read": to_data(proposal.read),
            "merge": to_data(proposal.merge),
            "columns": [_column(one) for one in proposal.columns],
        }
    )


def read(raw: bytes) -> Proposal:
    """Return the proposal that was written."""
    found = decode_json(raw, dict[str, Any])
    plain = {name: found[name] for name in _PLAIN}
    return Proposal(
        **{**plain, **{name: tuple(plain[name]) for name in _LISTS}},
        format=SampleFormat(found["format"]),
        read=from_data(found["read"], ReadStep),
        merge=from_data(found["merge"], MergeStrategy),
        columns=tuple(
            ProposedColumn(
                name=one["name"],
                type=from_data(one["type"], DataType),
                kind=one["kind"],
                note=one["note"],
                has_nulls=one["has_nulls"],
                values=tuple(one["values"]),
                attributes=one["attributes"],
                is_open=one["is_open"],
            )
            for one in found["columns"]
        ),
    )


def _column(one: ProposedColumn) -> dict[str, Any]:
    return {
        "name": one.name,
        "type": to_data(one.type),
        "kind": one.kind,
        "note": one.note,
        "has_nulls": one.has_nulls,
        "values": [None if value is None else str(value) for value in one.values],
        "attributes": dict(one.attributes),
        "is_open": one.is_open,
    }


_ABOUT = """\
# A dataset for {file}. Correct what is wrong, then:
#   odf-node dataset create {name}.yaml --node URL
#   odf-node ingest {typed} URL/{name}
"""
_REMARKS = {
    "sourceName: default": "the source that posts go to if they name none",
    "kind: UpsertStream": "rows with a new key are added, others correct the row of their key",
    "kind: Append": "each post adds its rows",
    "kind: Ledger": "rows with a new key are added, others are known already",
    "kind: Snapshot": "a post is all that stands: rows that it lacks are retracted",
    "header: true": "the first line holds the names",
}


def to_manifest(proposal: Proposal, file_name: str) -> str:
    """Return the manifest of the dataset, with observations in the sample as comments."""
    file = one_line(file_name)
    about = _ABOUT.format(file=file, typed=shlex.quote(file), name=one_line(proposal.name))
    notes = [f"# - {one_line(text)}\n" for text in (*proposal.questions, *proposal.notes)]
    seen = {one.name: _seen(one.note, one.values) for one in proposal.columns}
    lines, has_ended = [], False
    for line in to_yaml(manifest("DatasetSnapshot", proposal.snapshot())).splitlines():
        plain = line.strip().removeprefix("- ")
        if plain == "kind: SetInfo":  # a description may have lines that look like a manifest
            has_ended = True
        remark = _REMARKS.get(plain)
        if plain.startswith("name: ") and line.lstrip().startswith("- "):
            remark = seen.get(_scalar(plain.removeprefix("name: ")))
        lines.append(f"{line}  # {remark}" if remark and not has_ended else line)
    return about + "".join(notes) + "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    """Return a name without its YAML quotes. A quoted name with an escape gets no remark."""
    return text[1:-1] if text[:1] in "'\"" else text


def _seen(note: str, values: tuple[Any, ...]) -> str:
    some = ", ".join(one_line(str(one), 40) for one in values[:SHOWN_ROWS] if one is not None)
    return one_line(f"{some}; {note}" if note and some else some or note, 160)
