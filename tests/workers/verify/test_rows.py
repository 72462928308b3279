"""Rows that count before they were hashed: a job looks at them and takes the mark away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.workers.datasets import bench_without_engine
from tests.workers.derivatives import add_rows, moment, root
from throwaway import throwaway_stores

from odf_protocol.multihash import Multihash
from odf_storage.datasets.contents.slice_limits import GateLimits
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.verify.pending import Unverified, read_unverified, write_unverified
from odf_workers.jobs.verify.rows import hash_rows
from odf_workers.jobs.verify.run import run_verification

LIMITS = GateLimits(memory=512 << 20, seconds=60, ratio=1000)


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def source(stores: Stores, tmp_path: Path) -> Dataset:
    made = root(stores, "cities")
    for number in range(3):
        rows = [("2024-01-01T00:00:00Z", "a", number)] * 2
        add_rows(stores, made, rows, tmp_path, at=10 + number)
    return made


def mark(stores: Stores, dataset: Dataset, after: Multihash, upto: Multihash) -> Unverified:
    note = Unverified(after=str(after), upto=str(upto), since=str(moment(20)))
    write_unverified(stores.objects, dataset.id, note)
    return note


def look(stores: Stores, dataset: Dataset, after: Multihash, upto: Multihash) -> Any:
    payload = VerifyPayload(after=str(after), upto=str(upto), gate=LIMITS)
    return hash_rows(stores, dataset, payload, LIMITS, lambda: None)


def test_right_rows_lose_their_mark_and_those_that_came_since_keep_it(
    stores: Stores, source: Dataset
) -> None:
    *_, before, one, two = (block.hash for block in source.blocks())
    mark(stores, source, before, two)
    assert look(stores, source, before, one).ok
    left = read_unverified(stores.objects, source.id)
    assert left is not None
    assert (left.after, left.upto, left.problem) == (str(one), str(two), None)
    assert look(stores, source, one, two).ok
    assert read_unverified(stores.objects, source.id) is None


def test_wrong_rows_stay_marked_with_the_reason(
    stores: Stores, source: Dataset, tmp_path: Path
) -> None:
    from odf_protocol.chain.rules import author

    last = source.blocks()[-1]
    event: Any = last.event
    interval = event.new_data.offset_interval
    shifted = replace(interval, start=interval.end + 1, end=interval.end + 2)
    wrong = replace(event, new_data=replace(event.new_data, offset_interval=shifted))
    wrong = replace(wrong, prev_offset=interval.end)
    blocks, _ = author(source.state(), [wrong], system_time=moment(30))
    source.commit(blocks, expected=last.hash)
    mark(stores, source, last.hash, blocks[-1].hash)
    answer = look(stores, source, last.hash, blocks[-1].hash)
    assert not answer.ok
    left = read_unverified(stores.objects, source.id)
    assert left is not None
    assert left.problem is not None
    assert "offset" in left.problem


def test_a_history_that_is_gone_has_nothing_to_look_at(stores: Stores, source: Dataset) -> None:
    gone, head = Multihash.of(b"gone"), source.head()
    mark(stores, source, head, gone)
    assert look(stores, source, head, gone).ok
    assert read_unverified(stores.objects, source.id) is None


def test_a_complete_verification_takes_the_mark_away_as_well(
    stores: Stores, source: Dataset, tmp_path: Path
) -> None:
    mark(stores, source, source.blocks()[0].hash, source.head())
    context = bench_without_engine(stores, tmp_path)
    assert run_verification(stores, source, VerifyPayload(), context, now=moment(40)).ok
    assert read_unverified(stores.objects, source.id) is None
