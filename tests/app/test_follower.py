"""A follower looks at wake-ups, and rests after calls that took long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from servers import wait_until

from odf_node.service.processes.follower import RESTS, Follower
from odf_storage.stores.wakeups.wakeups import MemoryWakeUp, Topic


@contextmanager
def _looks(longest_rest_s: float, look_s: float) -> Iterator[list[float]]:
    began: list[float] = []

    def look() -> float:
        began.append(time.monotonic())
        time.sleep(look_s)
        return 0.0

    follower = Follower("slow", MemoryWakeUp(), look, poll_s=0.0, longest_rest_s=longest_rest_s)
    follower.start()
    try:
        yield began
    finally:
        follower.stop()


@pytest.mark.parametrize(
    ("limit_s", "look_s", "least_s", "most_s"),
    [(0.1, 1.0, 1.1, RESTS * 1.0), (60.0, 0.1, 0.1 + RESTS * 0.1, 60.0)],
)
def test_a_slow_call_is_followed_by_a_rest_up_to_the_limit(
    limit_s: float, look_s: float, least_s: float, most_s: float
) -> None:
    with _looks(limit_s, look_s) as began:
        wait_until(lambda: len(began) > 1, "a second call")
    assert least_s <= began[1] - began[0] < most_s


def test_a_wake_up_after_the_rest_is_heeded_at_once() -> None:
    looked: list[float] = []
    wake_up = MemoryWakeUp()

    def look() -> float:
        looked.append(time.monotonic())
        time.sleep(0.05)
        return 3600.0

    longest_s = 2.0
    follower = Follower("rested", wake_up, look, poll_s=3600.0, longest_rest_s=longest_s)
    follower.start()
    try:
        wait_until(lambda: bool(looked), "a first call")
        time.sleep(longest_s + 0.2)
        woken = time.monotonic()
        wake_up.send(Topic.ENDED)
        wait_until(lambda: len(looked) > 1, "a second call")
    finally:
        follower.stop()
    assert looked[1] - woken < longest_s


def test_a_call_that_fails_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    looked: list[str] = []

    def look() -> float:
        looked.append("")
        raise OSError("the database restarts")

    follower = Follower("failing", MemoryWakeUp(), look, poll_s=0.0)
    follower.start()
    wait_until(lambda: len(looked) > 2, "a third call")
    follower.stop()
    assert "failing did not look" in caplog.text
