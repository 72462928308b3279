"""Slices written from ranges of rows that are not sorted yet."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odf_workers.slices.costs import SliceCut, costs_of, in_slices
from odf_workers.stages.facts import FactLayout

TEXTS = st.lists(st.integers(0, 60).map(lambda size: "x" * size), max_size=80)


def made(texts: list[str]) -> pa.Table:
    """Rows in their final order; `n` says which."""
    return pa.table(
        {"n": pa.array(range(len(texts)), pa.int64()), "text": pa.array(texts, pa.string())}
    )


@settings(deadline=None)
@given(
    texts=TEXTS,
    cut=st.builds(
        SliceCut, rows=st.sampled_from([1, 3, 10, 1000]), size=st.sampled_from([40, 90, 500])
    ),
    bounds=st.lists(st.integers(0, 80), max_size=8),
    partitions=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_writers_take_the_rows_of_the_slices_that_all_rows_would_be_cut_into(
    texts: list[str], cut: SliceCut, bounds: list[int], partitions: int, seed: int
) -> None:
    chance, whole = random.Random(seed), made(texts)
    ends = [0, *sorted(min(each, len(texts)) for each in bounds), len(texts)]
    homes = [chance.randrange(partitions) for _ in texts]
    costs = costs_of(whole, cut)
    parts, kept = [], []
    for number in range(partitions):
        mine = [
            [n for n in range(start, end) if homes[n] == number] for start, end in pairwise(ends)
        ]
        for each in mine:
            chance.shuffle(each)
        parts.append(tuple(map(len, mine)))
        kept.append(whole.take(pa.array([n for each in mine for n in each], pa.int64())))
    layout = FactLayout(
        cut=cut,
        parts=tuple(parts),
        costs=tuple(int(costs[start:end].sum()) for start, end in pairwise(ends)),
    )
    received: dict[int, list[pa.Table]] = {}
    for number, rows in enumerate(kept):
        size = chance.choice([1, 7, 100])
        for slice_, batch in layout.dealt(number, iter(rows.to_batches(size))):
            received.setdefault(slice_, []).append(pa.Table.from_batches([batch]))
    found = {}
    for slice_, tables in received.items():
        before, taken = layout.taken(slice_, pa.concat_tables(tables).sort_by("n"))
        if taken.num_rows:
            found[slice_] = (before, taken.to_pylist())
    wanted: dict[int, list[dict[str, object]]] = {}
    for batch in whole.combine_chunks().to_batches():
        for slice_, rows in in_slices(batch, costs, 0, cut):
            wanted.setdefault(slice_, []).extend(rows.to_pylist())
    assert found == {slice_: (rows[0]["n"], rows) for slice_, rows in wanted.items()}
    assert layout.count == cut.count(int(costs.sum()))
    assert set(received) <= set(range(layout.count))


def test_the_largest_writer_counts_the_rows_that_others_receive_too() -> None:
    cut = SliceCut(rows=10, size=1000)
    fine = FactLayout(cut=cut, parts=((5, 5, 5, 5),), costs=(500, 500, 500, 500))
    assert (fine.count, fine.largest(2000), fine.is_fine) == (2, 1000, True)
    across = FactLayout(cut=cut, parts=((5, 10, 5),), costs=(500, 1000, 500))
    assert (across.count, across.largest(2000), across.is_fine) == (2, 1500, True)
    heavy = FactLayout(cut=cut, parts=((1, 18, 1),), costs=(100, 2800, 100))
    assert (heavy.count, heavy.largest(3000), heavy.is_fine) == (3, 2900, False)


@pytest.mark.parametrize(("cost", "is_fine"), [(1000, True), (1001, False)])
def test_one_range_is_enough_for_one_slice_only(cost: int, is_fine: bool) -> None:
    layout = FactLayout.of_one(SliceCut(rows=10, size=1000), [3, 4], cost)
    assert (layout.is_fine, layout.rows.tolist()) == (is_fine, [7])


def test_a_batch_that_one_slice_needs_is_passed_on_as_it_is() -> None:
    layout = FactLayout(cut=SliceCut(rows=10, size=1000), parts=((2, 3),), costs=(1000, 300))
    whole, cut = made(["a", "b"]).to_batches()[0], made(["c", "d", "e"]).to_batches()[0]
    _, first = next(layout.dealt(0, iter([whole, cut])))
    assert first is whole
    across = made(["a", "b", "c", "d", "e"]).to_batches()[0]
    dealt = [(slice_, rows.num_rows) for slice_, rows in layout.dealt(0, iter([across]))]
    assert dealt == [(0, 2), (1, 3)]


def test_no_rows_are_no_slice() -> None:
    layout = FactLayout.of_one(SliceCut(), [0, 0], 0)
    assert (layout.count, layout.largest(0)) == (0, 0)
    assert np.array_equal(layout.starts, [0, 0])
