"""A transform looked at: its columns, and what the query before it kept: does that fit, is it
dropped."""

from __future__ import annotations

from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import pytest
from tests.workers.derivatives import (
    add_rows,
    commit,
    derivative,
    moment,
    node_of,
    root,
    transform,
)
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import to_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddPushSource,
    TransformRequest,
    TransformResponseInvalidQuery,
)
from odf_protocol.metadata.sources import (
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStepNdJson,
)
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.transform_job import (
    CheckPayload,
    CheckReceipt,
    TransformPayload,
)
from odf_storage.datasets.node.stores import Stores
from odf_workers.engines.iteration.inputs import (
    InputCheckpoint,
    UnreadableCheckpoint,
    holds_state,
    read_checkpoint,
    write_checkpoint,
)
from odf_workers.jobs.transform.check import run_check
from odf_workers.jobs.transform.run import run_transform

COPY = "select event_time, city, n from cities"
MARK = Instant.parse("2024-01-01T00:00:00Z")


class Keeping:
    """DataFusion, as if queries that order their rows kept state of their own."""

    def __init__(self, engine: Any) -> None:
        self.name, self.version, self._engine = engine.name, engine.version, engine

    def execute_transform(self, request: TransformRequest, *more: Any) -> Any:
        query = (request.transform.queries or ())[-1].query
        new = Path(request.new_checkpoint_path)
        response = self._engine.execute_transform(request, *more)
        if "order by" not in query:
            return response
        folder = new.parent / f"{new.name}-state"
        folder.mkdir()
        before = read_checkpoint(request.prev_checkpoint_path, folder).state
        if before is not None and before.read_text() != query:
            return TransformResponseInvalidQuery(message="written for another query")
        state = folder / "kept"
        state.write_text(query)
        write_checkpoint(new, InputCheckpoint(watermarks={"it": MARK}, state=state))
        return response


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(stores: Stores, tmp_path: Path) -> Any:
    plain = node_of(stores, tmp_path)
    engines = replaced(plain.engines, first=Keeping(plain.engines.first))
    return replaced(plain, engines=engines)


@pytest.fixture
def cities(stores: Stores, tmp_path: Path) -> Dataset:
    made = root(stores, "cities")
    add_rows(stores, made, [(str(MARK), "a", 1)], tmp_path, at=10, watermark=str(MARK))
    return made


def looked_at(stores: Stores, cities: Dataset, bench: Any, before: str, after: str) -> CheckReceipt:
    """What is said of a query for a derivative that has executed another one."""
    made = derivative(stores, "made", [cities], before)
    run_transform(stores, made, TransformPayload(), bench, now=moment(100))
    last = made.state().last_execution
    assert last is not None
    assert last.new_checkpoint is not None
    payload = CheckPayload(
        definition=to_data(transform([cities], after)),
        dataset=str(made.id),
        checkpoint=str(last.new_checkpoint.physical_hash),
    )
    return run_check(stores, payload, bench, now=moment(200))


def test_a_query_that_cannot_go_on_from_the_state_of_the_one_before_is_warned_of(
    stores: Stores, cities: Dataset, bench: Any
) -> None:
    found = looked_at(stores, cities, bench, f"{COPY} order by n", f"{COPY} order by city")
    assert found.outcome == "valid"
    [warning] = found.warnings
    assert "paused until it is reset" in warning
    assert "written for another query" in warning


def test_state_that_would_be_dropped_is_warned_of(
    stores: Stores, cities: Dataset, bench: Any
) -> None:
    [warning] = looked_at(stores, cities, bench, f"{COPY} order by n", COPY).warnings
    assert "keeps state, which is dropped" in warning


@pytest.mark.parametrize(
    "queries",
    [(COPY, f"{COPY} where n > 1"), (f"{COPY} order by n",) * 2, (COPY, f"{COPY} order by n")],
)
def test_queries_that_may_follow_each_other_are_not_warned_of(
    stores: Stores, cities: Dataset, bench: Any, queries: tuple[str, str]
) -> None:
    assert looked_at(stores, cities, bench, *queries).warnings == ()


def test_a_checkpoint_that_is_gone_is_no_obstacle(
    stores: Stores, cities: Dataset, bench: Any
) -> None:
    payload = CheckPayload(
        definition=to_data(transform([cities], COPY)),
        dataset=str(cities.id),
        checkpoint=str(cities.head()),
    )
    assert run_check(stores, payload, bench, now=moment(200)).warnings == ()


def test_columns_of_a_result_that_differ_in_case_only_are_warned_of(
    stores: Stores, cities: Dataset, bench: Any
) -> None:
    query = 'select event_time, n, city as "N" from cities'
    payload = CheckPayload(definition=to_data(transform([cities], query)))
    [warning] = run_check(stores, payload, bench, now=moment(200)).warnings
    assert warning.startswith("columns `n` and `N` differ in case only")


def test_only_checkpoints_of_ours_say_whether_they_hold_state(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    assert not holds_state(path)
    path.write_bytes(b"\xff\x00 of another engine")
    assert not holds_state(path)
    with pytest.raises(UnreadableCheckpoint):
        read_checkpoint(str(path), tmp_path)


def source(merge: Any) -> AddPushSource:
    return AddPushSource(source_name="default", read=ReadStepNdJson(), merge=merge)


@pytest.mark.parametrize(
    ("query", "tells"), [(COPY, True), (COPY.replace("event_time", "event_time, op"), False)]
)
@pytest.mark.parametrize("why", ["its merge strategy", "its rows", "neither"])
def test_a_query_that_forgets_what_is_taken_back_is_told_when_it_is_defined(
    stores: Stores, cities: Dataset, bench: Any, tmp_path: Path, why: str, query: str, tells: bool
) -> None:
    """No row is read for that: the sources tell, or the footers of slices."""
    merge: Any = MergeStrategyLedger(primary_key=("city",))
    if why == "its merge strategy":
        merge = MergeStrategySnapshot(primary_key=("city",))
    commit(cities, source(merge), at=15)
    if why == "its rows":
        add_rows(stores, cities, [(str(MARK), "a", 1)], tmp_path, at=20, ops=[1])
    payload = CheckPayload(definition=to_data(transform([cities], query)))
    told = run_check(stores, payload, bench, now=moment(200)).warnings
    assert len(told) == (tells and why != "neither")
    assert all("`cities` may get retractions" in each and "select `op`" in each for each in told)
