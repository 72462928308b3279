"""Slices are left out only where they hold no row of the answer."""

from __future__ import annotations

import datetime
import io
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sliced import SCHEMA, A, learned, random_filters, random_slices, view_of_slices

from odf_protocol.columns.slice_file import Chunk, StatedBounds
from odf_protocol.instant import Instant
from odf_protocol.kartothek.predicates import Op, Term, mask_of, term_mask
from odf_storage.datasets.pruning import footers
from odf_storage.datasets.pruning.bounds import (
    BoundsIndex,
    BoundsOfSlice,
    predicate_of,
    slices_to_open,
)
from odf_storage.datasets.pruning.filters import Filter, MalformedFilter, equal, parsed_filter
from odf_storage.datasets.pruning.learned import Bounds, LearnedBounds
from odf_storage.datasets.read import scan
from odf_storage.datasets.read.read import RowsRequest, narrowed_for, rows_of
from odf_storage.datasets.read.rows import Projection, RowCut
from odf_storage.datasets.read.scan import NOTHING_KNOWN, KnownBounds, narrowed
from odf_storage.datasets.read.view import View


def answer(
    view: View, asked: RowsRequest, known: KnownBounds = NOTHING_KNOWN
) -> list[dict[str, Any]]:
    narrow = narrowed_for(view, asked, known)
    with rows_of(narrow, asked) as (schema, batches):
        rows: list[dict[str, Any]] = pa.Table.from_batches(batches, schema).to_pylist()
    return rows


def plain(rows: list[dict[str, Any]]) -> list[str]:
    return [repr(row) for row in rows]


@pytest.mark.parametrize("seed", range(6))
def test_a_filtered_answer_is_the_whole_answer_filtered_whatever_is_known(seed: int) -> None:
    """Nulls, NaN, both zeros, retractions; every operator, type and projection."""
    chance = random.Random(seed)
    view, _ = view_of_slices(random_slices(chance), key=chance.choice([("city",), ("rate", "day")]))
    known, left_out = learned(view), 0
    for _ in range(20):
        filters = random_filters(chance)
        cut = chance.choice([RowCut(), RowCut(event_time=Instant.parse("2024-01-01T00:00:04Z"))])
        projection = chance.choice(list(Projection))
        whole = answer(view, RowsRequest(projection=projection, cut=cut))
        table = pa.Table.from_pylist(whole, SCHEMA)
        predicate = predicate_of(filters, SCHEMA)
        mask = mask_of(
            predicate, lambda name, table=table: table[name].combine_chunks(), len(whole)
        )
        wanted = [row for row, is_true in zip(whole, mask.to_pylist(), strict=True) if is_true]
        asked = RowsRequest(projection=projection, cut=cut, filters=filters)
        assert plain(answer(view, asked)) == plain(wanted), filters
        assert plain(answer(view, asked, known)) == plain(wanted), filters
        left_out += len(view.slices) - narrowed_for(view, asked, known).scanned
    assert left_out > 10


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_footers_leave_out_no_row_of_the_answer_and_are_read_once(seed: int) -> None:
    chance = random.Random(seed)
    view, source = view_of_slices(random_slices(chance), key=("city",))
    known, left_out = LearnedBounds(10_000), 0
    for _ in range(20):
        asked = RowsRequest(
            projection=chance.choice(list(Projection)), filters=random_filters(chance)
        )
        narrow = narrowed(view, asked.filters, below=asked.projection, footers=known)
        with rows_of(narrow, asked) as (schema, batches):
            found = pa.Table.from_batches(batches, schema).to_pylist()
        assert plain(found) == plain(answer(view, asked)), asked.filters
        assert narrow.learned == {}
        left_out += narrow.total - narrow.scanned
        source.opened.clear()
        narrowed(view, asked.filters, below=asked.projection, footers=known)
        assert source.opened == []
    assert left_out > 10


def test_row_groups_that_cannot_hold_the_value_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, source = view_of_slices([[{"op": A, "pop": at} for at in range(100)]])
    (name,) = source.objects
    raw = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(source.objects[name])), raw, row_group_size=10)
    source.objects[name] = raw.getvalue()
    monkeypatch.setattr("odf_storage.datasets.read.scan._check_hash", lambda *_: None)
    read: list[Any] = []
    whole = scan.batches_of
    monkeypatch.setattr(
        scan,
        "batches_of",
        lambda *given, **more: read.append(more["groups"]) or whole(*given, **more),
    )
    asked = RowsRequest(filters=(parsed_filter("pop:in:42,77"),))
    narrow = narrowed(view, asked.filters, footers=LearnedBounds(10))
    with rows_of(narrow, asked) as (_, batches):
        assert [row["pop"] for batch in batches for row in batch.to_pylist()] == [42, 77]
    assert read == [[4, 7]]


def test_a_footer_without_bounds_or_that_cannot_be_read_leaves_out_nothing() -> None:
    view, source = view_of_slices([[{"op": A, "pop": 1}], [{"op": A, "pop": 2}]])
    bare, broken = source.objects
    raw = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(source.objects[bare])), raw, write_statistics=False)
    source.objects[bare], source.objects[broken] = raw.getvalue(), b"no Parquet"
    asked = (parsed_filter("pop:eq:7"),)
    assert narrowed(view, asked, footers=LearnedBounds(10)).scanned == 2


@pytest.mark.parametrize(
    ("raw", "kind", "value"),
    [
        ((-5).to_bytes(8, "little", signed=True), pa.int64(), -5),
        ((7).to_bytes(4, "little"), pa.int16(), 7),
        (b"\x01", pa.int64(), None),
        (b"", pa.timestamp("ms", "UTC"), None),
        (bytes(12), pa.timestamp("ns"), None),
        (bytes(8), pa.date32(), None),
        (bytes(8), pa.uint64(), None),
        (bytes(8), pa.float64(), None),
        ("ö".encode(), pa.string(), "ö"),
        (b"\xff", pa.string(), None),
        (b"x" * 257, pa.string(), None),
    ],
)
def test_a_bound_in_a_footer_counts_only_in_the_form_of_its_type(
    raw: bytes, kind: pa.DataType, value: object
) -> None:
    chunk = Chunk(1, 1, 1, 1, None, (), StatedBounds(0, raw, raw))
    found = footers._stated(chunk, kind)
    assert (found.least, found.type) == (value, "" if value is None else str(kind))


def test_slices_that_cannot_hold_the_value_are_not_opened() -> None:
    rows = [[{"op": A, "pop": number * 10 + at} for at in range(3)] for number in range(200)]
    view, source = view_of_slices(rows)
    known = learned(view)
    source.opened.clear()
    asked = RowsRequest(filters=(parsed_filter("pop:eq:42"),))
    assert [row["offset"] for row in answer(view, asked, known)] == [14]
    assert len(source.opened) == 1
    beyond = RowsRequest(
        filters=(parsed_filter("pop:in:41,1001,5000"), parsed_filter("offset:lt:200"))
    )
    assert narrowed_for(view, beyond, known).scanned == 1
    assert (
        narrowed_for(view, RowsRequest(filters=(parsed_filter("pop:null"),)), known).scanned == 200
    )


def test_offsets_are_found_without_anything_learned() -> None:
    view, source = view_of_slices([[{"op": A}] * 5 for _ in range(20)])
    asked = RowsRequest(filters=(parsed_filter("offset:ge:12"), parsed_filter("offset:lt:16")))
    assert [row["offset"] for row in answer(view, asked)] == [12, 13, 14, 15]
    assert len(source.opened) == 2


def test_bounds_are_learned_only_of_slices_that_were_read_to_their_end() -> None:
    view, _ = view_of_slices([[{"op": A, "pop": 1}] * 3 for _ in range(3)])
    asked = RowsRequest(filters=(parsed_filter("pop:eq:1"),), limit=1)
    narrow = narrowed_for(view, asked)
    with rows_of(narrow, asked) as (_, batches):
        assert sum(batch.num_rows for batch in batches) == 1
    assert narrow.learned == {}
    late = RowsRequest(
        filters=(parsed_filter("pop:eq:1"),),
        cut=RowCut(system_time=Instant.parse("2024-01-01T00:00:00Z")),
    )
    narrow = narrowed_for(view, late)
    with rows_of(narrow, late) as (_, batches):
        list(batches)
    assert [name for name, _ in narrow.learned] == [str(view.slices[0][0].physical_hash)]


def test_bounds_of_another_type_and_slices_without_bounds_restrict_nothing() -> None:
    of_int = BoundsIndex("n", pa.int64(), [Bounds("int32", 1, 2), None, Bounds("int64", 5, 9)])
    told = of_int.may_hold(Term("n", Op.EQUAL, pa.scalar(3, pa.int64())))
    assert told is not None
    assert told.tolist() == [True, True, False]
    assert of_int.may_hold(Term("m", Op.EQUAL, pa.scalar(3, pa.int64()))) is None


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.uint64(), [0, 2**63, 2**64 - 1]),
        (pa.int64(), [-(2**63), 0, 2**63 - 1]),
        (pa.decimal128(38, 38), [Decimal("9e-1"), Decimal("1e-38"), Decimal("-1e-38")]),
        (pa.decimal256(76, 0), [Decimal("9" * 76), Decimal(0), Decimal("-" + "9" * 76)]),
        (pa.date64(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
        (pa.timestamp("ns", "+05:30"), [-(2**63) + 1, 0, 2**63 - 1]),
        (pa.string(), ["", "\x00", "\U0010ffff"]),
    ],
)
def test_bounds_of_the_widest_values_leave_out_no_slice_with_the_value(
    kind: pa.DataType, values: list[Any]
) -> None:
    """Each value is a slice, and so are all of them."""
    known = []
    for held in (*([each] for each in values), values):
        seen = BoundsOfSlice(kind)
        seen.add(pa.array(held, kind))
        known.append(seen.bounds())
    index = BoundsIndex("v", kind, [*known, None])
    for at, value in enumerate(values):
        told = index.may_hold(Term("v", Op.EQUAL, pa.scalar(value, kind)))
        wanted = [each == at for each in range(len(values))]
        assert told is not None
        assert told.tolist() == [*wanted, True, True]


def test_times_of_day_are_compared() -> None:
    schema = pa.schema([("s", pa.time32("s")), ("ns", pa.time64("ns"))])
    at_noon = predicate_of(equal(["s", "ns"], ["12:00", "12:00:00.000000001"]), schema)[0]
    assert [term.value.cast(pa.int64()).as_py() for term in at_noon if term.column == "ns"] == [
        43_200 * 10**9 + 1
    ]
    assert term_mask(at_noon[0], pa.array([43_200, 1, None], pa.time32("s"))).to_pylist() == [
        True, False, False,
    ]  # fmt: skip
    for text in ("12:00:00.5", "24:00", "12", "noon"):
        with pytest.raises(MalformedFilter):
            predicate_of(equal(["s"], [text]), schema)


def test_any_branch_of_an_or_that_no_index_answers_opens_all() -> None:
    schema = pa.schema([("n", pa.int64())])
    index = BoundsIndex("n", pa.int64(), [Bounds("int64", 0, 1), Bounds("int64", 5, 9)])
    equal_to = Term("n", Op.EQUAL, 7)
    assert slices_to_open(2, [[equal_to]], schema, [index]).tolist() == [False, True]
    either = [[equal_to], [Term("n", Op.NOT_EQUAL, 3)]]
    assert slices_to_open(2, either, schema, [index]).tolist() == [True, True]
    assert slices_to_open(2, [], schema, [index]).tolist() == [False, False]


def test_texts_that_are_no_text_and_long_ones_have_no_bounds() -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    )
    for values in (broken, pa.array(["x" * 300])):
        seen = BoundsOfSlice(pa.string())
        seen.add(values)
        assert seen.bounds() is None


@pytest.mark.parametrize(
    "text",
    ["", "pop", "pop:is:3", "pop:eq", "pop:null:3", ":eq:3", 'pop:in:"a'],
)
def test_a_filter_that_is_not_written_as_one_is_refused(text: str) -> None:
    with pytest.raises(MalformedFilter):
        parsed_filter(text)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("pop", "1.5"),
        ("pop", "9999999999"),
        ("pop", "١"),
        ("rate", "many"),
        ("day", "2024-02-30"),
        ("price", "1.505"),
        ("price", "NaN"),
        ("is_big", "1"),
        ("raw", "0g"),
        ("event_time", "2024-01-01"),
        ("event_time", "2024-01-01T00:00:00.0005Z"),
        ("city", "\ud800"),
        ("city", "x" * 5000),
    ],
)
def test_a_value_that_the_column_cannot_have_is_refused(column: str, text: str) -> None:
    with pytest.raises(MalformedFilter):
        predicate_of(equal([column], [text]), SCHEMA)


def test_values_of_in_are_written_as_in_csv() -> None:
    assert parsed_filter('a:b:in:x,"y, z"') == Filter("a:b", "in", ("x", "y, z"))
    assert parsed_filter("a:eq:b:eq:c") == Filter("a", "eq", ("b:eq:c",))
    assert parsed_filter("a:eq:") == Filter("a", "eq", ("",))


def test_the_memory_of_bounds_is_bounded_and_forgets_what_nobody_asks_for() -> None:
    memory = LearnedBounds(3)
    for column in "abc":
        memory.learn("d", [("s1", column, Bounds("int64", 0, 1))])
    assert memory.of("d", ["a"], ["s1", "s2"]) == {"a": [Bounds("int64", 0, 1), None]}
    memory.learn("d", [("s2", "c", Bounds("int64", 0, 1))])
    assert memory.of("d", ["a", "b", "c"], ["s1"]).keys() == {"a", "c"}
    nothing = LearnedBounds(0)
    nothing.learn("d", [("s1", "a", Bounds("int64", 0, 1))])
    assert nothing.of("d", ["a"], ["s1"]) == {}


def test_a_slice_is_narrowed_by_the_part_of_a_filter_that_may_go_below_a_projection(
    tmp_path: Path,
) -> None:
    view, _ = view_of_slices(
        [[{"op": A, "city": "a", "pop": 1}], [{"op": A, "city": "a", "pop": 2}]], key=("city",)
    )
    known = learned(view)
    by_pop = RowsRequest(projection=Projection.STATE, filters=(parsed_filter("pop:eq:1"),))
    assert answer(view, by_pop, known) == []
    assert narrowed(view, by_pop.filters, below=Projection.STATE, known=known).scanned == 2
    assert narrowed(view, by_pop.filters, known=known).scanned == 1
