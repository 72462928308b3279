"""Select partitions that may have rows matching a predicate, by partition columns and indices.

An index that cannot be used is skipped with a log entry; this costs time but loses no rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.kartothek.errors import MalformedIndex
from odf_protocol.kartothek.index import (
    LABEL,
    VALUE,
    check_index_schema,
    embedded_batch,
    pairs_in,
)
from odf_protocol.kartothek.predicates import Predicate, Term, is_prunable, term_mask
from odf_protocol.slice_file import UNREADABLE, UnreadableSlice, open_slice

from ...runtime.logs import line
from ...stores.ports import KeyedReads
from ...stores.ports.errors import KeyNotFound
from ..pruning.bounds import fits_between
from ..read.batches import batches_of
from .tables import Partition, Table

OWN_ROWS = 1024
"""Number of rows of the node's own index that are decoded at a time: a value with its labels."""
_log = logging.getLogger("odf.kartothek")


def selected(table: Table, predicate: Predicate | None) -> list[Partition]:
    """Return the partitions to read, in the order of the table; all without a predicate."""
    if predicate is None:
        return list(table.partitions)
    indices = _Indices(table, predicate)
    labels: set[str] = set()
    for terms in predicate:
        labels |= _labels_of(table, terms, indices)
    return [partition for partition in table.partitions if partition.label in labels]


def _labels_of(table: Table, terms: Sequence[Term], indices: _Indices) -> set[str]:
    """Return the labels of partitions that may have rows for which all terms are true."""
    labels = {partition.label for partition in table.partitions if _may_hold(partition, terms)}
    for term in terms:
        listed = indices.labels(term)
        labels = labels if listed is None else labels & listed
    return labels


def _may_hold(partition: Partition, terms: Sequence[Term]) -> bool:
    """Return whether the partition's values of partition columns satisfy the terms."""
    return all(
        term_mask(term, pa.repeat(partition.values[term.column], 1))[0].as_py()
        for term in terms
        if term.column in partition.values
    )


class _Indices:
    """The indices that a predicate can use; each is read once for all terms."""

    def __init__(self, table: Table, predicate: Predicate) -> None:
        self._table = table
        self._known = pa.array([each.label for each in table.partitions], pa.string())
        self._terms: dict[str, list[Term]] = {}
        self._found: dict[str, list[set[str]] | None] = {}
        for term in (term for terms in predicate for term in terms):
            if term.column in table.found.state.indices and is_prunable(
                term, table.schema.field(term.column).type
            ):
                self._terms.setdefault(term.column, []).append(term)

    def labels(self, term: Term) -> set[str] | None:
        """Return the labels of partitions that have a value for which the term is true; None if
        there is no usable index."""
        terms = self._terms.get(term.column, [])
        if term not in terms:
            return None
        if term.column not in self._found:
            self._found[term.column] = self._look(term.column, terms)
        found = self._found[term.column]
        return None if found is None else found[terms.index(term)]

    def _look(self, column: str, terms: Sequence[Term]) -> list[set[str]] | None:
        labels: list[set[str]] = [set() for _ in terms]
        try:
            for pairs in index_pairs(self._table, column, self._known, terms):
                for term, some in zip(terms, labels, strict=True):
                    fits = term_mask(term, pairs[VALUE].combine_chunks())
                    some.update(pairs.filter(fits)[LABEL].to_pylist())
        except MalformedIndex as unusable:
            _log.warning(line("index not used", key=unusable.key, reason=unusable.reason))
            return None
        return labels


def index_pairs(
    table: Table, column: str, known: pa.Array, terms: Sequence[Term] | None = None
) -> Iterator[pa.Table]:
    """Yield pairs (value, label) of the index on a column. Raise `MalformedIndex`."""
    column_type = table.schema.field(column).type
    place = table.found.state.indices[column]
    if isinstance(place, Mapping):
        key = table.found.key
        rows: Iterable[pa.RecordBatch] = [embedded_batch(column, column_type, place, key)]
        yield from pairs_in(rows, column, column_type, known, key, terms)
        return
    with _index_file(table.store, place, column, column_type) as (file, stream):
        yield from pairs_in(batches_of(file, stream), column, column_type, known, place, terms)


def own_pairs(
    store: KeyedReads, key: str, term: Term, column_type: pa.DataType, known: pa.Array
) -> Iterator[pa.Table]:
    """As `index_pairs`, for a file that the node wrote itself: read only the row groups that can
    have a value for which the term is true. The term has to be prunable. Raise `MalformedIndex`."""
    with _index_file(store, key, term.column, column_type) as (file, _):
        groups = _groups_with(file, term.column, column_type, [term])
        found = (
            batch.filter(term_mask(term, batch.column(term.column).cast(column_type)))
            for batch in file.iter_batches(OWN_ROWS, row_groups=groups, use_threads=False)
        )
        rows = (batch for batch in found if batch.num_rows)
        yield from pairs_in(rows, term.column, column_type, known, key)


@contextmanager
def _index_file(
    store: KeyedReads, key: str, column: str, column_type: pa.DataType
) -> Iterator[tuple[pq.ParquetFile, BinaryIO]]:
    """Open an index file. Raise `MalformedIndex` for any problem with it."""
    try:
        with store.open(key) as stream:
            file = open_slice(stream)
            check_index_schema(file.schema_arrow, column, column_type, key)
            yield file, stream
    except KeyNotFound:
        raise MalformedIndex(key, "there is no such file") from None
    except (UnreadableSlice, *UNREADABLE) as error:
        if isinstance(error, MemoryError):
            raise
        raise MalformedIndex(key, f"no Parquet: {str(error)[:200]}") from None


def _groups_with(
    file: pq.ParquetFile, column: str, column_type: pa.DataType, sought: Sequence[Term]
) -> list[int]:
    """Return the row groups that may have a value for which any of the terms is true.

    This trusts the statistics in the footer, so it is only for files that the node wrote itself.
    """
    count = file.metadata.num_row_groups
    ends = [_ends(file.metadata.row_group(at), column) for at in range(count)]
    least, greatest = (pa.array([each[at] for each in ends], column_type) for at in (0, 1))
    may = least.is_null().to_numpy(zero_copy_only=False)
    for term in sought:
        may = may | fits_between(term, least, greatest)
    return [int(at) for at in np.flatnonzero(may)]


def _ends(group: pq.RowGroupMetaData, column: str) -> tuple[Any, Any]:
    """Return the least and the greatest value; None if the footer has none, as for long texts."""
    for at in range(group.num_columns):
        chunk = group.column(at)
        told = chunk.statistics
        if chunk.path_in_schema == column and told is not None and told.has_min_max:
            return told.min, told.max
    return None, None
