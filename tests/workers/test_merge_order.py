"""Rows cut into ranges and sorted there are the rows sorted in one piece; ranges of hashes meet."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from odf_protocol.instant import Instant
from odf_workers.merge.history import ALL_HASHES, Problems, key_range, key_ranges
from odf_workers.merge.strategies import MergeOrder, bounds, range_of, sample, sort_indices
from odf_workers.slices.schema import POSITION

ORDER = MergeOrder(columns=("f", "l", "at", POSITION), event_time="at", fallback=Instant(5_000_000))
SCHEMA = pa.schema(
    [
        pa.field("f", pa.float64()),
        pa.field("l", pa.list_(pa.string())),
        pa.field("at", pa.timestamp("ms", "UTC")),
        pa.field(POSITION, pa.int64()),
    ]
)


def table_of(count: int) -> pa.Table:
    chance = random.Random(count)
    rows: list[dict[str, Any]] = [
        {
            "f": chance.choice([None, math.nan, 0.0, -0.0, 1.5, -math.inf]),
            "l": chance.choice([None, [], [None], ["a"], ["a", "b"], ["b"]]),
            "at": chance.choice([None, 4, 5, 6]),
            POSITION: position,
        }
        for position in range(count)
    ]
    chance.shuffle(rows)
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("count", [1, 5, 400])
def test_ranges_that_are_sorted_one_by_one_are_the_whole_sorted(count: int, parts: int) -> None:
    table = table_of(count)
    pieces = [table.slice(at, 37) for at in range(0, count, 37)]
    begins = bounds([sample(piece, ORDER, 5) for piece in pieces], parts)
    assert begins.num_rows < parts
    ranges = [range_of(piece, ORDER, begins) for piece in pieces]
    sorted_here = []
    for number in range(parts):
        rows = pa.concat_tables(
            [p.filter(pa.array(r == number)) for p, r in zip(pieces, ranges, strict=True)]
        )
        sorted_here += rows.take(sort_indices(rows, ORDER)).column(POSITION).to_pylist()
    assert sorted_here == table.take(sort_indices(table, ORDER)).column(POSITION).to_pylist()


@pytest.mark.parametrize("count", [1, 5, 400])
def test_rows_in_the_order_of_the_input_are_sorted_without_comparing_positions(count: int) -> None:
    table = table_of(count).sort_by(POSITION)
    assert POSITION not in ORDER.of_input.columns
    assert sort_indices(table, ORDER.of_input).equals(sort_indices(table, ORDER))


def test_samples_cut_rows_into_ranges_of_about_one_size() -> None:
    table = table_of(4000)
    begins = bounds([sample(table, ORDER, 400)], 4)
    counts = np.bincount(range_of(table, ORDER, begins), minlength=4)
    assert counts.min() > 800


def test_a_row_without_an_event_time_stands_where_its_later_one_does() -> None:
    table = pa.table({"at": [6, None, 4], POSITION: [0, 1, 2]}).cast(
        pa.schema([SCHEMA.field("at"), SCHEMA.field(POSITION)])
    )
    order = MergeOrder(columns=("at", POSITION), event_time="at", fallback=Instant(5_000_000))
    assert sort_indices(table, order).to_pylist() == [2, 1, 0]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_ranges_of_hashes_hold_each_hash_once(count: int) -> None:
    ranges = key_ranges(count)
    assert (ranges[0][0], ranges[-1][1]) == (0, ALL_HASHES)
    assert all(one[1] == other[0] for one, other in pairwise(ranges))
    edges = [low for low, _ in ranges] + [high - 1 for _, high in ranges]
    found = key_range(np.array(edges, np.uint64), count)
    assert found.tolist() == [*range(count), *range(count)]


def test_problems_of_partitions_are_told_by_their_place_in_the_input() -> None:
    def found(*positions: int) -> Problems:
        return Problems.of(np.array(positions, np.int64), lambda at: f"of {positions[at]}")

    whole = found(*range(0, 40, 2), *range(1, 40, 2))
    parts = Problems.joined([found(*range(1, 40, 2)), found(*range(0, 40, 2)), found()])
    assert parts == whole
    text = whole.text(lambda at: at + 100)
    assert text.startswith("row 100 of 0; row 101 of 1; row 102 of 2; ")
    assert text.endswith("row 109 of 9, and 30 more")
