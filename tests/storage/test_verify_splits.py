"""Verification in threads, of intervals, and the lines of its report."""

from __future__ import annotations

from functools import partial

import pytest
from damaged import (
    ROWS,
    DatasetMaker,
    part_of,
    reasons,
    root,
)
from lanes import lay_open
from msgspec.structs import replace

from odf_protocol.metadata.events import AddData
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import InvalidInterval
from odf_storage.datasets.verify import objects as verify_objects
from odf_storage.datasets.verify import stages
from odf_storage.datasets.verify.run import (
    Interval,
    verify_chain,
)
from odf_storage.datasets.verify.stages import in_threads
from odf_storage.stores.ports.values import ObjectKind


def many(count: int) -> DatasetMaker:
    return DatasetMaker().play(["Seed", "SetDataSchema", *["AddData"] * count])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_blocks_are_looked_at_in_threads_and_reported_newest_first(threads: int) -> None:
    made = many(30)
    for number in (5, 20):
        made.source.flip(ObjectKind.DATA, part_of(made.blocks[number]).physical_hash)
    report = verify_chain(made.source, where=partial(in_threads, threads=threads))
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
    one_by_one = verify_chain(made.source, where=partial(in_threads, threads=1))
    lay_open(monkeypatch)
    if not held:
        monkeypatch.setattr(verify_objects, "HELD_BYTES", 100)
    assert verify_chain(made.source, where=partial(in_threads, threads=threads)) == one_by_one
    assert len(one_by_one.problems) == 4


def test_what_is_to_be_hashed_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    made, expected = root(), list[int]()
    monkeypatch.setattr(stages, "expect", expected.append)
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
