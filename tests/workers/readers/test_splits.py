"""A file that is read in splits gives what it gives as a whole, with lines as they are in it."""

from __future__ import annotations

import io
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import footers
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import NodeError
from odf_protocol.metadata.sources import ReadStep
from odf_protocol.sources.csv_header import HeaderMismatch
from odf_workers.readers.formats import csv_cuts as cuts_of_csv
from odf_workers.readers.formats import splits as splits_of_files
from odf_workers.readers.formats.csv_cuts import csv_cuts
from odf_workers.readers.formats.parquet import values_size
from odf_workers.readers.formats.read import SplitRead, open_frame, open_split
from odf_workers.readers.formats.splits import Splits, plan_splits, unpacked_size
from odf_workers.readers.values.csv_records import CsvFormat, CsvRecords
from odf_workers.readers.values.rejected import Rejected
from odf_workers.runtime.command import PrepareLimits
from odf_workers.slices.schema import BadRow, Limits

pytestmark = pytest.mark.usefixtures("whichever_is_quicker")

COLUMNS = ["id BIGINT", "text STRING"]
CSV: dict[str, Any] = {"kind": "Csv", "header": True, "schema": COLUMNS}
NDJSON: dict[str, Any] = {"kind": "NdJson", "schema": COLUMNS}


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits_of_files, "SMALLEST_SPLIT_BYTES", 200)
    monkeypatch.setattr(splits_of_files, "SCAN_BYTES", 64)
    monkeypatch.setattr(cuts_of_csv, "SCAN_BYTES", 64)


def planned(step: dict[str, Any], path: Path, width: int = 4) -> tuple[SplitRead, Splits]:
    read = from_data(step, ReadStep)
    frame = open_frame(read, path, Limits())
    assert frame is not None
    schema = frame.schema
    found = plan_splits(read, path, schema, width, path.stat().st_size)
    return (
        SplitRead(step=read, limits=Limits(), schema=schema, names_columns=found.names_columns),
        found,
    )


def rows_of(step: dict[str, Any], path: Path) -> tuple[pa.Table, int]:
    """Rows of all splits, and how many there are."""
    read, found = planned(step, path)
    tables = []
    for split in found.splits:
        with open_split(read, split, None) as frame:
            assert frame is not None
            tables.append(frame.table())
    return pa.concat_tables(tables), len(found.splits)


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("header", [True, False])
def test_a_csv_file_is_cut_outside_of_quotes(tmp_path: Path, header: bool, end: str) -> None:
    lines = [f'{n},"a ""quoted"" text,\nof {n}"' for n in range(200)]
    head = ["id,text"] if header else []
    path = written(tmp_path / "x.csv", end.join([*head, *lines]) + end)
    table, count = rows_of({**CSV, "header": header}, path)
    assert count > 2
    assert table.column("id").to_pylist() == list(range(200))
    assert table.column("text")[7].as_py() == 'a "quoted" text,\nof 7'


def test_columns_in_another_order_are_found_in_every_split(tmp_path: Path) -> None:
    text = "text,id\n" + "".join(f"t{n},{n}\n" for n in range(300))
    table, count = rows_of(CSV, written(tmp_path / "x.csv", text))
    assert count > 2
    assert table.column("id").to_pylist() == list(range(300))


def test_a_row_that_looks_like_a_header_is_a_row_where_a_split_begins(tmp_path: Path) -> None:
    step = {"kind": "Csv", "schema": ["id STRING", "text STRING"]}
    text = "1,2\n" * 100 + "id,text\n" * 200
    table, count = rows_of(step, written(tmp_path / "x.csv", text))
    assert (count > 2, table.num_rows) == (True, 300)


@pytest.mark.parametrize("header", ["", "id,text\n"])
def test_a_byte_order_mark_is_no_part_of_a_value(tmp_path: Path, header: str) -> None:
    rows = "".join(f"t{n},{n}\n" if n != 250 else "t,x\n" for n in range(300))
    text = "\ufeff" + header + rows
    step = {"kind": "Csv", "header": bool(header), "schema": ["id STRING", "text STRING"]}
    path = written(tmp_path / "x.csv", text)
    table, count = rows_of(step, path)
    assert count > 2
    assert table.column("id").to_pylist()[:2] == ["t0", "t1"]
    bad = {**step, "schema": ["id STRING", "text BIGINT"]}
    with pytest.raises(BadRow) as refused:
        rows_of(bad, path)
    assert refused.value.facts["line"] == 251 + bool(header)


def test_many_blank_lines_before_the_header_are_in_no_split(tmp_path: Path) -> None:
    text = "\n" * 1000 + "id,text\n" + "".join(f"{n},t\n" for n in range(300))
    table, count = rows_of(CSV, written(tmp_path / "x.csv", text))
    assert (count > 2, table.num_rows) == (True, 300)


def test_a_header_that_the_source_says_is_none_is_refused_before_a_file_is_cut(
    tmp_path: Path,
) -> None:
    step = {"kind": "Csv", "schema": ["id STRING", "text STRING"]}
    path = written(tmp_path / "x.csv", "\nText,id\n" + "1,2\n" * 300)
    with pytest.raises(HeaderMismatch) as whole:
        open_frame(from_data(step, ReadStep), path, Limits())
    with pytest.raises(HeaderMismatch) as split:
        plan_splits(
            from_data(step, ReadStep),
            path,
            pa.schema([("id", pa.string()), ("text", pa.string())]),
            4,
            path.stat().st_size,
        )
    assert str(split.value) == str(whole.value)
    assert split.value.facts == whole.value.facts == {"line": 2}


def test_without_declared_columns_no_row_is_a_header(tmp_path: Path) -> None:
    text = "column_1,column_2\n" + "1,2\n" * 300
    table, count = rows_of({"kind": "Csv"}, written(tmp_path / "x.csv", text))
    assert (count > 2, table.num_rows) == (True, 301)


@pytest.mark.parametrize(
    "text",
    [
        'a 6" pipe,1\n' * 100,
        '"x" y,1\n' * 100,
        "1,2\r" * 200,
        '1,"never closed\n' + "2,3\n" * 200,
        '1,"an \\" escape"\n' * 100,
    ],
)
def test_a_csv_file_is_not_cut_where_only_a_reader_can_tell_records(
    tmp_path: Path, text: str
) -> None:
    step = from_data({"kind": "Csv", "schema": ["id STRING", "text STRING"]}, ReadStep)
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    found = plan_splits(step, written(tmp_path / "x.csv", text), schema, 4, len(text))
    assert len(found.splits) == 1
    assert found.whole_because


def test_records_of_json_are_cut_between_them(tmp_path: Path) -> None:
    records = [{"id": n, "text": "} {", "more": [{"a": 1}, {"b": n}]} for n in range(200)]
    text = "\n".join(map(json.dumps, records))
    table, count = rows_of(NDJSON, written(tmp_path / "x.json", text))
    assert count > 2
    assert table.column("id").to_pylist() == list(range(200))


@pytest.mark.parametrize(
    ("step", "head", "row", "bad"),
    [(CSV, "id,text\n", "{n},t\n", "x,t\n"), (NDJSON, "", '{{"id": {n}}}\n', '{"id": "x"}\n')],
)
def test_a_bad_row_of_the_last_split_is_told_by_its_line_in_the_file(
    tmp_path: Path, step: dict[str, Any], head: str, row: str, bad: str
) -> None:
    rows = [row.format(n=n) for n in range(200)]
    path = written(tmp_path / "x", head + "".join(rows[:190]) + bad + "".join(rows[190:]))
    with pytest.raises(BadRow) as whole:
        open_frame(from_data(step, ReadStep), path, Limits()).table()  # type: ignore[union-attr]
    with pytest.raises(BadRow) as split:
        rows_of(step, path)
    assert str(split.value) == str(whole.value)
    assert split.value.facts == whole.value.facts
    assert split.value.facts["line"] == 191 + bool(head)


def test_rows_set_aside_by_splits_have_the_numbers_and_lines_of_the_file(tmp_path: Path) -> None:
    rows = [f"{n},t\n" if n % 50 else "x,t\n" for n in range(200)]
    path = written(tmp_path / "x", "id,text\n" + "".join(rows))
    whole = Rejected(10)
    open_frame(from_data(CSV, ReadStep), path, Limits(), whole).table()  # type: ignore[union-attr]
    read, found = planned(CSV, path)
    joined, before = Rejected(10), 0
    for split in found.splits:
        own = Rejected(10, lines=split.lines)
        with open_split(read, split, own) as frame:
            assert frame is not None
            before_next = before + frame.table().num_rows + len(own)
        joined.follow(own.rows(), before)
        before = before_next
    assert len(found.splits) > 2
    assert joined.rows() == whole.rows()


def test_parquet_is_cut_at_its_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"id": list(range(1000)), "text": [str(n) * 9 for n in range(1000)]})
    pq.write_table(table, path, row_group_size=90)
    found, count = rows_of({"kind": "Parquet"}, path)
    assert count > 2
    assert found.equals(table)


def test_parquet_of_one_row_group_is_one_split(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": list(range(1000))}), path)
    found = plan_splits(from_data({"kind": "Parquet"}, ReadStep), path, None, 4, 8000)
    assert (len(found.splits), found.whole_because) == (1, "it has one row group")


def constant(path: Path, **options: Any) -> Path:
    """A Parquet file of 100,000 times the same number and text, which is small on the disk."""
    table = pa.table({"id": [7] * 100_000, "text": ["the same text"] * 100_000})
    pq.write_table(table, path, **options)
    return path


def test_the_size_of_parquet_is_that_of_its_values(tmp_path: Path) -> None:
    for dictionary in (True, False):
        path = constant(tmp_path / "x.parquet", use_dictionary=dictionary, compression="zstd")
        assert path.stat().st_size < 50_000
        assert values_size(path, Limits()) >= 1_600_000


def test_parquet_is_cut_by_the_size_of_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits_of_files, "SMALLEST_SPLIT_BYTES", 200_000)
    path = constant(tmp_path / "x.parquet", row_group_size=10_000)
    step = from_data({"kind": "Parquet"}, ReadStep)
    size = unpacked_size(step, path, Limits())
    assert len(plan_splits(step, path, None, 4, size).splits) > 2


def test_a_file_has_at_least_its_size_on_the_disk_or_the_error_of_its_reader(
    tmp_path: Path,
) -> None:
    whole, path = footers.written(footers.many_kinds()), tmp_path / "x.parquet"
    step = from_data({"kind": "Parquet"}, ReadStep)
    refused = 0
    for made in [*footers.harmed(whole, 200), whole[:-9], whole[:3], b""]:
        path.write_bytes(made)
        try:
            assert values_size(path, Limits()) >= len(made)
        except NodeError as bad:
            refused += 1
            with pytest.raises(type(bad), match=re.escape(bad.message)):
                open_frame(step, path, Limits())
    assert refused > 2


def test_row_groups_are_read_without_the_bytes_of_others(tmp_path: Path) -> None:
    path = constant(tmp_path / "x.parquet", row_group_size=30_000)
    read, found = planned({"kind": "Parquet"}, path)
    assert len(found.splits) > 1
    content, rows = path.read_bytes(), 0
    for split in found.splits:
        assert split.spans is not None
        there = bytearray(len(content))
        for span in split.spans:
            there[slice(*span)] = content[slice(*span)]
        path.write_bytes(there)
        with open_split(read, split, None) as frame:
            assert frame is not None
            rows += frame.table().num_rows
    assert rows == 100_000


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_cut(tmp_path: Path) -> None:
    path = constant(tmp_path / "x.parquet", row_group_size=10_000)
    limits = Limits(archives=PrepareLimits(max_bytes=1_000_000))
    with refusing("DecompressionTooLarge"):
        unpacked_size(from_data({"kind": "Parquet"}, ReadStep), path, limits)


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.sampled_from(["1", "", "a b", '"x,y"', '"l\nm"', '"q""q"', '""']), min_size=2),
        min_size=1,
        max_size=40,
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    extra=st.tuples(st.integers(0, 400), st.sampled_from(["", "", '"', "\r", "\\"])),
)
def test_records_of_all_parts_are_those_of_the_whole(
    rows: list[list[str]], end: str, extra: tuple[int, str]
) -> None:
    text = end.join(",".join(row) for row in rows) + end
    raw = (text[: extra[0]] + extra[1] + text[extra[0] :]).encode()
    cuts = csv_cuts(io.BytesIO(raw), 40, quote='"', separator=",", escape=None)
    if cuts is None:
        return
    bounds = [0, *(at for at, _ in cuts), len(raw)]
    form = CsvFormat(escape=None)
    whole = [each.fields for each in CsvRecords(io.BytesIO(raw), form, Limits())]
    parts = [
        each.fields
        for start, stop in pairwise(bounds)
        for each in CsvRecords(io.BytesIO(raw[start:stop]), form, Limits())
    ]
    assert parts == whole
    assert [lines for _, lines in cuts] == [raw[:at].count(b"\n") for at, _ in cuts]
