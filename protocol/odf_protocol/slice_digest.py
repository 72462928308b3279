"""The logical hash of a Parquet slice whose columns are hashed as streams, by any hasher.

Each leaf is read, laid out and hashed separately: `streams` are the hash inputs of the leaves, and
`finish` computes the logical hash from their digests. A window of one leaf fits into the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from pyarrow import types

from .arrow_columns import Coded, Column, Columns
from .arrow_digest import (
    CACHE_WINDOW_ROWS,
    FILE_WINDOW_ROWS,
    UnsupportedColumn,
    beginnings,
    finished,
    laid_out,
    leaves,
    windows,
)
from .arrow_values import storage_type
from .multihash import Multihash
from .slice_file import UNREADABLE, UnreadableSlice, schema_of
from .stored_values import Misfit, first_misfit

if TYPE_CHECKING:
    import pyarrow.parquet as pq

ColumnCheck = Callable[[pa.Array], None]
"""Gets the values of a column, one window at a time."""
ColumnChecks = Mapping[str, ColumnCheck]
"""Checks by column name."""
NO_CHECKS: ColumnChecks = {}


class SliceDigest:
    """The digest of a slice. `checks` get the values of their columns in order while they are
    hashed; of a struct only the part that belongs to its first leaf.

    `source` is what the file was opened on. Several threads may read the streams of a buffer, but
    only one the streams of a file. An error in one stream ends all, and `finish` raises it.

    Raises:
        UnsupportedColumn: a column type without a digest.
    """

    def __init__(
        self,
        file: pq.ParquetFile,
        source: pa.Buffer | BinaryIO,
        *,
        checks: ColumnChecks = NO_CHECKS,
        judges_values: bool = False,
    ) -> None:
        self.indeterminate = False
        """A struct and its member both had nulls in one window, at different rows, so readers may
        compute different hashes. Check this before treating a mismatch as damage."""
        self._schema = schema_of(file)
        self._checks, self._judges_values = checks, judges_values
        self._misfits: dict[int, Misfit] = {}
        self._failure: UnreadableSlice | UnsupportedColumn | None = None
        self._columns = Columns(file, source)
        begun = zip(beginnings(self._schema), self._columns.all, strict=True)
        longest_first = sorted(begun, key=lambda each: each[1].size, reverse=True)
        self._order = [column.leaf for _, column in longest_first]
        self.streams: Sequence[Iterator[Any]] = [
            self._guarded(start, column) for start, column in longest_first
        ]

    @property
    def misfit(self) -> Misfit | None:
        """The first value, by column and row, that a dataset must not store, if values are judged.
        Complete when the streams are read."""
        return self._misfits[min(self._misfits)] if self._misfits else None

    def finish(self, digests: Sequence[bytes]) -> Multihash:
        """Return the logical hash for the digests of all streams, in the order of the streams.

        Raises:
            UnreadableSlice: the file is truncated or is not valid Parquet.
            UnsupportedColumn: values of a column of type null.
        """
        if self._failure is not None:
            raise self._failure
        by_leaf = dict(zip(self._order, digests, strict=True))
        return finished(self._schema, (by_leaf[leaf] for leaf in sorted(by_leaf)))

    def _guarded(self, start: bytes, column: Column) -> Iterator[Any]:
        try:
            yield start
            yield from self._contents(column)
        except (UnreadableSlice, UnsupportedColumn) as failure:
            self._failure = self._failure or failure
        except UNREADABLE as error:
            self._failure = self._failure or UnreadableSlice.of(error)
            self._failure.__context__ = error

    def _contents(self, column: Column) -> Iterator[Any]:
        nested = types.is_struct(storage_type(column.type))
        rows = FILE_WINDOW_ROWS if nested else CACHE_WINDOW_ROWS
        check = self._checks.get(column.name) if column.is_first else None
        coded, count = Coded(rows), 0
        batches = self._columns.batches(column, rows)
        for batch in windows(batches, rows) if nested else batches:
            if self._failure is not None:
                return
            values = batch.column(0)
            if check is not None:
                check(values)
            if self._judges_values and column.leaf not in self._misfits:
                self._judge(column, values, count)
            if column.coded:
                yield coded.stream(values)
            elif len(values):
                [(leaf, valid, unclear)] = leaves(values, column.name)
                if unclear:  # never set to False, because other threads may set it too
                    self.indeterminate = True
                yield from laid_out(leaf, valid)
            count += len(values)
        if count != self._columns.rows:
            raise UnreadableSlice(
                f"column {column.name!r} has {count} values for {self._columns.rows} rows"
            )

    def _judge(self, column: Column, values: pa.Array, before: int) -> None:
        stated = self._schema.field(column.name).type
        if types.is_integer(values.type) and types.is_temporal(stated):
            values = values.view(stated)
        if (bad := first_misfit(column.name, values)) is not None:
            self._misfits[column.leaf] = replace(bad, row=before + bad.row)
