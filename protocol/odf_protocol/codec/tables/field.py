"""The description of one field of a table in the wire model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Wire = Literal[
    "u64",
    "u32",
    "i64",
    "i32",
    "i16",
    "bool",
    "enum",
    "string",
    "bytes",
    "multihash",
    "dataset_id",
    "dataset_ref",
    "dataset_alias",
    "timestamp",
    "attributes",
    "table",
    "union",
    "[string]",
    "[table]",
    "[union]",
]


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name in the model, its encoding, and the type it refers to, if any."""

    name: str
    wire: Wire
    of: str | None = None
    required: bool = False


Tables = dict[str, tuple[Field, ...]]
"""Fields in slot order, by the name of their table."""
