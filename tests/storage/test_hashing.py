"""Hashing in threads gives the same hashes, and no failure is lost."""

from __future__ import annotations

import pyarrow as pa
import pytest

from protocol.arrow_digest import logical_hash
from storage.hashing import threaded

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
