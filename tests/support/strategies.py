"""Hypothesis strategies for the whole model, generated from the wire tables."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from odf_protocol.codec.decode import ENUM_TYPES, MODELS
from odf_protocol.codec.encode import number_range
from odf_protocol.codec.tables import TABLES, UNIONS, Field
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef, Name
from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.multihash import ARROW0_SHA3_256, SHA3_256, Multihash

DEPTH = 4
"""How deep data types nest in generated schemas."""

text = st.text(st.characters(codec="utf-8"), max_size=12)
names = st.from_regex(r"[a-zA-Z0-9]{1,5}([-.][a-zA-Z0-9]{1,5}){0,2}", fullmatch=True).map(Name)
multihashes = st.builds(
    Multihash, st.sampled_from([SHA3_256, ARROW0_SHA3_256]), st.binary(min_size=32, max_size=32)
)
dataset_ids = st.builds(DatasetId, st.binary(min_size=32, max_size=32))
aliases = st.builds(DatasetAlias, names, st.none() | names)
refs = st.builds(DatasetRef, id=dataset_ids) | st.builds(DatasetRef, alias=aliases)
instants = st.builds(
    Instant, st.integers(Instant.parse("0001-01-01T00:00:00Z").ns, 253402300799999999999)
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
attributes = st.dictionaries(text, json_values, max_size=3).map(Attributes.of)

_LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "string": text,
    "bytes": st.binary(max_size=20),
    "multihash": multihashes,
    "dataset_id": dataset_ids,
    "dataset_ref": refs,
    "dataset_alias": aliases,
    "timestamp": instants,
    "attributes": attributes,
    "[string]": st.lists(text, max_size=3).map(tuple),
}
_NESTING = {
    name
    for name, fields in TABLES.items()
    if any(f.of in ("DataType", "DataField") for f in fields)
}


@cache
def table(name: str, depth: int = DEPTH) -> st.SearchStrategy[Any]:
    """Values of one table of the wire model."""
    parts = {field.name: _field(field, depth) for field in TABLES[name]}
    return st.builds(MODELS[name], **parts)


@cache
def union(name: str, depth: int = DEPTH) -> st.SearchStrategy[Any]:
    """Values of any variant of one union; at depth zero of those that nest no further."""
    variants = [v for v in UNIONS[name] if depth > 0 or v not in _NESTING]
    return st.one_of([table(variant, depth) for variant in variants])


def _field(field: Field, depth: int) -> st.SearchStrategy[Any]:
    value = _value(field, depth)
    return value if field.required else st.none() | value


def _value(field: Field, depth: int) -> st.SearchStrategy[Any]:
    limits = number_range(field)
    if limits is not None:
        return st.integers(*limits) | st.sampled_from([0, limits[1]])
    if field.wire in _LEAVES:
        return _LEAVES[field.wire]
    of = field.of or ""
    deeper = depth - 1 if of in ("DataType", "DataField") else depth
    match field.wire:
        case "enum":
            return st.sampled_from(list(ENUM_TYPES[of]))
        case "table":
            return table(of, deeper)
        case "union":
            return union(of, deeper)
        case "[table]":
            return st.lists(table(of, deeper), max_size=3).map(tuple)
        case _:
            return st.lists(union(of, deeper), max_size=3).map(tuple)


blocks = table("MetadataBlock")
snapshots = table("DatasetSnapshot")
