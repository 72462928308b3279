"""Slices are held to their blocks: forgeries are refused, honest encodings are taken."""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace as changed
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bad_values import BAD_COLUMNS, GOOD_ENDS
from chain_maker import NOON, linked, parquet, slice_of, some_id, table
from footers import deadly
from msgspec.structs import replace
from raw_arrow import bare_schema

from odf_protocol.chain.rules import fold
from odf_protocol.chain.state import EMPTY
from odf_protocol.columns.arrow_columns import Column, Columns
from odf_protocol.columns.arrow_digest import CACHE_WINDOW_ROWS, UnsupportedColumn
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.metadata.events import (
    AddData,
    DatasetKind,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetVocab,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.contents.claims import SliceClaim, slice_claims
from odf_storage.datasets.contents.slice_limits import CheckLimits, GateLimits
from odf_storage.datasets.gate import wire
from odf_storage.datasets.gate.check import FREE_BYTES, GateCheck
from odf_storage.datasets.gate.gate import DataDoesNotMatchMetadata, SliceGate
from odf_storage.lanes import hash_all
from odf_storage.stores.ports.values import ObjectKind

LIMITS = GateLimits(memory=512 << 20, seconds=60, ratio=1000)
ALL = CheckLimits(ratio=1000)
SYSTEM_ONLY = CheckLimits(ratio=1000, rows=False)
UTC = pa.timestamp("ms", "UTC")
MICROS = pa.timestamp("us", "UTC")
ROWS = 10


def honest(rows: int = ROWS, start: int = 0) -> pa.Table:
    return table(start, rows).append_column("n", pa.array(range(rows), pa.int64()))


def set_column(name: str, values: pa.Array) -> pa.Table:
    rows = honest()
    return rows.set_column(rows.schema.get_field_index(name), name, values)


SCHEMA = SetDataSchema(schema=from_arrow(honest().schema))


def claim_of(
    rows: pa.Table, content: bytes, schema: SetDataSchema = SCHEMA, **changes: Any
) -> SliceClaim:
    """As a block says of that slice, but for what is changed."""
    seed = Seed(dataset_id=some_id(), dataset_kind=DatasetKind.Root)
    blocks = [linked(None, seed)]
    blocks.append(linked(blocks[-1], schema))
    try:
        declared = slice_of(content, rows, 0)
    except UnsupportedColumn:
        declared = slice_of(content, honest(), 0)
    declared = replace(declared, **changes)
    blocks.append(linked(blocks[-1], AddData(new_data=declared)))
    [claim] = slice_claims(blocks, EMPTY)
    return claim


def reasons(content: bytes, claim: SliceClaim, limits: CheckLimits = ALL) -> list[str]:
    check = GateCheck(pa.py_buffer(content), claim, limits)
    return [one.reason for one in check.found(hash_all(check.streams))]


def looked(
    rows: pa.Table, schema: SetDataSchema = SCHEMA, limits: CheckLimits = ALL, **options: Any
) -> list[str]:
    """What is wrong with a slice of those rows, whose block tells the truth about its hash."""
    content = parquet(rows, **options)
    return reasons(content, claim_of(rows, content, schema), limits)


OTHER_ROWS: dict[str, tuple[pa.Table, str]] = {
    "offsets from elsewhere": (honest(start=5), "OffsetColumnMismatch"),
    "offsets with a gap": (
        set_column("offset", pa.array([*range(5), *range(6, 11)], pa.int64())),
        "OffsetColumnMismatch",
    ),
    "an offset twice": (
        set_column("offset", pa.array([0, 1, 2, 3, 3, 5, 6, 7, 8, 9], pa.int64())),
        "OffsetColumnMismatch",
    ),
    "offsets in another order": (
        set_column("offset", pa.array([1, 0, *range(2, 10)], pa.int64())),
        "OffsetColumnMismatch",
    ),
    "a missing offset": (
        set_column("offset", pa.array([None, *range(1, 10)], pa.int64())),
        "OffsetColumnMismatch",
    ),
    "no offset column": (honest().drop_columns(["offset"]), "SchemaMismatch"),
    "a column less": (honest().drop_columns(["n"]), "SchemaMismatch"),
    "a column more": (honest().append_column("m", pa.array([1] * ROWS)), "SchemaMismatch"),
    "a column of another name": (
        honest().rename_columns(["offset", "op", "system_time", "event_time", "txt", "n"]),
        "SchemaMismatch",
    ),
    "texts for numbers": (set_column("n", pa.array(["1"] * ROWS)), "SchemaMismatch"),
    "narrower numbers": (set_column("n", pa.array([1] * ROWS, pa.int32())), "SchemaMismatch"),
    "floats for numbers": (set_column("n", pa.array([1.0] * ROWS)), "SchemaMismatch"),
    "no event time": (honest().drop_columns(["event_time"]), "SchemaMismatch"),
    "an event time that is none": (
        set_column("event_time", pa.array(["2026"] * ROWS)),
        "SchemaMismatch",
    ),
    "a system time that is none": (
        set_column("system_time", pa.array([1] * ROWS, pa.int64())),
        "SchemaMismatch",
    ),
    "an operation that is none": (
        set_column("op", pa.array([0] * 9 + [7], pa.int32())),
        "OperationMismatch",
    ),
    "a negative operation": (
        set_column("op", pa.array([-1] * 10, pa.int32())),
        "OperationMismatch",
    ),
    "a missing operation": (
        set_column("op", pa.array([None] + [0] * 9, pa.int32())),
        "OperationMismatch",
    ),
    "operations that are texts": (set_column("op", pa.array(["+A"] * ROWS)), "SchemaMismatch"),
    "a system time after that of the block": (
        set_column("system_time", pa.array([NOON.millis] * 9 + [NOON.millis + 60_000], UTC)),
        "SystemTimeMismatch",
    ),
    "a missing system time": (
        set_column("system_time", pa.array([NOON.millis] * 9 + [None], UTC)),
        "SystemTimeMismatch",
    ),
}


@pytest.mark.parametrize("limits", [ALL, SYSTEM_ONLY], ids=["all rows", "system columns"])
@pytest.mark.parametrize("kind", OTHER_ROWS)
def test_rows_that_are_not_what_a_slice_holds_are_refused(kind: str, limits: CheckLimits) -> None:
    rows, reason = OTHER_ROWS[kind]
    assert looked(rows, limits=limits)[:1] == [reason]


def test_other_numbers_of_rows_and_other_hashes_than_declared_are_refused() -> None:
    content = parquet(honest())
    more = claim_of(honest(), content, offset_interval=OffsetInterval(start=0, end=999))
    assert reasons(content, more) == ["RowCountMismatch"]
    assert reasons(content, more, SYSTEM_ONLY) == ["RowCountMismatch"]
    other = claim_of(honest(), content, logical_hash=Multihash(0x300016, bytes(32)))
    assert reasons(content, other) == ["LogicalHashMismatch"]
    assert reasons(content, other, SYSTEM_ONLY) == []


def no_parquet() -> Iterator[tuple[str, bytes]]:
    whole = parquet(honest())
    yield "text", b"this is not any Parquet"
    yield "nothing", b""
    yield "magic alone", b"PAR1" * 3
    yield "cut off", whole[: len(whole) // 2]
    yield "cut at the start", whole[len(whole) // 2 :]
    yield "without its footer", whole[:-8] + bytes(8)
    yield "a footer of 4 GiB", whole[:-8] + struct.pack("<I", 0xFFFF_FFFF) + b"PAR1"
    yield "a footer longer than the file", whole[:-8] + struct.pack("<I", len(whole)) + b"PAR1"
    footer = int.from_bytes(whole[-8:-4], "little")
    yield "no pages", bytes(len(whole) - footer - 8) + whole[-footer - 8 :]
    yield "a footer that ends other readers", deadly(whole, "n")
    yield "a footer of noise", whole[: -footer - 8] + b"\xff" * footer + whole[-8:]


NO_PARQUET = dict(no_parquet())


@pytest.mark.parametrize("what", NO_PARQUET)
def test_what_is_no_parquet_is_refused(what: str) -> None:
    content = NO_PARQUET[what]
    assert reasons(content, claim_of(honest(), content)) == ["UnreadableSlice"]


def test_nulls_in_a_required_column_are_refused_if_the_schema_is_exact() -> None:
    fields = [field.with_nullable(field.name != "n") for field in honest().schema]
    strict = pa.schema(fields)
    rows = set_column("n", pa.array([None, *range(9)], pa.int64()))
    exact = SetDataSchema(schema=from_arrow(strict))
    old = SetDataSchema(raw_arrow_schema=bare_schema(strict))
    assert looked(rows, exact) == ["SchemaMismatch"]
    assert looked(rows, old) == []


# --- what is welcome ------------------------------------------------------------------------


def cast(**types: pa.DataType) -> pa.Table:
    rows = honest()
    for name, kind in types.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, rows.column(name).cast(kind))
    return rows


OLD_FORMAT = {"store_schema": False, "version": "1.0"}
WELCOME: dict[str, pa.Table] = {
    "as this node writes": honest(),
    "numbers of the specification": cast(offset=pa.uint64(), op=pa.uint8()),
    "microseconds": cast(
        system_time=pa.timestamp("us", "UTC"), event_time=pa.timestamp("us", "UTC")
    ),
    "another name of UTC": cast(system_time=pa.timestamp("ms", "+00:00")),
    "times without a zone": cast(event_time=pa.timestamp("ns")),
    "days": cast(event_time=pa.date32()),
    "large texts": cast(text=pa.large_string()),
    "another order": honest().select(["n", "text", "event_time", "offset", "system_time", "op"]),
    "older rows": set_column("system_time", pa.array([0] * ROWS, UTC)),
    "all operations": set_column("op", pa.array([0, 1, 2, 3, 2, 3, 0, 1, 0, 0], pa.int32())),
    "no event time in some rows": set_column(
        "event_time", pa.array([None] + [NOON.millis] * 9, UTC)
    ),
}


@pytest.mark.parametrize("kind", WELCOME)
@pytest.mark.parametrize("options", [{}, OLD_FORMAT], ids=["", "old"])
def test_slices_as_other_engines_write_them_are_welcome(kind: str, options: dict[str, Any]) -> None:
    rows = WELCOME[kind]
    content = parquet(rows, **options)
    read = pq.read_table(io.BytesIO(content))  # the hash is that of the file, read back
    claim = claim_of(read, content)
    assert reasons(content, claim) == []
    assert reasons(content, claim, SYSTEM_ONLY) == []


def test_a_column_without_a_logical_hash_is_not_held_against_a_slice() -> None:
    tags = pa.array([[("a", 1)]] * ROWS, pa.map_(pa.string(), pa.int64()))
    rows = honest().append_column("tags", tags)
    schema = SetDataSchema(schema=from_arrow(rows.schema))
    assert looked(rows, schema) == []
    forged = rows.set_column(0, "offset", pa.array(range(3, 13), pa.int64()))
    assert looked(forged, schema) == ["OffsetColumnMismatch"]


def test_columns_that_a_writer_kept_as_dictionaries_are_looked_at() -> None:
    rows = honest()
    for place, name in ((1, "op"), (2, "system_time")):
        rows = rows.set_column(place, name, rows.column(name).dictionary_encode())
    assert looked(rows) == []
    late = pa.array([NOON.millis + 60_000] * ROWS, UTC).dictionary_encode()
    assert looked(rows.set_column(2, "system_time", late)) == ["SystemTimeMismatch"]


def test_columns_go_by_the_names_of_the_vocabulary_in_force() -> None:
    seed = Seed(dataset_id=some_id(), dataset_kind=DatasetKind.Root)
    rows = honest().rename_columns(["o", "kind", "written", "at", "text", "n"])
    content = parquet(rows)
    names = SetVocab(
        offset_column="o",
        operation_type_column="kind",
        system_time_column="written",
        event_time_column="at",
    )
    schema = SetDataSchema(schema=from_arrow(rows.schema))
    blocks = [linked(None, seed)]
    for event in (names, schema, AddData(new_data=slice_of(content, rows, 0))):
        blocks.append(linked(blocks[-1], event))
    [claim] = slice_claims(blocks, EMPTY)
    assert claim.columns.vocab.columns == ("o", "kind", "written", "at")
    assert reasons(content, claim) == []
    [later] = slice_claims(blocks[3:], fold(blocks[:3]))
    assert reasons(content, later) == []


def test_a_schema_nobody_can_read_leaves_the_system_columns() -> None:
    unreadable = SetDataSchema(raw_arrow_schema=b"no schema at all")
    assert looked(honest().drop_columns(["n"]), unreadable) == []
    assert looked(honest(start=1), unreadable) == ["OffsetColumnMismatch"]


def test_claims_pass_between_processes_unchanged() -> None:
    content = parquet(honest())
    claims = [claim_of(honest(), content), claim_of(honest(), content)]
    read, limits = wire.load(wire.dump(claims, SYSTEM_ONLY))
    assert limits == SYSTEM_ONLY
    assert read == claims


# --- through processes ----------------------------------------------------------------------


class Files:
    """A dataset whose slices are in memory, like those of a bucket."""

    def __init__(self, *contents: bytes) -> None:
        self._contents = {Multihash.of(content): content for content in contents}

    def open_whole(self, kind: ObjectKind, name: Multihash) -> Any:
        return io.BytesIO(self._contents[name])


def held(*pairs: tuple[bytes, SliceClaim], **limits: Any) -> None:
    gate = SliceGate(replace(LIMITS, **limits))
    gate.hold(Files(*(content for content, _ in pairs)), [claim for _, claim in pairs])  # type: ignore[arg-type]


def good() -> tuple[bytes, SliceClaim]:
    content = parquet(honest())
    return content, claim_of(honest(), content)


def repeated(rows: int, cell: int) -> bytes:
    """One text in every row, kept once: some kilobytes, however much comes out."""
    word = pa.array(["x" * cell])
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), word)
    when = pa.array(np.full(rows, NOON.millis), UTC)
    made = pa.table(
        {
            "offset": pa.array(np.arange(rows)),
            "op": pa.array(np.zeros(rows, np.int32)),
            "system_time": when,
            "event_time": when,
            "text": text,
            "n": pa.array(np.zeros(rows, np.int64)),
        }
    )
    return parquet(made, compression="zstd", store_schema=False)


def test_a_small_file_with_much_in_it_is_stopped_and_the_next_slice_is_looked_at() -> None:
    bomb = repeated(2_000, 1 << 20)
    assert len(bomb) < 100_000
    interval = OffsetInterval(start=0, end=1_999)
    claim = claim_of(honest(), bomb, offset_interval=interval)
    with pytest.raises(DataDoesNotMatchMetadata) as refused:
        held((bomb, claim))
    assert refused.value.reason == "SliceTooLarge"
    held(good())


def test_one_value_larger_than_memory_ends_no_more_than_a_process() -> None:
    bomb = repeated(1, 200 << 20)
    claim = claim_of(honest(), bomb, offset_interval=OffsetInterval(start=0, end=0))
    with pytest.raises(DataDoesNotMatchMetadata) as refused:
        held(good(), (bomb, claim), memory=256 << 20, ratio=1_000_000_000)
    assert refused.value.reason == "SliceTooLarge"
    assert refused.value.facts["object"] == str(Multihash.of(bomb))
    held(good())


def test_looking_ends_when_its_time_is_up() -> None:
    rows = honest(200_000)
    content = parquet(rows)
    claim = claim_of(rows, content)
    with pytest.raises(DataDoesNotMatchMetadata) as refused:
        held((content, claim), seconds=0.001)
    assert refused.value.reason == "SliceTooLarge"
    held((content, claim))


def test_the_first_wrong_slice_of_many_is_named() -> None:
    parts = []
    for start in range(100):
        rows = table(0, 3, value=f"v{start} ").append_column("n", pa.array([start] * 3, pa.int64()))
        content = parquet(rows)
        parts.append((content, claim_of(rows, content)))
    held(*parts)
    content, claim = parts[70]
    forged = replace(claim.declared, logical_hash=Multihash(0x300016, bytes(32)))
    parts[70] = content, changed(claim, declared=forged)
    with pytest.raises(DataDoesNotMatchMetadata, match="its rows hash to") as refused:
        held(*parts)
    assert refused.value.facts["object"] == str(claim.declared.physical_hash)


def test_rows_of_much_are_left_for_later_and_the_rest_is_looked_at() -> None:
    content = parquet(honest())
    claim = claim_of(honest(), content, logical_hash=Multihash(0x300016, bytes(32)))
    held((content, claim), hashed_at_once=10)
    with pytest.raises(DataDoesNotMatchMetadata):
        held((content, claim), hashed_at_once=10 << 20)
    rows = honest(start=1)
    other = parquet(rows)
    with pytest.raises(DataDoesNotMatchMetadata):
        held((other, claim_of(rows, other)), hashed_at_once=10)


def test_values_are_counted_while_they_come_out() -> None:
    rows = 4_000
    content = repeated(rows, 20_000)
    interval = OffsetInterval(start=0, end=rows - 1)
    claim = claim_of(honest(), content, offset_interval=interval)
    assert rows * 20_000 > FREE_BYTES > 100 * len(content)
    assert reasons(content, claim, CheckLimits(ratio=100)) == ["SliceTooLarge"]
    assert reasons(content, claim, CheckLimits(ratio=1_000_000)) == ["LogicalHashMismatch"]


def test_a_slice_of_too_much_is_read_no_further_than_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, cell = 400_000, 1_000
    content = repeated(rows, cell)
    interval = OffsetInterval(start=0, end=rows - 1)
    claim = claim_of(honest(), content, offset_interval=interval)
    read: Counter[str] = Counter()
    hashed = 0
    batches = Columns.batches

    def counted(columns: Columns, column: Column, window: int) -> Iterator[pa.RecordBatch]:
        for batch in batches(columns, column, window):
            read[column.name] += batch.num_rows
            yield batch

    def passing(stream: Any) -> Iterator[Any]:
        nonlocal hashed
        for piece in stream:
            hashed += memoryview(piece).nbytes
            yield piece

    monkeypatch.setattr(Columns, "batches", counted)
    check = GateCheck(pa.py_buffer(content), claim, CheckLimits(ratio=1))
    found = check.found(hash_all([passing(stream) for stream in check.streams]))
    assert [one.reason for one in found] == ["SliceTooLarge"]
    bound = max(FREE_BYTES, len(content))
    assert hashed <= bound < rows * cell // 4
    assert read["text"] * cell <= bound + CACHE_WINDOW_ROWS * cell  # and the window that is over it


# --- values that no reader can take ---------------------------------------------------------------


def with_values(column: pa.Array) -> tuple[pa.Table, SetDataSchema]:
    rows = honest(len(column)).append_column("v", column)
    return rows, SetDataSchema(schema=from_arrow(bare_values(rows).schema))


def bare_values(rows: pa.Table) -> pa.Table:
    """The rows with the values of dictionaries: types of datasets know no dictionaries."""
    kind = rows.schema.field("v").type
    at = rows.num_columns - 1
    if not pa.types.is_dictionary(kind):
        return rows
    return rows.set_column(at, "v", pa.nulls(rows.num_rows, kind.value_type))


@pytest.mark.parametrize("what", BAD_COLUMNS)
@pytest.mark.parametrize("limits", [ALL, SYSTEM_ONLY])
def test_a_value_that_no_reader_can_take_is_refused_with_column_and_offset(
    what: str, limits: CheckLimits
) -> None:
    column, reason = BAD_COLUMNS[what]
    rows, schema = with_values(column)
    content = parquet(rows)
    interval = OffsetInterval(start=0, end=rows.num_rows - 1)
    claim = claim_of(rows, content, schema, offset_interval=interval)
    check = GateCheck(pa.py_buffer(content), claim, limits)
    [found] = check.found(hash_all(check.streams))
    assert found.reason == "UnstorableValue"
    assert found.message.startswith("column `v")
    assert "offset 1: " in found.message
    assert reason in found.message


@pytest.mark.parametrize("what", GOOD_ENDS)
def test_values_at_the_ends_of_what_may_be_stored_are_taken(what: str) -> None:
    rows, schema = with_values(GOOD_ENDS[what])
    assert looked(rows, schema) == []


@pytest.mark.parametrize("what", ["text", "a day far off", "74 hours"])
def test_rows_that_are_hashed_after_the_push_are_not_judged_again(what: str) -> None:
    rows, schema = with_values(BAD_COLUMNS[what][0])
    assert looked(rows, schema, CheckLimits(ratio=1000, values=False)) == []


@pytest.mark.parametrize("limits", [ALL, SYSTEM_ONLY])
@pytest.mark.parametrize(
    ("year", "good"), [(1700, True), (1969, True), (2262, True), (9999, False)]
)
def test_times_of_96_bits_are_taken_as_far_as_all_readers_agree(
    limits: CheckLimits, year: int, good: bool
) -> None:
    when = datetime(year, 1, 31, 23, 59, 59, 999_999)
    column = pa.array([datetime(2020, 1, 1), when, None], pa.timestamp("us"))
    rows, _ = with_values(column)
    options = {"use_deprecated_int96_timestamps": True, "store_schema": False}
    content = parquet(rows, **options)
    read = pq.read_table(pa.py_buffer(content))
    schema = SetDataSchema(schema=from_arrow(read.schema))
    check = GateCheck(pa.py_buffer(content), claim_of(read, content, schema), limits)
    found = check.found(hash_all(check.streams))
    if good:
        assert found == []
    else:
        assert found[0].message.startswith("column `v`, offset 1: a time of 96 bits")
