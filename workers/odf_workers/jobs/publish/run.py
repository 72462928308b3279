"""A publication job: update the node's own index first, then the published files.

It tries again when another run was faster. A killed job is repeated, and removes the remains of
the first run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from odf_protocol.arrow_schema import to_arrow
from odf_protocol.errors import NotFound
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.publish_job import (
    IndexSize,
    PublishPayload,
    PublishReceipt,
)
from odf_storage.datasets.kartothek.definition import Definition, read_definition
from odf_storage.datasets.kartothek.live_index import forget_live
from odf_storage.datasets.kartothek.own_index import (
    made_of,
    refresh_own_index,
    remove_own_index,
)
from odf_storage.datasets.kartothek.publication import Publication, Published
from odf_storage.datasets.kartothek.publish import publish, withdraw
from odf_storage.datasets.kartothek.records import KeyedRecords, record_key
from odf_storage.datasets.kartothek.served import served_store
from odf_storage.datasets.kartothek.slice_values import SliceValues
from odf_storage.datasets.kartothek.targets import allowed_store
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports import KeyedStore
from odf_storage.stores.ports.errors import SwapLost

from ..work.context import WorkerContext
from .values import keep_values

T = TypeVar("T")


class NotPublished(NotFound):
    """The dataset has no publication."""

    def __init__(self) -> None:
        super().__init__("the dataset is not published")


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
        raise NotPublished
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
