"""A secondary index: the partitions in which each value of a column occurs, without null and NaN.

In memory an index is a table of pairs (value, label). Source: Kartothek dataset format 4,
"Secondary index file".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .errors import MalformedIndex, MalformedPartition
from .partition_values import value_of
from .predicates import Term, term_mask
from .types import INDEXABLE, kind_of, normalised, plain

PARTITION = "partition"
"""Name of the label column, so a column of this name has no index."""
ROW_GROUP_ROWS = 10_000
VALUE, LABEL = "value", "label"


def is_indexable(column: str, column_type: pa.DataType) -> bool:
    """Return whether this node writes an index on the column."""
    return column != PARTITION and kind_of(column_type) in INDEXABLE


def no_pairs(column_type: pa.DataType) -> pa.Table:
    """Return an empty index."""
    return _pairs(pa.array([], normalised(column_type)), [])


def pairs_of(values: pa.Array, label: str) -> pa.Table:
    """Return the pairs of one partition for the distinct values of a column in it."""
    found = plain_values(values)
    return _pairs(found, [label] * len(found))


def plain_values(values: pa.Array) -> pa.Array:
    """Return the distinct values for an index: normalised, without null and NaN, 0.0 for -0.0."""
    found = pc.unique(values.cast(plain(values.type)).cast(normalised(values.type)))
    found = found.drop_null()
    if pa.types.is_floating(found.type):
        found = pc.unique(pc.add(found.filter(pc.invert(pc.is_nan(found))), 0.0))
    return found


def without_labels(pairs: pa.Table, labels: Collection[str]) -> pa.Table:
    """Return the pairs without those of the given partitions."""
    if not labels:
        return pairs
    gone = pc.is_in(pairs[LABEL], value_set=pa.array(sorted(labels), pa.string()))
    return pairs.filter(pc.invert(gone))


def joined(parts: Sequence[pa.Table]) -> pa.Table:
    """Concatenate the pairs of all parts, which must have no partition in common."""
    return pa.concat_tables(parts)


def encode_index(column: str, pairs: pa.Table) -> bytes:
    """Return the index file: ascending values with sorted labels, in row groups of 10000 values."""
    ordered = pairs.sort_by([(VALUE, "ascending"), (LABEL, "ascending")]).combine_chunks()
    grouped = ordered.group_by(VALUE, use_threads=False).aggregate([(LABEL, "list")])
    labels = grouped[f"{LABEL}_list"].cast(pa.list_(pa.field("element", pa.string())))
    table = pa.table([grouped[VALUE], labels], names=[column, PARTITION])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=ROW_GROUP_ROWS, compression="snappy", version="2.6")
    raw: bytes = sink.getvalue().to_pybytes()
    return raw


def check_index_schema(found: pa.Schema, column: str, column_type: pa.DataType, key: str) -> None:
    """Check that a file is an index on the column. Raises `MalformedIndex`."""
    if sorted(found.names) != sorted([column, PARTITION]):
        raise MalformedIndex(key, f"its columns are {found.names[:5]}")
    if kind_of(plain(found.field(column).type)) != kind_of(column_type):
        raise MalformedIndex(key, f"its values are {found.field(column).type}, not {column_type}")
    labels = found.field(PARTITION).type
    if kind_of(labels) != "list" or kind_of(labels.value_type) != "text":
        raise MalformedIndex(key, "its labels are no lists of text")


def pairs_in(
    batches: Iterable[pa.RecordBatch],
    column: str,
    column_type: pa.DataType,
    known: pa.Array,
    key: str,
    terms: Sequence[Term] | None = None,
) -> Iterator[pa.Table]:
    """Yield pairs of the rows of an index file; with `terms`, only values that satisfy one of them.

    `known` are the labels of all partitions. Every row is checked, even if it is not yielded.

    Raises:
        MalformedIndex: an entry of null, or a label that is no partition.
    """
    for batch in batches:
        values = _cast(batch.column(column), column_type, key)
        labels = _cast(batch.column(PARTITION), pa.list_(pa.string()), key)
        flat = labels.flatten()
        if values.null_count or labels.null_count or flat.null_count:
            raise MalformedIndex(key, "it has an entry of null")
        unknown = flat.filter(pc.invert(pc.is_in(flat, value_set=known)))
        if len(unknown):
            raise MalformedIndex(key, f"{unknown[0].as_py()[:100]!r} is no partition")
        parents = labels.value_parent_indices()
        if terms is not None:
            wanted = pc.take(_any_mask(terms, values), parents)
            flat, parents = flat.filter(wanted), parents.filter(wanted)
        yield pa.table([values.take(parents), flat], names=[VALUE, LABEL])


def embedded_batch(
    column: str, column_type: pa.DataType, labels: Mapping[str, Sequence[str]], key: str
) -> pa.RecordBatch:
    """Return an index embedded in the state file, as rows of an index file. `MalformedIndex`."""
    try:
        values = [value_of(text, column_type, key).as_py() for text in labels]
    except MalformedPartition as error:
        raise MalformedIndex(key, error.reason) from None
    lists = pa.array([list(each) for each in labels.values()], pa.list_(pa.string()))
    return pa.record_batch([pa.array(values, column_type), lists], names=[column, PARTITION])


def _any_mask(terms: Sequence[Term], values: pa.Array) -> pa.Array:
    found = term_mask(terms[0], values)
    for term in terms[1:]:
        found = pc.or_(found, term_mask(term, values))
    return found


def _cast(values: pa.Array, wanted: pa.DataType, key: str) -> pa.Array:
    try:
        return values.cast(wanted)
    except pa.ArrowException as error:
        raise MalformedIndex(key, f"it does not fit the column: {str(error)[:200]}") from None


def _pairs(values: pa.Array, labels: Sequence[str]) -> pa.Table:
    return pa.table([values, pa.array(labels, pa.string())], names=[VALUE, LABEL])
