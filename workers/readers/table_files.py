"""Data files of a Kartothek table, each read as a split: its columns become those of the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from odf_node.protocol.errors import NodeError
from odf_node.storage.datasets.kartothek.fit import in_schema


@dataclass(frozen=True, slots=True)
class TablePart:
    """What a data file is in its table: `key` names it in errors, `schema` has the columns of the
    table, `values` those that its key tells."""

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

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(each.path.stat().st_size for each in self.files)


def in_table(batches: Iterator[pa.RecordBatch], part: TablePart) -> Iterator[pa.RecordBatch]:
    """Rows of a data file in the columns of its table. Raises `TypeConflict`."""
    for batch in batches:
        yield in_schema(batch, part.schema, part.values, key=part.key)


def naming(bad: NodeError, key: str) -> NodeError:
    """The same error, with the file that it is about."""
    if key not in bad.message:
        bad.args = (f"{key}: {bad.message}", *bad.args[1:])
    bad.facts.setdefault("key", key)
    return bad
