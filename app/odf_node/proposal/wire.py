"""A proposal as JSON, between the process that looks at a file and the one that shows it."""

from __future__ import annotations

from typing import Any

import msgspec

from odf_protocol.codec.manifests import from_data, to_data
from odf_protocol.metadata.reading import MergeStrategy, ReadStep
from odf_protocol.metadata.schema import DataType
from odf_protocol.typed import decode_json

from .columns import Column
from .proposal import Proposal
from .sample import Format

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
        format=Format(found["format"]),
        read=from_data(found["read"], ReadStep),
        merge=from_data(found["merge"], MergeStrategy),
        columns=tuple(
            Column(
                name=one["name"],
                type=from_data(one["type"], DataType),
                kind=one["kind"],
                note=one["note"],
                has_nulls=one["has_nulls"],
                values=tuple(one["values"]),
                attributes=one["attributes"],
            )
            for one in found["columns"]
        ),
    )


def _column(one: Column) -> dict[str, Any]:
    return {
        "name": one.name,
        "type": to_data(one.type),
        "kind": one.kind,
        "note": one.note,
        "has_nulls": one.has_nulls,
        "values": [None if value is None else str(value) for value in one.values],
        "attributes": dict(one.attributes),
    }
