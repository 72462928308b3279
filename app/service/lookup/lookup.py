"""Rows with some values, or what stands of them: planned here, read by a reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odf_node.protocol.errors import LimitExceeded
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.pruning.filters import Filter
from odf_node.storage.datasets.read.records import DataFormat
from odf_node.storage.stores.ports.values import DatasetEntry

from ..read.read import Tables
from ..readers.materials import Materials
from ..readers.tasks import LookupTask


class TooManyFound(LimitExceeded):
    """More rows asked for than one look-up may give."""


@dataclass(frozen=True)
class Lookups:
    """Look-ups: where they read, what is known of slices, and how much they give at most."""

    tables: Tables
    max_records: int
    max_bytes: int


def lookup_task(
    lookups: Lookups,
    entry: DatasetEntry,
    filters: Sequence[Filter],
    *,
    block: Multihash | None,
    state: bool,
    limit: int,
    shape: DataFormat,
) -> tuple[LookupTask, Materials]:
    """What a reader is to do for the first `limit` rows, and where their objects come from.

    Raises:
        TooManyFound: `limit` above the node's. BlockNotFound: no block of the dataset.
    """
    if limit > lookups.max_records:
        raise TooManyFound(
            f"a look-up gives at most {lookups.max_records} rows",
            limit=lookups.max_records,
            setting="ODF_NODE_MAX_TAIL_RECORDS",
        )
    table, materials = lookups.tables.of(entry, block, filters)
    task = LookupTask(
        table=table,
        filters=tuple(filters),
        state=state,
        limit=limit,
        shape=shape.value,
        max_bytes=lookups.max_bytes,
    )
    return task, materials
