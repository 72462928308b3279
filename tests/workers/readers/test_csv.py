"""Csv: where errors are, what is null, and that both tokenizers agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import ReadStepCsv
from odf_protocol.sources.csv_header import HeaderMismatch
from odf_workers.readers.formats import csv as csv_reader
from odf_workers.readers.formats.read import open_frame
from odf_workers.readers.values import csv_records as csv_arrow
from odf_workers.readers.values.csv_records import CsvFormat, CsvRecords
from odf_workers.slices.schema import BadInputSchema, BadRow, Frame, InputTooLarge, Limits

pytestmark = pytest.mark.usefixtures("whichever_is_quicker")

SCHEMA = {
    "fields": [
        {"name": "city", "type": "String"},
        {"name": "population", "type": {"kind": "Option", "inner": "Int64"}},
    ]
}
TEXTS = {"fields": [{"name": name, "type": {"kind": "Option", "inner": "String"}} for name in "ab"]}


def read(folder: Path, content: str | bytes, limits: Limits | None = None, **options: Any) -> Any:
    path = folder / "input.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    step = from_data({"kind": "Csv", **options}, ReadStepCsv)
    frame: Frame | None = open_frame(step, path, limits or Limits())
    return None if frame is None else frame.table().to_pydict()


def refusal(folder: Path, content: str | bytes, **options: Any) -> BadRow:
    with pytest.raises(BadRow) as caught:
        read(folder, content, **options)
    return caught.value


def test_a_bad_number_is_reported_with_line_column_and_value(tmp_path: Path) -> None:
    text = "city,population\nA,1\n\nB,twelve\nC,3\n"
    bad = refusal(tmp_path, text, schema=SCHEMA, header=True)
    assert bad.facts == {"line": 4, "column": "population", "value": "twelve"}
    assert "line 4" in bad.message


def test_lines_are_counted_through_line_breaks_in_quotes(tmp_path: Path) -> None:
    bad = refusal(tmp_path, 'A,1\n"B\nC\nD",2\nE,x\n', schema=SCHEMA)
    assert bad.facts == {"line": 5, "column": "population", "value": "x"}


def test_a_bad_row_far_down_is_found_where_it_is(tmp_path: Path) -> None:
    text = "".join(f"city{n},{n}\n" for n in range(150_000)) + "Z,?\n"
    bad = refusal(tmp_path, text, schema=SCHEMA)
    assert bad.facts == {"line": 150_001, "column": "population", "value": "?"}


def test_nothing_in_a_required_column_is_refused(tmp_path: Path) -> None:
    bad = refusal(tmp_path, "A,1\n,2\n", schema=SCHEMA)
    assert bad.facts == {"line": 2, "column": "city"}


@pytest.mark.parametrize(("row", "found"), [("B", 1), ("B,2,3", 3)])
def test_a_row_of_another_width_is_refused(row: str, found: int, tmp_path: Path) -> None:
    bad = refusal(tmp_path, f"A,1\n{row}\n", schema=SCHEMA)
    assert bad.facts["line"] == 2
    assert f"2 fields expected, {found} found" in bad.message


@pytest.mark.parametrize("header", [True, False])
def test_a_file_with_another_separator_is_refused_with_the_one_it_has(
    tmp_path: Path, header: bool
) -> None:
    for sign in (";", "\t", "|"):
        text = f"city{sign}population\nA{sign}1\n" if header else f"A{sign}1\nB{sign}2\n"
        with pytest.raises(BadInput) as caught:
            read(tmp_path, text, schema=SCHEMA, header=header)
        assert repr(sign) in caught.value.message
        assert "separator" in caught.value.message
    one = {"fields": [{"name": "city", "type": "String"}]}
    with pytest.raises(BadInput, match="';' cuts the header into declared names"):
        read(tmp_path, "city;population\nA;1\n", schema=one, header=True)


def test_bytes_that_are_no_text_are_refused_by_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, b"A,1\nB\xff,2\n", schema=SCHEMA).facts["line"] == 2


def test_a_quote_that_is_never_closed_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, 'A,1\n"B,2\nC,3\n', schema=SCHEMA).facts["line"] == 2


@pytest.mark.parametrize("last", ['3,"cut', '3,"', '3,"cut\n4,"", of it', '3,"ok\n4,after\n'])
def test_a_file_that_ends_within_quotes_is_refused_whatever_quotes_it_has(
    last: str, tmp_path: Path
) -> None:
    bad = refusal(tmp_path, f'a 12" pipe,1\nB,2\n{last}', schema=TEXTS, escape="")
    assert bad.facts["line"] == 3
    assert "never closed" in bad.message


@pytest.mark.parametrize("last", ["", "2x", "ä", '"ä"', '""', '"2"x', '"a\n"', '"a""b"', "2"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_a_last_value_that_is_null_or_has_quotes_is_closed(
    last: str, end: str, tmp_path: Path
) -> None:
    rows = read(tmp_path, 'a 12" pipe,1\nB,' + last + end, schema=TEXTS, escape="", nullValue="ä")
    plain = {"": None, "ä": None, '"ä"': None, '""': None, '"2"x': "2x", '"a\n"': "a\n"}
    assert rows["b"] == ["1", {**plain, '"a""b"': 'a"b'}.get(last, last)]


@pytest.mark.parametrize("last", ['"', '"""', '"ä', '"a\n', '"a\r\n\n', '"a""', '"a""b'])
def test_a_last_value_whose_quote_is_never_closed_is_refused(last: str, tmp_path: Path) -> None:
    text = f'a 12" pipe,1\nB,{last}'
    bad = refusal(tmp_path, text, schema=TEXTS, escape="", nullValue="ä")
    assert bad.facts["line"] == 2
    one = {"fields": TEXTS["fields"][:1]}
    for before in ("", "\ufeff", "\n", "x\n"):
        assert "never closed" in refusal(tmp_path, before + last, schema=one, escape="").message


@pytest.mark.parametrize(
    ("text", "header"),
    [("\n", True), ("\n", False), ("\ufeff", True), ("\ufeff", False), ("\ufeffa,b\n", True)],
)
def test_a_file_without_rows_has_none(text: str, header: bool, tmp_path: Path) -> None:
    assert read(tmp_path, text, schema=TEXTS, header=header) == {"a": [], "b": []}


@pytest.mark.parametrize("doublings", [0, 2])
def test_line_ends_inside_of_values_are_kept_where_a_block_ends(
    doublings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_arrow, "BLOCK_BYTES", 64)
    monkeypatch.setattr(csv_arrow, "BLOCK_DOUBLINGS", doublings)
    for size in range(100):
        text = f'1,{"x" * size}\r\n2,"a\r\n\nb"\r\n' + "3,y\r\n" * 30
        rows = read(tmp_path, text, schema=TEXTS)
        assert rows["b"] == ["x" * size or None, "a\r\n\nb", *["y"] * 30]


@pytest.mark.parametrize("header", [True, False])
def test_many_blank_lines_after_the_rows_are_skipped(header: bool, tmp_path: Path) -> None:
    text = ("a,b\n" if header else "") + "1,2\n" + "\n" * (csv_arrow.BLOCK_BYTES + 1)
    assert read(tmp_path, text, schema=TEXTS, header=header) == {"a": ["1"], "b": ["2"]}


def test_the_null_value_and_the_empty_field_are_null(tmp_path: Path) -> None:
    text = 'x,y\nNA,1\n"",NA\n"NA",\n'
    rows = read(tmp_path, text, header=True, inferSchema=True, nullValue="NA")
    assert rows == {"x": [None, None, None], "y": [1, None, None]}


def test_an_escape_counts_inside_quotes_only(tmp_path: Path) -> None:
    assert read(tmp_path, '"a\\"b",c\\d\n"e\\\\",""\n') == {
        "column_1": ['a"b', "e\\"],
        "column_2": ["c\\d", None],
    }


def test_an_empty_escape_leaves_backslashes_alone(tmp_path: Path) -> None:
    assert read(tmp_path, '"a\\","b"\n', escape="") == {"column_1": ["a\\"], "column_2": ["b"]}


def test_every_line_end_is_known(tmp_path: Path) -> None:
    assert read(tmp_path, "a\r\nb\rc\n\n\r\nd") == {"column_1": ["a", "b", "c", "d"]}


@pytest.mark.parametrize(
    "options",
    [
        {"separator": ";;"},
        {"separator": "é"},
        {"quote": ""},
        {"escape": "\\\\"},
        {"encoding": "rot13"},
        {"timestampFormat": "MM/dd/yyyy q"},
        {"dateFormat": "dd.MM"},
        {"schema": {"fields": [{"name": "l", "type": {"kind": "List", "itemType": "String"}}]}},
    ],
)
def test_what_is_not_supported_is_refused_by_name(options: Any, tmp_path: Path) -> None:
    with refusing("Unsupported", "UnsupportedPattern"):
        read(tmp_path, "a\n", **options)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputSchema, match="more than once"):
        read(tmp_path, "a,a\n1,2\n", header=True)


def test_limits_end_the_reading(tmp_path: Path) -> None:
    with pytest.raises(InputTooLarge, match="columns"):
        read(tmp_path, ",".join("abcd") + "\n", Limits(columns=3))
    with pytest.raises(InputTooLarge, match="longer than 10 bytes"):
        read(tmp_path, "a\n" + "b" * 11 + "\n", Limits(cell_bytes=10))
    with pytest.raises(InputTooLarge, match="record"):
        read(tmp_path, '"' + "b\n" * 200 + '"\n', Limits(row_bytes=100))


def test_types_are_inferred_from_all_values_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "input.csv"
    path.write_text("i,f,b,d,t,s\n1,1,true,2020-01-01,2020-01-01 00:00:00,x\n2,.5,FALSE,,,1\n")
    frame = open_frame(ReadStepCsv(header=True, infer_schema=True), path, Limits())
    assert frame is not None
    types = [str(kind) for kind in frame.schema.types]
    assert types == ["int64", "double", "bool", "date32[day]", "timestamp[s]", "string"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ("-9223372036854775808 9223372036854775807", "int64"),
        ("9223372036854775808", "string"),
        ("1 1.5 -.5 1e3", "double"),
        ("1 nan NaN -inf", "double"),
        ("+1", "string"),
        ("1 true", "string"),
        ("TRUE false", "bool"),
        ("2020-01-01", "date32[day]"),
        ("2020-1-1", "string"),
        ("2020-01-01 2020-01-01T00:00:00", "timestamp[s]"),
        ("2020-01-01T00:00:00 2020-01-01T00:00:00.5", "timestamp[ms]"),
        ("2020-01-01T00:00:00.1234Z", "timestamp[us]"),
        ("2020-01-01T00:00:00.1234567+01:00", "timestamp[ns]"),
        ("2020-01-01T00:00:00.1234567890", "string"),
        ("2020-01-01T00:00:00Europe/Vienna", "timestamp[s]"),
        ("2020-01-01T00:00", "timestamp[s]"),
        ("2020-01-01T23:00+01", "timestamp[s]"),
        ("01067", "string"),
        ("2020-01-01 1", "string"),
    ],
)
def test_an_inferred_type_holds_every_value(values: str, kind: str, tmp_path: Path) -> None:
    rows = values.split(" ")
    path = tmp_path / "input.csv"
    path.write_text("\n".join(["x", *rows, '""']))
    frame = open_frame(ReadStepCsv(header=True, infer_schema=True), path, Limits())
    assert frame is not None
    assert [str(field.type) for field in frame.schema] == [kind]
    assert frame.table().num_rows == len(rows) + 1


def test_of_a_column_without_values_no_type_is_inferred(tmp_path: Path) -> None:
    path = tmp_path / "input.csv"
    path.write_text("x,y\n,1\n" + ",1\n" * 2_000)
    step = ReadStepCsv(header=True, infer_schema=True)
    frame = open_frame(step, path, Limits())
    assert frame is not None
    assert frame.table().schema.field("x").type == pa.null()
    path.write_text("x,y\n" + ",1\n" * 2_000 + "late,1\n")
    frame = open_frame(step, path, Limits())
    assert frame is not None
    with pytest.raises(BadRow, match="line 2002, column `x`"):
        frame.table()


CELL = st.text(st.sampled_from('ab,"\n é;'), max_size=5)


@settings(deadline=None)
@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6))
def test_both_tokenizers_read_the_same_records(rows: list[tuple[str, str]]) -> None:
    import tempfile

    def quoted(cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"'

    form = CsvFormat(escape=None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input.csv"
        path.write_text("".join(",".join(map(quoted, row)) + "\n" for row in rows), newline="")
        with path.open("rb") as stream:
            own = [tuple(fields) for _, fields, _ in CsvRecords(stream, form, Limits())]
        frame = csv_reader.read_csv(ReadStepCsv(escape=""), path, None, Limits())
        assert frame is not None
        table = frame.table().to_pydict()
    assert own == rows
    found = list(zip(table["column_1"], table["column_2"], strict=True))
    assert found == [(a or None, b or None) for a, b in rows]


NAMED = {"fields": [{"name": name, "type": "String"} for name in ("carrier", "name")]}


def test_columns_in_another_order_are_taken_by_name(tmp_path: Path) -> None:
    text = "name,carrier\nAmerican,AA\n"
    assert read(tmp_path, text, schema=NAMED, header=True) == {
        "carrier": ["AA"],
        "name": ["American"],
    }


def test_a_quoted_value_goes_to_its_column_as_well(tmp_path: Path) -> None:
    text = 'Name, carrier\n"Ame\\"rican",AA\n'  # the escape has the own tokenizer read it
    assert read(tmp_path, text, schema=NAMED, header=True) == {
        "carrier": ["AA"],
        "name": ['Ame"rican'],
    }


def test_a_header_that_fits_in_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeaderMismatch, match="`name` is declared as another column"):
        read(tmp_path, "name,code\nAmerican,AA\n", schema=NAMED, header=True)


def test_renamed_columns_are_taken_by_position_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "input.csv"
    path.write_text("code,label\nAA,American\n")
    step = from_data({"kind": "Csv", "schema": NAMED, "header": True}, ReadStepCsv)
    frame = open_frame(step, path, Limits())
    assert frame is not None
    assert frame.table().to_pydict() == {"carrier": ["AA"], "name": ["American"]}
    assert frame.warnings == [
        "columns are taken by position: `code` as `carrier`, `label` as `name`"
    ]


@pytest.mark.parametrize(
    ("rule", "header", "taken"),
    [
        ("strict", "carrier,name", True),
        ("strict", "name,carrier", False),
        ("strict", "Carrier,name", False),
        ("position", "name,carrier", True),
        ("position", "name,x", True),
    ],
)
def test_a_source_may_ask_for_another_rule(
    rule: str, header: str, taken: bool, tmp_path: Path
) -> None:
    asked = {**NAMED, "extra": {"odf-node/csvHeader": rule}}
    try:
        rows = read(tmp_path, f"{header}\nAA,American\n", schema=asked, header=True)
    except HeaderMismatch:
        rows = None
    assert rows == ({"carrier": ["AA"], "name": ["American"]} if taken else None)


def test_errors_name_the_declared_column_of_a_field(tmp_path: Path) -> None:
    bad = refusal(tmp_path, "population,city\nx,A\n", schema=SCHEMA, header=True)
    assert bad.facts == {"line": 2, "column": "population", "value": "x"}


DAYS = {"fields": [{"name": "d", "type": "Date"}, {"name": "t", "type": "Timestamp"}]}


def test_dates_and_times_are_read_as_the_source_writes_them(tmp_path: Path) -> None:
    text = 'd,t\n"Jan 1 2000",31/12/1999 11:30 PM +0200\n"Feb 29 2000",01/01/2000 00:15 AM Z\n'
    formats = {"dateFormat": "MMM d yyyy", "timestampFormat": "dd/MM/yyyy hh:mm a Z"}
    good = text.replace("00:15", "12:15")
    rows = read(tmp_path, good, header=True, schema=DAYS, **formats)
    assert [str(day) for day in rows["d"]] == ["2000-01-01", "2000-02-29"]
    assert [str(t)[:16] for t in rows["t"]] == ["1999-12-31 21:30", "2000-01-01 00:15"]
    bad = refusal(tmp_path, text, header=True, schema=DAYS, **formats)
    assert bad.message == (
        "line 3, column `t`: not a value of type Timestamp (written as dd/MM/yyyy hh:mm a Z): "
        "'01/01/2000 00:15 AM Z'"
    )


def test_a_date_in_another_form_is_told_the_forms_there_are(tmp_path: Path) -> None:
    bad = refusal(tmp_path, "Jan 1 2000,2000-01-01\n", schema=DAYS)
    assert bad.message == (
        "line 1, column `d`: not a value of type Date (written as 2000-01-31; dateFormat takes "
        "other forms): 'Jan 1 2000'"
    )


def test_dates_without_separators_are_read(tmp_path: Path) -> None:
    rows = read(tmp_path, "20000131,20000131T235959Z\n2000-02-01,20000201\n", schema=DAYS)
    assert [str(day) for day in rows["d"]] == ["2000-01-31", "2000-02-01"]
    assert [str(t)[:19] for t in rows["t"]] == ["2000-01-31 23:59:59", "2000-02-01 00:00:00"]


def test_formats_count_when_types_are_inferred(tmp_path: Path) -> None:
    text = "d,e\nJan 1 2000,2000-01-01\nMay 2 2001,2000-01-02\n"
    rows = read(tmp_path, text, header=True, inferSchema=True, dateFormat="MMM d yyyy")
    assert [str(day) for day in rows["d"]] == ["2000-01-01", "2001-05-02"]
    assert rows["e"] == ["2000-01-01", "2000-01-02"]


@pytest.mark.parametrize("header", ["carrier,name", "Name, Carrier", '"name","carrier"'])
def test_a_header_where_none_is_announced_is_no_row(header: str, tmp_path: Path) -> None:
    with pytest.raises(HeaderMismatch, match="header: true"):
        read(tmp_path, f"{header}\nAA,American\n", schema=NAMED)
    assert read(tmp_path, "carrier,x\n", schema=NAMED) == {"carrier": ["carrier"], "name": ["x"]}
