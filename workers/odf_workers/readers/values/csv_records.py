"""Records of a CSV file with their line numbers: the tokenizer that defines the format.

Doubled and escaped quotes both work; an escape character counts only inside quotes. Line breaks
inside quotes belong to the value. Records end with LF, CRLF or CR; blank lines are skipped. Arrow's
tokenizer is quicker for more than a few rows, and is used for those where both agree.

Compare the first record of a CSV file with the columns that its source declares.

Split a CSV file into texts by Arrow's tokenizer, which is quicker than ours, where both agree.

They differ in three cases, which are left to our tokenizer. Arrow does not know escapes that count
only inside quotes. It ends a value whose quote is never closed at the end of the file, without an
error; the file then ends with the opening quote and the text of its last value. And if a block that
it reads ends between a carriage return and its line feed, it drops the line feed, also inside
quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.csv as arrow_csv

from odf_protocol.sources.csv_header import (
    HeaderMismatch,
    Matched,
    likely_separator,
    match,
    names_columns,
)
from odf_protocol.sources.source_options import HeaderRule

from ...runtime.progress import Content, mapped, opened, size_of
from ...slices.schema import RAW_CHARS, BadRow, InputTooLarge, Limits

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


def matched(
    content: Content,
    form: CsvFormat,
    names: Sequence[str],
    rule: HeaderRule,
    limits: Limits,
    errors: str,
) -> Matched | None:
    """Match the fields of the file with the columns; None if the file is empty, so that there is no
    header.

    Raises:
        HeaderMismatch.
        BadRow: the header has more or fewer fields than there are columns, and its names do not
            count.
    """
    with opened(content) as stream:
        head = next(iter(CsvRecords(stream, form, limits, errors=errors)), None)
    if head is None:
        return None
    check_decoded(head)
    if len(head.fields) != len(names) and rule is HeaderRule.POSITION:
        raise not_so_wide(head, len(names), form)
    try:
        return match(head.fields, names, rule)
    except HeaderMismatch as bad:
        raise HeaderMismatch(bad.message, **{**bad.facts, "line": head.line}) from None


def not_so_wide(record: CsvRecord, width: int, form: CsvFormat) -> BadRow:
    """Return the error of a record with more or fewer fields than there are columns."""
    reason = f"{width} fields expected, {len(record.fields)} found"
    if len(record.fields) == 1 and (sign := likely_separator(record.raw, width)):
        reason += (
            f": {sign!r} cuts the line into {width}, and the source declares {form.separator!r} "
            "(`separator` of its read step)"
        )
    return BadRow(reason, line=record.line)


def refuse_header(content: Content, form: CsvFormat, names: Sequence[str], limits: Limits) -> None:
    """Raise `HeaderMismatch` if a file has a header although its source declares none."""
    with opened(content) as stream:
        records = iter(CsvRecords(stream, form, limits, errors="surrogateescape"))
        try:
            first = next(records, None)
        except (BadRow, InputTooLarge):  # reported with the rows
            return
    if first is not None and names_columns(first.fields, names):
        raise HeaderMismatch(
            "the first line names the columns, and the source declares no header: leave the line "
            "out, or declare `header: true` in a source of Csv",
            line=first.line,
        )


BLOCK_BYTES = 1 << 20
BLOCK_DOUBLINGS = 4
"""Blocks are larger, up to 16 MiB, if that leaves pairs of carriage return and line feed whole."""
_SCAN_BYTES = 1 << 20


class NotAgreed(Exception):
    """Our tokenizer has to read the rest."""


def arrow_texts(
    content: Content, columns: int, form: CsvFormat, nulls: frozenset[str], *, header: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the fields of all rows as texts, without those of the header.

    Raises:
        pa.ArrowInvalid: a row has another number of fields, or is not UTF-8.
        NotAgreed: at once, or instead of the last rows.
    """
    block_bytes = _block_bytes(content)
    if block_bytes is None or _has_escapes(content, form):
        raise NotAgreed
    small = size_of(content) <= BLOCK_BYTES
    # A reader of a file starts a thread that reads ahead, which costs more than a small file.
    reader = arrow_csv.open_csv(
        content if isinstance(content, Path) and not small else mapped(content),
        **_options(columns, form, nulls, block_bytes),
    )
    blocks = (block for block in reader if block.num_rows)  # a block of blank lines has none
    held, skipped = next(blocks, None), int(header)
    while held is not None:
        following = next(blocks, None)
        if following is None:
            last = held.column(columns - 1)[-1].as_py()
            if _may_be_open(content, last, form, nulls):
                raise NotAgreed
        yield held.slice(skipped)
        held, skipped = following, 0


def _block_bytes(content: Content) -> int | None:
    """Return the smallest size of blocks that do not end inside a line end; None if there is
    none."""
    with opened(content) as stream:
        size = stream.seek(0, SEEK_END)
        bad = [at for at in range(BLOCK_BYTES, size, BLOCK_BYTES) if _at(stream, at - 1) == b"\r\n"]
    sizes = [BLOCK_BYTES << doublings for doublings in range(BLOCK_DOUBLINGS + 1)]
    return next((each for each in sizes if all(at % each for at in bad)), None)


def _at(stream: BinaryIO, position: int) -> bytes:
    stream.seek(position)
    return stream.read(2)


def _has_escapes(content: Content, form: CsvFormat) -> bool:
    """Whether the file has both quotes and escape characters other than quotes."""
    if form.escape in (None, form.quote):
        return False
    quote, escape = form.quote.encode(), str(form.escape).encode()
    escapes = quotes = False
    with opened(content) as stream:
        while chunk := stream.read(_SCAN_BYTES):
            escapes, quotes = escapes or escape in chunk, quotes or quote in chunk
            if escapes and quotes:
                return True
    return False


def _may_be_open(
    content: Content, value: str | None, form: CsvFormat, nulls: frozenset[str]
) -> bool:
    """Whether the file ends as it would if the quote of its last value were never closed."""
    before = (b"", b"\n", b"\r", form.separator.encode(), BOM[-1:])
    quote = form.quote
    with opened(content) as stream:
        size = stream.seek(0, SEEK_END)
        for text in nulls if value is None else (value,):
            tail_if_open = (quote + text.replace(quote, quote * 2)).encode()
            stream.seek(max(0, size - len(tail_if_open) - 1))
            tail = stream.read()
            if tail.endswith(tail_if_open) and tail.removesuffix(tail_if_open) in before:
                return True
    return False


@lru_cache
def _options(
    columns: int, form: CsvFormat, nulls: frozenset[str], block_bytes: int
) -> dict[str, Any]:
    """Return the options with which Arrow's tokenizer agrees with ours; all columns are texts."""
    names = [str(number) for number in range(columns)]
    return {
        "read_options": arrow_csv.ReadOptions(
            column_names=names, block_size=block_bytes, use_threads=False
        ),
        "parse_options": arrow_csv.ParseOptions(
            delimiter=form.separator,
            quote_char=form.quote,
            escape_char=False,
            newlines_in_values=True,
        ),
        "convert_options": arrow_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=sorted(nulls),
            strings_can_be_null=True,
        ),
    }
