"""The last records of a dataset, read from its newest slices only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from protocol.errors import Damaged, LimitExceeded
from protocol.identity import DatasetRef
from protocol.metadata.data import DataSlice
from protocol.metadata.events import AddData, ExecuteTransform
from protocol.metadata.schema import DataSchema
from storage.local_files import read_anywhere
from storage.values import DatasetEntry, ObjectKey, ObjectKind

from ..wiring import Node

if TYPE_CHECKING:
    import pyarrow as pa

BLOCKS_A_LOOK = 100
BATCH_ROWS = 8192


class TooManyRecords(LimitExceeded):
    """More records asked for than one request may read."""


class SliceUnreadable(Damaged):
    """A stored data slice is no Parquet file, or not of the size its block says."""


def tail(
    node: Node, entry: DatasetEntry, *, skip: int, limit: int
) -> tuple[pa.Table | None, DataSchema | None]:
    """The `limit` records before the last `skip`, in offset order, and the schema.

    No table when the dataset has no data.

    Raises:
        TooManyRecords: `skip + limit` above the node's limit.
        SliceUnreadable: a slice is damaged.
    """
    most = node.settings.max_tail_records
    if skip + limit > most:
        raise TooManyRecords(
            f"skip and limit may add up to {most}; page through offsets instead",
            limit=most,
            setting="ODF_NODE_MAX_TAIL_RECORDS",
        )
    dataset = node.stores.dataset(DatasetRef(id=entry.id))
    head = dataset.head()
    schema = dataset.state(head).data_schema
    slices = _newest_slices(node, entry, skip + limit)
    if not slices:
        return None, schema
    tables = [
        _last_rows(node, entry, piece, skip + limit) for piece in reversed(slices)
    ]  # oldest first
    import pyarrow as pa

    whole = pa.concat_tables(tables, promote_options="default")
    end = max(0, whole.num_rows - skip)
    start = max(0, end - limit)
    return whole.slice(start, end - start), schema


def _newest_slices(node: Node, entry: DatasetEntry, wanted: int) -> list[DataSlice]:
    """Slices from the newest on, until they hold that many records."""
    found: list[DataSlice] = []
    start = node.stores.refs.head(entry.id)
    have = 0
    while have < wanted:
        blocks = node.stores.blocks.ancestors(entry.id, start, limit=BLOCKS_A_LOOK)
        for block in blocks:
            event = block.event
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
                found.append(event.new_data)
                have += rows_of(event.new_data)
                if have >= wanted:
                    return found
        if not blocks or blocks[-1].prev is None:
            return found
        start = blocks[-1].prev
    return found


def rows_of(piece: DataSlice) -> int:
    interval = piece.offset_interval
    return interval.end - interval.start + 1


def _last_rows(node: Node, entry: DatasetEntry, piece: DataSlice, wanted: int) -> pa.Table:
    """The last rows of one slice; row groups before them are not read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    key = ObjectKey(entry.id, ObjectKind.DATA, piece.physical_hash)
    with node.stores.objects.open(key) as stream, read_anywhere(stream) as file:
        try:
            parquet = pq.ParquetFile(file, pre_buffer=False)
            groups, skipped = _needed_groups(parquet.metadata, wanted)
            batches = _drop_first(
                parquet.iter_batches(BATCH_ROWS, row_groups=groups, use_threads=False), skipped
            )
            return pa.Table.from_batches(batches, parquet.schema_arrow)
        except (pa.ArrowException, OSError) as broken:
            raise SliceUnreadable(
                f"data slice {piece.physical_hash} cannot be read: {str(broken)[:200]}",
                object=f"data/{piece.physical_hash}",
            ) from None


def _needed_groups(metadata: Any, wanted: int) -> tuple[Sequence[int], int]:
    """Row groups from the end that hold `wanted` rows, and how many of theirs are too many."""
    rows, first = 0, metadata.num_row_groups
    while first > 0 and rows < wanted:
        first -= 1
        rows += metadata.row_group(first).num_rows
    return range(first, metadata.num_row_groups), max(0, rows - wanted)


def _drop_first(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    for batch in batches:
        if rows >= batch.num_rows:
            rows -= batch.num_rows
        else:
            yield batch.slice(rows)
            rows = 0
