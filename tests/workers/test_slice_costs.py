"""Where slices end: a function of the rows alone, wherever their batches and partitions end."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odf_workers.slices.costs import SliceCut, in_slices, row_costs

NARROW = pa.record_batch({"n": pa.array(range(1000), pa.int64())})


def numbers(batches: list[pa.RecordBatch], cut: SliceCut) -> list[int]:
    """The number of the slice of each row."""
    found, before = [], 0
    for batch in batches:
        costs = row_costs(batch, cut)
        for number, part in in_slices(batch, costs, before, cut):
            found += [number] * part.num_rows
        before += int(costs.sum())
    assert not found or found[-1] < cut.count(before)
    return found


@pytest.mark.parametrize("rows", [1, 7, 10, 333, 1000, 5000])
def test_a_slice_of_narrow_rows_ends_after_so_many(rows: int) -> None:
    found = numbers([NARROW], SliceCut(rows=rows))
    assert found == [at // rows for at in range(1000)]


def test_a_slice_of_wide_rows_ends_after_so_many_bytes() -> None:
    batch = pa.record_batch({"text": ["x" * 980] * 100})
    assert numbers([batch], SliceCut(rows=1000, size=10_000)) == [at // 10 for at in range(100)]


def test_a_row_costs_its_values_and_not_what_lies_behind_absent_ones() -> None:
    plain = pa.array([{"a": "x"}, None], pa.struct([("a", pa.string())]))
    hidden = pa.StructArray.from_arrays(
        [pa.array(["x", "hidden"])], ["a"], mask=pa.array([False, True])
    )
    lists = pa.array([["abc", None], None, []])
    cut = SliceCut(rows=1 << 20, size=1 << 20)
    assert row_costs(pa.record_batch({"s": hidden}), cut).tolist() == [22, 21]
    assert row_costs(pa.record_batch({"s": plain}), cut).tolist() == [22, 21]
    assert row_costs(pa.record_batch({"l": lists}), cut).tolist() == [31, 20, 20]


@settings(max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=60),
    rows=st.integers(1, 50),
    size=st.integers(30, 2000),
    seed=st.integers(0, 10),
)
def test_partitions_do_not_decide_where_slices_end(
    lengths: list[int], rows: int, size: int, seed: int
) -> None:
    batch = pa.record_batch(
        {"t": ["x" * n for n in lengths], "l": [[n] * (n % 4) for n in lengths]}
    )
    cut = SliceCut(rows=rows, size=size)
    whole = numbers([batch], cut)
    at = sorted(random.Random(seed).sample(range(len(lengths) + 1), min(3, len(lengths))))
    parts = [batch.slice(a, b - a) for a, b in zip([0, *at], [*at, len(lengths)], strict=True)]
    assert numbers(parts, cut) == whole
    assert np.unique(whole, return_counts=True)[1].max() <= rows
