"""Lines and texts in files that a proposal asks about, or reads as their writer meant them."""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing

from odf_node.proposal.options import OPTIONS, chosen, in_form, in_python
from odf_node.proposal.proposal import Proposal, propose
from odf_node.proposal.sample import SampleFormat, sample_of
from odf_node.proposal.wire import to_manifest
from odf_node.public.publish import publish
from odf_protocol.instant import Instant
from odf_workers.stages.preview import preview

NOW = Instant.parse("2026-01-01T00:00:00Z")


def proposed(text: str | bytes, name: str = "file.csv", **options: Any) -> Proposal:
    data = text.encode() if isinstance(text, str) else text
    return propose(sample_of(name, data, is_whole=True), chosen(options), now=NOW)


def kinds(proposal: Proposal) -> dict[str, str]:
    return {one.name: one.kind for one in proposal.columns}


@pytest.mark.parametrize(
    "text",
    [
        "id,v\n1,2\n2,3\nTotal,5\n",
        "id;v;w\n1;2;3\n4;5;6\nSumme;;9\n",
        "city,n\nOslo,5\nRoma,6\nTotal:,11\n",
        "day,n\n2025-01-01,5\n2025-01-02,6\nSource: the office,\n",
    ],
)
def test_a_last_row_that_is_not_like_the_others_is_asked_about(text: str) -> None:
    (asked,) = proposed(text).questions
    assert "--footer 1 leaves it out, --footer 0 keeps it" in asked
    left = proposed(text, footer=1)
    assert not left.questions
    assert left.looked_at == 2
    kept = proposed(text, footer=0)
    assert not kept.questions
    assert kept.looked_at == 3


def test_a_row_of_words_below_the_header_is_asked_about() -> None:
    text = "station,temp\nname,degC\nA,1.5\nB,2.5\n"
    (asked,) = proposed(text).questions
    assert "--units 1 leaves it out, --units 0 keeps it" in asked
    assert kinds(proposed(text, units=1)) == {"station": "String", "temp": "Float64"}
    assert not proposed(text, units=0).questions


def test_units_below_the_header_become_those_of_the_columns() -> None:
    text = "station,at,temp,wind\n,[UTC],(°C),m/s\nA,2025-01-01,1.5,3\nB,2025-01-02,2.5,4\n"
    said = {one.name: dict(one.attributes) for one in proposed(text).columns}
    assert said["temp"] == {"odf-node/unit": "°C"}
    assert said["wind"] == {"odf-node/unit": "m/s"}
    assert said["station"] == {}
    assert not proposed(text, units=0).columns[2].attributes


@pytest.mark.parametrize("text", ["k,n\nx,1\ny,2\nz,NA\n", "a,b\nx,1\ny,z\n", "a\n1,5\n2,5\n3,5\n"])
def test_rows_like_the_others_are_not_asked_about(text: str) -> None:
    assert not any("--footer" in one for one in proposed(text, separator=";").questions)


@pytest.mark.parametrize("again", ['"id","v"', "id , v"])
def test_a_header_that_is_repeated_with_other_quotes_is_no_row(again: str) -> None:
    proposal = proposed(f"id,v\n1,2\n{again}\n3,4\n")
    assert kinds(proposal) == {"id": "Int64", "v": "Int64"}
    assert proposal.looked_at == 2
    assert any("repeat the header" in note for note in proposal.notes)


def test_labels_in_even_steps_may_be_a_header() -> None:
    assert "--header" in proposed("x,0.25,0.5\nA,1,2\nB,3,4\n").questions[0]


def test_decimal_commas_in_all_rows_are_no_separators() -> None:
    proposal = proposed("day;v\n2025-01-01;1,5\n2025-01-02;2,5\n")
    assert kinds(proposal) == {"day": "Date", "v": "Float64"}


def test_codes_that_are_numbers_with_an_exponent_are_told() -> None:
    (told,) = (note for note in proposed("code,v\n1E05,1\n2E10,2\n").notes if "1E05" in note)
    assert "--type code=String" in told
    assert kinds(proposed("x,v\n1.5e-7,1\n2e+10,2\n"))["x"] == "Float64"


def test_numbers_that_may_have_thousands_are_told() -> None:
    text = "id;v\n1;1.234\n2;2.000\n"
    assert any("--thousands ." in note for note in proposed(text).notes)
    assert kinds(proposed(text, thousands="."))["v"] == "Int64"
    assert not any("--thousands" in note for note in proposed("id;v\n1;1.234\n2;0.5\n").notes)
    assert any("'1.234' is read" in note for note in proposed("id;v\n1;3\n2;1.234\n").notes)


@pytest.mark.parametrize(
    ("rows", "decimal", "thousands"),
    [
        (["1,5", "2,5"], ",", ""),
        (["1,5", "2,5", "1.234.567"], ",", "."),
        (["1.234.567"], ",", "."),
        (["1 234 567"], ".", " "),
        (["1'234'567"], ".", "'"),
        (["1 234 567,5"], ",", " "),
    ],
)
def test_only_signs_that_the_file_has_are_proposed(
    rows: list[str], decimal: str, thousands: str
) -> None:
    proposal = proposed("id;v\n" + "".join(f"{at};{row}\n" for at, row in enumerate(rows)))
    assert kinds(proposal)["v"] in ("Int64", "Float64")
    assert proposal.read.schema is not None
    extra = proposal.read.schema.extra
    found = {} if extra is None else extra.value
    assert found.get("odf-node/decimal", ".") == decimal
    assert found.get("odf-node/thousands", "") == thousands
    assert any("between thousands" in note for note in proposal.notes) == bool(thousands)


def test_the_column_that_shows_more_signs_decides_for_the_others() -> None:
    proposal = proposed("id;a;b\n1;1,5;1 234,5\n2;2,5;12,5\n")
    assert kinds(proposal) == {"id": "Int64", "a": "Float64", "b": "Float64"}
    assert any("' ' between thousands" in note for note in proposal.notes)


@pytest.mark.parametrize("numbers", [("1.5", "2"), ("1,5", "2,25"), ("7", "8")])
def test_the_word_nan_of_loggers_is_named_with_the_option_for_it(numbers: tuple[str, str]) -> None:
    text = "id;v\n1;{}\n2;NAN\n3;{}\n".format(*numbers)
    (told,) = (note for note in proposed(text).notes if "NAN" in note)
    assert told == "v: numbers beside the word 'NAN', so text (--null NAN makes it no value)"
    assert kinds(proposed(text, null=["NAN"]))["v"] in ("Float64", "Int64")


BORN = "born,name\n13/02/34,a\n,b\n28/02/68,c\n"


def test_years_of_two_digits_that_would_be_far_ahead_are_asked_about() -> None:
    (asked,) = proposed(BORN).questions
    assert "2068-02-28" in asked
    assert "--type born=String keeps the texts" in asked
    assert "--type born=Date if that is meant" in asked
    text = proposed(BORN, types={"born": "String"})
    assert not text.questions
    assert text.columns[0].values == ("13/02/34", None, "28/02/68")
    meant = proposed(BORN, types={"born": "Date"})
    assert not meant.questions
    assert str(meant.columns[0].values[0]) == "2034-02-13"
    assert "born: two digits of a year are read as 2000 to 2099" in meant.notes


@pytest.mark.parametrize(
    ("value", "doubtful"),
    [("13.01.26", False), ("31.01.27", True), ("31.01.27 10:00", True), ("31.01.2027", False)],
)
def test_years_of_two_digits_are_told_and_asked_about_beyond_a_year(
    value: str, doubtful: bool
) -> None:
    proposal = proposed(f"at,n\n{value},1\n{value},2\n")
    assert bool(proposal.questions) == doubtful
    told = any("two digits of a year are read as 2000 to 2099" in one for one in proposal.notes)
    assert told == ("2027" not in value)


def test_days_that_a_spreadsheet_counts_are_told() -> None:
    proposal = proposed("date,v\n45658,1\n45659,2\n")
    assert kinds(proposal)["date"] == "Int64"
    assert any("days of a spreadsheet" in note for note in proposal.notes)
    assert not any("spreadsheet" in note for note in proposed("v,day\n45658,1\n45659,2\n").notes)


def test_a_column_of_points_is_read_as_another_column_tells() -> None:
    proposal = proposed("id;price;pieces\n1;1.234,50;1.000\n2;12,75;3\n")
    assert kinds(proposal) == {"id": "Int64", "price": "Float64", "pieces": "Int64"}
    assert proposal.columns[2].values == (1000, 3)
    assert any("'.' between thousands" in note for note in proposal.notes)
    clear = proposed("id;price;pieces\n1;1.234,50;1.5\n2;12,75;1.000\n")
    assert kinds(clear) == {"id": "Int64", "price": "String", "pieces": "Float64"}


def test_days_among_times_are_times_of_midnight() -> None:
    proposal = proposed("at,v\n2025-01-01T10:30:00,1\n2025-01-02,2\n")
    assert kinds(proposal)["at"] == "Timestamp"
    assert proposal.columns[0].values[1].isoformat() == "2025-01-02T00:00:00+00:00"


@pytest.mark.parametrize("text", ["1e-400", "2.5e-324", "123456789.123456789"])
def test_numbers_that_no_float_keeps_stay_text(text: str) -> None:
    assert kinds(proposed(f"x,v\n{text},1\n1.5,2\n"))["x"] == "String"


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_a_packed_file_of_several_parts_is_looked_at_whole(
    ending: str, pack: Callable[[bytes], bytes]
) -> None:
    proposal = proposed(pack(b"id,v\n1,2\n") + pack(b"3,4\n"), f"f.csv.{ending}")
    assert kinds(proposal) == {"id": "Int64", "v": "Int64"}
    assert proposal.looked_at == 2


@pytest.mark.parametrize(
    ("text", "skip"),
    [
        ("Title,\nday,v\n2025-01-01,1.5\n2025-01-02,2\n", 1),
        ("Title,\n,\nday,v\n2025-01-01,1.5\n2025-01-02,2\n", 2),
        ("Report,,2025,\nday,a,b,c\n2025-01-01,1,2,3\n2025-01-02,1,2,4\n", 1),
        ("# of the office, 2025\nday,v\n2025-01-01,1\n2025-01-02,2\n", 1),
        ("List,\nname,city\nAnna,Bern\nEva,Rome\n", 1),
    ],
)
def test_a_title_that_has_a_field_for_each_column_is_asked_about(text: str, skip: int) -> None:
    (asked,) = proposed(text).questions
    assert f"--skip {skip} takes them from there, --skip 0 from line 1" in asked
    header = text.splitlines()[skip]
    named = proposed(text, skip=skip)
    assert not named.questions
    assert ",".join(kinds(named)) == header


def test_a_name_above_decimal_commas_of_one_column_is_asked_about() -> None:
    text = "price\n447418,78\n580448,18\n654867,8\n"
    (asked,) = proposed(text).questions
    assert "line 1, 'price' has 1 fields, and the rows have 2 (--separator)" in asked
    assert kinds(proposed(text, separator=";")) == {"price": "Float64"}
    assert len(kinds(proposed(text, skip=1))) == 2


@pytest.mark.parametrize("header", [",id,name", "#id,name,x", "id,name,"])
def test_a_header_without_some_names_above_values_is_a_header(header: str) -> None:
    assert not proposed(f"{header}\n0,1,x\n1,2,y\n2,3,z\n").questions


@pytest.mark.parametrize(
    ("text", "footer"),
    [
        ("a,b\nx,2\ny,4\n,6\n", 1),
        ("a,b\nx,2\ny,4\n\nSource: the office, 2024\n", 1),
        ("a,b\n1,2\n3,4\n,\n,\n", 2),
    ],
)
def test_a_last_row_apart_or_without_a_beginning_is_asked_about(text: str, footer: int) -> None:
    (asked,) = proposed(text).questions
    assert f"--footer {footer} leaves" in asked
    assert proposed(text, footer=footer).looked_at == 2
    assert not proposed(text.replace("\n", "\n\n"), footer=0).questions


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a b c\n1 2 3\n4 5 6\n", "3 fields between ' '"),
        ("a   b\n1   2\n10  3\n", "2 fields of even width"),
        ("a~b\n1~2\n", "2 fields between '~'"),
        ("name\nAnna B\nEva\n", None),
        ("at\n2025-01-01 10:00\n", None),
    ],
)
def test_one_column_that_may_be_several_is_told(text: str, told: str | None) -> None:
    notes = [note for note in proposed(text).notes if "--separator" in note]
    assert [told in note for note in notes] == ([True] if told else [])


def test_a_blank_before_quotes_is_told() -> None:
    assert any("before quotes" in note for note in proposed('a,b\n1, "x"\n2, "y"\n').notes)


@pytest.mark.parametrize("text", ['{"a":1,"b":2}\n{"a":3,"b":4}\n', '[\n{"a":1,"b":2},\n{"a":3}]'])
def test_json_that_is_called_csv_is_told_what_it_is(text: str) -> None:
    with refusing("WebPage", match="JSON"):
        proposed(text)


@pytest.mark.parametrize(
    "options",
    [{"skip": 2}, {"separator": ";"}, {"header": False}, {"sheet": "a"}, {"quote": "'"}],
)
def test_an_option_of_other_formats_is_refused_and_not_ignored(options: dict[str, Any]) -> None:
    with refusing("UnusableOption", match=r"NdJson, but of Csv"):
        proposed('{"a":1}\n', "f.ndjson", **options)
    proposed('{"a":1}\n', "f.ndjson", null=["x"], time_zone="Europe/Berlin", key=[], merge="append")


def test_a_zone_for_times_that_a_parquet_file_has_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([0], pa.timestamp("ms"))}), file := tmp_path / "f.pq")
    with refusing("UnusableOption", match="--time-zone decides nothing of a file of Parquet"):
        proposed(file.read_bytes(), "f.parquet", time_zone="Europe/Berlin")


@pytest.mark.parametrize("word", ["CEST", "EST", "MESZ", "Uhr", "(CET)"])
def test_times_beside_words_for_a_zone_stay_texts_and_a_note_says_so(word: str) -> None:
    for options in ({}, {"time_zone": "Europe/Berlin"}):
        proposal = proposed(f"id,t\n1,2025-07-01 10:00 {word}\n2,2025-07-02 10:00\n", **options)
        assert kinds(proposal)["t"] == "String"
        assert any("words for a zone such as" in note for note in proposal.notes)


def test_a_column_that_its_reader_refuses_names_the_first_value_and_its_line() -> None:
    text = "id,t\n1,2025-10-25 02:30\n2,2025-10-26 02:30\n"
    (told,) = [one.note for one in proposed(text, time_zone="Europe/Berlin").columns if one.note]
    assert told.startswith("line 3: '2025-10-26 02:30' is not a value of type Timestamp (clocks of")


@pytest.mark.parametrize(
    "text",
    [
        "code,name,city\nKürzel,Name,Stadt\na1,a,b\nb2,b,c\nb3,d,e\n",
        "id,temp,hum\nNA,NA,NA\n1,2.0,3\n3,4,4\n",
        "id,a\nx1,12 km\n2,3\n3,4\n5,6\n",
    ],
)
def test_a_second_line_that_may_be_no_row_is_asked_about(text: str) -> None:
    (asked,) = proposed(text).questions
    assert "--units 1 leaves it out, --units 0 keeps it" in asked
    for units, rows in ((1, text.count("\n") - 2), (0, text.count("\n") - 1)):
        decided = proposed(text, units=units)
        assert not decided.questions
        assert decided.looked_at == rows


@pytest.mark.parametrize(
    "text", ["id,x\n1,\n2,5\n3,6\n", "id,name\n1,Name\n2,b\n3,c\n", "x,y\nx,a\nz,b\nu,c\n"]
)
def test_a_first_row_that_only_resembles_a_header_is_a_row(text: str) -> None:
    asked = proposed(text).questions
    assert bool(asked) == ("Name" in text)


@pytest.mark.parametrize(
    "text",
    [
        "id;v;w\n1;1.234;2,5\n2;1,234;3,5\n3;7;1,5\n",
        'id,v\n1,"1,234"\n2,1.234\n3,"2,345.67"\n',
    ],
)
def test_numbers_whose_signs_contradict_each_other_stay_texts(text: str) -> None:
    proposal = proposed(text)
    assert kinds(proposal)["v"] == "String"
    (told,) = [note for note in proposal.notes if note.startswith("v: ")]
    assert "'1.234'" in told
    assert "'1,234'" in told


def test_signs_that_one_column_shows_alone_are_no_contradiction() -> None:
    text = "id;v\n1;1.234,500\n2;0,125\n3;12.345\n"
    assert kinds(proposed(text))["v"] == "Float64"


def test_an_advised_option_can_be_typed_as_it_stands() -> None:
    text = "my order,#x\na b,#N/A\nc,foo\nd,bar\n"
    notes = " ".join(proposed(text).notes)
    assert "--key 'my order'" in notes
    assert "--null '#N/A'" in notes
    dates = "born at,v\n01/02/55,1\n13/02/56,2\n"
    (asked,) = proposed(dates).questions
    assert "--type 'born at=Date'" in asked


def test_one_or_two_rows_tell_no_key() -> None:
    for rows in ("a,b\n", "a,b\nc,d\n"):
        notes = " ".join(proposed(f"code,name\n{rows}").notes)
        assert "tells them apart" not in notes
    assert "tells them apart: --key code" in " ".join(proposed("code,name\na,b\nc,d\ne,f\n").notes)


@pytest.mark.parametrize(
    ("begin", "name"),
    [
        (b"ARROW1\0\0", "an Arrow file"),
        (b"FEA1", "a Feather file"),
        (b"ORC\x15\0", "an ORC file"),
        (b"Obj\x01\x04", "an Avro file"),
        (b"SQLite format 3\0", "a database of SQLite"),
        (b"\xfd7zXZ\0\0", "a file packed with xz"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b"$FL2@(#) SPSS", "a file of SPSS"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "json", "bin", "csv.gz"])
def test_a_file_that_is_not_read_is_named_whatever_it_is_called(
    begin: bytes, name: str, ending: str
) -> None:
    data = begin + b"rest" * 100
    with refusing("UnknownFormat", match=f"the file is {name}"):
        proposed(gzip.compress(data) if ending.endswith("gz") else data, f"a.{ending}")


def test_a_parquet_file_is_read_whatever_it_is_called() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2]}), out)
    for name, told in (("a.csv", 1), ("a.parquet", 0), ("a", 0)):
        proposal = proposed(out.getvalue(), name)
        assert proposal.format == "Parquet"
        assert sum("whatever its name" in note for note in proposal.notes) == told
    with refusing("UnknownFormat", match="--format parquet reads it"):
        sample_of("a.csv", out.getvalue(), is_whole=True, form=SampleFormat.CSV)
    with refusing("NoRecords", match="begins with 'id,x"):
        proposed("id,x\n1,2\n", "a.parquet")


def test_a_posted_file_of_another_kind_is_named() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2]}), out)
    of_text, of_parquet = proposed("id,x\n1,2\n3,4\n"), proposed(out.getvalue(), "a.parquet")
    with refusing("WebPage", match="answers with a Parquet file"):
        preview(of_text.snapshot(), out.getvalue(), now=NOW)
    with refusing("MalformedParquet", match="it begins with 'id,x"):
        preview(of_parquet.snapshot(), b"id,x\n1,2\n", now=NOW)


def test_files_that_were_put_together_repeat_their_header_behind_a_mark() -> None:
    for end in ("\n", "\r\n"):
        lines = ["\ufeffid,x", "1,a", "2,b", "\ufeffid,x", "3,c", ""]
        proposal = proposed(end.join(lines))
        assert kinds(proposal) == {"id": "Int64", "x": "String"}
        assert proposal.looked_at == 3
        assert any("repeat the header" in note for note in proposal.notes)
    inside = proposed("\ufeffid,x\n1,a\n\ufeff2,b\n3,c\n")
    assert any(note.startswith("line 3") and "byte order" in note for note in inside.notes)


def test_a_zero_byte_in_a_text_is_told() -> None:
    rows = "".join(f"{number},abcdefgh\n" for number in range(3000))
    assert any("a zero byte" in note for note in proposed(f"id,x\n{rows}1,a\0b\n").notes)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["1.10", "1.9", "1.2"], True),
        (["3.20", "3.2", "4"], True),
        (["1.10", "1.90", "1.20"], False),
        (["1.0", "2.25", "3.5"], False),
        (["10.0", "20", "30.5"], False),
    ],
)
def test_a_number_that_loses_a_zero_it_may_need_is_told(texts: list[str], told: bool) -> None:
    rows = "".join(f"{at},{text}\n" for at, text in enumerate(texts))
    notes = proposed(f"id,v\n{rows}").notes
    assert any("--type v=String keeps texts, as versions need" in note for note in notes) == told


def test_a_number_that_instruments_write_for_no_value_is_told_with_the_option_for_it() -> None:
    text = "id,temp\n1,1.5\n2,-999\n3,-999.0\n4,2.5\n"
    assert "temp: -999 may stand for no value (--null -999 makes it none)" in proposed(text).notes
    decided = proposed(text, null=["-999", "-999.0"])
    assert not any("may stand" in note for note in decided.notes)
    assert decided.columns[1].values == (1.5, None, None, 2.5)


def test_fields_of_even_width_are_told() -> None:
    notes = proposed("id  name   x\n1   abc    5\n22  de fg  66\n", "a.txt").notes
    assert any("fields of even width" in note for note in notes)


def test_a_form_and_a_program_are_told_the_names_that_they_have() -> None:
    said = (
        "does line 1 hold the names? (--header or --no-header; --skip 1, --no-key, --type 'a b=X')"
    )
    assert in_form(said) == (
        "does line 1 hold the names? (“The first line holds the names” yes or “The first line "
        "holds the names” no; “Lines before the header” 1, no “In the key”, “Type” 'a b=X')"
    )
    assert in_python(said) == (
        "does line 1 hold the names? (header=True or header=False; skip 1, key=(), types 'a b=X')"
    )
    for option in OPTIONS:
        assert "--" not in in_form(f"({option.flag})")
        assert in_python(f"({option.flag} x)").startswith(f"({option.name}")
    assert in_form("--format csv, a--b") == in_python("--format csv, a--b") == "--format csv, a--b"


@pytest.mark.parametrize("value", ["12 km", "−5", "<5", "7*", "1F", "(300)", "5 %"])
def test_a_value_with_a_sign_of_its_own_is_no_unit_and_no_sum(value: str) -> None:
    for rows in ([value, "3", "4", "6"], ["3", "4", "6", value]):
        text = "id,v\n" + "".join(f"{at},{row}\n" for at, row in enumerate(rows))
        proposal = proposed(text)
        assert not proposal.questions
        assert (proposal.looked_at, kinds(proposal)["v"]) == (4, "String")
        assert any(note.startswith("v: numbers") for note in proposal.notes)


def test_rows_of_separators_are_told() -> None:
    notes = proposed("id,x\n,\n1,2\n,\n2,3\n").notes
    assert "rows without any value: 2, the first on line 2, ','" in notes


def test_a_zero_byte_at_the_beginning_of_a_text_is_named_with_its_line() -> None:
    with refusing("NotUtf8", match=r"line 2 of file\.csv has a zero byte"):
        proposed(b"id,name\n1,a\0b\n2,another\n")
    with refusing("NotUtf8", match="as UTF-16 has"):
        proposed("id,x\n1,2\n".encode("utf-16-le"))


def test_the_command_in_a_manifest_can_be_typed() -> None:
    assert "odf-node ingest 'my cities.csv' URL/" in to_manifest(
        proposed("id,x\n1,2\n", "my cities.csv"), "my cities.csv"
    )


@pytest.mark.parametrize("sign", [",", ";", "|", "\t"])
@pytest.mark.parametrize("name", ["a.tsv", "a.tab", "a.csv", "a.txt"])
def test_the_ending_of_a_name_decides_no_separator_that_the_file_does_not_have(
    name: str, sign: str
) -> None:
    proposal = proposed(f"id{sign}x\n1{sign}2\n3{sign}4\n", name)
    assert kinds(proposal) == {"id": "Int64", "x": "Int64"}


def test_a_tab_in_a_file_that_is_called_tsv_separates_its_fields() -> None:
    assert kinds(proposed("id\tx,y,z\n1\ta,b,c\n2\tb,c,d\n", "a.tsv")).keys() == {"id", "x,y,z"}


def test_times_of_json_beside_words_for_a_zone_are_told() -> None:
    lines = '{"t":"2025-07-01 10:00 CEST","v":-999}\n{"t":"2025-07-01 11:00","v":1}\n'
    proposal = proposed(lines, "a.ndjson")
    assert kinds(proposal)["t"] == "String"
    assert any("words for a zone" in note for note in proposal.notes)
    assert not any("-999" in note for note in proposal.notes)  # --null is about texts


def test_errors_of_python_name_its_arguments(tmp_path: Path) -> None:
    (file := tmp_path / "a.csv").write_text("id,x\n1,2\n")
    with refusing("UnusableOption", match="^skip takes a whole number"):
        publish(str(file), "http://127.0.0.1:9/a", skip="many")


@pytest.mark.parametrize(
    "text",
    [
        "id,f\n1,0.1\n2,0.30000000000000004\n3,123456789012345678.5\n",
        "id,n\n1,5\n2,6\n3,9223372036854775808\n",
        "id,n\n1,5\n2,6\n3,007\n",
        "id,n\n1,5\n2,6\n3,-1e400\n",
    ],
)
def test_a_last_row_with_a_number_that_its_column_cannot_keep_is_a_row(text: str) -> None:
    assert not any("--footer" in one for one in proposed(text).questions)
