"""Merges with a state beside the chain, however it came to be."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.workers.datasets import bench_without_engine, created, ndjson, upload
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import from_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
)
from odf_storage.datasets.merge_state.store import MergeStates
from odf_workers.jobs.ingest.run import run_ingest

NOW = Instant.parse("2050-01-01T12:00:00.000000001Z")
KEY = ("city", "n")


def read_step(*, operations: bool) -> ReadStep:
    kinds = {"event_time": "Timestamp", "city": "String", "n": "Float64", "v": "Int64"}
    if operations:
        kinds["op"] = "Int32"
    fields = [{"name": k, "type": {"kind": "Option", "inner": kind}} for k, kind in kinds.items()]
    return from_data({"kind": "NdJson", "schema": {"fields": fields}}, ReadStep)


def batch(chance: random.Random, merge: MergeStrategy) -> bytes:
    rows: dict[Any, dict[str, Any]] = {}
    for at in range(chance.randrange(1, 25)):
        row = {
            "event_time": chance.choice([None, "2020-01-01", "2021-01-01"]),
            "city": chance.choice(["A", "B", "", None, "long" * 60]),
            "n": chance.choice([0.0, 1.5, 2, None, -7]),
            "v": chance.choice([None, 1, 2]),
        }
        if isinstance(merge, MergeStrategyUpsertStream):
            row["op"] = chance.choice([0, 0, 1, None, 3])
        once = isinstance(merge, MergeStrategySnapshot)
        rows[(row["city"], row["n"]) if once else at] = row
    return ndjson(list(rows.values()))


@pytest.mark.parametrize(
    "merge",
    [
        MergeStrategyLedger(primary_key=KEY),
        MergeStrategySnapshot(primary_key=KEY, compare_columns=("v",)),
        MergeStrategySnapshot(primary_key=KEY),
        MergeStrategyUpsertStream(primary_key=KEY),
    ],
    ids=["ledger", "snapshot of one column", "snapshot", "upsert"],
)
def test_the_age_of_a_state_changes_no_byte(merge: MergeStrategy, tmp_path: Path) -> None:
    """One that grew with the batches, and one that each batch makes anew."""
    chance = random.Random(3)
    batches = [batch(chance, merge) for _ in range(4)]
    read = read_step(operations=isinstance(merge, MergeStrategyUpsertStream))
    written = []
    for max_bytes in (0, 1 << 30):
        stores = throwaway_stores()
        states = MergeStates(tmp_path / f"states-{max_bytes}", max_bytes=max_bytes)
        bench = bench_without_engine(stores, tmp_path, states=states)
        dataset = created(stores, read=read, merge=merge)
        receipts = [
            run_ingest(dataset, upload(stores, dataset, each), bench, now=NOW) for each in batches
        ]
        assert len(states.folders()) == (max_bytes > 0)
        written.append([(r.slices, r.rows_known, r.rows_corrected) for r in receipts])
    assert written[0] == written[1]


def test_a_snapshot_without_changes_needs_no_engine(tmp_path: Path) -> None:
    stores = throwaway_stores()
    bench = bench_without_engine(stores, tmp_path)
    dataset = created(stores, merge=MergeStrategySnapshot(primary_key=("n",)))
    body = ndjson([{"n": n, "v": str(n)} for n in (3, 1, 2)])
    assert run_ingest(dataset, upload(stores, dataset, body), bench, now=NOW).rows_added == 3
    again = run_ingest(dataset, upload(stores, dataset, body), bench, now=NOW)
    assert (again.outcome, again.rows_known) == ("up-to-date", 3)


@pytest.mark.parametrize("rows", [1, 7, 64, 10**6])
def test_a_batch_is_cut_by_position_into_slices_of_one_move(rows: int, tmp_path: Path) -> None:
    from odf_workers.slices.costs import SliceCut

    stores = throwaway_stores()
    dataset = created(stores, merge=MergeStrategyLedger(primary_key=("n",)))
    body = ndjson([{"n": n, "event_time": f"20{n % 90 + 10}-01-01"} for n in range(100)])
    moves = []
    for threads in (1, 2, 8):
        bench = bench_without_engine(
            stores, tmp_path, cut=SliceCut(rows=rows), upload_threads=threads
        )
        payload = upload(stores, dataset, body)
        payload = type(payload)(upload=payload.upload, dry_run=threads < 8)
        moves.append(run_ingest(dataset, payload, bench, now=NOW))
    assert moves[0] == moves[1] == moves[2]
    receipt = moves[-1]
    assert receipt.rows_added == 100
    assert len(receipt.slices) == -(-100 // rows)
    assert [s.offset_start for s in receipt.slices] == list(range(0, 100, rows))
    blocks = dataset.blocks()[-len(receipt.slices) :]
    marks = [block.event.new_watermark for block in blocks]  # type: ignore[union-attr]
    assert marks == sorted(marks)
    assert str(marks[-1]) == receipt.watermark
    assert len({block.block.system_time for block in blocks}) == 1
    assert dataset.state().last_offset == 99
