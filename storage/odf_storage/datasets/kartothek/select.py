"""Select partitions that may have rows matching a predicate, by partition columns and indices.

An index that cannot be used is skipped with a log entry; this costs time but loses no rows.

Open a table of a Kartothek dataset: its schema and its partitions, without reading data files.

Only two files are read, the state and the schema, for any number of partitions. The store is
listed only if the state names no partitions.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.columns.slice_file import UNREADABLE, UnreadableSlice, open_slice
from odf_protocol.kartothek.keys import (
    DATA_SUFFIX,
    INDICES,
    SCHEMA_NAME,
    TABLE,
    BadKartothek,
    KartothekFileMissing,
    MalformedIndex,
    MalformedPartition,
    checked_data_key,
    partition_texts,
    schema_key,
)
from odf_protocol.kartothek.partition_values import MAX_SCHEMA_BYTES, decode_schema, value_of
from odf_protocol.kartothek.predicates import (
    LABEL,
    VALUE,
    Predicate,
    Term,
    check_index_schema,
    embedded_batch,
    is_prunable,
    pairs_in,
    term_mask,
)

from ...runtime.logs import line
from ...stores.ports import KeyedReads
from ...stores.ports.errors import KeyNotFound
from ..pruning.bounds import fits_between
from ..read.scan import batches_of
from .parts import FoundState, find_state

MAX_LISTED = 1_000_000
"""Limit of files in a listing, if partitions have to be found that way."""
_HIDDEN = ("_", ".")
Files = Mapping[str, Mapping[str, str]]
"""Label → table → key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One data file. `label` is its name in indices, and has no other meaning."""

    label: str
    key: str
    values: Mapping[str, pa.Scalar]
    """Values of the partition columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedTable:
    """One table of a dataset, as its state and schema files describe it."""

    store: KeyedReads
    found: FoundState
    name: str
    schema: pa.Schema
    partition_keys: tuple[str, ...]
    partitions: tuple[Partition, ...]


def open_table(store: KeyedReads, uuid: str, name: str | None = None) -> SelectedTable:
    """Open a table by its name; None: the only table of the dataset.

    Raises:
        NoKartothek, KartothekFileMissing: no state file; no schema file.
        TableNotChosen: there are several tables and no name, or no table of that name.
        BadKartothek: a file breaks the format; the error names file and reason.
    """
    found = find_state(store, uuid)
    state = found.state
    files = _listed(store, uuid) if state.partitions is None else state.partitions
    tables = sorted(next(iter(files.values()), {}))
    chosen = _chosen(found.key, tables, name) if tables else _table_without_files(store, uuid, name)
    schema = _schema(store, schema_key(uuid, chosen))
    partition_keys, partitions = _partitions(files, chosen, schema, state.partition_keys)
    return SelectedTable(
        store=store,
        found=found,
        name=chosen,
        schema=schema,
        partition_keys=partition_keys,
        partitions=partitions,
    )


def _chosen(key: str, tables: Sequence[str], name: str | None) -> str:
    if name is None and len(tables) > 1:
        raise BadKartothek(
            "TableNotChosen", key, f"it has several tables, name one: {', '.join(tables)[:300]}"
        )
    if name is not None and name not in tables:
        raise BadKartothek(
            "TableNotChosen", key, f"its tables are {', '.join(tables)[:300]}, not {name[:100]}"
        )
    return name or tables[0]


def _table_without_files(store: KeyedReads, uuid: str, name: str | None) -> str:
    """Return the name of the table if there are no partitions: the usual name if it has a schema
    file, else the one found by listing."""
    if name is not None:
        return name
    if store.read(schema_key(uuid, TABLE), most=MAX_SCHEMA_BYTES) is not None:
        return TABLE
    names = [key.split("/") for key in _keys_below(store, uuid)]
    tables = sorted(parts[1] for parts in names if len(parts) == 3 and parts[2] == SCHEMA_NAME)
    if not tables:
        raise KartothekFileMissing(schema_key(uuid, TABLE), "there is no schema file")
    return _chosen(uuid, tables, None)


def _schema(store: KeyedReads, key: str) -> pa.Schema:
    content = store.read(key, most=MAX_SCHEMA_BYTES)
    if content is None:
        raise KartothekFileMissing(key, "there is no schema file")
    return decode_schema(content.raw, key)


def _listed(store: KeyedReads, uuid: str) -> Files:
    """Find partitions by the keys of files. Raise `NotParquet`, `MalformedState`."""
    files: dict[str, dict[str, str]] = defaultdict(dict)
    tables: set[str] = set()
    for key in _keys_below(store, uuid):
        _, table, *rest = key.split("/")
        if not rest or table == INDICES or rest[-1].startswith(_HIDDEN):
            continue
        checked_data_key(key, "the listing of the store")
        label = "/".join(rest).removesuffix(DATA_SUFFIX)
        files[label][table] = key
        tables.add(table)
    for label, some in files.items():
        if set(some) != tables:
            missing = ", ".join(sorted(tables - set(some)))
            raise BadKartothek(
                "MalformedState", uuid, f"partition {label[:100]!r} has no file in {missing[:200]}"
            )
    return files


def _keys_below(store: KeyedReads, uuid: str) -> list[str]:
    keys = []
    for info in store.list(uuid):
        keys.append(info.key)
        if len(keys) > MAX_LISTED:
            raise BadKartothek(
                "MalformedState", uuid, f"more than {MAX_LISTED} files, and no state lists them"
            )
    return keys


def _partitions(
    files: Files, table: str, schema: pa.Schema, declared: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[Partition, ...]]:
    """Return the partition columns, and partitions with values. Raise `MalformedPartition`."""
    columns = None if declared is None else tuple(declared)
    partitions = []
    for label, some in files.items():
        key = some[table]
        texts = partition_texts(key)
        names = tuple(column for column, _ in texts)
        columns = names if columns is None else columns
        if sorted(names) != sorted(columns):
            reason = f"its partition columns are {list(names)}, others have {list(columns)}"
            raise MalformedPartition(key, reason)
        values = {column: _value(column, text, schema, key) for column, text in texts}
        partitions.append(Partition(label=label, key=key, values=values))
    return columns or (), tuple(partitions)


def _value(column: str, text: str, schema: pa.Schema, key: str) -> pa.Scalar:
    if column not in schema.names:
        raise MalformedPartition(key, f"the schema file has no column {column[:100]!r}")
    return value_of(text, schema.field(column).type, key)


OWN_ROWS = 1024
"""Number of rows of the node's own index that are decoded at a time: a value with its labels."""
_log = logging.getLogger("odf.kartothek")


def selected(table: SelectedTable, predicate: Predicate | None) -> list[Partition]:
    """Return the partitions to read, in the order of the table; all without a predicate."""
    if predicate is None:
        return list(table.partitions)
    indices = _Indices(table, predicate)
    labels: set[str] = set()
    for terms in predicate:
        labels |= _labels_of(table, terms, indices)
    return [partition for partition in table.partitions if partition.label in labels]


def _labels_of(table: SelectedTable, terms: Sequence[Term], indices: _Indices) -> set[str]:
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

    def __init__(self, table: SelectedTable, predicate: Predicate) -> None:
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
    table: SelectedTable, column: str, known: pa.Array, terms: Sequence[Term] | None = None
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
