"""Publish a dataset as a Kartothek dataset: define, show, refresh and withdraw a publication.

A worker writes the files (`job_payloads/publish_job.py`). A publication follows the head of its
dataset automatically (`routes.py`), so no commit waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.errors import BadInput, Conflict, NotFound
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import publish_job
from odf_storage.datasets.job_payloads.publish_job import PublishPayload
from odf_storage.datasets.kartothek.definition import (
    Definition,
    PublicationConflict,
    read_definition,
)
from odf_storage.datasets.kartothek.indices import standing
from odf_storage.datasets.kartothek.own_index import made_of, remove_own_index
from odf_storage.datasets.kartothek.records import KeyedRecords, allowed_store, record_key
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.stores.objects.layout import dataset_folder
from odf_storage.stores.ports.publications import PublishedDataset
from odf_storage.stores.ports.values import DatasetEntry, JobId

from ..setting_groups.words import Tenancy

_log = logging.getLogger("odf.publish")


@dataclass(frozen=True)
class Publishing:
    """The stores, allowed targets and clock that publications need."""

    stores: Stores
    publish_to: tuple[str, ...]
    """URL prefixes of stores to which the administrator allows publications."""
    clock: Clock
    tenancy: Tenancy


def define(publishing: Publishing, entry: DatasetEntry, definition: Definition) -> JobId:
    """Publish a dataset with this definition. Return the job of the first refresh.

    Raises:
        MalformedUuid, UnreadableDuration, UnusablePublication: the definition is not usable.
        NameOfAnotherAccount. StoreNotAllowed, MalformedKeyedStoreUrl: the store is not usable.
        PublicationConflict: a foreign dataset is there already. PublicationNameTaken.
        PublishedElsewhere: it is already published in another store or under another name.
    """
    stores = publishing.stores
    dataset = Dataset(entry, stores)
    publication = definition.publication(dataset)
    publication.check(_schema(dataset))
    known = stores.publications.find(entry.id)
    if known is not None and (known.store, known.uuid) != (definition.store, publication.uuid):
        raise Conflict(
            "PublishedElsewhere",
            f"the dataset is published as {known.uuid[:100]!r}; withdraw that before it gets "
            "another store or name",
            uuid=known.uuid[:100],
        )
    if known is None and definition.store is None and publishing.tenancy is Tenancy.MULTI:
        _check_account(entry, publication.uuid)
    if definition.store is not None:
        store = allowed_store(definition.store, publishing.publish_to, kept_in=stores.folders())
        if known is None:
            place = record_key(definition.store, publication.uuid)
            record = KeyedRecords(made_of(stores.projections, entry.id), place).read()
            standing(store, publication.uuid, record, force=False)
    stores.publications.put(
        PublishedDataset(
            dataset=entry.id,
            uuid=publication.uuid,
            store=definition.store,
            definition=msgspec.to_builtins(definition),
        )
    )
    return refresh(publishing, entry)


def _check_account(entry: DatasetEntry, uuid: str) -> None:
    """Raise `NameOfAnotherAccount` unless the name is the dataset's id or below its account."""
    prefix = str(entry.alias.account).replace(".", "_") + "+"  # which no account has in its name
    is_own = uuid.lower().startswith(prefix.lower()) and uuid != prefix
    if uuid != dataset_folder(entry.id) and not is_own:
        raise BadInput(
            "NameOfAnotherAccount",
            f"names of tables that this node serves begin with the account, so that none is taken "
            f"from another: {prefix + uuid[:100]!r}, or leave out the name for the id of the "
            "dataset",
            uuid=uuid[:100],
            prefix=prefix,
        )


def find(publishing: Publishing, entry: DatasetEntry) -> PublishedDataset:
    """Return the publication of the dataset. Raises `NoPublication`."""
    found = publishing.stores.publications.find(entry.id)
    if found is None:
        raise NotFound("NoPublication", "the dataset is not published as a Kartothek dataset")
    return found


def refresh(publishing: Publishing, entry: DatasetEntry, *, force: bool = False) -> JobId:
    """Submit the job that updates the publication to the head. Raises `NoPublication`."""
    found = find(publishing, entry)
    head = publishing.stores.refs.head(entry.id)
    return submit(publishing, found, head, force=force)


def submit(
    publishing: Publishing,
    found: PublishedDataset,
    head: Multihash,
    *,
    force: bool = False,
    if_due: bool = False,
) -> JobId:
    """Submit a job for a head; the next automatic one waits for the publication's interval. With
    `if_due`, a job that was submitted for the head meanwhile stays the one whose outcome counts."""
    spec = publish_job.spec_of(found.dataset, PublishPayload(force=force))
    job = publishing.stores.jobs.submit(spec)
    pause = read_definition(found.definition).interval
    later = Instant(publishing.clock().ns + int(pause.total_seconds() * 1e9))
    publishing.stores.publications.submitted(
        found.dataset,
        version=found.version,
        job=job,
        head=head,
        not_before=later,
        if_due=if_due,
    )
    return job


def withdraw(publishing: Publishing, entry: DatasetEntry, *, force: bool = False) -> JobId:
    """Submit the job that removes the files and the publication. Raises `NoPublication`."""
    found = find(publishing, entry)
    spec = publish_job.spec_of(found.dataset, PublishPayload(withdraw=True, force=force))
    job = publishing.stores.jobs.submit(spec)
    publishing.stores.publications.submitted(
        found.dataset, version=found.version, job=job, head=None
    )
    return job


def abandon(publishing: Publishing, entry: DatasetEntry) -> None:
    """Remove the publication, but leave its files in the store.

    Raises:
        NoPublication. NothingToLeave: the node itself serves the files.
    """
    found = find(publishing, entry)
    if found.store is None:
        raise BadInput(
            "NothingToLeave", "the node serves the dataset itself: no file can stay behind"
        )
    remove_own_index(publishing.stores.projections, entry.id)
    publishing.stores.publications.remove(entry.id)
    _log.info("publication forgotten dataset=%s store=%s", entry.id, found.store)


def shown(publishing: Publishing, entry: DatasetEntry) -> dict[str, Any]:
    """Return the definition and its status as JSON. Raises `NoPublication`."""
    found = find(publishing, entry)
    dataset = Dataset(entry, publishing.stores)
    definition = read_definition(found.definition)
    key = definition.publication(dataset).primary_key
    last: Mapping[str, Any] = found.shown or {}
    head = publishing.stores.refs.head(entry.id)
    problem = found.problem
    return {
        **msgspec.to_builtins(definition),
        "uuid": found.uuid,
        "store": found.store,
        "primaryKey": None if key is None else list(key),
        "status": _status(found, head),
        "head": str(head),
        "publishedHead": last.get("head"),
        "partitions": last.get("partitions", 0),
        "rows": last.get("rows", 0),
        "indices": last.get("indices", {}),
        "skipped": last.get("skipped", []),
        "unmatchedRetractions": last.get("unmatchedRetractions", 0),
        "lastError": None
        if problem is None
        else {"error": problem.error, "message": problem.message},
        "job": found.job,
    }


def _status(found: PublishedDataset, head: Multihash) -> str:
    if found.problem is not None:
        is_conflict = found.problem.error == PublicationConflict.__name__
        return "Conflict" if is_conflict else "Failed"
    is_current = found.shown is not None and found.shown.get("head") == str(head)
    return "Fresh" if is_current and found.job is None else "Stale"


def _schema(dataset: Dataset) -> pa.Schema:
    schema = dataset.state().data_schema
    return pa.schema([]) if schema is None else to_arrow(schema)
