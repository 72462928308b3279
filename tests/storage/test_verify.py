"""Verification finds every kind of damage, names it, and finds nothing in a sound dataset."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chain_maker import entry, infos, linked, parquet, slice_of, table
from damaged import PLAIN, ROWS, DatasetMaker, DictSource
from known import document
from lanes import lay_open
from msgspec.structs import replace

from odf_node.protocol.codec.blocks import MalformedBlock, decode_block
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.data import OffsetInterval
from odf_node.protocol.metadata.events import AddData, DatasetKind, ExecuteTransform, SetVocab
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.contents.named_objects import named_objects
from odf_node.storage.datasets.dataset.dataset import InvalidInterval
from odf_node.storage.datasets.job_payloads.verify_report import report_of
from odf_node.storage.datasets.job_payloads.verify_text import report_text
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.datasets.verify import bytes as verify_bytes
from odf_node.storage.datasets.verify import data as verify_data
from odf_node.storage.datasets.verify import run as verify_run
from odf_node.storage.datasets.verify.run import (
    DatasetSource,
    FolderSource,
    Interval,
    VerifyReport,
    verify_chain,
)
from odf_node.storage.stores.objects.folder import FolderObjects
from odf_node.storage.stores.ports.errors import RefNotFound
from odf_node.storage.stores.ports.values import ObjectKey, ObjectKind

ROOT = ["Seed", "SetDataSchema", "AddData", "AddData"]
DERIVATIVE = ["Seed", "SetTransform", "SetDataSchema", "ExecuteTransform", "ExecuteTransform"]


def root(source: DictSource | None = None) -> DatasetMaker:
    return DatasetMaker(source=source).play(ROOT)


def reasons(report: VerifyReport) -> list[tuple[str, int | None]]:
    return [(problem.reason, problem.sequence_number) for problem in report.problems]


def part_of(block: HashedBlock) -> Any:
    assert isinstance(block.event, AddData | ExecuteTransform)
    return block.event.new_data


def with_slice(**changes: Any) -> DatasetMaker:
    """A root whose only slice declares something else than it has."""
    made = DatasetMaker().play(ROOT[:2])
    made.add(AddData(new_data=replace(made.slice(), **changes)))
    return made


# --- sound datasets -------------------------------------------------------------------------


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
    with pytest.raises(RefNotFound):
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
    monkeypatch.setattr(verify_data, "HELD_BYTES", 100)
    made = root(DictSource(seekable=seekable))
    assert verify_chain(made.source) == verify_chain(root().source)
    made.source.flip(ObjectKind.DATA, part_of(made.blocks[2]).physical_hash)
    assert reasons(verify_chain(made.source)) == [("PhysicalHashMismatch", 2)]


def test_a_long_slice_is_read_once_and_a_short_one_after_it_is_not_mixed_up_with_it() -> None:
    made = DatasetMaker().play(ROOT[:2])
    made.add(AddData(new_data=made.slice()))
    made.add(AddData(new_data=made.slice(table(ROWS, 200_000, value="long")), prev_offset=2))
    made.play(["AddData"])
    report = verify_chain(made.source, threads=1)
    assert (report.ok, report.records) == (True, 2 * ROWS + 200_000)
    assert made.source.bytes_read[ObjectKind.DATA] == report.size


def test_an_offset_column_of_another_name_is_found_through_the_vocabulary() -> None:
    made = DatasetMaker().play(["Seed"])
    made.add(SetVocab(offset_column="row"))
    rows = table(0, ROWS).rename_columns(["row", "op", "system_time", "event_time", "text"])
    made.play(["SetDataSchema"])
    made.add(AddData(new_data=made.slice(rows)))
    assert verify_chain(made.source).ok


# --- the chain ------------------------------------------------------------------------------


def test_every_broken_rule_is_listed() -> None:
    made = root()
    for _ in range(2):
        made.blocks.append(linked(made.blocks[-1], infos("x")[0], at=Instant(len(made.blocks))))
        made.source.objects[ObjectKind.BLOCK, made.blocks[-1].hash] = made.blocks[-1].raw
    made.blocks.append(linked(made.blocks[-1], made.event("Seed")))
    made.source.tip = made.source.put(ObjectKind.BLOCK, made.blocks[-1].raw)
    assert reasons(verify_chain(made.source)) == [
        ("SystemTimeIsNotMonotonic", 4),
        ("AppendingSeedBlockToNonEmptyChain", 6),
    ]


def test_a_changed_head_that_can_still_be_read_is_numbered_as_it_says() -> None:
    made = DatasetMaker().play(["Seed"])
    made.add(infos("a description")[0])
    content = made.source.objects[ObjectKind.BLOCK, made.blocks[1].hash]
    made.source.objects[ObjectKind.BLOCK, made.blocks[1].hash] = content.replace(b"descr", b"DESCR")
    assert reasons(verify_chain(made.source)) == [("HashMismatch", 1)]


def test_a_head_whose_event_cannot_be_read_is_numbered_as_it_says() -> None:
    made = root()
    change_block(made, 3, flip)
    [first, *_] = verify_chain(made.source).problems
    assert (first.kind, first.reason, first.sequence_number) == (
        "BlockMalformed",
        "HashMismatch",
        3,
    )
    with pytest.raises(MalformedBlock):
        decode_block(made.source.block_bytes(made.blocks[3].hash))


def test_damaged_blocks_are_reported_oldest_first() -> None:
    made = DatasetMaker().play(["Seed"])
    for number in (1, 2, 3):
        made.add(infos(f"description {number}")[0])
    for number in (1, 3):
        change_block(made, number, lambda content: content.replace(b"descr", b"DESCR"))
    assert reasons(verify_chain(made.source)) == [("HashMismatch", 1), ("HashMismatch", 3)]
    del made.source.objects[ObjectKind.BLOCK, made.blocks[0].hash]
    found = reasons(verify_chain(made.source))
    assert found == [("HashMismatch", 1), ("BlockNotFound", 0), ("HashMismatch", 3)]


def test_a_missing_block_is_reported_and_what_lies_behind_it_is_still_checked() -> None:
    made = root()
    del made.source.objects[ObjectKind.BLOCK, made.blocks[1].hash]
    made.source.flip(ObjectKind.DATA, part_of(made.blocks[3]).physical_hash)
    report = verify_chain(made.source)
    assert reasons(report) == [("BlockNotFound", 1), ("PhysicalHashMismatch", 3)]
    assert report.problems[0].path == f"blocks/{made.blocks[1].hash}"


def test_a_head_that_leads_nowhere_is_a_result() -> None:
    made = root()
    made.source.tip = Multihash.of(b"nobody")
    assert reasons(verify_chain(made.source)) == [("BlockNotFound", None)]


@pytest.mark.parametrize("content", [b"", b"nonsense", bytes(1000)])
def test_a_block_replaced_by_anything_is_reported(content: bytes) -> None:
    made = root()
    made.source.objects[ObjectKind.BLOCK, made.blocks[2].hash] = content
    assert reasons(verify_chain(made.source))[0] == ("HashMismatch", 2)


def test_something_that_is_no_block_under_its_own_hash_is_reported() -> None:
    made = root()
    made.source.tip = made.source.put(ObjectKind.BLOCK, b"nonsense")
    assert reasons(verify_chain(made.source)) == [("MalformedBlock", None)]


def test_blocks_that_stand_in_for_each_other_do_not_lead_in_circles() -> None:
    made = root()
    newest = made.blocks[-1]
    made.source.objects[ObjectKind.BLOCK, made.blocks[1].hash] = newest.raw
    assert ("HashMismatch", 1) in reasons(verify_chain(made.source))


# --- objects --------------------------------------------------------------------------------


def test_a_missing_object_is_reported_with_its_place() -> None:
    made = root()
    part = part_of(made.blocks[2])
    del made.source.objects[ObjectKind.DATA, part.physical_hash]
    [problem] = verify_chain(made.source).problems
    assert (problem.reason, problem.sequence_number) == ("ObjectMissing", 2)
    assert problem.block == str(made.blocks[2].hash)
    assert problem.path == f"data/{part.physical_hash}"


@pytest.mark.parametrize("change", [lambda c: c[:-1], lambda c: c + b"x", lambda c: b""])
def test_an_object_of_another_length_is_reported_before_its_hash(change: Any) -> None:
    made = root()
    key = (ObjectKind.DATA, part_of(made.blocks[3]).physical_hash)
    made.source.objects[key] = change(made.source.objects[key])
    assert reasons(verify_chain(made.source)) == [("SizeMismatch", 3)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"logical_hash": Multihash.of(b"other")}, "LogicalHashMismatch"),
        ({"offset_interval": OffsetInterval(start=0, end=ROWS)}, "RowCountMismatch"),
    ],
)
def test_a_slice_that_is_not_what_its_block_declares(changes: Any, reason: str) -> None:
    assert reasons(verify_chain(with_slice(**changes).source)) == [(reason, 2)]


def test_rows_are_not_looked_at_when_told_so() -> None:
    made = with_slice(logical_hash=Multihash.of(b"other"))
    assert verify_chain(made.source, logical=False).ok


def test_objects_are_not_looked_at_when_told_so() -> None:
    made = root()
    made.source.flip(ObjectKind.DATA, part_of(made.blocks[3]).physical_hash)
    report = verify_chain(made.source, objects=False)
    assert report.ok
    assert report.objects == 0


OFFSETS = {
    "shifted": pa.array([0, 1, 3], pa.int64()),
    "repeated": pa.array([0, 1, 1], pa.int64()),
    "negative": pa.array([0, 1, -2], pa.int64()),
    "null": pa.array([0, 1, None], pa.int64()),
    "text": pa.array(["0", "1", "2"]),
}


@pytest.mark.parametrize("name", sorted(OFFSETS))
def test_offsets_in_the_file_are_those_of_the_block(name: str) -> None:
    made = DatasetMaker().play(ROOT[:2])
    rows = table(0, ROWS).set_column(0, "offset", OFFSETS[name])
    made.add(AddData(new_data=made.slice(rows)))
    assert reasons(verify_chain(made.source)) == [("OffsetColumnMismatch", 2)]


def test_a_slice_without_an_offset_column_is_reported() -> None:
    made = DatasetMaker().play(ROOT[:2])
    made.add(AddData(new_data=made.slice(table(0, ROWS).drop_columns(["offset"]))))
    assert reasons(verify_chain(made.source)) == [("OffsetColumnMismatch", 2)]


def test_unsigned_offsets_of_old_datasets_are_fine() -> None:
    made = DatasetMaker().play(ROOT[:2])
    rows = table(0, ROWS)
    rows = rows.set_column(0, "offset", rows["offset"].cast(pa.uint64()))
    made.add(AddData(new_data=made.slice(rows)))
    assert verify_chain(made.source).ok


def test_a_slice_that_is_no_parquet_file_is_reported() -> None:
    made = DatasetMaker().play(ROOT[:2])
    part = made.slice()
    content = bytes(part.size)
    made.source.put(ObjectKind.DATA, content)
    made.add(AddData(new_data=replace(part, physical_hash=Multihash.of(content))))
    assert reasons(verify_chain(made.source)) == [("UnreadableSlice", 2)]


def test_a_derivative_slice_encoded_anew_at_equal_size_is_noted_but_sound() -> None:
    made = DatasetMaker(DatasetKind.Derivative).play(DERIVATIVE[:3])
    rows = [table(0, ROWS).replace_schema_metadata({"by": name}) for name in ("a", "b")]
    first, second = (parquet(each, **PLAIN) for each in rows)
    assert first != second
    assert len(first) == len(second)
    block = made.add(made.event("ExecuteTransform"))
    assert isinstance(block.event, ExecuteTransform)
    made.blocks.pop()
    made.add(replace(block.event, new_data=slice_of(first, rows[0], 0)))
    made.source.objects[ObjectKind.DATA, Multihash.of(first)] = second
    report = verify_chain(made.source)
    assert report.ok
    assert [note.reason for note in report.notes] == ["PhysicalHashMismatch"]


def struct_rows(nulls: list[bool]) -> pa.Table:
    inner = pa.array([1, None, 3], pa.int64())
    outer = pa.StructArray.from_arrays([inner], ["n"], mask=pa.array(nulls))
    return table(0, ROWS).append_column("s", outer)


@pytest.mark.parametrize(("nulls", "certain"), [([False, False, True], False), ([False] * 3, True)])
def test_a_hash_that_readers_may_disagree_about_is_noted_only(
    nulls: list[bool], certain: bool
) -> None:
    made = DatasetMaker().play(ROOT[:2])
    part = made.slice(struct_rows(nulls))
    made.add(AddData(new_data=replace(part, logical_hash=Multihash.of(b"another reader"))))
    report = verify_chain(made.source)
    found = report.problems if certain else report.notes
    assert [problem.reason for problem in found] == ["LogicalHashMismatch"]
    assert report.ok is not certain


def test_a_column_without_a_defined_hash_is_noted_only() -> None:
    made = DatasetMaker().play(ROOT[:2])
    plain, spans = made.slice(), pa.array([1, 2, 3], pa.duration("ms"))
    content = parquet(table(0, ROWS).append_column("d", spans), **PLAIN)
    declared = replace(
        plain, physical_hash=made.source.put(ObjectKind.DATA, content), size=len(content)
    )
    made.add(AddData(new_data=declared))
    report = verify_chain(made.source)
    assert report.ok
    assert [note.reason for note in report.notes] == ["UnsupportedColumn"]


@pytest.mark.parametrize("values", [pa.array([1, 2, 3], pa.duration("ms")), pa.nulls(3)])
def test_offsets_are_looked_at_when_another_column_has_no_defined_hash(values: pa.Array) -> None:
    made = DatasetMaker().play(ROOT[:2])
    plain, rows = made.slice(), table(0, ROWS).set_column(0, "offset", pa.array([0, 2, 1]))
    content = parquet(rows.append_column("d", values), **PLAIN)
    declared = replace(
        plain, physical_hash=made.source.put(ObjectKind.DATA, content), size=len(content)
    )
    made.add(AddData(new_data=declared))
    report = verify_chain(made.source)
    assert reasons(report) == [("OffsetColumnMismatch", 2)]
    assert [note.reason for note in report.notes] == ["UnsupportedColumn"]


# --- known answers --------------------------------------------------------------------------

CASES = [
    case
    for case in document("ingest/verify")["cases"]
    if case["expect"].get("error", {}).get("kind") != "DataNotReproducible"
]
"""All but those that need a transformation replayed, which is no part of this verification."""


def build(given: dict[str, Any]) -> DatasetMaker:
    """The dataset of a vector, damaged as it says."""
    made = DatasetMaker(DatasetKind(given["dataset_kind"])).play(given["blocks"])
    tampers = given["tamper"] if isinstance(given["tamper"], list) else [given["tamper"]]
    for tamper in tampers:
        if tamper is not None:
            made = TAMPER[tamper["target"], tamper["change"]](made, tamper["block"])
    return made


def change_object(made: DatasetMaker, number: int, kind: ObjectKind, content: Any) -> DatasetMaker:
    for named in named_objects(made.blocks[number].event):
        if named.kind is kind:
            key = (kind, named.hash)
            made.source.objects[key] = content(made.source.objects[key])
    return made


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x40]) + content[middle + 1 :]


def other_rows(made: DatasetMaker, number: int) -> DatasetMaker:
    start = part_of(made.blocks[number]).offset_interval.start
    content = parquet(table(start, ROWS, value="y"), **PLAIN)
    return change_object(made, number, ObjectKind.DATA, lambda _: content)


def encoded_anew(made: DatasetMaker, number: int) -> DatasetMaker:
    start = part_of(made.blocks[number]).offset_interval.start
    content = parquet(table(start, ROWS), compression="gzip")
    return change_object(made, number, ObjectKind.DATA, lambda _: content)


def replace_event(made: DatasetMaker, number: int, **changes: Any) -> DatasetMaker:
    """Another event in a block, and the blocks behind it linked anew."""
    changed, *later = [block.event for block in made.blocks[number:]]
    del made.blocks[number:]
    made.add(replace(changed, **changes))  # type: ignore[type-var]
    for event in later:
        made.add(event)
    return made


def a_row_less(made: DatasetMaker, number: int) -> DatasetMaker:
    start = part_of(made.blocks[number]).offset_interval.start
    rows = table(start, ROWS - 1)
    content = parquet(rows, **PLAIN)
    made.source.put(ObjectKind.DATA, content)
    return replace_event(made, number, new_data=slice_of(content, rows, start))


def wrong_logical_hash(made: DatasetMaker, number: int) -> DatasetMaker:
    wrong = replace(part_of(made.blocks[number]), logical_hash=Multihash.of(b"wrong"))
    return replace_event(made, number, new_data=wrong)


def without_data(made: DatasetMaker, number: int, content: Any) -> DatasetMaker:
    made = replace_event(made, number, new_data=None)
    return change_object(made, number, ObjectKind.CHECKPOINT, content)


def change_block(made: DatasetMaker, number: int, content: Any) -> DatasetMaker:
    key = (ObjectKind.BLOCK, made.blocks[number].hash)
    made.source.objects[key] = content(made.source.objects[key])
    return made


BYTES = {"flip-byte": flip, "truncate": lambda content: content[:-1]}
TAMPER: dict[tuple[str, str], Any] = {
    ("data", "replace-rows-same-size"): other_rows,
    ("data", "re-encode-other-size"): encoded_anew,
    ("data+block", "drop-first-row"): a_row_less,
    ("block", "logical-hash"): wrong_logical_hash,
    **{
        (target, change): partial(change_object, kind=kind, content=content)
        for target, kind in (("data", ObjectKind.DATA), ("checkpoint", ObjectKind.CHECKPOINT))
        for change, content in BYTES.items()
    },
    **{
        (target, change): partial(damage, content=content)
        for target, damage in (
            ("block-bytes", change_block),
            ("checkpoint-of-dataless-block", without_data),
        )
        for change, content in BYTES.items()
    },
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_damage_is_judged_as_the_known_answers_say(case: dict[str, Any]) -> None:
    options, expected = case["given"]["options"], case["expect"]
    report = verify_chain(
        build(case["given"]).source,
        objects=options["check_integrity"],
        logical=options["check_logical_hashes"],
    )
    if "error" not in expected:
        assert report.problems == ()
        return
    first, error = report.problems[0], expected["error"]
    assert (first.kind, first.sequence_number) == (error["kind"], error["block"])
    assert first.reason == error.get("reason", "HashMismatch")


# --- intervals, threads, lines of the report ------------------------------------------------


def many(count: int) -> DatasetMaker:
    return DatasetMaker().play(["Seed", "SetDataSchema", *["AddData"] * count])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_blocks_are_looked_at_in_threads_and_reported_newest_first(threads: int) -> None:
    made = many(30)
    for number in (5, 20):
        made.source.flip(ObjectKind.DATA, part_of(made.blocks[number]).physical_hash)
    report = verify_chain(made.source, threads=threads)
    assert reasons(report) == [("PhysicalHashMismatch", 20), ("PhysicalHashMismatch", 5)]
    assert [line.sequence_number for line in report.data_blocks] == list(range(31, 1, -1))
    assert {line.sequence_number for line in report.data_blocks if line.objects == "damaged"} == {
        5,
        20,
    }
    assert report.records == 28 * ROWS


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("held", [True, False])
def test_blocks_that_are_hashed_at_once_are_judged_as_one_by_one(
    threads: int, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = many(15)
    for number in (3, 7, 8):
        made.source.flip(ObjectKind.DATA, part_of(made.blocks[number]).physical_hash)
    another = part_of(made.blocks[4]).logical_hash
    made.add(
        AddData(new_data=replace(made.slice(), logical_hash=another), prev_offset=15 * ROWS - 1)
    )
    one_by_one = verify_chain(made.source, threads=1)
    lay_open(monkeypatch)
    if not held:
        monkeypatch.setattr(verify_data, "HELD_BYTES", 100)
    assert verify_chain(made.source, threads=threads) == one_by_one
    assert len(one_by_one.problems) == 4


def test_what_is_to_be_hashed_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    made, expected = root(), list[int]()
    monkeypatch.setattr(verify_run, "expect", expected.append)
    size = verify_chain(made.source).size
    assert expected == [size]


def test_a_line_of_the_report_says_what_the_block_holds() -> None:
    made = root()
    line = verify_chain(made.source).data_blocks[0]
    assert (line.block, line.event, line.objects) == (str(made.blocks[3].hash), "AddData", "valid")
    assert (line.records, line.size) == (ROWS, part_of(made.blocks[3]).size)


def test_an_interval_narrows_down_which_objects_are_looked_at() -> None:
    made = many(6)
    for number in (2, 7):
        made.source.flip(ObjectKind.DATA, part_of(made.blocks[number]).physical_hash)
    between = Interval(after=made.blocks[2].hash, upto=made.blocks[6].hash)
    report = verify_chain(made.source, interval=between)
    assert report.ok
    assert [line.sequence_number for line in report.data_blocks] == [6, 5, 4, 3]
    assert (report.blocks, report.objects) == (8, 4)


def test_an_interval_with_blocks_of_another_chain_or_in_the_wrong_order_is_refused() -> None:
    made = many(3)
    stranger = Multihash.of(b"stranger")
    for wrong in (
        Interval(after=stranger),
        Interval(upto=stranger),
        Interval(after=made.blocks[4].hash, upto=made.blocks[2].hash),
    ):
        with pytest.raises(InvalidInterval):
            verify_chain(made.source, interval=wrong)


def test_an_interval_behind_a_hole_is_reported_as_the_hole_it_is() -> None:
    made = many(3)
    del made.source.objects[ObjectKind.BLOCK, made.blocks[2].hash]
    report = verify_chain(made.source, interval=Interval(after=made.blocks[1].hash))
    assert reasons(report) == [("BlockNotFound", 2)]
    assert report.problems[0].kind == "BlockNotFound"


def test_other_bytes_whose_rows_cannot_be_judged_are_damage() -> None:
    made = DatasetMaker(DatasetKind.Derivative).play(DERIVATIVE[:3])
    spans = [pa.array(values, pa.duration("ms")) for values in ([1, 2, 3], [1, 2, 4])]
    first, second = (parquet(table(0, ROWS).append_column("d", each), **PLAIN) for each in spans)
    assert len(first) == len(second)
    event = made.event("ExecuteTransform")
    assert isinstance(event, ExecuteTransform)
    assert event.new_data is not None
    named = replace(event.new_data, physical_hash=Multihash.of(first), size=len(first))
    made.source.objects[ObjectKind.DATA, Multihash.of(first)] = second
    made.add(replace(event, new_data=named))
    report = verify_chain(made.source)
    assert reasons(report) == [("PhysicalHashMismatch", 3)]
    assert [note.reason for note in report.notes] == ["UnsupportedColumn"]
