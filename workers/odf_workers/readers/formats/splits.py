"""Splits: parts of one file that are read in parallel, and together give the rows of the file.

A file of lines is cut at ends of records that can be found without reading all before, and Parquet
at its row groups. A file that cannot be cut is one split, and the plan has the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import pyarrow as pa

from odf_protocol.columns.slice_file import RowGroup, footer_span, row_groups_of
from odf_protocol.metadata.sources import (
    ReadStep,
    ReadStepCsv,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_protocol.sources.source_rules import csv_characters

from ...partitions.port import File, LinkSpan, Spans
from ...runtime.progress import Content, Enclosed, mapped, opened, size_of
from ...slices.schema import Limits
from .csv_cuts import CsvHead, csv_cuts, csv_head
from .parquet import values_size
from .plain import PlainTables, TablePart

SPLIT_BYTES = 64 << 20
"""Limit of the bytes of a split, exceeded by less than a record."""
SMALLEST_SPLIT_BYTES = 4 << 20
"""The overhead of a smaller split exceeds its benefit."""
SCAN_BYTES = 1 << 20
LINES = ReadStepCsv | ReadStepNdJson | ReadStepNdGeoJson
"""Steps whose files are cut, and whose first records give the types of a source that declares
none."""
_BLANK = b" \t\r\n"
_SEAM = re.compile(rb"\}[ \t\r]*\n[ \t\r\n]*\{")
"""The boundary of two records: within a record, no `{` directly follows a `}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSplit:
    """A part of a file: bytes from `start` to `end` after `head`, or row groups; or a whole file.
    With `part`, the file belongs to a table, and the rows of the splits in `then` follow.

    `lines` and `rows` count what precedes the split in the file, less the lines of its head.
    `group_spans` are the bytes that a reader of row groups needs.
    """

    file: File | Enclosed
    start: int = 0
    end: int | None = None
    head: bytes = b""
    groups: tuple[int, ...] | None = None
    group_spans: Spans | None = None
    lines: int = 0
    rows: int = 0
    part: TablePart | None = None
    then: tuple[ReaderSplit, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.end is None and self.groups is None

    @property
    def spans(self) -> Spans | None:
        """The bytes of the file that a reader needs; None: all."""
        return self.group_spans if self.end is None else (LinkSpan(self.start, self.end),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """All splits of a file, in order. `names_columns` means that each begins with a header."""

    splits: tuple[ReaderSplit, ...]
    names_columns: bool = False
    whole_because: str | None = None
    """Reason why there is only one split, although the file is large enough for more."""


def unpacked_size(step: ReadStep, content: Content, limits: Limits) -> int:
    """Return the bytes of the rows in a file of a step, about. Raises as `values_size`."""
    if isinstance(step, ReadStepParquet):
        return values_size(content, limits)
    return size_of(content)


def split_count(size: int, width: int) -> int:
    """Return the number of splits for a file of `size` bytes, if `width` splits are read in
    parallel."""
    return size // _split_bytes(size, width)


def _split_bytes(size: int, width: int) -> int:
    return max(min(size // width, SPLIT_BYTES), SMALLEST_SPLIT_BYTES)


def plan_splits(
    step: ReadStep, content: Content, schema: pa.Schema | None, width: int, size: int
) -> Splits:
    """Plan the splits of a file for a step, if `width` splits are read in parallel. `size` is its
    unpacked size.

    `schema` has the columns that the step reads, in their order; None if it declares none, and the
    beginning of the file shows none.
    """
    if (count := split_count(size, width)) <= 1:
        return Splits(splits=(ReaderSplit(file=content),))
    if isinstance(step, ReadStepParquet):
        return _of_groups(content, count)
    if not isinstance(step, LINES):
        return _whole(content, "it is one document")
    if schema is None:
        return _whole(content, "its first records name no columns")
    if isinstance(step, ReadStepCsv):
        return _of_csv(step, content, schema, size // count)
    return _of_records(content, size // count)


def splits_of_table(table: PlainTables, sizes: Sequence[int], width: int) -> Splits:
    """Plan the splits of a table, given the unpacked sizes of its files. Successive small files are
    joined, and large ones are cut."""
    wanted = _split_bytes(sum(sizes), width)
    found: list[ReaderSplit] = []
    small: list[ReaderSplit] = []
    waiting, whole_because = 0, None
    for each, size in zip(table.files, sizes, strict=True):
        cut = Splits(splits=(ReaderSplit(file=each.path),))
        if (count := size // wanted) > 1:
            cut = _of_groups(each.path, count)
            whole_because = cut.whole_because
        mine = [replace(split, part=each.part) for split in cut.splits]
        if small and waiting + size > wanted:
            found.append(_joined(small))
            small, waiting = [], 0
        if len(mine) > 1:
            found.extend(mine)
        else:
            small += mine
            waiting += size
    if small:
        found.append(_joined(small))
    return Splits(splits=tuple(found), whole_because=whole_because if len(found) == 1 else None)


def _joined(splits: Sequence[ReaderSplit]) -> ReaderSplit:
    first, *rest = splits
    return replace(first, then=tuple(rest))


def _whole(content: Content, why: str) -> Splits:
    return Splits(splits=(ReaderSplit(file=content),), whole_because=why)


def _of_groups(content: Content, count: int) -> Splits:
    with mapped(content) as stream:
        read = memoryview(stream.read_buffer())
        groups, footer = row_groups_of(read), footer_span(read)
    if len(groups) < 2:
        return _whole(content, "it has one row group")
    step = -(-len(groups) // min(count, len(groups)))
    return Splits(
        splits=tuple(
            ReaderSplit(
                file=content,
                groups=tuple(range(at, min(at + step, len(groups)))),
                group_spans=_with_footer(groups[at : at + step], LinkSpan(*footer)),
                rows=sum(group.num_rows for group in groups[:at]),
            )
            for at in range(0, len(groups), step)
        )
    )


def _with_footer(groups: Sequence[RowGroup], footer: LinkSpan) -> Spans:
    """Return the bytes of successive row groups, and of the footer."""
    chunks = [chunk for group in groups for chunk in group.chunks]
    start = min((chunk.start for chunk in chunks), default=0)
    end = min(max((chunk.end for chunk in chunks), default=0), footer.start)
    return (LinkSpan(start, end), footer) if start < end else (footer,)


def _of_csv(step: ReadStepCsv, content: Content, schema: pa.Schema, size: int) -> Splits:
    separator, quote, escape = csv_characters(step)
    head = csv_head(step, content, schema.names)
    if head is None:
        return _whole(content, "a column's name needs an escape")
    with opened(content) as stream:
        cuts = csv_cuts(stream, size, quote=quote, separator=separator, escape=escape)
    if cuts is None:
        return _whole(content, "quotes or line ends in it stand where only a reader can tell them")
    starts = [(head.size, head.before), *(cut for cut in cuts if cut[0] > head.size)]
    return Splits(splits=_behind(head, content, starts), names_columns=True)


def _of_records(content: Content, size: int) -> Splits:
    with opened(content) as stream:
        cuts = list(_record_cuts(stream, size))
    return Splits(splits=_behind(CsvHead(), content, [(0, 0), *cuts]))


def _behind(
    head: CsvHead, content: Content, starts: Sequence[tuple[int, int]]
) -> tuple[ReaderSplit, ...]:
    """Return the splits that begin at each start, which has the number of lines before it. A single
    one is the whole file, head included."""
    if len(starts) == 1:
        return (ReaderSplit(file=content),)
    ends = [*(at for at, _ in starts[1:]), size_of(content)]
    return tuple(
        ReaderSplit(
            file=content, start=start, end=end, head=head.content, lines=before - head.lines
        )
        for (start, before), end in zip(starts, ends, strict=True)
    )


def _record_cuts(stream: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """Yield beginnings of records, about every `size` bytes, with the number of lines before
    them."""
    at, lines, last = 0, 0, 0
    window = b""
    while chunk := stream.read(SCAN_BYTES):
        window += chunk
        if at + len(window) - last >= size and (seam := _SEAM.search(window)):
            cut = seam.end() - 1
            lines += window.count(b"\n", 0, cut)
            at, last = at + cut, at + cut
            window = window[cut:]
            yield at, lines
        keep = len(window) - len(window.rstrip(_BLANK)) + 1  # the next chunk may go on with a seam
        done = max(0, len(window) - keep)
        if window[done : done + 1] != b"}":
            done = len(window)
        lines += window.count(b"\n", 0, done)
        at, window = at + done, window[done:]
