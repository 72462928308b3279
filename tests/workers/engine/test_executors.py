"""A cluster that gives no executors: Spark is ended, and the worker can start another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from servers import wait_until

from odf_workers.engines.spark import jvm

PATIENCE_S = 0.2


class Cluster:
    """A Spark that has so many executors, one number at each look, the last from then on; None: it
    does not answer."""

    def __init__(self, *counts: int | None) -> None:
        self.counts = list(counts)
        self._jsc = SimpleNamespace(sc=lambda: self)

    def getExecutorMemoryStatus(self) -> Any:
        count = self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]
        if count is None:
            raise Py4JNetworkError("it does not answer")
        return SimpleNamespace(size=lambda: 1 + count)  # the driver is one of them


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Why Spark was ended."""
    found: list[str] = []
    monkeypatch.setattr(jvm, "end", found.append)
    jvm.use(PATIENCE_S)
    yield found
    jvm.use(0)


def test_a_spark_that_has_no_executor_for_long_is_ended_once(ended: list[str]) -> None:
    with jvm.awaited(Cluster(0)):
        wait_until(lambda: ended, "the end")
        time.sleep(PATIENCE_S)
    assert ended == ["its cluster gave it no executor for 0.2 s"]


@pytest.mark.parametrize("count", [1, 2, None])
def test_one_with_executors_or_that_has_ended_by_itself_is_not(
    count: int | None, ended: list[str]
) -> None:
    with jvm.awaited(Cluster(count)):
        time.sleep(PATIENCE_S * 3)
    assert ended == []


def test_the_time_without_executors_begins_again_with_each(ended: list[str]) -> None:
    cluster = Cluster(*[0, 1] * 6)
    with jvm.awaited(cluster):
        wait_until(lambda: len(cluster.counts) == 1 or ended, "the last look")
    assert ended == []


def test_a_job_that_is_over_is_not_watched(ended: list[str]) -> None:
    with jvm.awaited(Cluster(0)):
        pass
    time.sleep(PATIENCE_S * 3)
    assert ended == []


def test_without_a_limit_jobs_wait_for_ever(ended: list[str]) -> None:
    jvm.use(0)
    with jvm.awaited(Cluster(0)):
        time.sleep(PATIENCE_S * 3)
    assert ended == []
