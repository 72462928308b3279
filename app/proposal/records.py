"""Records of a sample as columns: names, and the values in the order of the file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from odf_node.protocol.errors import BadInput

from .sample import Format, Sample
from .values import guess

MAX_ROWS = 20_000
"""Limit of the records that are examined."""
MAX_COLUMNS = 2_000
SEPARATORS = (",", ";", "\t", "|")
_SNIFFED_ROWS = 50


class NoRecords(BadInput):
    """A sample without a record that can be examined."""


@dataclass(frozen=True, slots=True)
class Records:
    """Columns by name; values are texts (CSV) or JSON values, and None is a missing value."""

    names: tuple[str, ...]
    columns: tuple[tuple[Any, ...], ...]
    is_whole: bool
    """Whether these are all records of the file."""
    separator: str = ","
    header: bool = True
    notes: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.columns[0]) if self.columns else 0


def records_of(sample: Sample, *, separator: str | None, header: bool | None) -> Records | None:
    """Return the records of a sample; None if it cannot be split into records: it is only part of a
    document, or not text.

    Raises:
        NoRecords, NotUtf8.
    """
    match sample.format:
        case Format.CSV:
            return _csv(sample, separator, header)
        case Format.NDJSON | Format.NDGEOJSON:
            return _objects(list(_lines(sample)), sample)
        case Format.JSON | Format.GEOJSON:
            return _objects(_document(sample), sample) if sample.is_whole else None
    return None


def _csv(sample: Sample, separator: str | None, header: bool | None) -> Records:
    text = sample.text()
    separator = separator or _separator(sample, text)
    rows = _rows(text, separator, sample.is_whole)
    if not rows:
        raise NoRecords(f"{sample.name} has no records")
    has_header = _is_header(rows) if header is None else header
    names, notes = _names(rows[0]) if has_header else ((), ())
    width = len(rows[0])
    if width > MAX_COLUMNS:
        raise NoRecords(f"{sample.name} has {width} columns; {MAX_COLUMNS} are looked at at most")
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise NoRecords(
                f"record {number} of {sample.name} has {len(row)} fields, the first has {width}; "
                f"they were separated by {separator!r} (--separator takes another one)",
                record=number,
            )
    body = rows[1:] if has_header else rows
    columns = tuple(tuple(row[at] or None for row in body[:MAX_ROWS]) for at in range(width))
    return Records(
        names=names or tuple(f"column_{at}" for at in range(1, width + 1)),
        columns=columns,
        is_whole=sample.is_whole and len(body) <= MAX_ROWS,
        separator=separator,
        header=has_header,
        notes=notes,
    )


def _rows(text: str, separator: str, is_whole: bool) -> list[list[str]]:
    """Return the records without blank lines. The last record of a partial sample is dropped if it
    seems cut."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    rows: list[list[str]] = []
    try:
        for row in reader:
            if row:
                rows.append(row)
            if len(rows) > MAX_ROWS + 1:
                return rows
    except csv.Error as bad:
        raise NoRecords(f"line {reader.line_num} cannot be read as CSV: {bad}") from None
    if not is_whole and len(rows) > 2 and len(rows[-1]) != len(rows[0]):
        rows.pop()
    return rows


def _separator(sample: Sample, text: str) -> str:
    """Return the separator that splits the first records into equally many fields, as many as
    possible."""
    if sample.name.lower().endswith(".tsv"):
        return "\t"
    begin = "\n".join(text.splitlines()[:_SNIFFED_ROWS]) + "\n"
    best, most = ",", 1
    for separator in SEPARATORS:
        try:
            widths = {
                len(row) for row in csv.reader(io.StringIO(begin), delimiter=separator) if row
            }
        except csv.Error:
            continue
        if len(widths) == 1 and (width := widths.pop()) > most:
            best, most = separator, width
    return best


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row can be names: none empty, none repeated, none a number or a date."""
    first = [cell.strip() for cell in rows[0]]
    return len(set(first)) == len(first) and all(
        cell and guess("", [cell]).type == "String" for cell in first
    )


def _names(header: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names: list[str] = []
    notes: list[str] = []
    for at, cell in enumerate(header, 1):
        seen = "".join(one if one.isprintable() else " " for one in cell).strip()
        plain = seen or f"column_{at}"
        name, number = plain, 2
        while name.lower() in (known.lower() for known in names):
            name, number = f"{plain}_{number}", number + 1
        if name != cell:
            notes.append(f"column {at} is called {cell!r} in the header, and {name!r} here")
        names.append(name)
    return tuple(names), tuple(notes)


def _lines(sample: Sample) -> Iterator[Any]:
    for number, line in enumerate(sample.text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except ValueError as bad:
            raise NoRecords(f"line {number} of {sample.name} is no JSON: {bad}") from None
        except RecursionError:
            raise NoRecords(f"line {number} of {sample.name} is nested too deeply") from None


def _document(sample: Sample) -> list[Any]:
    try:
        found = json.loads(sample.text())
    except (ValueError, RecursionError) as bad:
        raise NoRecords(f"{sample.name} is no JSON: {bad}") from None
    if sample.format is Format.GEOJSON and isinstance(found, dict):
        found = found.get("features")
    if not isinstance(found, list):
        raise NoRecords(f"{sample.name} holds no list of records")
    return found


def _objects(found: Sequence[Any], sample: Sample) -> Records:
    rows = list(found[:MAX_ROWS])
    if sample.format in (Format.GEOJSON, Format.NDGEOJSON):
        rows = [_feature(row) for row in rows]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise NoRecords(f"{sample.name} holds no records, which are JSON objects")
    names = tuple(dict.fromkeys(name for row in rows for name in row))[: MAX_COLUMNS + 1]
    if len(names) > MAX_COLUMNS:
        raise NoRecords(f"{sample.name} has more than {MAX_COLUMNS} columns")
    if odd := [name for name in names if not name.isprintable() or not name.strip()]:
        raise NoRecords(f"{odd[0][:100]!r} is no name of a column")
    columns = tuple(tuple(row.get(name) for row in rows) for name in names)
    whole = sample.is_whole and len(found) <= MAX_ROWS
    return Records(names, columns, whole)


def _feature(row: Any) -> Any:
    """Return the properties of a feature and its geometry, like readers of GeoJSON."""
    if not isinstance(row, dict) or not isinstance(row.get("properties"), dict):
        raise NoRecords("a feature without properties")
    shape = json.dumps(row.get("geometry"), sort_keys=True, separators=(",", ":"))
    return {**row["properties"], "geometry": shape}
