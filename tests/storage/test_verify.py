"""Verification finds nothing in a sound dataset, and counts what it looked at."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from chain_maker import entry, table
from damaged import (
    ROOT,
    ROWS,
    DatasetMaker,
    DictSource,
    part_of,
    reasons,
    root,
)
from refusals import refusing

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, SetVocab
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads.verify_job import report_of, report_text
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.verify import objects as verify_bytes
from odf_storage.datasets.verify import objects as verify_objects
from odf_storage.datasets.verify import run as verify_run
from odf_storage.datasets.verify.run import (
    DatasetSource,
    FolderSource,
    verify_chain,
)
from odf_storage.datasets.verify.stages import in_threads
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import ObjectKey, ObjectKind


def test_a_broken_rule_of_this_project_alone_is_a_warning() -> None:
    made = DatasetMaker().play(ROOT[:2])
    made.add(AddData(prev_offset=4, new_watermark=Instant(0)))
    made.add(AddData(prev_offset=4, new_watermark=Instant(1)))
    report = verify_chain(made.source)
    assert report.ok
    last = report.warnings[-1]
    assert (last.reason, last.sequence_number) == ("InvalidEvent", 2)
    assert "holds no data yet" in last.message
    assert report_of(report.to_data()).warnings == report.warnings
    assert "warning: BlockMalformed, InvalidEvent: #2" in report_text(report)
    assert report.to_data()["warnings"][-1]["sequenceNumber"] == 2


@pytest.mark.parametrize(("kept", "reads"), [(64 << 20, 4), (0, 8)])
def test_a_block_is_read_once_and_again_only_beyond_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, kept: int, reads: int
) -> None:
    monkeypatch.setattr(verify_run, "KEPT_BLOCK_BYTES", kept)
    made, asked = root(), []

    class Counting(DictSource):
        def block_bytes(self, block: Multihash) -> bytes:
            asked.append(block)
            return made.source.block_bytes(block)

        head, open_object = made.source.head, made.source.open_object

    report = verify_chain(Counting())
    assert report == verify_chain(made.source)
    assert len(asked) == reads


@pytest.mark.parametrize("seekable", [True, False])
def test_a_sound_dataset_has_no_problems_and_is_counted(seekable: bool) -> None:
    made = root(DictSource(seekable=seekable))
    steps: list[tuple[str, int, int]] = []
    report = verify_chain(made.source, progress=lambda *step: steps.append(step))
    assert report.ok
    assert report.notes == ()
    assert (report.blocks, report.objects, report.records) == (4, 2, 2 * ROWS)
    assert report.size == sum(part_of(block).size for block in made.blocks[2:])
    assert report.head == str(made.blocks[-1].hash)
    assert steps[-1] == ("objects", 2, 2)
    assert json.loads(json.dumps(report.to_data()))["ok"] is True


def test_a_dataset_of_this_node_and_the_same_in_a_folder_are_sound(
    stores: Stores, tmp_path: Path
) -> None:
    made, folder = root(), FolderObjects(tmp_path / "copy")
    dataset_id = made.blocks[0].event.dataset_id  # type: ignore[union-attr]
    for (kind, object_hash), content in made.source.objects.items():
        folder.put(kind, object_hash, [content])
        stores.objects.put(ObjectKey(dataset_id, kind, object_hash), [content])
    dataset = stores.create_dataset(entry(dataset=dataset_id), made.blocks)
    folder.write_ref("head", dataset.head())
    assert verify_chain(DatasetSource(dataset)) == verify_chain(FolderSource(folder))
    assert verify_chain(FolderSource(folder)).ok


def test_a_folder_without_a_head_is_no_dataset(tmp_path: Path) -> None:
    with refusing("RefNotFound"):
        verify_chain(FolderSource(FolderObjects(tmp_path)))


def test_large_objects_are_read_in_small_pieces() -> None:
    made = DatasetMaker().play(ROOT[:2])
    made.add(AddData(new_checkpoint=made.checkpoint(bytes(5 << 20))))
    assert verify_chain(made.source).ok
    assert made.source.largest_read == verify_bytes.CHUNK_BYTES < 5 << 20


@pytest.mark.parametrize("seekable", [True, False])
def test_slices_too_large_to_hold_are_looked_at_where_they_lie_or_in_a_file(
    seekable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_objects, "HELD_BYTES", 100)
    made = root(DictSource(seekable=seekable))
    assert verify_chain(made.source) == verify_chain(root().source)
    made.source.flip(ObjectKind.DATA, part_of(made.blocks[2]).physical_hash)
    assert reasons(verify_chain(made.source)) == [("PhysicalHashMismatch", 2)]


def test_a_long_slice_is_read_once_and_a_short_one_after_it_is_not_mixed_up_with_it() -> None:
    made = DatasetMaker().play(ROOT[:2])
    made.add(AddData(new_data=made.slice()))
    made.add(AddData(new_data=made.slice(table(ROWS, 200_000, value="long")), prev_offset=2))
    made.play(["AddData"])
    report = verify_chain(made.source, where=partial(in_threads, threads=1))
    assert (report.ok, report.records) == (True, 2 * ROWS + 200_000)
    assert made.source.bytes_read[ObjectKind.DATA] == report.size


def test_an_offset_column_of_another_name_is_found_through_the_vocabulary() -> None:
    made = DatasetMaker().play(["Seed"])
    made.add(SetVocab(offset_column="row"))
    rows = table(0, ROWS).rename_columns(["row", "op", "system_time", "event_time", "text"])
    made.play(["SetDataSchema"])
    made.add(AddData(new_data=made.slice(rows)))
    assert verify_chain(made.source).ok
