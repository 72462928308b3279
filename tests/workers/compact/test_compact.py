"""Compaction gives a root the same rows in fewer slices, whoever writes to it meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chain_maker import add_data, infos, linked, parquet, slice_of, table
from refusals import refusing
from throwaway import throwaway_stores
from upkeep_parts import TOMORROW, begun, dataset_of, grow, grown, key_of

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData
from odf_storage.datasets.integrity.healing import ObjectDamaged
from odf_storage.datasets.job_payloads.compact_job import CompactPayload
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import HistoryReceipt
from odf_storage.datasets.upkeep.fsck import check_stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.datasets.verify.run import DatasetSource, verify_chain
from odf_storage.stores.ports.values import DatasetEntry, ObjectKind
from odf_workers.jobs.upkeep.compact import run_compaction

LATER = Instant.parse("2027-01-01T00:00:00Z")


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


def compacted(stores: Stores, made: DatasetEntry, scratch: Path, **limits: Any) -> HistoryReceipt:
    dataset = dataset_of(stores, made)
    return run_compaction(dataset, CompactPayload(**limits), stores, scratch, attempts=3)


def rows_of(stores: Stores, made: DatasetEntry) -> pa.Table:
    tables = []
    for block in dataset_of(stores, made).blocks():
        if isinstance(block.event, AddData) and block.event.new_data is not None:
            key = key_of(made, ObjectKind.DATA, block.event.new_data.physical_hash)
            with stores.objects.open(key) as stream:
                tables.append(pq.read_table(stream))
    return pa.concat_tables(tables).combine_chunks()


def test_the_same_rows_are_in_one_slice(stores: Stores, tmp_path: Path) -> None:
    made, blocks = grown(stores, slices=5)
    before = rows_of(stores, made)
    receipt = compacted(stores, made, tmp_path)
    assert (receipt.outcome, receipt.blocks_before, receipt.blocks_after) == ("updated", 7, 3)
    assert [(m.slices, m.offset_start, m.offset_end) for m in receipt.merges] == [(5, 0, 14)]
    dataset = dataset_of(stores, made)
    assert receipt.head == str(dataset.head())
    assert rows_of(stores, made).equals(before)
    assert dataset.blocks()[:2] == blocks[:2]
    assert verify_chain(DatasetSource(dataset)).ok
    assert check_stores(stores).ok


def test_compacting_again_finds_nothing_to_do(stores: Stores, tmp_path: Path) -> None:
    made, _ = grown(stores)
    compacted(stores, made, tmp_path)
    head = dataset_of(stores, made).head()
    again = compacted(stores, made, tmp_path)
    assert (again.outcome, again.head) == ("nothing-to-do", str(head))
    assert dataset_of(stores, made).head() == head


def test_kept_blocks_keep_their_times_and_merged_ones_have_the_newest(
    stores: Stores, tmp_path: Path
) -> None:
    made, blocks = grown(stores)
    info = linked(blocks[-1], infos("between")[0], at=LATER)
    dataset_of(stores, made).commit([info], expected=blocks[-1].hash)
    compacted(stores, made, tmp_path)
    found = dataset_of(stores, made).blocks()
    assert [block.block.system_time for block in found[2:]] == [
        blocks[-1].block.system_time,
        LATER,
    ]


def test_equal_rows_give_equal_files_however_they_were_cut(stores: Stores, tmp_path: Path) -> None:
    hashes = set()
    for alias, slices in (("kamu/a", 4), ("kamu/b", 4)):
        made, _ = grown(stores, alias, slices=slices)
        if alias == "kamu/b":
            compacted(stores, made, tmp_path, max_slice_records=6)
        compacted(stores, made, tmp_path)
        last = dataset_of(stores, made).state().last_add_data
        assert last is not None
        assert last.new_data is not None
        hashes.add(last.new_data.physical_hash)
    assert len(hashes) == 1


def meanwhile(stores: Stores, monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Let somebody act right before the head would move."""
    move = stores.refs.move

    def late(*args: Any, **more: Any) -> None:
        monkeypatch.setattr(stores.refs, "move", move)
        act()
        move(*args, **more)

    monkeypatch.setattr(stores.refs, "move", late)


def test_rows_that_arrive_meanwhile_are_not_lost(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, blocks = grown(stores, slices=3)
    meanwhile(stores, monkeypatch, lambda: grow(stores, made, blocks, 9))
    receipt = compacted(stores, made, tmp_path, max_slice_records=6)
    assert receipt.records_after == 12
    assert rows_of(stores, made)["offset"].to_pylist() == list(range(12))


def test_a_second_plan_merges_only_what_the_first_did_not(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, blocks = grown(stores, slices=3)
    merges: list[int] = []
    monkeypatch.setattr("odf_workers.jobs.upkeep.compact.merge_slices", _counting(merges))
    info = linked(blocks[-1], infos("meanwhile")[0])
    dataset = dataset_of(stores, made)
    meanwhile(stores, monkeypatch, lambda: dataset.commit([info], expected=blocks[-1].hash))
    compacted(stores, made, tmp_path)
    assert merges == [3]
    assert dataset.blocks()[-1].event == info.event


def _counting(merges: list[int]) -> Any:
    from odf_workers.jobs.upkeep.compact import merge_slices

    def counted(slices: Any, *args: Any, **more: Any) -> Any:
        merges.append(len(slices))
        return merge_slices(slices, *args, **more)

    return counted


def test_a_column_that_was_added_later_is_null_in_older_rows(
    stores: Stores, tmp_path: Path
) -> None:
    made, blocks = begun(stores)
    for start in (0, 3):
        rows = table(start, 3)
        if start:
            rows = rows.append_column("more", pa.array(["a", None, "c"]))
        content = parquet(rows)
        part = slice_of(content, rows, start)
        stores.objects.put(key_of(made, ObjectKind.DATA, part.physical_hash), [content])
        block = linked(blocks[-1], add_data(part, prev=start - 1 if start else None))
        dataset_of(stores, made).commit([block], expected=blocks[-1].hash)
        blocks.append(block)
    compacted(stores, made, tmp_path)
    assert rows_of(stores, made)["more"].to_pylist() == [None, None, None, "a", None, "c"]


def test_a_damaged_slice_is_named_and_nothing_changes(stores: Stores, tmp_path: Path) -> None:
    made, blocks = begun(stores)
    for start in (0, 3):
        rows = table(start + (1 if start else 0), 3)
        content = parquet(rows)
        part = slice_of(content, rows, start)
        stores.objects.put(key_of(made, ObjectKind.DATA, part.physical_hash), [content])
        block = linked(blocks[-1], add_data(part, prev=start - 1 if start else None))
        dataset_of(stores, made).commit([block], expected=blocks[-1].hash)
        blocks.append(block)
    with refusing("SliceDamaged", match="offsets from 3 on"):
        compacted(stores, made, tmp_path)
    assert dataset_of(stores, made).head() == blocks[-1].hash
    assert list(tmp_path.iterdir()) == []


def test_old_blocks_and_slices_stay_for_the_grace_time(stores: Stores, tmp_path: Path) -> None:
    made, blocks = grown(stores, slices=3)
    compacted(stores, made, tmp_path)
    assert collect_garbage(stores).removed == {}
    assert dataset_of(stores, made).block(blocks[-1].hash) == blocks[-1]
    gone = collect_garbage(stores, clock=TOMORROW)
    assert {name: tally.count for name, tally in gone.removed.items()} == {
        "unreferenced block": 3,
        "unreferenced data": 3,
    }
    assert rows_of(stores, made).num_rows == 9
    assert check_stores(stores).ok


def test_a_receipt_travels_as_json(stores: Stores, tmp_path: Path) -> None:
    from odf_storage.datasets.rewrite.compact import receipt_of, to_json

    made, _ = grown(stores)
    receipt = compacted(stores, made, tmp_path)
    assert receipt_of(json.loads(json.dumps(to_json(receipt)))) == receipt


def test_a_derivative_is_refused(stores: Stores, tmp_path: Path) -> None:
    from dataclasses import replace

    from odf_protocol.metadata.events import DatasetKind
    from odf_storage.datasets.dataset.dataset import Dataset

    made, _ = grown(stores)
    other = Dataset(replace(made, kind=DatasetKind.Derivative), stores)
    with refusing("InvalidDatasetKind"):
        run_compaction(other, CompactPayload(), stores, tmp_path, attempts=1)


def test_a_flipped_bit_is_never_committed(tmp_path: Path) -> None:
    """Each byte of each slice: nothing is compacted from it, and the slice is named."""
    local = open_stores(StoreSettings(data=tmp_path / "node", durable=False))
    made, blocks = grown(local, slices=3)
    assert local.objects.local_paths is not None
    part = blocks[3].event.new_data  # type: ignore[union-attr]
    path = local.objects.local_paths.path(key_of(made, ObjectKind.DATA, part.physical_hash))
    right = path.read_bytes()
    for at in range(7, len(right), len(right) // 20):
        damaged = bytearray(right)
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(ObjectDamaged) as said:
            compacted(local, made, tmp_path)
        assert said.value.facts["hash"] == str(part.physical_hash)
        assert dataset_of(local, made).head() == blocks[-1].hash
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(right)  # its owner puts it again
    assert compacted(local, made, tmp_path).outcome == "updated"
    local.close()
