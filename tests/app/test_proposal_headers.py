"""Which lines are names, rows or neither; what is proposed where a file may mean two things."""

from __future__ import annotations

import io
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing

from odf_node.cli.main import main
from odf_node.proposal.headers import NoRecords
from odf_node.proposal.options import OPTIONS, Choices, Kind, chosen
from odf_node.proposal.proposal import Proposal, propose
from odf_node.proposal.sample import sample_of
from odf_node.proposal.wire import read, written
from odf_protocol.instant import Instant
from odf_workers.stages.preview import preview

NOW = Instant.parse("2026-01-01T00:00:00Z")


def proposed(text: str | bytes, name: str = "file.csv", **options: Any) -> Proposal:
    data = text.encode() if isinstance(text, str) else text
    return propose(sample_of(name, data, is_whole=True), chosen(options), now=NOW)


def kinds(proposal: Proposal) -> dict[str, str]:
    return {one.name: one.kind for one in proposal.columns}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (",id,name\n0,1,a\n1,2,b\n", ["column_1", "id", "name"]),
        ("id,,name,\n1,x,a,2\n2,y,b,3\n", ["id", "column_2", "name", "column_4"]),
        ("a,a,b\n1,2,x\n3,4,y\n", ["a", "a_2", "b"]),
        ("a,a,a_2\n1,2,3\n4,5,6\n", ["a", "a_3", "a_2"]),
        ("country,2020,2021\nNO,5,6\n", ["country", "2020", "2021"]),
        ("country,1/22/20,1/23/20\nNO,5,6\n", ["country", "1/22/20", "1/23/20"]),
        ("city,country\nOslo,NO\n", ["city", "country"]),
        (",0,1\n0,5,6\n1,7,8\n", ["column_1", "0", "1"]),
        ("Oslo,1\nBergen,2\n", ["column_1", "column_2"]),
        ("1,2\n3,4\n", ["column_1", "column_2"]),
    ],
)
def test_a_header_is_told_by_what_is_below_it(text: str, names: list[str]) -> None:
    proposal = proposed(text)
    assert [one.name for one in proposal.columns] == names
    assert not proposal.questions


@pytest.mark.parametrize("text", ["yes,no,yes\nno,no,yes\n", "city,1,2\nOslo,5,6\n"])
def test_a_first_line_that_may_be_either_is_asked_about(text: str) -> None:
    assert "--header" in proposed(text).questions[0]
    assert not proposed(text, header=True).questions
    assert not proposed(text, header=False).questions


def test_a_first_line_that_only_its_texts_make_a_header_is_told() -> None:
    assert any("--no-header" in note for note in proposed("a,b\nx,y\n").notes)


def test_a_title_above_numbers_of_one_column_is_told_with_the_way_to_skip_it() -> None:
    text = 'Report of a station\n"2020"\n"190"\n"175"\n'
    assert any("--skip 1" in note for note in proposed(text).notes)
    assert [one.name for one in proposed(text, skip=1, header=True).columns] == ["2020"]


def test_a_header_that_is_narrower_than_the_rows_is_asked_about() -> None:
    text = "id,v\n1,a,\n2,b,\n"
    assert "has 2 fields, and the rows have 3" in proposed(text).questions[0]
    assert not proposed(text, skip=1).questions
    assert not proposed("Report of 2025\nid,v\n1,2\n").questions


@pytest.mark.parametrize(
    ("text", "names", "quote"),
    [
        ("id,name\n1,'a, b'\n2,'it''s'\n3,''\n", ["id", "name"], "'"),
        ("'id','name'\n'1','a'\n", ["id", "name"], "'"),
        ("id,name\n1,'tis\n2,dogs'\n", ["id", "name"], None),
        ("id,name\n1,O'Brien\n2,'x'\n", ["id", "name"], None),
        ("id,name\n1,\"'a'\"\n2,'b'\n", ["id", "name"], None),
    ],
)
def test_single_quotes_are_found_and_told(text: str, names: list[str], quote: str | None) -> None:
    proposal = proposed(text)
    assert [one.name for one in proposal.columns] == names
    assert getattr(proposal.read, "quote", None) == quote
    assert any("--quote" in note for note in proposal.notes) == (quote is not None)


@pytest.mark.parametrize("text", ["12 %", "€5.50", "USD 5.00", "5 kr", "(13.50)", "12.5-", "3‰"])
def test_numbers_with_signs_are_text_with_a_remark(text: str) -> None:
    proposal = proposed(f"id,v\n1,{text}\n2,{text}\n")
    assert kinds(proposal)["v"] == "String"
    assert any(note.startswith("v: numbers with a sign") for note in proposal.notes)


@pytest.mark.parametrize(
    ("column", "kind", "shown"),
    [
        (pa.array([[], None], pa.list_(pa.null())), "String", "[]"),
        (pa.array([[{"a": 1}], None]), "String", '[{"a":1}]'),
        (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), "String", None),
        (pa.array([1_500, None], pa.duration("ms")), "Int64", 1_500),
        (pa.array([None, None]), "String", None),
    ],
)
def test_parquet_columns_without_a_stored_form_are_told(
    column: pa.Array, kind: str, shown: Any
) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2], "v": column}), out)
    proposal = proposed(out.getvalue(), "a.parquet")
    assert kinds(proposal)["v"] == kind
    assert any(note.startswith("v: ") for note in proposal.notes)
    assert shown is None or proposal.columns[1].values[0] == shown


def test_lines_that_are_no_rows_are_told() -> None:
    proposal = proposed("sep=;\nday;temp\n;°C\n2025-01-01;5\n2025-01-02;6\n")
    assert (kinds(proposal), proposal.looked_at) == ({"day": "Date", "temp": "Int64"}, 2)
    assert any("units" in note for note in proposal.notes)
    assert any("separator" in note for note in proposal.notes)


@pytest.mark.parametrize("begin", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("options", [{}, {"skip": 1}, {"separator": ";"}])
def test_files_with_and_without_a_line_that_tells_the_separator_are_read_alike(
    begin: str, end: str, options: Any
) -> None:
    plain = f"id;x{end}1;1,5{end}2;2,5{end}"
    marked, bare = f"{begin}sep=;{end}{plain}".encode(), f"{begin}{plain}".encode()
    mine = {} if "skip" in options else options
    for first, given in ((marked, options), (bare, mine)):
        proposal = proposed(first, **given)
        assert not proposal.questions
        for later in (marked, bare):
            found = preview(proposal.snapshot(), later, now=NOW)
            assert found is not None
            assert found.read.column("x").to_pylist() == [1.5, 2.5]
            told = [note for note in found.warnings if "'sep=;', tells the separator" in note]
            assert len(told) == (later is marked)


def test_a_backslash_that_escapes_a_quote_is_found_in_records_of_equal_width() -> None:
    proposal = proposed('id,t\n1,"say \\"hi\\" now"\n2,"b"\n')
    assert proposal.columns[1].values == ('say "hi" now', "b")
    for text in ('id,t\n1,"C:\\"\n2,"D:\\"\n', 'id,t\n1,"a\\""b"\n', 'id,t\n1,5\\" x\n'):
        assert getattr(proposed(text).read, "escape", None) == ""


def test_a_quote_inside_of_quotes_that_is_not_doubled_is_told() -> None:
    assert any("line 2: a quote" in note for note in proposed('a,b\n1,"say "hi" now"\n').notes)
    assert not any("a quote" in note for note in proposed('a,b\n1,"say ""hi"" now"\n').notes)


def test_a_backslash_escapes_only_where_the_file_needs_it() -> None:
    assert proposed('a,b\n"C:\\x\\",1\n').columns[0].values == ("C:\\x\\",)
    needed = proposed('a,b\n"say \\"hi\\", you",1\n"x, \\"y\\"",2\n')
    assert needed.read.escape == "\\"  # type: ignore[union-attr]
    assert needed.columns[0].values[0] == 'say "hi", you'


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1,5", "2,25"], "Float64"),
        (["1.234,5", "12,25"], "Float64"),
        (["1,234,567", "5"], "Float64"),
        (["1,234", "5,678"], "String"),
        (["5 %", "7 %"], "String"),
        (["€ 5", "€ 7"], "String"),
    ],
)
def test_numbers_of_other_forms_are_read_only_if_the_file_shows_which(
    values: list[str], kind: str
) -> None:
    proposal = proposed("x;y\n" + "".join(f"{value};a\n" for value in values))
    assert kinds(proposal)["x"] in (kind, "Int64" if kind == "Float64" else kind)
    assert any("x: " in note or "numbers are read" in note for note in proposal.notes)


def test_values_of_several_kinds_are_kept_as_json() -> None:
    rows = [{"id": 1, "v": 5}, {"id": 2, "v": {"a": 1}}, {"id": 3, "v": "x"}, {"id": 4}]
    proposal = proposed("\n".join(map(json.dumps, rows)), "a.ndjson")
    assert kinds(proposal) == {"id": "Int64", "v": "JSON"}
    assert proposal.columns[1].values == ("5", '{"a":1}', '"x"', None)


def test_several_lists_of_records_are_named() -> None:
    with pytest.raises(NoRecords, match=r"--path takes one of a, b\.c"):
        proposed('{"a": [{"x": 1}], "b": {"c": [{"x": 2}]}}', "a.json")
    chosen_one = proposed('{"a": [{"x": 1}], "b": {"c": [{"x": 2}]}}', "a.json", path="b.c")
    assert chosen_one.columns[0].values == (2,)


def test_the_time_at_which_a_node_wrote_rows_is_no_event_time_beside_another() -> None:
    text = "offset,op,system_time,at,v\n0,0,2025-02-01T10:00:00Z,2025-01-01,1\n"
    assert proposed(text).event_time == "at"
    assert proposed(text.replace(",at,", ",when_not,").replace("2025-01-01", "x")).event_time == (
        "system_time"
    )


def test_an_end_is_no_event_time() -> None:
    text = "id,day,valid_to\n1,2025-01-01,9999-12-31\n2,2025-01-02,9999-12-31\n"
    assert proposed(text).event_time == "day"
    only = proposed("id,due_date\n1,2027-01-01\n2,2028-01-01\n")
    assert only.event_time is None


def test_an_operation_or_a_code_is_no_key() -> None:
    assert proposed("op,id,v\nI,1,a\nU,2,b\nD,3,c\n").key == ()
    assert proposed("code,name\nNO,Norway\nSE,Sweden\n").key == ()


def test_parquet_files_are_looked_into() -> None:
    start = datetime(2025, 1, 1, tzinfo=UTC)
    table = pa.table(
        {
            "id": [1, 2, 3],
            "at": [start + timedelta(microseconds=at) for at in range(3)],
            "name": ["a", None, "c"],
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=2)
    proposal = proposed(out.getvalue(), "a.parquet")
    assert (proposal.key, proposal.event_time, proposal.looked_at) == (("id",), "at", 3)
    assert kinds(proposal) == {"id": "Int64", "at": "Timestamp", "name": "String"}
    assert any("times lose their last digits" in note for note in proposal.notes)
    with pytest.raises(Exception, match="same key"):
        proposed(out.getvalue(), "a.parquet", key=["at"])


def test_all_options_are_choices_and_all_choices_options() -> None:
    known = {option.name for option in OPTIONS}
    assert known | {"name"} == set(Choices.__dataclass_fields__)
    assert {option.kind for option in OPTIONS} == set(Kind)
    for bad in ({"separator": "ab"}, {"skip": "-1"}, {"decimal": ";"}, {"nothing": 1}):
        with refusing("UnusableOption"):
            chosen(bad)


@pytest.mark.parametrize("command", [("publish",), ("dataset", "init")])
def test_commands_and_the_form_offer_all_options(command: tuple[str, ...]) -> None:
    found: click.Command | None = main
    for word in command:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
    assert found is not None
    assert {option.name for option in OPTIONS} <= {one.name for one in found.params}
    beside_columns = {"types", "key", "event_time", "merge", "description"}
    assert {option.name for option in OPTIONS if not option.label} == beside_columns


@pytest.mark.parametrize("text", ["a,b\n", "Internal Server Error\n"])
def test_a_file_of_names_without_rows_is_told(text: str) -> None:
    told = "the file has no rows, only the names of columns"
    assert told in proposed(text).notes
    assert told not in proposed("a,b\n1,2\n").notes


def test_a_proposal_comes_back_from_another_process_as_it_was() -> None:
    proposal = proposed("id,n\n1,NA\n2,5\n")
    again = read(written(proposal))
    assert again.snapshot() == proposal.snapshot()
    assert (again.notes, again.columns[1].values) == (proposal.notes, (None, "5"))


@pytest.mark.parametrize("piece", ["a,", "1,", '"x",', "2025-01-01,"])
def test_a_look_at_a_file_costs_its_length(piece: str) -> None:
    def seconds(count: int) -> float:
        text = (piece * count).rstrip(",")
        best = float("inf")
        for _ in range(2):
            began = time.process_time()
            proposed(f"{text}\n{text}\n", header=True)
            best = min(best, time.process_time() - began)
        return best

    seconds(100)
    assert seconds(1_900) < 12 * max(seconds(475), 0.02)
    with pytest.raises(NoRecords, match="2000 are looked at"):
        proposed(piece * 100_000)


def test_rows_times_columns_are_bounded() -> None:
    many = "{" + ",".join(f'"n{at}":1' for at in range(1_999)) + "}\n"
    proposal = proposed(many + "{}\n" * 20_000, "a.ndjson")
    assert proposal.looked_at * 1_999 <= 4_000_000
    assert not proposal.is_whole


def test_times_without_a_zone_are_told_once_in_all_formats() -> None:
    out = io.BytesIO()
    moments = [datetime(2025, 1, 1, 10), datetime(2025, 1, 1, 11)]
    pq.write_table(pa.table({"id": [1, 2], "at": moments}), out)
    texts = "id,at\n1,2025-01-01 10:00\n2,2025-01-01 11:00\n"
    for proposal in (proposed(out.getvalue(), "a.parquet"), proposed(texts)):
        told = [note for note in proposal.notes if "without a zone" in note]
        assert len(told) == 1, proposal.notes
        assert "taken to be in UTC" in told[0]


def test_a_first_line_that_tells_a_separator_that_no_line_has_is_told() -> None:
    proposal = proposed("sep=,\nid;x\n1;2\n2;3\n")
    assert kinds(proposal) == {"id": "Int64", "x": "Int64"}
    assert "the first line tells ',', and ';' separates fields" in proposal.notes
    assert kinds(proposed("sep=,\nid\n1\n2\n")) == {"id": "Int64"}
