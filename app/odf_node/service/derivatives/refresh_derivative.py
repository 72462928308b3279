"""Refresh of derivatives on request, on demand after all datasets that they depend on."""

from __future__ import annotations

from dataclasses import dataclass

from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.events import DatasetKind
from odf_storage.datasets.job_payloads.transform_job import TransformPayload, job_of
from odf_storage.datasets.node.dependencies import InputsNotHere, upstream
from odf_storage.datasets.node.rights import hidden_inputs
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import DatasetEntry, JobId, JobSpec

from ..auth.access import Action
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess


@dataclass(frozen=True)
class Computing:
    """The dependencies of refreshes of derivatives."""

    stores: Stores
    access: DatasetAccess


def submit_transform(
    computing: Computing, entry: DatasetEntry, *, reset_on_diverged: bool | None = None
) -> JobId:
    """Queue a transform. If the derivative was paused, its automatic updates continue.

    Raises:
        InputsNotHere: the author of its definition may not read all of its inputs.
    """
    stores, everything_is_read = computing.stores, computing.access.everything_is_read
    refuse_hidden_inputs(stores, entry, everything_is_read=everything_is_read)
    spec = transform_spec(entry.id, reset_on_diverged, everything_is_read=everything_is_read)
    job = stores.jobs.submit(spec)
    stores.derivations.resume(entry.id, job=job)
    return job


def transform_spec(
    dataset: DatasetId, reset_on_diverged: bool | None = None, *, everything_is_read: bool
) -> JobSpec:
    """Return the job that computes a derivative, with the settings of this node that the worker
    needs."""
    payload = TransformPayload(
        reset_on_diverged=reset_on_diverged, everything_is_read=everything_is_read or None
    )
    return job_of(dataset, payload)


def refuse_hidden_inputs(stores: Stores, entry: DatasetEntry, *, everything_is_read: bool) -> None:
    """Check that the author of the definition may read all inputs of a derivative.

    The rights of the owner do not count: a pushed chain could name any dataset whose id is known.
    The error is the same as for an absent input. The worker repeats the check, because rights may
    change while a job waits.

    Raises:
        InputsNotHere
    """
    state = stores.dataset(DatasetRef(id=entry.id)).state()
    hidden = hidden_inputs(stores, entry, state, everything_is_read=everything_is_read)
    if hidden:
        raise InputsNotHere(hidden)


def upstream_levels(
    computing: Computing, actor: Actor, entry: DatasetEntry
) -> list[list[DatasetEntry]]:
    """Return the datasets to refresh before a dataset, in levels, the farthest first. They are the
    polled roots, mirrors and derivatives that it depends on and that the actor may write to.

    Datasets of one level do not depend on each other.
    """
    levels = dict[int, list[DatasetEntry]]()
    stores, access = computing.stores, computing.access
    for one, depth in upstream(stores, entry.id).items():
        found = stores.registry.find(DatasetRef(id=one))
        if found is None or Action.WRITE not in access.grants(actor, found):
            continue
        if found.id != entry.id and _has_something_to_do(stores, found):
            levels.setdefault(depth, []).append(found)
    return [levels[depth] for depth in sorted(levels, reverse=True)]


def _has_something_to_do(stores: Stores, entry: DatasetEntry) -> bool:
    if entry.kind is DatasetKind.Derivative or stores.mirrors.find(entry.id) is not None:
        return True
    return stores.dataset(DatasetRef(id=entry.id)).state().polling_source is not None
