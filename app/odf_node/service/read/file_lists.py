"""Lists of the data slices of a dataset as lines of text, oldest first, for programs that read
lists of files.

One response contains all slices, so that DuckDB, Polars or a script need a single URL.

Pages of the Parquet files of a dataset, with URLs that any reader of Parquet can use.

The chain is read backwards from a block, so that the cost of a page depends only on its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from odf_protocol.codec.manifests import to_data
from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import AddData, DataSlice, ExecuteTransform, HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.marks import walk_back
from odf_storage.stores.ports import BlockIndex
from odf_storage.stores.ports.values import DatasetEntry

from ..http.parameters import parse_hash

Sign = Callable[[str], str]
"""A function that returns the query of the URL of a slice, given its name. The query grants the
right to read the slice."""
MAX_SCANNED = 10_000
"""Limit of blocks that are read for one page, even if few of them have data."""


def list_files(
    datasets: Stores,
    blocks: BlockIndex,
    entry: DatasetEntry,
    base: str,
    *,
    at: str | None,
    before: str | None,
    limit: int,
    sign: Sign | None = None,
    has_retractions: Callable[[Multihash], bool] | None = None,
) -> dict[str, Any]:
    """Return a page of the slices of the chain up to the block `at` (default: head), newest first.

    `base` is the URL of the dataset, with a slash at the end; `sign` makes the query of a URL.
    `has_retractions` tells whether the files up to a block have rows that take others back.
    A page has at most `limit` files; its `next` is the `before` of the page with older ones, or
    None.

    Raises:
        UnreadableHash: `at` or `before` is not a hash. BlockNotFound: it is not a block of this
            dataset.
    """
    dataset = datasets.dataset(DatasetRef(id=entry.id))
    end = end_of(dataset, at)
    files: list[dict[str, Any]] = []
    following: Multihash | None = end if before is None else parse_hash(before)
    back = () if following is None else walk_back(blocks, dataset.id, following)
    for scanned, block in enumerate(back, 1):
        following = block.prev
        data = slice_of(block)
        if data is not None:
            files.append(_file(block, data, base, sign))
        if len(files) == limit or scanned == MAX_SCANNED:
            break
    told = {} if has_retractions is None else {"hasRetractions": has_retractions(end)}
    return {**_summary(dataset, end), **told, "files": files, "next": _text(following)}


def end_of(dataset: Dataset, at: str | None) -> Multihash:
    """Return the last block of the list: `at`, or the head. Raises `UnreadableHash`,
    `BlockNotFound`."""
    return dataset.head() if at is None else dataset.block(parse_hash(at)).hash


def url_of(folder: str, data: DataSlice, sign: Sign | None) -> str:
    """Return the URL of a slice. `folder` is the URL of the dataset, with a slash at the end."""
    name = str(data.physical_hash)
    return f"{folder}data/{name}" + ("" if sign is None else f"?{sign(name)}")


def slice_of(block: HashedBlock) -> DataSlice | None:
    """Return the slice with the rows that a block adds, None if it adds none."""
    event = block.event
    return event.new_data if isinstance(event, AddData | ExecuteTransform) else None


def _file(block: HashedBlock, data: DataSlice, base: str, sign: Sign | None) -> dict[str, Any]:
    interval = data.offset_interval
    path = f"data/{data.physical_hash}"
    watermark = getattr(block.event, "new_watermark", None)
    return {
        "path": path,
        "url": url_of(base, data, sign),
        "size": data.size,
        "records": interval.count,
        "offsets": {"start": interval.start, "end": interval.end},
        "physicalHash": str(data.physical_hash),
        "logicalHash": str(data.logical_hash),
        "watermark": _text(watermark),
        "block": str(block.hash),
        "sequenceNumber": block.sequence_number,
        "systemTime": str(block.block.system_time),
    }


def _summary(dataset: Dataset, end: Multihash) -> dict[str, Any]:
    """Return the facts of the chain as of the block."""
    state = dataset.state(end)
    schema = state.data_schema
    return {
        "id": str(dataset.id),
        "at": str(end),
        "sequenceNumber": state.sequence_number,
        "records": state.num_records,
        "size": state.data_size,
        "linkedObjects": state.linked_objects,
        "linkedObjectsSize": state.linked_size,
        "lastOffset": state.last_offset,
        "watermark": _text(state.watermark),
        "schema": None if schema is None else to_data(schema),
        "vocab": {
            "offsetColumn": state.vocab.offset_column,
            "operationTypeColumn": state.vocab.operation_type_column,
            "systemTimeColumn": state.vocab.system_time_column,
            "eventTimeColumn": state.vocab.event_time_column,
        },
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


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


def no_pages() -> BadInput:
    """The request is for a page of a list that has no pages."""
    return BadInput(
        "NoPages", "this format lists all files at once: leave `before` and `limit` out"
    )


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
            raise BadInput(
                "UnknownListFormat", f"a list of files is json, {known}, not {text[:50]!r}"
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
        interval.count,
        interval.start,
        interval.end,
        str(block.block.system_time),
        str(block.hash),
        str(data.physical_hash),
    )
