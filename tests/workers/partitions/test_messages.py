"""Batches as messages between tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from odf_workers.partitions import messages, on_spark
from odf_workers.partitions.messages import Failure, batch_of, gathered, message
from odf_workers.partitions.port import Batches
from odf_workers.readers.values.rejected import TooManyBadRows
from odf_workers.slices.schema import BadRow, Limits


def rows(count: int, start: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, start + count), pa.int64())})


def test_a_message_holds_the_rows_and_their_types() -> None:
    batch = pa.record_batch(
        {
            "big": pa.array([None, 2**64 - 1], pa.uint64()),
            "list": pa.array([[{"a": 1}], None]),
            "time": pa.array([1, 2], pa.time64("ns")),
        }
    )
    assert batch_of(message(batch)).equals(batch)
    assert batch_of(message(batch.slice(1))).equals(batch.slice(1))


def test_small_batches_become_one_message_and_large_ones_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "MESSAGE_BYTES", 800)
    given = [rows(10), rows(10, 10), rows(1000, 20), rows(3, 1020)]
    found = list(gathered(iter(given)))
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches(given))
    assert max(each.nbytes for each in found) <= 3 * 800
    assert len(found) < 12


def test_batches_of_different_columns_do_not_become_one_message() -> None:
    other = pa.record_batch({"m": [1]})
    assert [each.schema.names for each in gathered([rows(1), rows(1), other])] == [["n"], ["m"]]


def halves(_: int, batches: Batches) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Route long batches in two, and others as they are."""
    for batch in batches:
        if batch.num_rows > 2:
            yield 0, batch.slice(0, 2)
            yield 1, batch.slice(2)
        else:
            yield 1, batch


def test_only_a_message_whose_rows_change_on_their_way_is_written_again() -> None:
    kept = [message(rows(2)), message(rows(5, 2)), message(rows(1, 7))]
    sent = list(on_spark._routed(halves, 3, kept))
    assert [(group, number, at) for group, (number, at, _) in sent] == [
        (1, 3, 0),
        (0, 3, 1),
        (1, 3, 2),
        (1, 3, 3),
    ]
    first, *parts, last = (content for _, (_, _, content) in sent)
    assert first is kept[0]
    assert last is kept[2]
    assert list(map(batch_of, parts)) == [rows(2, 2), rows(3, 4)]


@pytest.mark.parametrize(
    "error",
    [
        BadRow("bad", line=3, column="c", value="x"),
        TooManyBadRows("too many", max_bad_rows=3, line=4),
        Limits().row_too_large(7),
    ],
)
def test_an_error_travels_with_its_facts(error: BadRow) -> None:
    again = Failure.of(error).error()
    assert type(again) is type(error)
    assert (again.message, again.facts, vars(again)) == (error.message, error.facts, vars(error))
