"""The status of derivatives and the graph of datasets, as far as an actor may see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from odf_protocol.chain.state import ChainState
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.events import AddData, DatasetKind, ExecuteTransform
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.engines import read_note
from odf_storage.datasets.node.rights import declared, depths, inputs_of
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.errors import JobNotFound
from odf_storage.stores.ports.following import Derivation
from odf_storage.stores.ports.values import DatasetEntry, JobId
from odf_storage.stores.registers.datasets.following import MirrorReads

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess

ELSEWHERE = "its rows came by a push, so they are computed elsewhere; refresh it to go on here"
MAX_COUNTED = 1000
MIRROR = "it follows a dataset of another node"


@dataclass(frozen=True)
class Derivatives:
    """The derivatives of a node, and the rights to see them."""

    stores: Stores
    access: DatasetAccess


def derivation(
    derivatives: Derivatives, actor: Actor, entry: DatasetEntry, state: ChainState
) -> dict[str, Any] | None:
    """Return the status of a derivative, as far as the actor may know it; None for a root.

    `status` is one of up-to-date, behind, waiting, running, retrying, paused, manual.
    """
    if entry.kind is not DatasetKind.Derivative:
        return None
    stores = derivatives.stores
    row = stores.derivations.find(entry.id) or Derivation(dataset=entry.id)
    behind, absent = _behind(derivatives, actor, state)
    engine = None
    if state.sequence_number is not None and state.last_execution is not None:
        engine = read_note(stores.objects, entry.id).at(state.sequence_number)
    problem = row.problem
    return {
        "status": _status(stores, row, behind, state),
        "behindBlocks": behind,
        "missingInputs": absent,
        "job": row.job,
        "nextAt": str(row.due_at) if _is_planned(row) else None,
        "attempts": row.attempts,
        "problem": None
        if problem is None
        else {**problem.facts, "error": problem.error, "message": problem.message},
        "reason": _reason(stores.mirrors, row),
        "engine": None if engine is None else {"name": engine.engine, "version": engine.version},
    }


def _is_planned(row: Derivation) -> bool:
    return row.due_at is not None and not row.paused and row.wanted is not False


def _status(stores: Stores, row: Derivation, behind: int, state: ChainState) -> str:
    if row.job is not None:
        return _job_status(stores.jobs, row.job)
    if row.paused:
        return "paused"
    if row.problem is not None:  # one without a time waits for a move of an input
        return "retrying" if row.due_at is not None else "waiting"
    if row.wanted is False:
        return "manual"
    settled = state.schema is not None
    return "up-to-date" if behind == 0 and settled else "behind"


def _job_status(jobs: JobQueue, job: JobId) -> str:
    try:
        found = jobs.get(job)
    except JobNotFound:
        return "waiting"
    return "running" if found.attempt and found.finished_at is None else "waiting"


def _reason(mirrors: MirrorReads, row: Derivation) -> str | None:
    """Return the reason if the derivative is not updated automatically, else None."""
    if row.wanted is not False:
        return None
    return ELSEWHERE if mirrors.find(row.dataset) is None else MIRROR


def _behind(derivatives: Derivatives, actor: Actor, state: ChainState) -> tuple[int, list[str]]:
    """Return the number of input blocks that are not consumed yet, and the inputs that are not on
    this node or hidden from the actor."""
    last = state.last_execution
    consumed = {
        item.dataset_id: item.new_block_hash or item.prev_block_hash
        for item in (last.query_inputs if last else ())
    }
    blocks, absent = 0, list[str]()
    for one in declared(state):
        if derivatives.access.visible(actor, one) is None:
            absent.append(str(one))
        else:
            blocks += _new_blocks(derivatives.stores, one, consumed.get(one))
    return blocks, absent


def _new_blocks(stores: Stores, dataset: DatasetId, consumed: Multihash | None) -> int:
    """Return the number of data blocks after the consumed one. Only the newest `MAX_COUNTED`
    blocks are counted."""
    head = stores.refs.head(dataset)
    if head == consumed:
        return 0
    count = 0
    for block in stores.blocks.ancestors(dataset, head, limit=MAX_COUNTED):
        if block.hash == consumed:
            break
        count += isinstance(block.event, AddData | ExecuteTransform)
    return count


def dependencies(derivatives: Derivatives, actor: Actor, entry: DatasetEntry) -> dict[str, Any]:
    """Return the inputs and the dependants of a dataset, nearest first. The search stops at hidden
    datasets."""
    stores, access = derivatives.stores, derivatives.access

    def visible(one: DatasetId) -> DatasetEntry | None:
        return access.visible(actor, one)

    def seen(step: Callable[[DatasetId], Sequence[DatasetId]]) -> list[dict[str, Any]]:
        found = depths(entry.id, lambda one: [near for near in step(one) if visible(near)])
        near = set(step(entry.id))
        shown = [
            {
                "id": str(one),
                "alias": access.shown_alias(known),
                "kind": str(known.kind),
                "depth": depth,
                "direct": one in near,
            }
            for one, depth in found.items()
            if (known := visible(one)) is not None
        ]
        return sorted(shown, key=lambda item: (item["depth"], item["alias"]))

    transform = stores.dataset(DatasetRef(id=entry.id)).state().transform
    names = {item.dataset_ref.id: item.alias for item in (transform.inputs if transform else ())}
    return {
        "inputs": [
            {
                "id": str(one),
                "queryAlias": names.get(one),
                "alias": access.shown_alias(known) if (known := visible(one)) else None,
            }
            for one in inputs_of(stores, entry.id)
        ],
        "upstream": seen(lambda one: inputs_of(stores, one)),
        "downstream": seen(stores.registry.dependants),
    }
