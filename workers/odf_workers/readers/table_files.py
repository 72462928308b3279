"""Data files of a Kartothek table, each read as a split: its columns become those of the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from odf_protocol.errors import NodeError
from odf_storage.datasets.kartothek.fit import in_schema


@dataclass(frozen=True, slots=True)
class TablePart:
    """The role of a data file in its table: `key` names it in errors, `schema` has the table's
    columns, `values` are the columns given by its key."""

    key: str
    schema: pa.Schema
    values: Mapping[str, pa.Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file on this machine."""

    path: Path
    part: TablePart


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Files of one table, at least one."""

    files: tuple[TableFile, ...]


def in_table(batches: Iterator[pa.RecordBatch], part: TablePart) -> Iterator[pa.RecordBatch]:
    """Convert the rows of a data file to the columns of its table. Raises `TypeConflict`."""
    for batch in batches:
        yield in_schema(batch, part.schema, part.values, key=part.key)


def naming(bad: NodeError, key: str) -> NodeError:
    """Add the name of the file to an error."""
    if key not in bad.message:
        bad.args = (f"{key}: {bad.message}", *bad.args[1:])
    bad.facts.setdefault("key", key)
    return bad
