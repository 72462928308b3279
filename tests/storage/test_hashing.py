"""Hashing in threads gives the same hashes, and no failure is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident

import pyarrow as pa
import pytest

from protocol.arrow_digest import logical_hash
from storage.hashing import shared, threaded

BATCH = pa.record_batch({"n": list(range(1000)), "t": [f"{n}" for n in range(1000)]})


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_change_no_hash(threads: int) -> None:
    batches = [BATCH.slice(at, 100) for at in range(0, 1000, 100)]
    with threaded(threads) as run:
        assert logical_hash(batches, BATCH.schema, run=run) == logical_hash([BATCH], BATCH.schema)


def test_a_failure_in_a_thread_is_raised_when_the_others_have_ended() -> None:
    ended: list[int] = []
    with threaded(2) as run, pytest.raises(ZeroDivisionError):
        run([lambda: 1 // 0 and None, lambda: ended.append(1), lambda: ended.append(2)])
    assert sorted(ended) == [1, 2]


def test_a_run_within_a_pool_whose_threads_are_all_taken_does_its_jobs_itself() -> None:
    ran: list[int] = []
    everybody_is_here = Barrier(2, timeout=30)

    def task() -> None:
        everybody_is_here.wait()
        shared([lambda: ran.append(get_ident())] * 10, pool, 1)
        everybody_is_here.wait()

    with ThreadPoolExecutor(2) as pool:
        for task_done in [pool.submit(task), pool.submit(task)]:
            task_done.result(timeout=30)
    assert len(ran) == 20


def test_threads_that_are_free_help() -> None:
    meeting = Barrier(2, timeout=30)
    with threaded(2) as run:
        run([lambda: meeting.wait() and None, lambda: meeting.wait() and None])
    assert not meeting.broken
