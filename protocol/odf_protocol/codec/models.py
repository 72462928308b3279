"""Maps the table names of the wire model to Python classes.

`tables` uses names only; this module finds the classes. The two `…Root` tables exist only in
messages, as wrappers of the unions with which engines respond.
"""

from __future__ import annotations

from enum import StrEnum

from ..metadata import block, data, engine, events, reading, schema, sources, transforms
from ..metadata.table import Table


class RawQueryResponseRoot(Table, frozen=True, kw_only=True):
    """Wrapper of a response to `ExecuteRawQuery`."""

    value: engine.RawQueryResponse


class TransformResponseRoot(Table, frozen=True, kw_only=True):
    """Wrapper of a response to `ExecuteTransform`."""

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
"""The class of each table, by the table's name."""

ENUM_TYPES: dict[str, type[StrEnum]] = {
    name: value
    for name, value in _NAMED.items()
    if isinstance(value, type) and issubclass(value, StrEnum) and value is not StrEnum
}
"""Every enum class, by name."""
