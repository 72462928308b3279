"""Workbooks: one sheet as CSV, cell by cell, and what a workbook has beside its values."""

from __future__ import annotations

import datetime as dt
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.utils.datetime import CALENDAR_MAC_1904

from odf_protocol.codec.manifests import from_data
from odf_protocol.metadata.sources import ReadStep
from odf_workers.prepare import workbook
from odf_workers.prepare.workbook import UnusableWorkbook
from odf_workers.readers.formats.plain import plain_file
from odf_workers.readers.formats.plain_text import Plain
from odf_workers.readers.formats.read import for_media_type, open_frame
from odf_workers.slices.schema import Limits

HEADER = ["id", "name\nof it", "at", "day", "share", "good", 2020, "code"]
ROWS: list[list[Any]] = [
    [1, 'A;"B"', dt.datetime(2025, 1, 1, 23, 0), dt.date(2025, 1, 2), 0.1, True, 12, "01067"],
    [2, None, dt.datetime(1999, 12, 31), None, 1e300, False, -3.5, "C:\\temp"],
]


def book(path: Path, *, sheets: int = 1, epoch: Any = None, before: int = 0) -> Path:
    made = openpyxl.Workbook()
    if epoch is not None:
        made.epoch = epoch
    first = made.active
    assert first is not None
    first.title = "Data"
    for number in range(before):
        first.append([f"title {number}"])
    for row in (HEADER, *ROWS):
        first.append(row)
    for number in range(1, sheets):
        made.create_sheet(f"More {number}").append(["x"])
    made.create_sheet("Empty")
    hidden = made.create_sheet("Hidden")
    hidden.append(["secret"])
    hidden.sheet_state = "hidden"
    made.save(path)
    return path


def plain(path: Path, **options: Any) -> Plain:
    step: ReadStep = from_data({"kind": "Csv", "header": True, **options}, ReadStep)
    return plain_file(path, step, path.parent / "scratch", Limits())


def rows_of(path: Path, **options: Any) -> list[dict[str, Any]]:
    found = plain(path, **options)
    frame = open_frame(found.step, found.content, Limits())
    assert frame is not None
    rows: list[dict[str, Any]] = frame.table().to_pylist()
    return rows


EXPECTED = [
    {
        "id": "1",
        "name\nof it": 'A;"B"',
        "at": "2025-01-01T23:00:00",
        "day": "2025-01-02",
        "share": "0.1",
        "good": "true",
        "2020": "12",
        "code": "01067",
    },
    {
        "id": "2",
        "name\nof it": None,
        "at": "1999-12-31T00:00:00",
        "day": None,
        "share": "1e+300",
        "good": "false",
        "2020": "-3.5",
        "code": "C:\\temp",
    },
]


@pytest.mark.parametrize("options", [{}, {"separator": ";"}, {"escape": ""}, {"quote": "'"}])
def test_a_sheet_is_read_cell_by_cell_in_any_dialect(tmp_path: Path, options: Any) -> None:
    found = rows_of(book(tmp_path / "a.xlsx"), **options)
    days = [{**row, "at": row["at"].removesuffix("T00:00:00")} for row in found]
    assert days == [{**row, "at": row["at"].removesuffix("T00:00:00")} for row in EXPECTED]


def test_days_from_1904_are_the_same_days(tmp_path: Path) -> None:
    of_1904 = rows_of(book(tmp_path / "b.xlsx", epoch=CALENDAR_MAC_1904))
    assert of_1904 == rows_of(book(tmp_path / "a.xlsx"))


def test_one_sheet_of_several_has_to_be_named(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", sheets=3)
    with pytest.raises(UnusableWorkbook, match=r"several sheets \('Data', 'More 1', 'More 2'\)"):
        plain(path)
    fields = [{"name": "x", "type": {"kind": "Option", "inner": "String"}}]

    def schema(sheet: str) -> dict[str, Any]:
        return {"fields": fields, "extra": {"odf-node/sheet": sheet}}

    content = plain(path, schema=schema("Hidden")).content
    assert isinstance(content, Path)
    assert content.read_text() == "secret\n"
    with pytest.raises(UnusableWorkbook, match="no sheet 'Other'; it has 'Data', 'More 1'"):
        plain(path, schema=schema("Other"))


def test_options_for_lines_apply_to_rows_of_a_sheet(tmp_path: Path) -> None:
    names = [*map(str, HEADER)]
    fields = [{"name": name, "type": {"kind": "Option", "inner": "String"}} for name in names]
    schema = {"fields": fields, "extra": {"odf-node/skipLines": 2, "odf-node/footerLines": 1}}
    (row,) = rows_of(book(tmp_path / "a.xlsx", before=2), schema=schema)
    assert row["code"] == "01067"


def test_errors_formulas_and_merged_cells_are_told(tmp_path: Path) -> None:
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    for row in (["a", "b"], ["#N/A", "=A1"], ["#DIV/0!", 1]):
        sheet.append(row)
    sheet["A4"] = "x"
    sheet.merge_cells("A4:B5")
    made.save(tmp_path / "a.xlsx")
    told = plain(tmp_path / "a.xlsx").warnings
    assert told[0].startswith("2 cells hold an error")
    assert told[0].endswith("A2, A3")
    assert told[1].startswith("1 cells are formulas")
    assert told[2].endswith("the value: A4:B5")


def test_rows_without_values_between_others_are_told(tmp_path: Path) -> None:
    made = openpyxl.Workbook()
    assert made.active is not None
    for row in (["title"], [], ["a", "b"], [1, 2], [None, None], [3, 4], [None, None]):
        made.active.append(row)
    made.save(path := tmp_path / "book.xlsx")
    assert plain(path).warnings == (
        "rows of the sheet without values are no rows of the dataset: 2",
    )


def test_what_a_workbook_hides_is_told(tmp_path: Path) -> None:
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    for row in (["id", "x", "y"], [1, 2, 3], [2, 3, 4], [3, 4, 5]):
        sheet.append(row)
    sheet.row_dimensions[3].hidden = True
    sheet.column_dimensions["B"].hidden = True
    made.create_sheet("kept back").append(["id"])
    made["kept back"].sheet_state = "hidden"
    made.create_sheet("empty").sheet_state = "hidden"
    made.save(path := tmp_path / "book.xlsx")
    assert plain(path).warnings == (
        "hidden parts of the sheet are read like others: rows 3, columns B",
        "hidden sheets of the workbook are not read: 'kept back'",
    )


def test_whole_numbers_of_more_digits_than_a_workbook_keeps_are_told(tmp_path: Path) -> None:
    made = openpyxl.Workbook()
    assert made.active is not None
    for row in (
        ["id", "x"],
        [999999999999999, 0.5],
        [4000123412341234, 1e300],
        ["4000123412341234", 1],
    ):
        made.active.append(row)
    made.save(path := tmp_path / "book.xlsx")
    (told,) = plain(path).warnings
    assert told.startswith("2 cells are whole numbers of more than 15 digits")
    assert told.endswith(": A3, B3")


@pytest.mark.parametrize(
    ("form", "padded"),
    [("00000", True), ('000" "00', True), ("00\\-000", True), ("0", False), ("0.00", False)],
)
def test_numbers_that_are_shown_with_leading_zeros_are_told(
    tmp_path: Path, form: str, padded: bool
) -> None:
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    for row in (["code", "x"], [1067, 1], ["01067", 2], [99999, 3]):
        sheet.append(row)
    for place in ("A2", "A3", "A4"):
        sheet[place].number_format = form
    made.save(path := tmp_path / "book.xlsx")
    told = [one for one in plain(path).warnings if "leading zeros" in one]
    assert [one.endswith(": A2, A4") for one in told] == ([True] if padded else [])


def test_durations_keep_their_milliseconds_and_no_noise(tmp_path: Path) -> None:
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    sheet.append(["took"])
    times = [(26 * 3600 + 1.25) / 86400, 119.9999999 / 86400, 2 * 60 / 86400, -1.5 / 86400]
    for days in times:
        sheet.append([days])
        sheet.cell(sheet.max_row, 1).number_format = "[h]:mm:ss.000"
    made.save(tmp_path / "book.xlsx")
    found = [row["took"] for row in rows_of(tmp_path / "book.xlsx", ddlSchema=["took STRING"])]
    assert found == ["26:00:01.250", "00:02:00", "00:02:00", "-00:00:01.500"]


def test_a_damaged_workbook_and_one_of_another_source_are_refused(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx")
    step: ReadStep = from_data({"kind": "Json"}, ReadStep)
    with pytest.raises(UnusableWorkbook, match="the source reads Json"):
        plain_file(path, step, tmp_path / "s", Limits())
    with zipfile.ZipFile(tmp_path / "b.xlsx", "w") as out:
        out.writestr("xl/workbook.xml", b"<x")
    with pytest.raises(UnusableWorkbook, match="cannot be read"):
        plain(tmp_path / "b.xlsx")
    (tmp_path / "c.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 5000)
    with pytest.raises(UnusableWorkbook, match="cannot be read"):
        plain(tmp_path / "c.xls")


def test_a_short_file_of_a_large_sheet_is_read_with_little_memory_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    sheet["A1"], sheet["KN60000"] = 1, 2  # 300 columns: 18 million cells
    made.save(tmp_path / "a.xlsx")
    monkeypatch.setattr(workbook, "MEMORY_BYTES", 256 << 20)
    with pytest.raises(UnusableWorkbook, match="memory and time"):
        plain(tmp_path / "a.xlsx")


SHEET = """<?xml version="1.0"?><office:document-content
 xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet>
<table:table table:name="S"><table:table-row>
<table:table-cell office:value-type="string"><text:p>day</text:p></table:table-cell>
<table:table-cell office:value-type="string"><text:p>n</text:p></table:table-cell></table:table-row>
<table:table-row>
<table:table-cell office:value-type="date" office:date-value="2025-01-31"/>
<table:table-cell office:value-type="float" office:value="1067"/></table:table-row>
</table:table></office:spreadsheet></office:body></office:document-content>"""


def test_a_sheet_of_open_document_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.ods", "w") as out:
        out.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        out.writestr("content.xml", SHEET.replace(">\n<", "><"))
        out.writestr("META-INF/manifest.xml", "<x/>")
    (row,) = rows_of(tmp_path / "a.ods")
    assert (row["day"][:10], row["n"]) == ("2025-01-31", "1067")
    assert plain(tmp_path / "a.ods").warnings == (
        "cells with an error (#N/A) are read as no value",
    )


def test_too_many_columns_are_refused(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx")
    step: ReadStep = from_data({"kind": "Csv", "header": True}, ReadStep)
    with pytest.raises(UnusableWorkbook, match="8 columns, at most 5"):
        plain_file(path, step, tmp_path / "s", Limits(columns=5))


def test_the_media_types_of_workbooks_lead_to_the_reader_of_csv() -> None:
    step: ReadStep = from_data({"kind": "Csv", "header": True}, ReadStep)
    excel = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    assert for_media_type(step, excel) is step
    assert for_media_type(step, "application/vnd.oasis.opendocument.spreadsheet") is step
