"""Hashing in threads gives the same hashes, and no failure is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pytest

from protocol.arrow_digest import logical_hash
from protocol.sha3 import does
from storage.hashing import threaded

BATCH = pa.record_batch({"n": list(range(1000)), "t": [f"{n}" for n in range(1000)]})


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_change_no_hash(threads: int) -> None:
    batches = [BATCH.slice(at, 100) for at in range(0, 1000, 100)]
    with threaded(threads) as run:
        assert logical_hash(batches, BATCH.schema, run=run) == logical_hash([BATCH], BATCH.schema)


def test_a_failure_in_a_stream_is_raised_when_the_others_have_ended() -> None:
    ended: list[int] = []
    with threaded(2) as run, pytest.raises(ZeroDivisionError):
        run([does(lambda: 1 // 0), does(lambda: ended.append(1)), does(lambda: ended.append(2))])
    assert sorted(ended) == [1, 2]


def test_a_run_whose_other_threads_are_all_taken_does_its_streams_itself() -> None:
    ran: list[int] = []
    all_are_at_work, all_is_done = Barrier(3, timeout=30), Barrier(3, timeout=30)

    def busy() -> None:
        all_are_at_work.wait()
        all_is_done.wait()

    with threaded(2) as run, ThreadPoolExecutor(1) as other:
        taken = other.submit(run, [does(busy), does(busy)])
        all_are_at_work.wait()
        run([does(lambda: ran.append(1)) for _ in range(10)])
        all_is_done.wait()
        taken.result(timeout=30)
    assert ran == [1] * 10


def test_threads_that_are_free_help() -> None:
    meeting = Barrier(2, timeout=30)
    with threaded(2) as run:
        run([does(meeting.wait), does(meeting.wait)])
    assert not meeting.broken
