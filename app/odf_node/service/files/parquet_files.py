"""Pages of the Parquet files of a dataset, with URLs that any reader of Parquet can use.

The chain is read backwards from a block, so that the cost of a page depends only on its length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odf_protocol.codec.manifests import to_data
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.data import DataSlice
from odf_protocol.metadata.events import AddData, ExecuteTransform
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset, Datasets
from odf_storage.datasets.upkeep.walk import walk_back
from odf_storage.stores.ports import BlockIndex
from odf_storage.stores.ports.values import DatasetEntry

from ..http.hashes import parse_hash

Sign = Callable[[str], str]
"""A function that returns the query of the URL of a slice, given its name. The query grants the
right to read the slice."""
MAX_SCANNED = 10_000
"""Limit of blocks that are read for one page, even if few of them have data."""


def list_files(
    datasets: Datasets,
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
        "records": interval.end - interval.start + 1,
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
