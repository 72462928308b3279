"""Batches as messages between tasks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odf_node.workers.partitions import messages
from odf_node.workers.partitions.failure import Failure
from odf_node.workers.partitions.messages import batch_of, gathered, message
from odf_node.workers.readers.rejected import TooManyBadRows
from odf_node.workers.slices.frame import BadRow, Limits


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
