"""Predicates on rows: a disjunction of conjunctions of (column, operator, value).

Comparisons follow SQL: a comparison with null is never true. NaN equals NaN and is greater than
all numbers, and -0.0 equals 0.0, as on the engines. An index may exclude a partition only if its
values decide the predicate: it lists neither null nor NaN, and bounds of floats leave NaN out.
Source: Kartothek dataset format 4, "Predicates"; soundness: "When pruning is sound".

A secondary index: the partitions in which each value of a column occurs, without null and NaN.

In memory an index is a table of pairs (value, label). Source: Kartothek dataset format 4,
"Secondary index file".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .keys import MalformedIndex, MalformedPartition, MalformedPredicate
from .partition_values import INDEXABLE, kind_of, normalised, plain, value_of


class Op(StrEnum):
    """Comparisons. An index cannot decide the last three."""

    EQUAL = "=="
    IN = "in"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    NOT_EQUAL = "!="
    NOT_IN = "not in"
    DISTINCT = "is distinct from"
    IS_NULL = "is null"
    IS_NOT_NULL = "is not null"


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison. `value` is a Python value, or an Arrow scalar that fits the column; for `in`
    and `not in` a list of them."""

    column: str
    op: Op
    value: Any = None


Predicate = Sequence[Sequence[Term]]
"""True for a row if all terms of at least one sequence are true."""

_INDEXED = frozenset(
    {Op.EQUAL, Op.IN, Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL},
)
_NAN_PASSES = frozenset({Op.NOT_EQUAL, Op.GREATER, Op.GREATER_EQUAL})
"""Comparisons with a number that are true for NaN."""
_NAN_WITH_NAN = frozenset({Op.EQUAL, Op.LESS_EQUAL, Op.GREATER_EQUAL})
"""Comparisons with NaN that are true for NaN."""
_BELOW_NAN = frozenset({Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL})
"""Comparisons with NaN that are true for a number."""
_PLAIN: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQUAL: pc.equal,
    Op.NOT_EQUAL: pc.not_equal,
    Op.LESS: pc.less,
    Op.LESS_EQUAL: pc.less_equal,
    Op.GREATER: pc.greater,
    Op.GREATER_EQUAL: pc.greater_equal,
}
_ACCEPTED: dict[str, tuple[type, ...]] = {
    "null": (bool, int, float, str, bytes, date, datetime, Decimal),
    "bool": (bool,),
    "integer": (int,),
    "float": (int, float),
    "text": (str,),
    "binary": (bytes,),
    "date": (date,),
    "decimal": (int, Decimal),
    "timestamp": (datetime,),
    "timestamp with zone": (datetime,),
}


def check_predicate(predicate: Predicate, schema: pa.Schema) -> None:
    """Check that every term applies to rows of the schema. Raises `MalformedPredicate`."""
    for term in (term for terms in predicate for term in terms):
        if term.column not in schema.names:
            raise MalformedPredicate(f"there is no column {term.column[:100]!r}")
        _values(term, schema.field(term.column).type)


def mask_of(predicate: Predicate, columns: Callable[[str], pa.Array], rows: int) -> pa.Array:
    """Return for each row whether the predicate is true; without conjunctions it is false."""
    found = pa.array([False] * rows, pa.bool_())
    for terms in predicate:
        every = pa.array([True] * rows, pa.bool_())
        for term in terms:
            every = pc.and_(every, term_mask(term, columns(term.column)))
        found = pc.or_(found, every)
    return found


def term_mask(term: Term, column: pa.Array) -> pa.Array:
    """Return for each value whether the term is true, never null. Raises `MalformedPredicate`."""
    if pa.types.is_float16(column.type):  # Arrow cannot compare this type
        column = column.cast(pa.float32())
    values = _values(term, column.type)
    if term.op is Op.IS_NULL:
        return column.is_null()
    if term.op is Op.IS_NOT_NULL:
        return column.is_valid()
    if pa.types.is_null(column.type):  # Arrow cannot compare this type
        return pa.array([term.op is Op.DISTINCT and bool(values)] * len(column), pa.bool_())
    if term.op is Op.DISTINCT:
        if not values:
            return column.is_valid()
        return pc.fill_null(_compared(Op.NOT_EQUAL, column, values[0]), True)
    if term.op in (Op.IN, Op.NOT_IN):
        return _among(column, values, wanted=term.op is Op.IN)
    return pc.fill_null(_compared(term.op, column, values[0]), False)


def _compared(op: Op, column: pa.Array, value: pa.Scalar) -> pa.Array:
    """Compare values with one value; null for nulls."""
    plain = _PLAIN[op](column, value)
    if not pa.types.is_floating(column.type):
        return plain
    nan = pc.is_nan(column)
    if not pc.is_nan(value).as_py():
        return pc.if_else(nan, op in _NAN_PASSES, plain)
    return pc.if_else(nan, op in _NAN_WITH_NAN, op in _BELOW_NAN)


def _among(column: pa.Array, values: Sequence[pa.Scalar], *, wanted: bool) -> pa.Array:
    known = pa.array(values, column.type)
    if pa.types.is_floating(column.type):
        column, known = same_bits(column), same_bits(known)
    found = pc.is_in(column, value_set=known)
    return pc.and_(found if wanted else pc.invert(found), column.is_valid())


def same_bits(values: pa.Array) -> pa.Array:
    """Return a float column with equal bits for equal values: one NaN, no -0.0."""
    nan = pa.scalar(float("nan"), values.type)
    return pc.add(pc.if_else(pc.is_nan(values), nan, values), pa.scalar(0.0, values.type))


def is_prunable(term: Term, column_type: pa.DataType) -> bool:
    """Return whether an index can exclude partitions without a matching value. No index does so
    for floats, because bounds and lists of values leave NaN out."""
    return term.op in _INDEXED and kind_of(column_type) != "float"


def _values(term: Term, column_type: pa.DataType) -> list[pa.Scalar]:
    """Return the values that the term compares with; none for null. `MalformedPredicate`."""
    if term.op in (Op.IS_NULL, Op.IS_NOT_NULL):
        return []
    if term.op is Op.DISTINCT and term.value is None:
        return []
    several = term.op in (Op.IN, Op.NOT_IN)
    if several and not isinstance(term.value, list | tuple | set | frozenset):
        raise MalformedPredicate(f"{term.op!s} compares {term.column!r} with a list of values")
    accepted = _ACCEPTED.get(kind_of(column_type), ())
    made = []
    for value in term.value if several else (term.value,):
        if isinstance(value, pa.Scalar):
            made.append(_fitted(term, value, column_type))
            continue
        is_misplaced = isinstance(value, bool) and bool not in accepted
        is_misplaced |= isinstance(value, datetime) and datetime not in accepted
        if not isinstance(value, accepted) or is_misplaced:
            raise _misfit(term, column_type)
        if pa.types.is_null(column_type):  # no value equals null
            made.append(pa.scalar(None))
            continue
        is_zoned = isinstance(value, datetime) and value.tzinfo is not None
        if is_zoned and column_type.tz is None:
            raise _misfit(term, column_type)
        try:
            made.append(pa.scalar(value, column_type))
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            raise _misfit(term, column_type) from None
    return made


def _fitted(term: Term, value: pa.Scalar, column_type: pa.DataType) -> pa.Scalar:
    """Convert the value to the type of the column. Raises `MalformedPredicate` on a misfit."""
    if not value.is_valid or kind_of(value.type) != kind_of(column_type):
        raise _misfit(term, column_type)
    try:
        return value.cast(column_type)
    except pa.ArrowException:
        raise _misfit(term, column_type) from None


def _misfit(term: Term, column_type: pa.DataType) -> MalformedPredicate:
    return MalformedPredicate(
        f"column {term.column[:100]!r} of type {column_type} is not compared with "
        f"{repr(term.value)[:100]}"
    )


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
