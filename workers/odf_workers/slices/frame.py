"""The result of a reader: a schema and batches of rows, read lazily, strictly, in limited memory.

One bad record fails the whole batch, unless the publisher asked to set bad records aside
(`rejected.py`). The error has the record's position and the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from odf_protocol.errors import BadInput, LimitExceeded
from odf_protocol.scalar_text import scalar_text
from odf_protocol.source_rules import Unsupported as Unsupported

from ..runtime.input_limits import PrepareLimits

BATCH_ROWS = 10_000
"""Limit of the records that a reader converts at once."""
BATCH_BYTES = 4 << 20
"""Limit of the text of these records, exceeded by less than a record; objects take several times as
much memory."""
INFER_ROWS = 1_000
"""Number of records that are read to infer a schema."""
SHOWN_CHARS = 120
"""Limit of the characters of a value in an error."""
RAW_CHARS = 2_000
"""Limit of the characters of a row that is set aside."""


class BadInputSchema(BadInput):
    """The columns of the batch cannot become rows of the dataset."""


class SubPathNotFound(BadInput):
    """A document lacks the path at which its rows should be."""


class BadRow(BadInput):
    """A record cannot be read. Facts, as far as known: line (from 1), column, value."""

    def __init__(
        self,
        reason: str,
        *,
        line: int | None = None,
        column: str | None = None,
        value: object = None,
    ) -> None:
        column = None if column is None else scalar_text(column)
        where = [f"line {line}"] if line is not None else []
        where += [f"column `{column}`"] if column is not None else []
        shown = shorten(value) if value is not None else None
        message = f"{', '.join(where) or 'input'}: {reason}"
        if shown is not None:
            message += f": {shown!r}"
        super().__init__(message, line=line, column=column, value=shown)
        self.reason, self.line, self.column, self.value = reason, line, column, shown

    def moved(self, lines: int) -> BadRow:
        """Return the same error for a part of the input, adding the number of lines before that
        part."""
        if self.line is None or not lines:
            return self
        return self.at(self.line + lines)

    def in_row(self, number: int) -> BadRow:
        """Return the same error with the number of its record, from 1, in a format without
        lines."""
        reason = f"row {number}: {self.reason}"
        return BadRow(reason, column=self.column, value=self.value)

    def at(self, line: int | None) -> BadRow:
        """Return the same error with the line of its record."""
        return BadRow(self.reason, line=line, column=self.column, value=self.value)


class InputTooLarge(LimitExceeded):
    """A part of the input is larger than this node accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits: columns of a batch, bytes of a value and of a record, and the output of archives."""

    columns: int = 2_000
    cell_bytes: int = 16 << 20
    row_bytes: int = 32 << 20
    archives: PrepareLimits = field(default_factory=PrepareLimits)

    def check_columns(self, count: int) -> None:
        if count > self.columns:
            raise InputTooLarge(
                f"the batch has {count} columns, at most {self.columns} are accepted",
                limit="columns",
                value=self.columns,
            )

    def check_cell(self, size: int, *, line: int, column: str) -> None:
        if size > self.cell_bytes:
            raise InputTooLarge(
                f"line {line}, column `{column}`: the value is longer than {self.cell_bytes} bytes",
                limit="cell_bytes",
                value=self.cell_bytes,
                setting="ODF_WORKER_MAX_ROW_BYTES",
            )

    def row_too_large(self, line: int) -> InputTooLarge:
        return InputTooLarge(
            f"line {line}: the record is longer than {self.row_bytes} bytes",
            limit="row_bytes",
            value=self.row_bytes,
            setting="ODF_WORKER_MAX_ROW_BYTES",
        )


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows that are still to be read. `batches` can be consumed once, and raises errors
    meanwhile."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    warnings: list[str] = field(default_factory=list)
    """Warnings for the publisher; complete when all batches are consumed."""
    names: Any = None
    """Field names of the records, if the format allows any; complete when all batches are
    consumed."""
    lines: Iterator[int] = field(default_factory=lambda: iter(()))
    """The lines on which records begin, bad records included, if the format has lines. To consume
    them reads the input again."""

    @classmethod
    def empty(cls, schema: pa.Schema) -> Frame:
        return cls(schema, iter(()))

    def table(self) -> pa.Table:
        """Read all rows at once; for small inputs and tests."""
        return pa.Table.from_batches(self.batches, self.schema)


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return the same columns, all optional."""
    return pa.schema([field.with_nullable(True) for field in schema])


def check_names(names: Iterable[str], limits: Limits) -> None:
    """Check that column names differ and are not too many."""
    listed = list(names)
    limits.check_columns(len(listed))
    seen: set[str] = set()
    for name in listed:
        if name in seen:
            raise BadInputSchema(f"column `{name}` occurs more than once", column=name)
        seen.add(name)


def shorten(value: object) -> str:
    text = scalar_text(str(value)) if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"
