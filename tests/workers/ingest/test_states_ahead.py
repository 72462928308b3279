"""Merge states that take up large commits before the next post comes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.workers.datasets import bench_without_engine, created, ndjson, now, upload
from throwaway import throwaway_stores

from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
)
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.merge_state.build import load
from odf_storage.datasets.merge_state.store import MergeStates
from odf_storage.datasets.node.stores import Stores
from odf_workers.jobs.ingest import run as module
from odf_workers.jobs.ingest.run import run_ingest
from odf_workers.jobs.work.context import StatesAhead, WorkerContext

Rows = list[dict[str, Any]]


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture(autouse=True)
def every_commit_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AHEAD_BYTES", 1)


@pytest.fixture
def states(tmp_path: Path) -> MergeStates:
    return MergeStates(tmp_path / "states", max_bytes=1 << 30)


@pytest.fixture
def context(stores: Stores, tmp_path: Path, states: MergeStates) -> Iterator[WorkerContext]:
    ahead = StatesAhead(tmp_path)
    yield bench_without_engine(stores, tmp_path, states=states, ahead=ahead)
    ahead.close()


def rows(*cities: str, n: int = 0) -> Rows:
    return [{"city": city, "n": n} for city in cities]


def post(stores: Stores, dataset: Dataset, context: WorkerContext, rows: Rows) -> Any:
    receipt = run_ingest(dataset, upload(stores, dataset, ndjson(rows)), context, now=now())
    if context.ingest.ahead is not None:
        waited(context.ingest.ahead, dataset)
    return receipt


def waited(ahead: StatesAhead, dataset: Dataset) -> None:
    """Wait for the turn of a commit that comes after all others."""
    has_turn = Event()
    ahead.follow(dataset, dataset.head(), lambda _: has_turn.set())
    assert has_turn.wait(60)


def taken_up(states: MergeStates, dataset: Dataset) -> list[str | None]:
    """The heads of the dataset's states."""
    found = [load(folder) for folder in states.folders(dataset.id)]
    return [each.head for each in found if each is not None]


@pytest.mark.parametrize(
    "merge",
    [MergeStrategySnapshot(primary_key=("city",)), MergeStrategyLedger(primary_key=("city",))],
)
def test_a_state_has_the_rows_of_a_commit_before_the_next_post(
    merge: MergeStrategy, stores: Stores, context: WorkerContext, states: MergeStates
) -> None:
    dataset = created(stores, merge=merge)
    post(stores, dataset, context, rows("a", "b"))
    assert taken_up(states, dataset) == [str(dataset.head())]
    post(stores, dataset, context, rows("a", "b", "c"))
    assert taken_up(states, dataset) == [str(dataset.head())]
    assert post(stores, dataset, context, rows("a", "b", "c")).rows_added == 0


def test_a_strategy_that_reads_no_history_has_no_state(
    stores: Stores, context: WorkerContext, states: MergeStates
) -> None:
    dataset = created(stores, merge=MergeStrategyAppend())
    post(stores, dataset, context, rows("a"))
    assert taken_up(states, dataset) == []


def test_small_commits_are_left_to_the_next_post(
    stores: Stores,
    context: WorkerContext,
    states: MergeStates,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AHEAD_BYTES", 1 << 20)
    dataset = created(stores, merge=MergeStrategySnapshot(primary_key=("city",)))
    post(stores, dataset, context, rows("a"))
    assert taken_up(states, dataset) == []
    assert post(stores, dataset, context, rows("a")).rows_added == 0


def test_a_commit_that_is_not_the_newest_is_left_out(
    stores: Stores, context: WorkerContext, states: MergeStates, tmp_path: Path
) -> None:
    """A state of an older head than it already has would have to be made anew."""
    dataset = created(stores, merge=MergeStrategySnapshot(primary_key=("city",)))
    made: list[Any] = []

    class Later(StatesAhead):
        def follow(self, *given: Any) -> None:
            made.append(given)

    late = bench_without_engine(stores, tmp_path, states=states, ahead=Later(tmp_path))
    for city in ("a", "b"):
        run_ingest(dataset, upload(stores, dataset, ndjson(rows(city))), late, now=now())
    held = taken_up(states, dataset)
    assert context.ingest.ahead is not None
    context.ingest.ahead.follow(*made[0])
    waited(context.ingest.ahead, dataset)
    assert taken_up(states, dataset) == held
    context.ingest.ahead.follow(*made[1])
    waited(context.ingest.ahead, dataset)
    assert taken_up(states, dataset) == [str(dataset.head())]


def test_a_state_that_cannot_be_changed_stops_no_post(
    stores: Stores,
    context: WorkerContext,
    states: MergeStates,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset = created(stores, merge=MergeStrategySnapshot(primary_key=("city",)))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "bring_up_to_date", full)
        with caplog.at_level(logging.WARNING):
            post(stores, dataset, context, rows("a", "b"))
    assert "No space left on device" in caplog.text
    receipt = post(stores, dataset, context, rows("a", "c"))
    assert (receipt.rows_added, taken_up(states, dataset)) == (1, [str(dataset.head())])
