"""Find where a CSV file may be cut: at the end of a line that is not part of a quoted value.

Quotes are interpreted as in the tokenizer of `csv_records.py`: a quote at the start of a field
opens a value, in which two quotes mean one. If quotes appear elsewhere, or if lines do not end with
a line feed, the file is not cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from odf_protocol.metadata.sources import ReadStepCsv
from odf_protocol.sources.source_rules import csv_characters

from ...runtime.progress import Content, opened
from ...slices.schema import Limits
from ..values.csv_records import BOM, CsvFormat, refuse_header

SCAN_BYTES = 4 << 20
_LF, _CR = 10, 13
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class CsvHead:
    """The beginning of each split: `lines` lines of header. The rows of the file begin after `size`
    bytes and `before` lines."""

    content: bytes = b""
    lines: int = 0
    size: int = 0
    before: int = 0


def csv_head(step: ReadStepCsv, content: Content, names: Sequence[str]) -> CsvHead | None:
    """Return the header of a file, or one made of the columns' names if the file has none. None if
    a name cannot be written without an escape, or if the header is more than one line.

    Raises `HeaderMismatch` as the reader does, which sees no split without a header.
    """
    separator, quote, escape = csv_characters(step)
    form = CsvFormat(separator=separator, quote=quote, escape=escape)
    if not step.header:
        if any({quote, escape, "\r", "\n"} & set(name) for name in names):
            return None
        if step.schema is not None or step.ddl_schema is not None:
            refuse_header(content, form, names, Limits())
        made = separator.join(f"{quote}{name}{quote}" for name in names) + "\n"
        with opened(content) as stream:
            size = len(BOM) if stream.read(len(BOM)) == BOM else 0
        return CsvHead(made.encode(), lines=1, size=size)
    with opened(content) as stream:
        raw = _first_record(stream, form)
    if raw is None:
        return None
    lines = raw.count(b"\n")
    return CsvHead(raw, lines=lines, size=len(raw), before=lines)


def _first_record(stream: BinaryIO, form: CsvFormat) -> bytes | None:
    """Return the bytes of the header and of blank lines before it; None if it is more than one
    line."""
    limits = Limits()
    raw = b""
    while line := stream.readline(limits.row_bytes + 1):
        raw += line
        if len(raw) > limits.row_bytes or (
            form.quote.encode() in line and line.count(form.quote.encode()) % 2
        ):
            return None
        if line.removeprefix(BOM).strip(b"\r\n"):
            return raw if line.endswith(b"\n") else None
    return None


def csv_cuts(
    stream: BinaryIO, size: int, *, quote: str, separator: str, escape: str | None
) -> list[tuple[int, int]] | None:
    """Return ends of lines, about every `size` bytes, with the number of lines before them; None if
    the file cannot be cut. Reads the whole file."""
    opens = (ord(separator), _LF)
    own = None if escape in (None, quote) else ord(str(escape))
    cuts: list[tuple[int, int]] = []
    at, lines, quotes, last = 0, 0, 0, 0
    before = np.full(1, _LF, np.uint8)
    window = np.frombuffer(stream.read(SCAN_BYTES).removeprefix(BOM), np.uint8)
    at = stream.tell() - len(window)
    while len(window):
        behind = np.frombuffer(stream.read(SCAN_BYTES), np.uint8)
        around = np.concatenate([before, window, behind[:1]])
        positions = np.flatnonzero(window == ord(quote))
        if not _regular(around, window, positions, quotes, opens, own, quote):
            return None
        target = last + size
        if at + len(window) > target:
            cut = _line_end(window, positions, quotes, max(0, target - at))
            if cut is not None:
                last = at + cut
                cuts.append((last, lines + int(np.count_nonzero(window[:cut] == _LF))))
        lines += int(np.count_nonzero(window == _LF))
        quotes += len(positions)
        at += len(window)
        before, window = window[-1:], behind
    return None if quotes % 2 else cuts


def _regular(
    around: Bytes,
    window: Bytes,
    positions: npt.NDArray[np.int64],
    quotes: int,
    opens: tuple[int, int],
    escape: int | None,
    quote: str,
) -> bool:
    """Whether each odd quote begins a field or follows another quote, each even one ends a field or
    precedes another, no line ends with a carriage return alone, and nothing is escaped."""
    returns = np.flatnonzero(window == _CR)
    if np.any(np.append(around, np.uint8(0))[returns + 2] != _LF):
        return False
    if not len(positions) and not quotes:
        return True
    if escape is not None and np.any(window == escape):
        return False
    opening = (np.arange(len(positions)) + quotes) % 2 == 0
    earlier = around[positions]
    ends = np.append(around, np.uint8(_LF))[positions + 2]
    mark = ord(quote)
    good_start = np.isin(earlier, (*opens, mark))
    good_end = np.isin(ends, (*opens, _CR, mark))
    return bool(np.all(np.where(opening, good_start, good_end)))


def _line_end(
    window: Bytes, positions: npt.NDArray[np.int64], quotes: int, start: int
) -> int | None:
    """Return the position after the first line feed, from `start` on, that is outside quotes."""
    feeds = start + np.flatnonzero(window[start:] == _LF)
    before = np.searchsorted(positions, feeds) + quotes
    outside = feeds[before % 2 == 0]
    return int(outside[0]) + 1 if len(outside) else None
