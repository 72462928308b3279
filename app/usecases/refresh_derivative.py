"""Refresh of derivatives: computed now, by hand, with all they depend on first if so asked."""

from __future__ import annotations

from protocol.identity import DatasetRef
from protocol.metadata.events import DatasetKind
from storage.contracts.transform_job import TransformPayload, job_of
from storage.dependencies import InputsNotHere, inputs_of, upstream
from storage.values import DatasetEntry, JobId, Scope

from ..auth.access import Action, grants
from ..auth.actors import Actor
from ..wiring import Node


def submit_transform(
    node: Node, entry: DatasetEntry, *, reset_on_diverged: bool | None = None
) -> JobId:
    """Queue a transform; the derivative follows its inputs from now on, if it was paused.

    Raises:
        InputsNotHere: its owner may not read all of its inputs.
    """
    refuse_hidden_inputs(node, entry)
    job = node.stores.jobs.submit(
        job_of(entry.id, TransformPayload(reset_on_diverged=reset_on_diverged))
    )
    node.stores.derivations.resume(entry.id, job=job)
    return job


def refuse_hidden_inputs(node: Node, entry: DatasetEntry) -> None:
    """A derivative reads what its owner may read, whoever wrote its definition.

    Otherwise a chain that is pushed could name any dataset whose id is known. What is hidden
    looks like what is absent.

    Raises:
        InputsNotHere
    """
    account = entry.alias.account
    owner = None if account is None else node.stores.accounts.find_account(str(account))
    roles = {} if owner is None else node.roles.of(owner.id)
    actor = Actor(account=owner, scopes=frozenset(Scope), roles=roles)
    hidden = []
    for one in inputs_of(node.stores, entry.id):
        found = node.stores.registry.find(DatasetRef(id=one))
        if found is None or Action.READ not in grants(actor, found, node.settings.tenancy):
            hidden.append(str(one))
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
        if found is None or Action.WRITE not in grants(actor, found, node.settings.tenancy):
            continue
        if found.id != entry.id and _has_something_to_do(node, found):
            levels.setdefault(depth, []).append(found)
    return [levels[depth] for depth in sorted(levels, reverse=True)]


def _has_something_to_do(node: Node, entry: DatasetEntry) -> bool:
    if entry.kind is DatasetKind.Derivative or node.stores.mirrors.find(entry.id) is not None:
        return True
    return node.stores.dataset(DatasetRef(id=entry.id)).state().polling_source is not None
