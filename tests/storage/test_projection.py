"""A changelog read as state, as facts, as of times and blocks: the rows that are left."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chain_maker import linked, parquet, seed, slice_of, some_id
from damaged import DictSource
from known import document
from refusals import refusing

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    DisablePushSource,
    HashedBlock,
    SetDataSchema,
)
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategySnapshot,
    ReadStepNdJson,
)
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.datasets.read.read import RowsRequest, changelog_notes, reading
from odf_storage.datasets.read.rows import Projection, RowCut, within
from odf_storage.datasets.read.scan import UnreadableSlice
from odf_storage.datasets.read.view import view_of
from odf_storage.stores.ports.errors import BlockNotFound, ObjectNotFound
from odf_storage.stores.ports.values import ObjectKind

MS = pa.timestamp("ms", "UTC")
TYPES = {
    "offset": pa.int64(),
    "op": pa.int32(),
    "system_time": MS,
    "event_time": MS,
    "city": pa.string(),
    "population": pa.int64(),
}
HISTORY = document("ingest/projection")["cases"][0]["given"]["history"]["rows"]
CASES = document("ingest/projection")["cases"]
STATE, FACTS = Projection.STATE, Projection.FACTS


def at(text: str) -> Instant:
    return Instant.parse(text if "T" in text else f"{text}T00:00:00Z")


def table(rows: list[list[Any]], columns: list[str] | None = None) -> pa.Table:
    names = columns or list(TYPES)
    made = {}
    for place, name in enumerate(names):
        values = [row[place] for row in rows]
        kind = TYPES.get(name) or pa.array(values).type
        if kind == MS:
            values = [datetime.fromisoformat(value) for value in values]
        made[name] = pa.array(values, kind)
    return pa.table(made)


class Made:
    """A dataset of slices given as rows; each block has the system time of its last row."""

    def __init__(self, source: DictSource | None = None) -> None:
        self.source = source or DictSource()
        self.blocks: list[HashedBlock] = []
        self.add(seed(some_id("projected")))

    def add(self, event: Any, *, when: str = "2020-01-01T00:00:00Z") -> Made:
        last = self.blocks[-1] if self.blocks else None
        self.blocks.append(linked(last, event, at=at(when)))
        self.source.tip = self.source.put(ObjectKind.BLOCK, self.blocks[-1].raw)
        return self

    def pushes(self, merge: MergeStrategy, name: str = "default") -> Made:
        return self.add(AddPushSource(source_name=name, read=ReadStepNdJson(), merge=merge))

    def schema(self, schema: pa.Schema) -> Made:
        return self.add(SetDataSchema(schema=from_arrow(schema)))

    def rows(self, made: pa.Table, *, when: str | None = None) -> Made:
        start = made["offset"][0].as_py()
        content = parquet(made)
        self.source.put(ObjectKind.DATA, content)
        part = slice_of(content, made, start)
        when = when or made["system_time"][-1].as_py().strftime("%Y-%m-%dT%H:%M:%SZ")
        return self.add(AddData(prev_offset=start - 1 if start else None, new_data=part), when=when)


def keyed(*names: str) -> MergeStrategySnapshot:
    return MergeStrategySnapshot(primary_key=names or ("city",))


def history(
    rows: list[list[Any]] = HISTORY,
    *,
    cuts: tuple[int, ...] = (),
    source: DictSource | None = None,
    key: tuple[str, ...] = ("city",),
    columns: list[str] | None = None,
) -> Made:
    """The rows in slices that begin at these places."""
    whole = table(rows, columns)
    merge = keyed(*key) if key else MergeStrategyAppend()
    made = Made(source).pushes(merge).schema(whole.schema)
    edges = sorted({0, *(cut for cut in cuts if cut < len(rows)), len(rows)})
    for first, last in pairwise(edges):
        made.rows(whole.slice(first, last - first))
    return made


def read(made: Made, block: Multihash | None = None, **asked: Any) -> list[list[Any]]:
    with reading(view_of(made.source, block), RowsRequest(**asked)) as (schema, batches):
        whole = pa.Table.from_batches(batches, schema)
    return [[plain(value) for value in row.values()] for row in whole.to_pylist()]


def plain(value: Any) -> Any:
    return value.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(value, datetime) else value


def offsets(made: Made, **asked: Any) -> list[int]:
    return [row[0] for row in read(made, columns=("offset",), **asked)]


@pytest.mark.parametrize("cuts", [(), (3, 5), (1, 2, 3, 4, 5, 6, 7)])
@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_a_history_is_projected_as_the_known_answers_say(
    case: dict[str, Any], cuts: tuple[int, ...], seekable: bool
) -> None:
    given, expected = case["given"], case["expect"]
    changes = given["history"]
    made = history(
        changes["rows"],
        cuts=cuts,
        source=DictSource(seekable=seekable),
        key=tuple(given.get("primary_key") or ()),
        columns=changes["columns"],
    )
    cut = RowCut(
        system_time=at(given["as_of_system_time"]) if "as_of_system_time" in given else None,
        event_time=at(given["as_at_event_time"]) if "as_at_event_time" in given else None,
    )
    projection = Projection(given["projection"])
    if "error" in expected:
        with pytest.raises(BadInput) as refused:
            read(made, projection=projection, cut=cut)
        assert refused.value.code == expected["error"]["kind"]
        return
    found = read(made, projection=projection, cut=cut)
    wanted = expected["table"]["rows"]
    assert found == (wanted if expected.get("ordered", True) else sorted(wanted))


def test_the_changelog_is_every_row_in_order() -> None:
    assert read(history(cuts=(2, 5))) == HISTORY


def test_an_event_time_leaves_what_had_happened_by_then() -> None:
    made = history(cuts=(4,))
    assert offsets(made, cut=RowCut(event_time=at("2010-01-01"))) == [0, 1, 2, 3, 5]
    assert offsets(made, cut=RowCut(event_time=at("2015-06-01"))) == [0, 1, 2, 3, 4, 5]
    assert read(made, projection=STATE, cut=RowCut(event_time=at("2015-06-01")))[1][4:] == [
        "b",
        2500,
    ]


def test_facts_are_what_was_added_and_not_taken_back() -> None:
    made = history(cuts=(3, 6))
    assert offsets(made, projection=FACTS) == [2, 4]
    assert offsets(made, projection=FACTS, cut=RowCut(system_time=at("2020-02-15"))) == [0, 2, 4]
    # what a correction moved to a later event time had not happened before
    assert offsets(made, projection=FACTS, cut=RowCut(event_time=at("2012-01-01"))) == [2]


def test_each_retraction_takes_back_one_of_equal_rows_and_none_that_came_later() -> None:
    day = "2020-01-01T00:00:00Z"
    rows = [
        [n, op, day, day, city, 1]
        for n, (op, city) in enumerate([(1, "a"), (0, "a"), (0, "a"), (0, "b"), (1, "a"), (0, "a")])
    ]
    assert offsets(history(rows, cuts=(2,)), projection=FACTS) == [2, 3, 5]


def test_values_that_are_lists_members_and_no_numbers_are_taken_back_too() -> None:
    day = datetime.fromisoformat("2020-01-01T00:00:00Z")
    made = Made()
    rows = pa.table(
        {
            "offset": pa.array([0, 1, 2], pa.int64()),
            "op": pa.array([0, 0, 1], pa.int32()),
            "system_time": pa.array([day] * 3, MS),
            "event_time": pa.array([day] * 3, MS),
            "tags": pa.array([["a", None], ["b"], ["a", None]]),
            "size": pa.array([float("nan"), 1.0, float("nan")]),
            "place": pa.array([{"x": 1}, {"x": 2}, {"x": 1}]),
        }
    )
    made.schema(rows.schema).rows(rows)
    assert offsets(made, projection=FACTS) == [1]


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_a_state_of_many_keys_is_the_last_row_of_each(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odf_storage.datasets.read.rows.SETTLE_ROWS", 100)
    day = "2020-01-01T00:00:00Z"
    many = [[n, 0, day, day, f"c{n % rows}", n] for n in range(3000)]
    made = history(many, cuts=tuple(range(100, 3000, 100)))
    assert offsets(made, projection=STATE) == list(range(3000 - rows, 3000))


def test_a_correction_that_moves_a_row_to_another_key_leaves_the_old_key_absent() -> None:
    day = "2020-01-01T00:00:00Z"
    rows = [
        [n, op, day, day, city, 1]
        for n, (op, city) in enumerate([(0, "a"), (0, "b"), (2, "a"), (3, "c"), (1, "b")])
    ]
    assert offsets(history(rows, cuts=(3,)), projection=STATE) == [3]


def test_nulls_and_several_columns_can_be_a_key() -> None:
    day = "2020-01-01T00:00:00Z"
    rows = [
        [n, 0, day, day, city, number]
        for n, (city, number) in enumerate([(None, 1), ("a", 1), (None, 1), ("a", 2), (None, None)])
    ]
    made = Made().pushes(keyed("city", "population")).schema(table([]).schema).rows(table(rows))
    assert offsets(made, projection=STATE) == [1, 2, 3, 4]


def test_a_block_gives_rows_schema_and_key_of_its_time() -> None:
    made = history(cuts=(3,))
    before = made.blocks[3].hash
    made.pushes(keyed("population"), "other")
    assert [row[0] for row in read(made, before, projection=STATE)] == [0, 1, 2]
    assert offsets(made, projection=STATE) == [2, 4]  # what was taken back stands for no key


def test_the_key_is_that_of_the_last_source_that_is_active() -> None:
    made = history().pushes(keyed("population"), "other").pushes(MergeStrategyAppend(), "third")
    assert view_of(made.source).key == ()
    made.add(DisablePushSource(source_name="third"))
    assert view_of(made.source).key == ("population",)
    made.pushes(keyed("city"))
    assert view_of(made.source).key == ("city",)


def test_without_a_key_there_is_no_state_but_there_are_facts() -> None:
    made = Made().schema(table([]).schema).rows(table(HISTORY))
    with refusing("DatasetHasNoPrimaryKeys"):
        read(made, projection=STATE)
    assert offsets(made, projection=FACTS) == [2, 4]


def test_slices_of_an_older_schema_are_read_in_the_present_one() -> None:
    made = history()
    wider = table(HISTORY[:1]).set_column(0, "offset", pa.array([8], pa.int64()))
    wider = wider.append_column("mayor", pa.array(["x"]))
    order = ["offset", "op", "system_time", "event_time", "mayor", "city", "population"]
    made.schema(wider.select(order).schema).rows(wider, when="2020-05-01T00:00:00Z")
    found = read(made, columns=("mayor", "city"))
    assert found == [[None, row[4]] for row in HISTORY] + [["x", "a"]]


def test_compacted_rows_are_known_when_they_were_and_not_when_their_block_was_made() -> None:
    made = Made().pushes(keyed()).schema(table([]).schema)
    made.rows(table(HISTORY[:4]), when="2022-01-01T00:00:00Z")
    made.rows(table(HISTORY[4:]), when="2022-01-02T00:00:00Z")
    assert offsets(made, cut=RowCut(system_time=at("2020-01-15"))) == [0, 1, 2]
    assert offsets(made, cut=RowCut(system_time=at("2020-03-01"))) == [0, 1, 2, 3, 4, 5, 6]


def test_slices_behind_a_system_time_are_not_opened() -> None:
    made = history(cuts=(3, 5, 7))
    last = made.blocks[-1].event
    assert isinstance(last, AddData)
    assert last.new_data is not None
    del made.source.objects[ObjectKind.DATA, last.new_data.physical_hash]
    assert offsets(made, cut=RowCut(system_time=at("2020-01-15"))) == [0, 1, 2]
    with pytest.raises(ObjectNotFound):
        offsets(made)


@pytest.mark.parametrize(
    ("skip", "limit", "expected"),
    [
        (0, 3, [0, 1, 2]),
        (2, 3, [2, 3, 4]),
        (7, 9, [7]),
        (8, 1, []),
        (0, 0, []),
        (3, None, [3, 4, 5, 6, 7]),
    ],
)
def test_a_part_of_the_rows(skip: int, limit: int | None, expected: list[int]) -> None:
    assert offsets(history(cuts=(1, 4)), skip=skip, limit=limit) == expected


def test_a_dataset_without_a_schema_has_no_rows() -> None:
    assert read(Made()) == []
    assert read(Made().pushes(keyed()), projection=STATE) == []


def test_unknown_columns_and_unusable_keys_are_refused() -> None:
    made = history()
    with refusing("UnknownColumn"):
        read(made, columns=("mayor",))
    with refusing("UnknownColumn"):
        read(made.pushes(keyed("mayor")), projection=STATE)
    rows = table(HISTORY[:1]).append_column("tags", pa.array([["a"]]))
    listed = Made().pushes(keyed("tags")).schema(rows.schema).rows(rows)
    with refusing("UnusableKey"):
        read(listed, projection=STATE)


def test_damage_is_named() -> None:
    made = history()
    last = made.blocks[-1].event
    assert isinstance(last, AddData)
    assert last.new_data is not None
    made.source.objects[ObjectKind.DATA, last.new_data.physical_hash] = b"nonsense"
    with pytest.raises(UnreadableSlice, match=str(last.new_data.physical_hash)):
        read(made)
    made.source.flip(ObjectKind.BLOCK, made.blocks[1].hash)
    with pytest.raises(HashMismatch):
        read(made)


def test_a_block_of_another_chain_is_not_found() -> None:
    with pytest.raises(BlockNotFound):
        read(history(), Multihash.of(b"nobody"))


def test_temporary_copies_go_with_the_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = history(cuts=(3,), source=DictSource(seekable=False))
    with reading(view_of(made.source), RowsRequest(projection=STATE)) as (_, batches):
        next(batches)
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_cut_may_be_later_or_earlier_than_a_column_can_say(unit: str) -> None:
    when = pa.array([0, 1], pa.timestamp(unit, "UTC"))
    batch = pa.record_batch({"event_time": when})
    for moment, left in (("9999-12-31", 2), ("0001-01-01", 0)):
        assert within(batch, Vocab(), RowCut(event_time=at(moment))).num_rows == left


@pytest.mark.parametrize(
    "kind", [*(pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns")), pa.date32()], ids=str
)
def test_a_cut_takes_its_own_moment_and_nothing_after_it_in_any_unit(kind: pa.DataType) -> None:
    days = pa.array([18000, 18001, 18002], pa.int32()).cast(pa.date32())
    batch = pa.RecordBatch.from_pydict({"event_time": days.cast(kind)})
    cut = RowCut(event_time=Instant.parse("2019-04-15T00:00:00Z"))
    assert within(batch, Vocab(), cut).column(0).to_pylist() == batch.column(0).to_pylist()[:2]


def test_rows_that_take_back_what_does_not_stand_are_named() -> None:
    made = Made().pushes(MergeStrategyAppend())
    times = ["2020-01-01T00:00:00Z"] * 2
    rows = [
        [0, 0, *times, "A", 1],
        [1, 0, *times, "B", 2],
        [2, 1, *times, "A", 1],
        [3, 1, *times, "A", 1],  # it is gone already
        [4, 2, *times, "B", 3],  # another one stands
        [5, 3, *times, "B", 4],
    ]
    later = [[6, 1, *times, "B", 4], [7, 1, *times, "C", 1], [8, 0, *times, "C", 1]]
    made.schema(table(rows).schema).rows(table(rows)).rows(table(later))
    notes = list(changelog_notes(made.source))
    assert [note.message for note in notes] == [
        "2 row(s) take back a row that does not stand, at offset 3, 4",
        "1 row(s) take back a row that does not stand, at offset 7",
    ]
    assert {note.reason for note in notes} == {"RetractionUnfounded"}


def test_a_changelog_whose_retractions_fit_has_no_notes() -> None:
    made = Made().pushes(MergeStrategyAppend()).schema(table(HISTORY).schema).rows(table(HISTORY))
    assert list(changelog_notes(made.source)) == []
