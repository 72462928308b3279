"""Lookups of rows by values, in the changelog or in its current state: planned here, run by a
reader process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odf_protocol.errors import LimitExceeded
from odf_protocol.multihash import Multihash
from odf_storage.datasets.pruning.filters import Filter
from odf_storage.datasets.read.records import DataFormat
from odf_storage.stores.ports.values import DatasetEntry

from ..read.read import Tables
from ..readers.materials import Materials
from ..readers.tasks import LookupTask


class TooManyFound(LimitExceeded):
    """The request has a higher limit of rows than the node allows."""


@dataclass(frozen=True)
class Lookups:
    """The dependencies and limits of lookups."""

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
    """Return the task of a reader for the first `limit` rows, and access to the objects it needs.

    With `state`, only rows that are in the current state count.

    Raises:
        TooManyFound: `limit` is above the node's. BlockNotFound: `block` is not in the dataset.
    """
    if limit > lookups.max_records:
        raise TooManyFound(
            f"a look-up gives at most {lookups.max_records} rows",
            limit=lookups.max_records,
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
