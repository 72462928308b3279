"""Split a CSV file into texts by Arrow's tokenizer, which is quicker than ours, where both agree.

They differ in three cases, which are left to our tokenizer. Arrow does not know escapes that count
only inside quotes. It ends a value whose quote is never closed at the end of the file, without an
error; the file then ends with the opening quote and the text of its last value. And if a block that
it reads ends between a carriage return and its line feed, it drops the line feed, also inside
quotes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as arrow_csv

from ..runtime.content import Content, mapped, opened, size_of
from .csv_records import BOM, CsvFormat

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
