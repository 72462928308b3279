"""Linked objects: files that rows refer to by hash (RFC-017).

A text column declared as a link contains multihashes of objects under `data/` of the same
dataset. The chain contains only their number and total size: `AddData` has a summary, in which
repeated links are counted repeatedly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .attributes import Attributes, MalformedAttributes
from .metadata.schema import DataSchema, DataTypeOption, DataTypeString

TYPE_KEY = "opendatafabric.org/type"
SUMMARY_KEY = "opendatafabric.org/linkedObjects"
LINK, MULTIHASH = "ObjectLink", "Multihash"
MAX_COUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LinkedObjects:
    """The number of links, and the bytes of the objects they refer to; an object linked twice
    counts twice."""

    count: int = 0
    size: int = 0

    def __add__(self, other: LinkedObjects) -> LinkedObjects:
        return LinkedObjects(
            min(self.count + other.count, MAX_COUNT), min(self.size + other.size, MAX_COUNT)
        )


NOTHING_LINKED = LinkedObjects()


def link_columns(schema: DataSchema | None) -> tuple[str, ...]:
    """Return the names of the top-level text columns that are links by multihash."""
    if schema is None:
        return ()
    return tuple(
        field.name
        for field in schema.fields
        if _is_text(field.type) and field.extra is not None and _is_link(field.extra)
    )


def linked_objects(extra: Attributes | None) -> LinkedObjects:
    """Return the summary in an event; an invalid one counts as none: anybody may write it."""
    if extra is None or SUMMARY_KEY not in extra.text:
        return NOTHING_LINKED
    try:
        summary = extra.value.get(SUMMARY_KEY)
    except MalformedAttributes:
        return NOTHING_LINKED
    if not isinstance(summary, dict):
        return NOTHING_LINKED
    return LinkedObjects(_count(summary, "numObjectsNaive"), _count(summary, "sizeNaive"))


def summary_of(linked: LinkedObjects) -> Attributes:
    """Return the summary as attributes of `AddData`."""
    summary = {"numObjectsNaive": linked.count, "sizeNaive": linked.size}
    return Attributes.of({SUMMARY_KEY: summary})


def _is_text(kind: object) -> bool:
    return isinstance(kind.inner if isinstance(kind, DataTypeOption) else kind, DataTypeString)


def _is_link(extra: Attributes) -> bool:
    try:
        kind = extra.value.get(TYPE_KEY)
    except MalformedAttributes:
        return False
    if not isinstance(kind, dict) or kind.get("kind") != LINK:
        return False
    link = kind.get("linkType")
    return isinstance(link, dict) and link.get("kind") == MULTIHASH


def _count(summary: Mapping[str, Any], name: str) -> int:
    value = summary.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return max(0, min(value, MAX_COUNT))
