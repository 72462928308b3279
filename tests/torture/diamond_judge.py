"""The diamond after the kills: rows, order, offsets, times, chains, heads; and every execution is
made again."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from crash_work import settings_of
from diamond_shapes import Diamond, Expected, Row, Values
from judge import check_all

from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.metadata.events import AddData, ExecuteTransform
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.open_stores import open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.verify.run import DatasetSource, verify_chain
from odf_storage.stores.objects.layout import HEAD
from odf_storage.stores.ports.values import JobStatus, ObjectKind

SETTLE_S = 120.0
SYSTEM_COLUMNS = ("offset", "op", "system_time")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What there was to look at."""

    rows: dict[str, int]
    executions: dict[str, int]
    replayed: int


def judge(opened: dict[str, Any], diamond: Diamond, posted: Sequence[Row], *, every: int) -> Judged:
    """Hold all five datasets against the rows that were posted; every so manieth execution is
    made again.

    Raises:
        AssertionError: anything is not as it must be.
    """
    stores = open_stores(settings_of(opened), migrate=False)
    try:
        names = ["numbers", *diamond.derivatives]
        datasets = {name: _dataset(stores, name) for name in names}
        stores.republish_all()
        _check_jobs(stores, datasets)
        rows = {name: _rows(dataset) for name, dataset in datasets.items()}
        _check_rows(diamond, posted, datasets, rows)
        for name, dataset in datasets.items():
            verified = verify_chain(DatasetSource(dataset))
            assert verified.ok, f"{name}: {verified.problems}"
            assert stores.objects.read_ref(dataset.id, HEAD) == dataset.head()
        check_all(stores)
        executions = {name: _executions(datasets[name]) for name in diamond.derivatives}
        replayed = _replay(opened, stores, datasets, executions, diamond, every)
    finally:
        stores.close()
    return Judged(
        rows={name: len(found) for name, found in rows.items()},
        executions={name: len(found) for name, found in executions.items()},
        replayed=replayed,
    )


def _dataset(stores: Stores, name: str) -> Dataset:
    return stores.dataset(DatasetRef(alias=DatasetAlias.parse(f"kamu/{name}")))


def _check_jobs(stores: Stores, datasets: dict[str, Dataset]) -> None:
    """Nothing is under way, and no derivative has a problem that stayed."""
    assert not stores.jobs.page(statuses=(JobStatus.WAITING, JobStatus.RUNNING))
    for name, dataset in datasets.items():
        stands = stores.derivations.find(dataset.id)
        assert stands is None or (not stands.paused and stands.problem is None), (name, stands)


def _rows(dataset: Dataset) -> list[Values]:
    """All rows in the order of their slices; offsets continue, times are those of the blocks."""
    found: list[Values] = []
    for block in dataset.blocks():
        event = block.event
        piece = event.new_data if isinstance(event, AddData | ExecuteTransform) else None
        if piece is None:
            continue
        with dataset.open_object(ObjectKind.DATA, piece.physical_hash) as stream:
            rows = pq.read_table(stream).to_pylist()
        offsets = [row["offset"] for row in rows]
        assert offsets == list(range(len(found), len(found) + len(rows))), dataset.entry.alias
        assert (piece.offset_interval.start, piece.offset_interval.end) == (offsets[0], offsets[-1])
        assert {row["op"] for row in rows} == {0}
        moment = block.block.system_time.millis
        assert {round(row["system_time"].timestamp() * 1000) for row in rows} == {moment}
        found += rows
    return [
        {key: value for key, value in row.items() if key not in SYSTEM_COLUMNS} for row in found
    ]


def _check_rows(
    diamond: Diamond,
    posted: Sequence[Row],
    datasets: dict[str, Dataset],
    rows: dict[str, list[Values]],
) -> None:
    expected = {"numbers": [{"event_time": row.event_time, "n": row.n} for row in posted]}
    _compare("numbers", Expected(rows=expected["numbers"]), rows["numbers"])
    for name, derivative in diamond.derivatives.items():
        marks = [datasets[one].state().watermark for one in derivative.inputs]
        watermark = min(mark.ns for mark in marks if mark is not None) / 1e9
        made = derivative.make([expected[one] for one in derivative.inputs], watermark)
        _compare(name, made, rows[name])
        expected[name] = made.rows


def _compare(name: str, expected: Expected, found: list[Values]) -> None:
    """The same rows in the same order; where inputs meet, in the order of each of them."""
    column = expected.split_by
    parts = {row[column] for row in expected.rows + found} if column else {None}
    for part in sorted(parts, key=str):
        wanted = [row for row in expected.rows if column is None or row[column] == part]
        there = [row for row in found if column is None or row[column] == part]
        first = next(
            (at for at, pair in enumerate(zip(wanted, there, strict=False)) if pair[0] != pair[1]),
            min(len(wanted), len(there)),
        )
        assert there == wanted, (
            f"{name} {part or ''}: {len(there)} rows for {len(wanted)}; the first that differs is "
            f"{first}: {there[first : first + 1]} instead of {wanted[first : first + 1]}"
        )


def _executions(dataset: Dataset) -> list[Any]:
    return [block for block in dataset.blocks() if isinstance(block.event, ExecuteTransform)]


def _replay(
    opened: dict[str, Any],
    stores: Stores,
    datasets: dict[str, Dataset],
    executions: dict[str, list[Any]],
    diamond: Diamond,
    every: int,
) -> int:
    """Executions made again by an engine of this process; how many."""
    from odf_workers.jobs.transform.replay import replay

    count = 0
    with ExitStack() as stack:
        bench = _bench(opened, stores, diamond, stack)()
        for name, blocks in executions.items():
            for block in blocks[::every]:
                made = replay(stores, datasets[name], block, bench)
                assert not made.differences, f"{name} {block.hash}: {made.differences}"
                count += 1
    return count


def _bench(
    opened: dict[str, Any], stores: Stores, diamond: Diamond, stack: ExitStack
) -> Callable[[], Any]:
    if diamond.engine == "datafusion":
        from tests.workers.derivatives import node_of

        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        return lambda: node_of(stores, Path(scratch))
    from odf_workers.program.wiring import on_the_spot
    from odf_workers.settings import WorkerSettings

    return stack.enter_context(on_the_spot(WorkerSettings(**opened)))[1]


def wait_for_jobs(opened: dict[str, Any]) -> None:
    """Whatever was left running is claimed again once its lease is over."""
    stores = open_stores(settings_of(opened), migrate=False, repair=False)
    try:
        deadline = time.monotonic() + SETTLE_S
        while stores.jobs.page(statuses=(JobStatus.WAITING, JobStatus.RUNNING)):
            assert time.monotonic() < deadline, "a job is never done"
            time.sleep(0.2)
    finally:
        stores.close()
