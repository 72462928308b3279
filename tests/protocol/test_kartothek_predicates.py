"""Predicates: SQL's nulls, and what an index may answer; indices list neither null nor NaN."""

from __future__ import annotations

import io
import math
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odf_protocol.kartothek.keys import MalformedIndex, MalformedPredicate
from odf_protocol.kartothek.predicates import (
    Op,
    Term,
    check_index_schema,
    check_predicate,
    embedded_batch,
    encode_index,
    is_indexable,
    is_prunable,
    joined,
    mask_of,
    pairs_in,
    pairs_of,
    term_mask,
    without_labels,
)

TEXTS = pa.array(["q", None, "r", "", "q"], pa.string())


def found(term: Term, column: pa.Array) -> list[int]:
    mask = term_mask(term, column)
    assert mask.null_count == 0
    return [at for at, is_so in enumerate(mask.to_pylist()) if is_so]


@pytest.mark.parametrize(
    ("op", "value", "rows"),
    [
        (Op.EQUAL, "q", [0, 4]),
        (Op.NOT_EQUAL, "q", [2, 3]),
        (Op.DISTINCT, "q", [1, 2, 3]),
        (Op.DISTINCT, None, [0, 2, 3, 4]),
        (Op.IS_NULL, None, [1]),
        (Op.IS_NOT_NULL, None, [0, 2, 3, 4]),
        (Op.IN, ["q", "zzz"], [0, 4]),
        (Op.IN, [], []),
        (Op.NOT_IN, ["q"], [2, 3]),
        (Op.GREATER, "q", [2]),
        (Op.LESS_EQUAL, "q", [0, 3, 4]),
    ],
)
def test_a_null_compares_to_nothing(op, value, rows):
    assert found(Term("c", op, value), TEXTS) == rows


def test_any_conjunction_is_enough():
    columns = {"a": pa.array([1, 2, 3]), "b": pa.array(["x", "x", None])}
    predicate = [
        [Term("a", Op.EQUAL, 1), Term("b", Op.EQUAL, "x")],
        [Term("b", Op.IS_NULL)],
    ]
    assert mask_of(predicate, columns.__getitem__, 3).to_pylist() == [True, False, True]
    assert mask_of([], columns.__getitem__, 3).to_pylist() == [False] * 3


@pytest.mark.parametrize(
    ("column_type", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int64(), True),
        (pa.int64(), "1"),
        (pa.int64(), 2**63),
        (pa.int64(), None),
        (pa.string(), 1),
        (pa.date32(), datetime(2024, 1, 1)),
        (pa.timestamp("us"), date(2024, 1, 1)),
        (pa.timestamp("us"), datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.list_(pa.int64()), [1]),
    ],
)
def test_a_value_of_another_kind_is_refused(column_type, value):
    with pytest.raises(MalformedPredicate):
        check_predicate([[Term("c", Op.EQUAL, value)]], pa.schema([("c", column_type)]))


def test_an_unknown_column_is_refused():
    with pytest.raises(MalformedPredicate, match="'d'"):
        check_predicate([[Term("d", Op.IS_NULL)]], pa.schema([("c", pa.int64())]))


@pytest.mark.parametrize("op", list(Op))
def test_an_index_answers_comparisons_with_values_only(op):
    answered = {Op.EQUAL, Op.IN, Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL}
    value = ["q"] if op in (Op.IN, Op.NOT_IN) else "q"
    assert is_prunable(Term("c", op, value), pa.string()) is (op in answered)


@pytest.mark.parametrize("op", list(Op))
def test_no_index_answers_a_comparison_of_floats_since_it_leaves_nan_out(op):
    value = [1.0] if op in (Op.IN, Op.NOT_IN) else 1.0
    assert not is_prunable(Term("c", op, value), pa.float64())


@pytest.mark.parametrize(
    ("op", "value", "found"),
    [
        (Op.EQUAL, math.nan, [math.nan]),
        (Op.NOT_EQUAL, math.nan, [0.0, -0.0, 2.0, math.inf]),
        (Op.LESS, math.nan, [0.0, -0.0, 2.0, math.inf]),
        (Op.LESS_EQUAL, math.nan, [0.0, -0.0, 2.0, math.inf, math.nan]),
        (Op.GREATER, math.nan, []),
        (Op.GREATER_EQUAL, math.nan, [math.nan]),
        (Op.DISTINCT, math.nan, [0.0, -0.0, 2.0, math.inf, None]),
        (Op.IN, [math.nan, 0.0], [0.0, -0.0, math.nan]),
        (Op.NOT_IN, [math.nan, 0.0], [2.0, math.inf]),
        (Op.EQUAL, 0.0, [0.0, -0.0]),
        (Op.EQUAL, -0.0, [0.0, -0.0]),
        (Op.NOT_EQUAL, 2.0, [0.0, -0.0, math.inf, math.nan]),
        (Op.LESS, 0.0, []),
        (Op.GREATER, 2.0, [math.inf, math.nan]),
        (Op.GREATER_EQUAL, 2.0, [2.0, math.inf, math.nan]),
        (Op.GREATER, math.inf, [math.nan]),
        (Op.LESS_EQUAL, math.inf, [0.0, -0.0, 2.0, math.inf]),
    ],
)
@pytest.mark.parametrize("column_type", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize("sign", [1, -1])
def test_nan_equals_itself_and_is_above_all_numbers_as_on_the_engines(
    op, value, found, sign, column_type
):
    nan = math.copysign(math.nan, sign)
    column = pa.array([0.0, -0.0, 2.0, math.inf, nan, None]).cast(column_type)
    passed = column.filter(term_mask(Term("c", op, value), column)).to_pylist()
    assert repr(passed) == repr(found)


def test_binary_decimal_and_nested_columns_have_no_index():
    for given_type in (pa.binary(), pa.decimal128(3), pa.list_(pa.int8()), pa.null()):
        assert not is_indexable("c", given_type)
    assert is_indexable("c", pa.dictionary(pa.int8(), pa.utf8()))
    assert not is_indexable("partition", pa.utf8())


def test_an_index_file_has_sorted_values_and_labels_in_small_row_groups():
    many = pa.array(range(25_000, 0, -1), pa.int32())
    pairs = joined([pairs_of(many, "b"), pairs_of(pa.array([3, None, 3]), "a")])
    file = pq.ParquetFile(io.BytesIO(encode_index("n", pairs)))
    rows = file.read().to_pydict()
    assert file.schema_arrow.field("n").type == pa.int64()
    assert rows["n"] == list(range(1, 25_001))
    assert rows["partition"][2] == ["a", "b"]
    assert [file.metadata.row_group(at).num_rows for at in range(3)] == [10_000, 10_000, 5_000]


def test_an_index_has_no_null_no_nan_and_no_minus_zero():
    pairs = pairs_of(pa.array([-0.0, 0.0, None, math.nan, 1.0]), "p")
    rows = pq.read_table(io.BytesIO(encode_index("c", pairs))).to_pydict()
    assert repr(rows["c"]) == "[0.0, 1.0]"


def test_partitions_that_go_are_taken_out():
    pairs = joined([pairs_of(pa.array(["x", "y"]), "a"), pairs_of(pa.array(["x"]), "b")])
    left = without_labels(pairs, {"b"})
    assert left.to_pydict() == {"value": ["x", "y"], "label": ["a", "a"]}


def read_pairs(raw: bytes, known: list[str], terms: list[Term] | None = None) -> dict[str, list]:
    file = pq.ParquetFile(io.BytesIO(raw))
    check_index_schema(file.schema_arrow, "c", pa.int64(), "k")
    labels = pa.array(known, pa.string())
    parts = list(pairs_in(file.iter_batches(2), "c", pa.int64(), labels, "k", terms))
    return joined(parts).to_pydict()


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.none() | st.integers(-3, 3)), min_size=1)
)
@settings(deadline=None)
def test_an_index_is_read_as_it_was_written(partitions):
    parts = [pairs_of(pa.array(values, pa.int64()), label) for label, values in partitions.items()]
    raw = encode_index("c", joined(parts))
    wanted = sorted(
        {(value, label) for label, values in partitions.items() for value in values}
        - {(None, label) for label in partitions}
    )
    if not wanted:
        return
    known = read_pairs(raw, list(partitions))
    assert list(zip(known["value"], known["label"], strict=True)) == wanted
    ones = read_pairs(raw, list(partitions), [Term("c", Op.EQUAL, 1), Term("c", Op.LESS, -1)])
    assert list(zip(ones["value"], ones["label"], strict=True)) == [
        pair for pair in wanted if pair[0] == 1 or pair[0] < -1
    ]


def test_a_label_that_is_no_partition_makes_an_index_unusable():
    raw = encode_index("c", pairs_of(pa.array([1]), "gone"))
    with pytest.raises(MalformedIndex, match="'gone' is no partition"):
        read_pairs(raw, ["here"], [Term("c", Op.EQUAL, 5)])


def test_an_entry_of_null_makes_an_index_unusable():
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": pa.array([None, 1]), "partition": [["a"], ["a"]]}), sink)
    with pytest.raises(MalformedIndex, match="null"):
        read_pairs(sink.getvalue(), ["a"])


@pytest.mark.parametrize(
    "table",
    [
        {"d": [1], "partition": [["a"]]},
        {"c": [1], "partition": ["a"]},
        {"c": ["1"], "partition": [["a"]]},
        {"c": [1], "partition": [["a"]], "more": [1]},
    ],
)
def test_other_columns_than_value_and_labels_make_an_index_unusable(table):
    with pytest.raises(MalformedIndex):
        check_index_schema(pa.table(table).schema, "c", pa.int64(), "k")


def test_an_index_that_stands_in_the_state_is_typed_by_the_schema():
    rows = embedded_batch("c", pa.int64(), {"7": ("a", "b")}, "k").to_pydict()
    assert rows == {"c": [7], "partition": [["a", "b"]]}
    with pytest.raises(MalformedIndex):
        embedded_batch("c", pa.int64(), {"x": ("a",)}, "k")
