"""Links in slices: the objects to which rows point, and whether they exist (RFC-017)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.columns.slice_file import UNREADABLE, UnreadableSlice, open_slice
from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import SHA3_256, MalformedHash, MalformedMultibase, Multihash
from odf_protocol.references import LinkedObjects

from ...stores.ports import ObjectStore
from ...stores.ports.values import ObjectKey, ObjectKind

BATCH_ROWS = 16_384


class InvalidValue(BadInput):
    """A column of links holds a value that is no multihash of an object."""

    def __init__(self, column: str, value: str) -> None:
        shown = value[:100]
        super().__init__(
            f"column {column!r} links to objects by the multihash of their SHA3-256, and "
            f"{shown!r} is none",
            column=column,
            value=shown,
        )


def dangling_reference(column: str, missing: Multihash, others: int) -> BadInput:
    """A row links to an object that does not exist in the dataset."""
    more = f" (and {others} more)" if others else ""
    return BadInput(
        "DanglingReference",
        f"column {column!r} links to {missing}{more}, which is not here; "
        f"PUT the object to data/{missing} first",
        column=column,
        hash=str(missing),
        missing=others + 1,
    )


Links = dict[tuple[str, Multihash], int]
"""Number of times that a column links to an object, by column and hash."""


def links_in(source: Path | BinaryIO, columns: Sequence[str]) -> Links:
    """Count the links in one Parquet file. Memory grows with the number of different links.

    Raises:
        InvalidValue: a value is no multihash of an object (SHA3-256).
    """
    found: Counter[tuple[str, Multihash]] = Counter()
    for column, text, count in _texts(pq.ParquetFile(source), columns):
        found[column, _parsed(column, text)] += count
    return dict(found)


def check_links(
    objects: ObjectStore, dataset: DatasetId, links: Mapping[tuple[str, Multihash], int]
) -> LinkedObjects:
    """Return the number and total size of the linked objects. Each object that is found counts as
    new again, so that garbage collection does not remove it.

    Raises:
        DanglingReference: an object does not exist.
    """
    count = size = 0
    missing: list[tuple[str, Multihash]] = []
    for (column, name), often in links.items():
        known = objects.settle(ObjectKey(dataset, ObjectKind.DATA, name))
        if known is None:
            missing.append((column, name))
            continue
        count, size = count + often, size + often * known.size
    if missing:
        column, name = min(missing, key=lambda item: (item[0], item[1].digest))
        raise dangling_reference(column, name, len(missing) - 1)
    return LinkedObjects(count, size)


def readable_links(source: BinaryIO, columns: Sequence[str]) -> Iterator[Multihash]:
    """Yield the links of a file that others made, each once per column and batch in which it
    appears. Skip values that are no links.

    Raises:
        UnreadableSlice: the file is no Parquet file, or cannot be read to its end.
    """
    texts = _texts(open_slice(source), columns)
    while (found := _next(texts)) is not None:
        column, text, _ = found
        with suppress(InvalidValue):
            yield _parsed(column, text)


def _next(texts: Iterator[tuple[str, str, int]]) -> tuple[str, str, int] | None:
    try:
        return next(texts, None)
    except UNREADABLE as error:
        raise UnreadableSlice.of(error) from None


def _texts(file: pq.ParquetFile, columns: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Yield column, value and count for each batch. Skip columns that an older file does not
    have."""
    present = [name for name in columns if name in file.schema_arrow.names]
    if not present:
        return
    for batch in file.iter_batches(BATCH_ROWS, columns=present):
        for name in present:
            counted = batch.column(name).cast(pa.string()).drop_null().value_counts()
            for item in counted.to_pylist():
                yield name, item["values"], item["counts"]


def _parsed(column: str, text: str) -> Multihash:
    try:
        parsed = Multihash.parse(text)
    except (MalformedHash, MalformedMultibase):
        raise InvalidValue(column, text) from None
    if parsed.code != SHA3_256 or len(parsed.digest) != 32:
        raise InvalidValue(column, text)
    return parsed
