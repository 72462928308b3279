"""Work side by side: all of it is done, the first failure is told, threads serve every round."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from odf_storage.stores.objects.side_by_side import SideBySide

THREADS = 4


@pytest.fixture
def beside() -> Iterator[SideBySide]:
    made = SideBySide(THREADS, "test-beside")
    yield made
    made.close()


def threads() -> set[int]:
    return {t.native_id or 0 for t in threading.enumerate() if t.name.startswith("test-beside")}


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_everything_is_done(beside: SideBySide, count: int) -> None:
    done: list[int] = []
    beside.do(done.append, range(count))
    assert sorted(done) == list(range(count))


def test_the_threads_of_one_round_serve_the_next(beside: SideBySide) -> None:
    together = threading.Barrier(THREADS)
    beside.do(lambda _: together.wait(60), range(THREADS))
    first = threads()
    beside.do(lambda _: together.wait(60), range(THREADS))
    assert len(first) == THREADS
    assert threads() == first


def test_what_fails_is_raised_when_nothing_runs_any_more(beside: SideBySide) -> None:
    failed, ended = threading.Event(), threading.Event()

    def work(item: int) -> None:
        if item == 0:
            failed.set()
            raise ValueError("the first")
        if item == 1:
            failed.wait(60)
            ended.set()

    with pytest.raises(ValueError, match="the first"):
        beside.do(work, range(1000))
    assert ended.is_set()


def test_after_its_end_it_begins_again(beside: SideBySide) -> None:
    beside.do(str, range(8))
    beside.close()
    assert threads() == set()
    done: list[int] = []
    beside.do(done.append, range(8))
    assert len(done) == 8


def test_a_forked_process_begins_threads_of_its_own(beside: SideBySide) -> None:
    beside.do(str, range(8))
    with beside._lock:  # as another thread might, at the moment of the fork
        child = os.fork()
        if child == 0:
            done: list[int] = []
            beside.do(done.append, range(8))
            os._exit(0 if len(done) == 8 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
