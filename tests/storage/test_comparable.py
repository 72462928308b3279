"""Values of every type compare as a plain definition in Python says, and equal keys hash alike."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf_storage.datasets.merge_state.comparable import (
    comparable,
    equal_values,
    key_hashes,
    numbered,
)

TEXTS = st.text(st.sampled_from("\0\x01aé\U0001f600"), max_size=4)
FLOATS = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5, -2.0])
FLAT: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.sampled_from([-(2**63), -1, 0, 1, 255, 256, 2**63 - 1])),
    (pa.uint16(), st.integers(0, 2**16 - 1)),
    (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    (pa.float16(), FLOATS.map(np.float16)),
    (pa.float32(), FLOATS),
    (pa.float64(), FLOATS | st.floats()),
    (pa.date32(), st.dates(date(1, 1, 1))),
    (pa.time32("ms"), st.times().map(lambda t: t.replace(microsecond=0))),
    (pa.time64("us"), st.times()),
    (pa.timestamp("ms"), st.datetimes().map(lambda t: t.replace(microsecond=0))),
    (pa.timestamp("us"), st.datetimes()),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.binary(), st.binary(max_size=3)),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.decimal128(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n) / 100)),
    (pa.decimal256(60, 1), st.sampled_from([Decimal(n) for n in ("-1e50", "-0.1", "0", "1e50")])),
]

Typed = tuple[pa.DataType, st.SearchStrategy[Any]]


def lists_of(inner: Typed) -> st.SearchStrategy[Typed]:
    kind, values = inner
    some = st.none() | values
    return st.sampled_from(
        [
            (pa.list_(kind), st.lists(some, max_size=3)),
            (pa.large_list(kind), st.lists(some, max_size=3)),
            (pa.list_view(kind), st.lists(some, max_size=3)),
            (pa.list_(kind, 2), st.lists(some, min_size=2, max_size=2)),
        ]
    )


def pairs_of(one: Typed, other: Typed) -> st.SearchStrategy[Typed]:
    left, right = st.none() | one[1], st.none() | other[1]
    struct = pa.struct([("a", one[0]), ("b", other[0])])
    entries = st.lists(st.tuples(one[1], right), max_size=3)
    return st.sampled_from(
        [
            (struct, st.fixed_dictionaries({"a": left, "b": right})),
            (pa.map_(one[0], other[0]), entries),
        ]
    )


KINDS: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from(FLAT),
    lambda inner: inner.flatmap(lists_of) | st.tuples(inner, inner).flatmap(lambda p: pairs_of(*p)),
    max_leaves=4,
)
COLUMNS = KINDS.flatmap(
    lambda typed: st.lists(st.none() | typed[1], min_size=1, max_size=8).map(
        lambda values: pa.array(values, typed[0])
    )
)


def compared(one: Any, other: Any) -> int:
    """Below, equal or above: -1, 0 or 1. The definition."""
    if one is None or other is None:
        return (one is not None) - (other is not None)
    if isinstance(one, dict):
        return compared(list(one.values()), list(other.values()))
    if isinstance(one, list | tuple):
        for left, right in zip(one, other, strict=False):
            if found := compared(left, right):
                return found
        return compared(len(one), len(other))
    if isinstance(one, float | np.floating):
        one, other = (math.isnan(one), one), (math.isnan(other), other)
        if one[0] or other[0]:
            return int(one[0]) - int(other[0])
    if isinstance(one, str):
        one, other = one.encode(), other.encode()
    return int(one > other) - int(one < other)


def orders(column: pa.Array) -> list[list[int]]:
    values = column.to_pylist()
    return [[compared(left, right) for right in values] for left in values]


def told(flat: pa.Array) -> list[list[int]]:
    """The same of a flat column, by Arrow."""
    order = pc.sort_indices(pa.table([flat], ["k"]), [("k", "ascending", "at_start")])
    place = 0
    places = [0] * len(flat)
    for before, at in zip([None, *order.to_pylist()], order.to_pylist(), strict=False):
        if before is not None and flat[before] != flat[at]:
            place += 1
        places[at] = place
    return [[int(one > other) - int(one < other) for other in places] for one in places]


@given(COLUMNS)
def test_a_comparable_column_has_the_order_of_the_values(column: pa.Array) -> None:
    assert told(comparable(column)) == orders(column)


@given(COLUMNS, st.integers(0, 7))
def test_a_column_is_the_same_wherever_it_begins(column: pa.Array, start: int) -> None:
    part = column.slice(start % len(column))
    assert comparable(part).equals(comparable(column).slice(start % len(column)))
    assert comparable(pa.chunked_array([column, part])).to_pylist() == [
        *comparable(column).to_pylist(),
        *comparable(part).to_pylist(),
    ]


@given(COLUMNS)
def test_equal_values_have_one_hash_and_one_number(column: pa.Array) -> None:
    hashes, numbers, expected = key_hashes([column]), numbered([column, column]), orders(column)
    assert numbers.max() < len(column)
    for at, row in enumerate(expected):
        others = pa.concat_arrays([column.slice(at, 1)] * len(column))
        assert equal_values(others, column).tolist() == [found == 0 for found in row]
        assert (numbers == numbers[at]).tolist() == [found == 0 for found in row]
        assert all(hashes[at] == hashes[to] for to, found in enumerate(row) if found == 0)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, -1, None]), 0x401577A27B1E2786),
        (pa.array(["a", "", None]), 0x92B1B0AC39614434),
        (pa.array([0.5, -0.0, math.nan, math.inf, None]), 0x569418288B606411),
        (pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)), 0x586DFFCE6AD64DF9),
        (pa.array([True, False, None]), 0xBAD1A02A84A528DE),
    ],
    ids=["numbers", "texts", "floats", "decimals", "flags"],
)
def test_flat_keys_keep_the_hashes_that_states_hold(column: pa.Array, expected: int) -> None:
    assert int(np.bitwise_xor.reduce(key_hashes([column]))) == expected
