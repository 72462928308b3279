"""Which class carries which table: the wire model's names as Python types.

`tables` speaks of names; here the names are looked up. The two `…Root` tables exist only
on the wire, around the unions engines answer with.
"""

from __future__ import annotations

from enum import StrEnum

from ..metadata import block, data, engine, events, reading, schema, sources, transforms
from ..metadata.table import Table


class RawQueryResponseRoot(Table, frozen=True, kw_only=True):
    """What an answer to `ExecuteRawQuery` is wrapped in."""

    value: engine.RawQueryResponse


class TransformResponseRoot(Table, frozen=True, kw_only=True):
    """What an answer to `ExecuteTransform` is wrapped in."""

    value: engine.TransformResponse


_ROOMS = (schema, sources, reading, transforms, data, events, block, engine)
_NAMED = {name: value for room in _ROOMS for name, value in vars(room).items()}

MODELS: dict[str, type[Table]] = {
    name: value
    for name, value in (
        *_NAMED.items(),
        ("RawQueryResponseRoot", RawQueryResponseRoot),
        ("TransformResponseRoot", TransformResponseRoot),
    )
    if isinstance(value, type) and issubclass(value, Table) and value.__name__ == name
}
"""Every class that stands for a table, by the table's name."""

ENUM_TYPES: dict[str, type[StrEnum]] = {
    name: value
    for name, value in _NAMED.items()
    if isinstance(value, type) and issubclass(value, StrEnum) and value is not StrEnum
}
"""Every enum class, by name."""
