"""Records of a CSV file with their line numbers: the tokenizer that defines the format.

Doubled and escaped quotes both work; an escape character counts only inside quotes. Line breaks
inside quotes belong to the value. Records end with LF, CRLF or CR; blank lines are skipped. Arrow's
tokenizer is quicker for more than a few rows, and is used for those where both agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from ..slices.frame import RAW_CHARS, BadRow, Limits

BOM = b"\xef\xbb\xbf"
_LONE_CR = re.compile(r"(?<=\r)(?!\n)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFormat:
    """The special characters, one ASCII character each; without `escape` only doubled quotes
    work."""

    separator: str = ","
    quote: str = '"'
    escape: str | None = "\\"


class CsvRecord(NamedTuple):
    """Line on which it begins (from 1), fields as text, and the beginning of the original text."""

    line: int
    fields: list[str]
    raw: str


class CsvRecords:
    """Iterates over records. `errors` is the decoding of invalid UTF-8, which by default ends the
    reading."""

    def __init__(
        self, stream: BinaryIO, form: CsvFormat, limits: Limits, *, errors: str = "strict"
    ) -> None:
        self._lines = _lines(stream, limits, errors)
        self._form, self._limits = form, limits
        self._raw = ""
        inside = re.escape(form.quote) + (re.escape(form.escape) if form.escape else "")
        self._inside = re.compile(f"[{inside}]")
        self._field_end = re.compile(f"[{re.escape(form.separator)}\r\n]")

    def __iter__(self) -> Iterator[CsvRecord]:
        quote, separator = self._form.quote, self._form.separator
        for number, line in self._lines:
            if quote in line:
                self._raw = line
                fields = self._quoted_record(number, line)
                yield CsvRecord(number, fields, self._raw)
            elif bare := line.rstrip("\r\n"):
                yield CsvRecord(number, bare.split(separator), bare)

    def _quoted_record(self, number: int, line: str) -> list[str]:
        fields: list[str] = []
        position = 0
        while True:
            parts: list[str] = []
            if line.startswith(self._form.quote, position):
                line, position = self._inside_quotes(number, line, position + 1, parts)
            end = self._field_end.search(line, position)
            stop = end.start() if end else len(line)
            parts.append(line[position:stop])
            fields.append("".join(parts))
            if end is None or end[0] != self._form.separator:
                return fields
            position = stop + 1

    def _inside_quotes(
        self, number: int, line: str, position: int, parts: list[str]
    ) -> tuple[str, int]:
        """Collect the value up to its closing quote; return the line and the position after it."""
        size = 0
        while True:
            found = self._inside.search(line, position)
            stop = found.start() if found else len(line)
            parts.append(line[position:stop])
            size += stop - position
            if size > self._limits.row_bytes:
                raise self._limits.row_too_large(number)
            if found is None:
                line, position = self._next_line(number), 0
            elif found[0] != self._form.quote or line.startswith(self._form.quote, stop + 1):
                # Take the second one: it is an escaped character, or the second of two quotes.
                parts.append(line[stop + 1 : stop + 2])
                position = stop + 2
            else:
                return line, stop + 1

    def _next_line(self, start: int) -> str:
        try:
            line = next(self._lines)[1]
        except StopIteration:
            raise BadRow("the quote that opens a value is never closed", line=start) from None
        if len(self._raw) <= RAW_CHARS:
            self._raw += line
        return line


def _lines(stream: BinaryIO, limits: Limits, errors: str) -> Iterator[tuple[int, str]]:
    """Yield numbered lines with their ends, decoded separately so that bad bytes have a line
    number."""
    number = 0
    while raw := stream.readline(limits.row_bytes + 1):
        if number == 0:
            raw = raw.removeprefix(BOM)
        if len(raw) > limits.row_bytes:
            raise limits.row_too_large(number + 1)
        try:
            text = raw.decode("utf-8", errors)
        except UnicodeDecodeError as bad:
            shown = raw[bad.start : bad.start + 8].decode("utf-8", "backslashreplace")
            raise BadRow("the text is not UTF-8", line=number + 1, value=shown) from None
        for line in _LONE_CR.split(text) if "\r" in text[:-2] else (text,):
            if line:
                number += 1
                yield number, line


def check_decoded(record: CsvRecord) -> None:
    """Raise `BadRow` if a record, decoded with `surrogateescape`, had bytes that are not UTF-8."""
    for text in record.fields:
        if (shown := printable(text)) != text:
            raise BadRow("the text is not UTF-8", line=record.line, value=shown)


def printable(text: str) -> str:
    """Return the text, with bytes that were not UTF-8 as escapes."""
    return (
        text
        if text.isascii()
        else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    )
