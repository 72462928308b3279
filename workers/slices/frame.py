"""What a reader gives: a schema and batches of rows, read lazily, strictly, in bounded memory.

One bad record fails the whole batch, unless the publisher asked to have such set aside
(`rejected.py`). The error says where the record is and what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from odf_node.protocol.errors import BadInput, LimitExceeded
from odf_node.protocol.scalar_text import scalar_text
from odf_node.protocol.source_rules import Unsupported as Unsupported

from ..runtime.input_limits import PrepareLimits

BATCH_ROWS = 10_000
INFER_ROWS = 1_000
"""Records looked at to infer a schema."""
SHOWN_CHARS = 120
"""Of a value, in an error."""
RAW_CHARS = 2_000
"""Of a row that is set aside."""


class BadInputSchema(BadInput):
    """The columns of the batch cannot become rows of the dataset."""


class SubPathNotFound(BadInput):
    """A document lacks the place its rows should be at."""


class BadRow(BadInput):
    """A record that cannot be read. Facts: line (from 1), column, value as far as known."""

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
        """The same, of a part of the input that so many lines come before."""
        if self.line is None or not lines:
            return self
        return BadRow(self.reason, line=self.line + lines, column=self.column, value=self.value)


class InputTooLarge(LimitExceeded):
    """A part of the input is larger than this node accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Most columns of a batch, longest value and longest record (bytes), and what may come out
    of files that are archives."""

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
                setting="ODF_WORKER_MAX_COLUMNS",
            )

    def check_cell(self, size: int, *, line: int, column: str) -> None:
        if size > self.cell_bytes:
            raise InputTooLarge(
                f"line {line}, column `{column}`: the value is longer than {self.cell_bytes} bytes",
                limit="cell_bytes",
                value=self.cell_bytes,
                setting="ODF_WORKER_MAX_CELL_BYTES",
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
    """Rows to be. `batches` may be consumed once and raises what is wrong while it is."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    warnings: list[str] = field(default_factory=list)
    """What the publisher should know; complete when all batches are consumed."""
    names: Any = None
    """Names that records had, where they may have any; complete as the warnings are."""

    @classmethod
    def empty(cls, schema: pa.Schema) -> Frame:
        return cls(schema, iter(()))

    def table(self) -> pa.Table:
        """All rows at once; for small inputs and tests."""
        return pa.Table.from_batches(self.batches, self.schema)


def nullable(schema: pa.Schema) -> pa.Schema:
    """The same columns, all optional."""
    return pa.schema([field.with_nullable(True) for field in schema])


def check_names(names: Iterable[str], limits: Limits) -> None:
    """Column names must differ and not be too many."""
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
