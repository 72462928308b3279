"""A publication job: update the node's own index first, then the published files.

It tries again when another run was faster. A killed job is repeated, and removes the remains of
the first run.

Values of many slices for the indices of a dataset: one partition per slice, on Spark.

A refresh usually adds little, which the publication reads itself. This module serves the first
publication of a large dataset, and large blocks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.errors import NotFound
from odf_protocol.kartothek.keys import encoded
from odf_protocol.kartothek.partition_values import normalised
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.publish_job import IndexSize, PublishPayload, PublishReceipt
from odf_storage.datasets.kartothek.definition import (
    Definition,
    Publication,
    Published,
    read_definition,
)
from odf_storage.datasets.kartothek.live import ChainSlice, ChainView, chain_view
from odf_storage.datasets.kartothek.live_index import forget_live
from odf_storage.datasets.kartothek.own_index import (
    made_of,
    own_index,
    refresh_own_index,
    remove_own_index,
    served_store,
)
from odf_storage.datasets.kartothek.parts import SliceValues, distinct, encode_values
from odf_storage.datasets.kartothek.publish import publish, withdraw
from odf_storage.datasets.kartothek.records import KeyedRecords, allowed_store, record_key
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports import KeyedStore
from odf_storage.stores.ports.errors import SwapLost
from odf_storage.stores.ports.values import ObjectKind

from ...partitions.port import File, Output, at_hand
from ..ingest.ways import way_of
from ..work.context import WorkerContext, local_file

AT_ONCE = 128
"""Number of slices whose files are on this machine at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceColumns:
    """A slice, and its requested columns with their types."""

    file: File
    name: str
    columns: dict[str, pa.DataType]


def keep_values(
    dataset: Dataset,
    projections: KeyedStore,
    kept: SliceValues,
    columns: Sequence[str],
    context: WorkerContext,
) -> int:
    """Store the values of slices that the index does not cover, if these slices are large. Return
    the number of slices read.

    Raises:
        ObjectDamaged, ObjectHealing: a slice is damaged. StageFailed.
    """
    chain = chain_view(dataset)
    new = _not_covered(dataset, projections, columns, chain)
    size = sum(each.data.size for each in new)
    if size < context.ingest.micro_batch_bytes:
        return 0
    types = {name: normalised(chain.schema.field(name).type) for name in columns}
    read = 0
    for start in range(0, len(new), AT_ONCE):
        with tempfile.TemporaryDirectory(prefix="values-", dir=context.scratch) as folder:
            some = new[start : start + AT_ONCE]
            read += _keep(dataset, kept, some, types, context, size, Path(folder))
    return read


def _not_covered(
    dataset: Dataset, projections: KeyedStore, columns: Sequence[str], chain: ChainView
) -> list[ChainSlice]:
    index = own_index(projections, dataset.id)
    if index is None or index.head not in chain.path or not index.columns >= set(columns):
        return list(chain.slices)
    return [each for each in chain.slices if each.sequence > index.sequence_number]


def _keep(
    dataset: Dataset,
    kept: SliceValues,
    slices: Sequence[ChainSlice],
    types: dict[str, pa.DataType],
    context: WorkerContext,
    size: int,
    folder: Path,
) -> int:
    way = way_of(context, size)
    try:
        inputs = []
        for each in slices:
            name = each.data.physical_hash
            there = kept.has(name)
            wanted = {column: its for column, its in types.items() if encoded(column) not in there}
            if wanted:
                path = local_file(dataset, ObjectKind.DATA, name, folder)
                inputs.append(SliceColumns(file=way.file(path), name=str(name), columns=wanted))
        if inputs:
            for facts in way.read(inputs, read_values).facts():
                for name, column, raw in facts:
                    kept.put(Multihash.parse(name), column, raw)
        return len(inputs)
    finally:
        way.close()


def read_values(wanted: SliceColumns) -> Output:
    """Yield slice, column, and the encoded values, for each column. A column missing in the slice
    has no values."""
    with pq.ParquetFile(at_hand(wanted.file)) as file:
        has = {name: its for name, its in wanted.columns.items() if name in file.schema_arrow.names}
        values = distinct(file.iter_batches(columns=list(has)) if has else iter(()), has)
    for name, its in wanted.columns.items():
        yield wanted.name, name, encode_values(values.get(name, pa.array([], its)))


T = TypeVar("T")


def run_publication(
    stores: Stores, dataset: Dataset, payload: PublishPayload, context: WorkerContext
) -> PublishReceipt:
    """Publish the head, or withdraw the publication.

    Raises:
        NotPublished. StoreNotAllowed. PublicationConflict: another writer wrote there.
        UnusablePublication, UnusableKey, …: the same as `publish`.
        SwapLost: other runs were faster too often.
    """
    found = stores.publications.find(dataset.id)
    if found is None:
        raise NotFound("NotPublished", "the dataset is not published")
    definition = read_definition(found.definition)
    publication = definition.publication(dataset)
    store = _store(stores, dataset, definition, context)
    made = made_of(stores.projections, dataset.id)
    records = KeyedRecords(
        made,
        record_key(definition.store or "", publication.uuid),
    )
    if payload.withdraw:
        _tried(context, lambda: withdraw(store, publication, records, force=payload.force))
        remove_own_index(stores.projections, dataset.id)
        forget_live(made)
        stores.publications.remove(dataset.id)
        return PublishReceipt(outcome="withdrawn")
    _keep_index(stores, dataset, publication, context)
    said = _tried(
        context,
        lambda: publish(
            dataset,
            store,
            publication,
            records,
            force=payload.force,
            kept=made,
            scratch=context.scratch,
        ),
    )
    return _receipt(said)


def _tried(context: WorkerContext, work: Callable[[], T]) -> T:
    """Return the result of the first attempt that no other run overtook."""
    for attempt in range(1, context.commit_attempts + 1):
        try:
            return work()
        except SwapLost:
            if attempt == context.commit_attempts:
                raise
    raise AssertionError("unreachable: the loop returns or raises")


def _store(
    stores: Stores, dataset: Dataset, definition: Definition, context: WorkerContext
) -> KeyedStore:
    if definition.store is None:
        return served_store(stores.projections, dataset.id)
    return allowed_store(definition.store, context.publish_to, kept_in=stores.folders())


def _keep_index(
    stores: Stores, dataset: Dataset, publication: Publication, context: WorkerContext
) -> None:
    """Update the index that lookups on the node use."""
    if publication.secondary_indices:
        publication.check(_schema(dataset))
        values = SliceValues(made_of(stores.projections, dataset.id))
        keep_values(dataset, stores.projections, values, publication.secondary_indices, context)
        refresh_own_index(
            dataset,
            stores.projections,
            publication.secondary_indices,
            max_index_bytes=publication.max_index_bytes,
            scratch=context.scratch,
        )
    else:
        remove_own_index(stores.projections, dataset.id)


def _schema(dataset: Dataset) -> pa.Schema:
    schema = dataset.state().data_schema
    return pa.schema([]) if schema is None else to_arrow(schema)


def _receipt(said: Published) -> PublishReceipt:
    return PublishReceipt(
        outcome="published" if said.changed else "up-to-date",
        head=said.head,
        partitions=said.partitions,
        rows=said.rows,
        indices={name: IndexSize(**size) for name, size in said.indices.items()},
        skipped=said.skipped,
        unmatched_retractions=said.unmatched_retractions,
    )
