"""Verification finds every kind of damage to slices and checkpoints, and names it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from chain_maker import parquet, slice_of, table
from damaged import (
    DERIVATIVE,
    PLAIN,
    ROOT,
    ROWS,
    DatasetMaker,
    part_of,
    reasons,
    root,
    with_slice,
)
from msgspec.structs import replace

from odf_protocol.metadata.events import AddData, DatasetKind, ExecuteTransform, OffsetInterval
from odf_protocol.multihash import Multihash
from odf_storage.datasets.verify.run import (
    verify_chain,
)
from odf_storage.stores.ports.values import ObjectKind


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
