"""Lists of the data slices of a dataset as lines of text, oldest first, for programs that read
lists of files.

One response contains all slices, so that DuckDB, Polars or a script need a single URL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from odf_protocol.errors import BadInput
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.data import DataSlice

from .parquet_files import Sign, slice_of, url_of

COLUMNS = (
    "url",
    "size",
    "records",
    "first_offset",
    "last_offset",
    "system_time",
    "block",
    "physical_hash",
)
Row = tuple[str | int, ...]


class UnknownListFormat(BadInput):
    """Lists of files have no such format."""


class NoPages(BadInput):
    """The request is for a page of a list that has no pages."""

    def __init__(self) -> None:
        super().__init__("this format lists all files at once: leave `before` and `limit` out")


class ListFormat(StrEnum):
    """Formats of a list. Values are the names in requests."""

    CSV = "csv"
    NDJSON = "ndjson"
    TXT = "txt"

    @classmethod
    def parse(cls, text: str) -> ListFormat:
        """Parse the name of a format. Raises `UnknownListFormat`."""
        try:
            return cls(text.strip().lower())
        except ValueError:
            known = ", ".join(cls)
            raise UnknownListFormat(
                f"a list of files is json, {known}, not {text[:50]!r}"
            ) from None


@dataclass(frozen=True, slots=True)
class _Written:
    media_type: str
    line: Callable[[Row], str]
    first: str = ""


def _json(row: Row) -> str:
    return msgspec.json.encode(dict(zip(COLUMNS, row, strict=True))).decode()


_WRITTEN = {
    # No value contains a comma or a quote: URLs are quoted, the others are numbers, times and
    # hashes.
    ListFormat.CSV: _Written(
        "text/csv; charset=utf-8; header=present",
        lambda row: ",".join(map(str, row)),
        ",".join(COLUMNS) + "\n",
    ),
    ListFormat.NDJSON: _Written("application/x-ndjson", _json),
    ListFormat.TXT: _Written("text/plain; charset=utf-8", lambda row: str(row[0])),
}


def media_type(form: ListFormat) -> str:
    return _WRITTEN[form].media_type


def written(
    pages: Iterable[Sequence[HashedBlock]], form: ListFormat, folder: str, sign: Sign | None
) -> Iterator[bytes]:
    """Yield the lines for the slices of these blocks, page by page. `folder` is the URL of the
    dataset, with a slash at the end."""
    line = _WRITTEN[form].line
    yield _WRITTEN[form].first.encode()
    for page in pages:
        rows = (_row(block, data, folder, sign) for block in page if (data := slice_of(block)))
        yield "".join(f"{line(row)}\n" for row in rows).encode()


def _row(block: HashedBlock, data: DataSlice, folder: str, sign: Sign | None) -> Row:
    interval = data.offset_interval
    return (
        url_of(folder, data, sign),
        data.size,
        interval.end - interval.start + 1,
        interval.start,
        interval.end,
        str(block.block.system_time),
        str(block.hash),
        str(data.physical_hash),
    )
