"""The program that reads a sheet of a workbook: `python workbook_program.py REQUEST`, JSON.

It runs alone, with little memory and without the environment of its worker, because a library
parses the files of strangers in it. It writes the rows of the sheet as CSV to the requested file,
and a report as JSON to its output. A row of the sheet is a line, except for line breaks in cells.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

CHUNK_BYTES = 1 << 20
SHOWN = 5
EXACT_WHOLE = 1e15
"""Whole numbers below it are written without an exponent; programs keep fifteen digits."""
_SHEET = re.compile(rb"<(?:\w+:)?sheet\s([^<>]*)>")
_RELATION = re.compile(rb"<(?:\w+:)?Relationship\s([^<>]*)>")
_ATTRIBUTE = re.compile(rb'(?<![\w:])([\w:]+)\s*=\s*"([^"]*)"')
_CELL = re.compile(rb"<(?:\w+:)?c\s([^<>]*)>")
_FORMATS = re.compile(rb"<(?:\w+:)?numFmt\s([^<>]*)>")
_STYLES = re.compile(rb"<(?:\w+:)?cellXfs[\s>]")
_STYLES_END = re.compile(rb"</(?:\w+:)?cellXfs>")
_STYLE = re.compile(rb"<(?:\w+:)?xf\s([^<>]*)>")
_PADDED = re.compile(r"0[0 /-]*0")
"""Formats of numbers that show leading zeros, such as those of postal codes."""
_LITERAL = {ord(sign): None for sign in '"\\\\'}
"""Signs in formats that make the next ones literal."""
STYLE_BYTES = 16 << 20
_FORMULA = re.compile(rb"<(?:\w+:)?f[\s>/]")
_ROW = re.compile(rb"<(?:\w+:)?row\s([^<>]*)>")
_COLUMN = re.compile(rb"<(?:\w+:)?col\s([^<>]*)>")
_TRUE = (b"1", b"true")


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Read a sheet, and return the report: `problem`, or `rows` and `told`."""
    import python_calamine as calamine

    memory = int(request["memory"])
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (request["bytes"], request["bytes"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        book = calamine.CalamineWorkbook.from_path(request["source"])
        name, problem = _chosen(book, request["sheet"])
        if problem is not None:
            return problem
        sheet = book.get_sheet_by_name(name)
        rows = sheet.to_python(skip_empty_area=False)
        merged = list(sheet.merged_cell_ranges or ())
    except (calamine.CalamineError, ValueError, OSError) as bad:
        return {"problem": "damaged", "said": str(bad)[:200]}
    width = max((_width(row) for row in rows), default=0)
    if width > request["columns"]:
        return {"problem": "columns", "found": width}
    with Path(request["target"]).open("w", encoding="utf-8", newline="") as out:
        written = _Written(request["separator"], request["quote"], request["escape"])
        out.writelines(written.line(row[:width]) for row in rows)
    told = [
        *_told(request["source"], name),
        *_of_hidden_sheets(book, name),
        *_of_merged(merged),
        *_of_blank(rows),
        *_of_long_numbers(rows),
    ]
    return {"rows": len(rows), "told": told}


def _chosen(book: Any, wanted: str | None) -> tuple[str, dict[str, Any] | None]:
    """Return the name of the sheet, and why there is none: several, or none of that name."""
    names = [each.name for each in book.sheets_metadata if str(each.typ).endswith("WorkSheet")]
    if wanted is not None:
        if wanted in names:
            return wanted, None
        return "", {"problem": "no sheet", "sheets": names}
    shown = [
        each.name
        for each in book.sheets_metadata
        if each.name in names and str(each.visible).endswith("Visible")
    ]
    full = [name for name in shown if book.get_sheet_by_name(name).end is not None]
    if len(full) == 1:
        return full[0], None
    return "", {"problem": "sheets" if full else "empty", "sheets": full}


def _of_hidden_sheets(book: Any, read: str) -> Iterator[str]:
    """Yield the warning about sheets that are hidden and have values, and of which none is read."""
    names = [
        each.name
        for each in book.sheets_metadata
        if each.name != read
        and str(each.typ).endswith("WorkSheet")
        and not str(each.visible).endswith("Visible")
        and book.get_sheet_by_name(each.name).end is not None
    ]
    if names:
        yield f"hidden sheets of the workbook are not read: {_some(list(map(repr, names)))}"


def _width(row: list[Any]) -> int:
    return max((at for at, value in enumerate(row, 1) if value != ""), default=0)


class _Written:
    """Writes rows as CSV with these characters."""

    def __init__(self, separator: str, quote: str, escape: str | None) -> None:
        self._separator, self._quote, self._escape = separator, quote, escape
        special = {separator, quote, "\r", "\n", *([escape] if escape else [])}
        self._special = re.compile("[" + re.escape("".join(sorted(special))) + "]")

    def line(self, row: list[Any]) -> str:
        """Return a line; an empty one for a row without values."""
        cells = [self._cell(text_of(value)) for value in row]
        return (self._separator.join(cells) if any(cells) else "") + "\n"

    def _cell(self, text: str) -> str:
        if not self._special.search(text):
            return text
        if self._escape and self._escape != self._quote:
            text = text.replace(self._escape, self._escape * 2)
        return self._quote + text.replace(self._quote, self._quote * 2) + self._quote


def text_of(value: Any) -> str:
    """Return the text of a cell's value, as the readers of CSV take it."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            whole = value.is_integer() and abs(value) < EXACT_WHOLE * 1e3
            return str(int(value)) if whole else repr(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return _duration(value)
    return str(value)


def _duration(value: timedelta) -> str:
    """Return a duration in hours, minutes and seconds. A workbook counts days in floats, so that
    digits below a millisecond are noise: two minutes are 119.9999999 seconds."""
    millis = round(value.total_seconds() * 1000)
    sign, millis = ("-", -millis) if millis < 0 else ("", millis)
    seconds, rest = divmod(millis, 1000)
    fraction = f".{rest:03}" if rest else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def _of_blank(rows: list[list[Any]]) -> Iterator[str]:
    """Yield the warning about rows without values between others."""
    full = [number for number, row in enumerate(rows, 1) if _width(row)]
    count = full[-1] - full[0] + 1 - len(full) if full else 0
    if count:
        yield f"rows of the sheet without values are no rows of the dataset: {count}"


def _of_long_numbers(rows: list[list[Any]]) -> Iterator[str]:
    """Yield the warning about whole numbers, such as ids, whose last digits the program that wrote
    the workbook has lost."""
    found = [
        _place(row, column)
        for row, values in enumerate(rows)
        for column, value in enumerate(values)
        if isinstance(value, float) and abs(value) >= EXACT_WHOLE and value.is_integer()
    ]
    if found:
        yield (
            f"{len(found)} cells are whole numbers of more than 15 digits, of which programs of "
            f"tables keep 15; ids are safe as text: {_some(found)}"
        )


def _of_merged(ranges: list[Any]) -> Iterator[str]:
    """Yield the warning about merged cells, of which only the first has the value."""
    if ranges:
        shown = ", ".join(f"{_place(*one[0])}:{_place(*one[1])}" for one in ranges[:SHOWN])
        more = ", …" if ranges[SHOWN:] else ""
        yield f"of merged cells only the first has the value: {shown}{more}"


def _place(row: int, column: int) -> str:
    return f"{_letters(column + 1)}{row + 1}"


def _letters(column: int) -> str:
    """Return the name of a column, whose numbers begin with 1."""
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _told(source: str, sheet: str) -> Iterator[str]:
    """Yield what the library does not tell: cells with errors, formulas, and leading zeros; rows
    and columns that a reader of the sheet does not see."""
    part = _part(source, sheet)
    if part is None:
        yield "cells with an error (#N/A) are read as no value"
        return
    errors, padded, formulas = [], [], 0
    rows, columns = [], []
    with zipfile.ZipFile(source) as archive, archive.open(part) as stream:
        rest, styles = b"", _padding(archive)
        while chunk := stream.read(CHUNK_BYTES):
            rest += chunk
            end = rest.rfind(b"<")  # a tag may go on with the next chunk
            piece, rest = rest[: max(end, 0)], rest[max(end, 0) :]
            formulas += len(_FORMULA.findall(piece))
            rows += [
                each.get(b"r", b"?").decode("ascii", "replace") for each in _hidden(_ROW, piece)
            ]
            columns += [_columns(each) for each in _hidden(_COLUMN, piece)]
            for cell in _CELL.finditer(piece):
                found = dict(_ATTRIBUTE.findall(cell[1]))
                place = found.get(b"r", b"?").decode("ascii", "replace")
                if found.get(b"t") == b"e":
                    errors.append(place)
                elif found.get(b"t", b"n") == b"n" and found.get(b"s") in styles:
                    padded.append(place)
    if rows or columns:
        told = [f"rows {_some(rows)}"] if rows else []
        told += [f"columns {_some(columns)}"] if columns else []
        yield f"hidden parts of the sheet are read like others: {', '.join(told)}"
    if errors:
        yield (
            f"{len(errors)} cells hold an error, like #N/A, and are read as no value: "
            f"{_some(errors)}"
        )
    if padded:
        yield (
            f"{len(padded)} cells are numbers that the workbook shows with leading zeros, which "
            f"are no part of them; codes are safe as text: {_some(padded)}"
        )
    if formulas:
        yield (
            f"{formulas} cells are formulas: read is the result that the file keeps, which "
            "programs that do not calculate store as 0 or leave out"
        )


def _hidden(tag: re.Pattern[bytes], piece: bytes) -> Iterator[dict[bytes, bytes]]:
    """Yield the attributes of tags that are hidden, as a filter hides rows, too."""
    for found in tag.finditer(piece):
        attributes = dict(_ATTRIBUTE.findall(found[1]))
        if attributes.get(b"hidden") in _TRUE:
            yield attributes


def _columns(told: dict[bytes, bytes]) -> str:
    """Return the letters of the columns that a tag is about."""
    numbers = [told.get(key, b"") for key in (b"min", b"max")]
    if not all(number.isdigit() and len(number) < 8 and int(number) for number in numbers):
        return "?"
    first, last = (_letters(int(number)) for number in numbers)
    return first if first == last else f"{first}:{last}"


def _padding(archive: zipfile.ZipFile) -> set[bytes]:
    """Return the styles of cells that show leading zeros, by their numbers in the sheet."""
    try:
        with archive.open("xl/styles.xml") as stream:
            text = stream.read(STYLE_BYTES)
    except (KeyError, zipfile.BadZipFile, NotImplementedError):
        return set()
    formats = [dict(_ATTRIBUTE.findall(one[1])) for one in _FORMATS.finditer(text)]
    padding = {
        one.get(b"numFmtId")
        for one in formats
        if _PADDED.fullmatch(_unescaped(one.get(b"formatCode", b"")).decode().translate(_LITERAL))
    }
    begin = _STYLES.search(text)
    end = begin and _STYLES_END.search(text, begin.end())
    styles = _STYLE.finditer(text, begin.end(), end.start()) if begin and end else ()
    return {
        str(number).encode()
        for number, style in enumerate(styles)
        if dict(_ATTRIBUTE.findall(style[1])).get(b"numFmtId") in padding
    }


def _some(places: list[str]) -> str:
    return ", ".join(places[:SHOWN]) + (", …" if places[SHOWN:] else "")


def _part(source: str, sheet: str) -> str | None:
    """Return the part of an xlsx file that has the sheet; None for other formats."""
    try:
        with zipfile.ZipFile(source) as archive:
            book = archive.read("xl/workbook.xml")
            relations = archive.read("xl/_rels/workbook.xml.rels")
    except (zipfile.BadZipFile, KeyError, OSError):
        return None
    wanted = sheet.encode()
    for entry in _SHEET.finditer(book):
        found = dict(_ATTRIBUTE.findall(entry[1]))
        if _unescaped(found.get(b"name", b"")) != wanted:
            continue
        identity = next((value for key, value in found.items() if key.endswith(b":id")), None)
        for relation in _RELATION.finditer(relations):
            told = dict(_ATTRIBUTE.findall(relation[1]))
            if told.get(b"Id") == identity:
                target = told.get(b"Target", b"").decode()
                return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
    return None


def _unescaped(text: bytes) -> bytes:
    from html import unescape

    return unescape(text.decode("utf-8", "replace")).encode()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))))
