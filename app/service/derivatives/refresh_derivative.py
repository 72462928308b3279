"""Refresh of derivatives: computed now, by hand, with all they depend on first if so asked."""

from __future__ import annotations

from odf_node.protocol.identity import DatasetId, DatasetRef
from odf_node.protocol.metadata.events import DatasetKind
from odf_node.storage.datasets.job_payloads.transform_job import TransformPayload, job_of
from odf_node.storage.datasets.node.dependencies import InputsNotHere, upstream
from odf_node.storage.datasets.node.rights import hidden_inputs
from odf_node.storage.stores.ports.values import DatasetEntry, JobId, JobSpec

from ..auth.access import Action, grants
from ..auth.actors import Actor
from ..settings import AnonymousReads
from ..wiring import Node


def submit_transform(
    node: Node, entry: DatasetEntry, *, reset_on_diverged: bool | None = None
) -> JobId:
    """Queue a transform; the derivative follows its inputs from now on, if it was paused.

    Raises:
        InputsNotHere: the author of its definition may not read all of its inputs.
    """
    refuse_hidden_inputs(node, entry)
    job = node.stores.jobs.submit(
        transform_spec(entry.id, reset_on_diverged, everything_is_read=shows_all(node))
    )
    node.stores.derivations.resume(entry.id, job=job)
    return job


def transform_spec(
    dataset: DatasetId, reset_on_diverged: bool | None = None, *, everything_is_read: bool
) -> JobSpec:
    """The job that computes a derivative, with what the worker has to know of this node."""
    payload = TransformPayload(
        reset_on_diverged=reset_on_diverged, everything_is_read=everything_is_read or None
    )
    return job_of(dataset, payload)


def shows_all(node: Node) -> bool:
    return node.settings.anonymous_reads is AnonymousReads.ALL


def refuse_hidden_inputs(node: Node, entry: DatasetEntry) -> None:
    """A derivative reads what the author of its definition may read, not what its owner may.

    Otherwise a chain that is pushed could name any dataset whose id is known. What is hidden
    looks like what is absent. The worker looks again: jobs wait, and rights change.

    Raises:
        InputsNotHere
    """
    state = node.stores.dataset(DatasetRef(id=entry.id)).state()
    hidden = hidden_inputs(node.stores, entry, state, everything_is_read=shows_all(node))
    if hidden:
        raise InputsNotHere(hidden)


def upstream_levels(node: Node, actor: Actor, entry: DatasetEntry) -> list[list[DatasetEntry]]:
    """What there is to refresh before a dataset, in levels that do not depend on each other.

    Of what it depends on: polled roots, mirrors and derivatives that the actor may write to;
    the farthest first.
    """
    levels = dict[int, list[DatasetEntry]]()
    for one, depth in upstream(node.stores, entry.id).items():
        found = node.stores.registry.find(DatasetRef(id=one))
        if found is None or Action.WRITE not in grants(actor, found, node.settings.anonymous_reads):
            continue
        if found.id != entry.id and _has_something_to_do(node, found):
            levels.setdefault(depth, []).append(found)
    return [levels[depth] for depth in sorted(levels, reverse=True)]


def _has_something_to_do(node: Node, entry: DatasetEntry) -> bool:
    if entry.kind is DatasetKind.Derivative or node.stores.mirrors.find(entry.id) is not None:
        return True
    return node.stores.dataset(DatasetRef(id=entry.id)).state().polling_source is not None
