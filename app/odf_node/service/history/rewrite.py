"""Compact, reset and set watermarks for maintainers; the log names the requesting account."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import MalformedInstant, day_or_instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import compact_job
from odf_storage.datasets.job_payloads.compact_job import CompactPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite import compact
from odf_storage.datasets.rewrite.compact import HistoryReceipt
from odf_storage.datasets.rewrite.compaction import SliceLimits
from odf_storage.runtime.clock import Clock
from odf_storage.stores.ports.values import DatasetEntry, JobId, JobSpec

from ..auth.actors import Actor
from ..auth.dataset_access import refuse_mirror
from ..definitions.authors import Defining, InForce, check_definitions, take_definitions
from ..http.parameters import parse_hash

_log = logging.getLogger("odf.node")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """The parameters of a compaction; absent limits have their defaults."""

    max_slice_size: int | None = None
    max_slice_records: int | None = None
    keep_metadata_only: bool = False
    dry_run: bool = False

    @property
    def limits(self) -> SliceLimits:
        usual = SliceLimits()
        return SliceLimits(
            size=self.max_slice_size or usual.size, records=self.max_slice_records or usual.records
        )


@dataclass(frozen=True)
class Rewriting:
    """The parts of the node that change the history of a dataset."""

    stores: Stores
    defining: Defining
    clock: Clock


def compact_dataset(
    rewriting: Rewriting, actor: Actor, entry: DatasetEntry, request: CompactRequest
) -> HistoryReceipt | JobId:
    """Compact at once if there are no rows to merge; otherwise submit a job for a worker.

    Raises:
        InvalidDatasetKind: hard compaction of a derivative. IsRemote: a mirror.
        NotUnderstood. RefConflict: other writers moved the head at each attempt.
    """
    refuse_mirror(rewriting.stores.mirrors, entry)
    if request.keep_metadata_only:
        done = compact.keep_metadata_only(rewriting.stores, entry, dry_run=request.dry_run)
        return _logged("keep metadata only", actor, entry, done)
    dataset = rewriting.stores.dataset(DatasetRef(id=entry.id))
    plan = compact.plan_hard(dataset, request.limits)
    if plan.is_empty or request.dry_run:
        return compact.described(dataset, plan, head=None, dry_run=request.dry_run)
    payload = CompactPayload(
        max_slice_size=request.max_slice_size,
        max_slice_records=request.max_slice_records,
        requested_by=_name(actor),
    )
    asked = compact_job.to_json(payload)
    key = f"{compact_job.KIND}:{entry.id}:{json.dumps(asked, sort_keys=True)}"
    job = rewriting.stores.jobs.submit(
        JobSpec(compact_job.KIND, entry.id, asked, lock=str(entry.id), dedup_key=key)
    )
    _log.info("compaction asked for dataset=%s by=%s job=%s", entry.id, _name(actor), job)
    return job


def reset_dataset(
    rewriting: Rewriting,
    actor: Actor,
    entry: DatasetEntry,
    *,
    block: str | None,
    old_head: str | None,
    dry_run: bool,
) -> HistoryReceipt:
    """Move the head back, by default to the Seed.

    Raises:
        UnreadableHash. OldHeadMismatch. BlockNotFound. NotAnAncestor. RefConflict. IsRemote.
        DefinitionReadsHidden, AccountSecretsRefused: the actor may not restore the definitions
        of the target block.
    """
    refuse_mirror(rewriting.stores.mirrors, entry)
    target = _hash(block)
    if target is not None:  # the Seed defines nothing
        dataset = rewriting.stores.dataset(DatasetRef(id=entry.id))
        before, after = InForce.of(dataset.state()), InForce.of(dataset.state(target))
        take = check_definitions if dry_run else take_definitions
        take(rewriting.defining, actor, entry, before, after)
    done = compact.reset(
        rewriting.stores,
        entry,
        target=target,
        old_head=_hash(old_head),
        dry_run=dry_run,
    )
    return _logged("reset", actor, entry, done)


def set_watermark(
    rewriting: Rewriting, actor: Actor, entry: DatasetEntry, text: str, *, dry_run: bool
) -> HistoryReceipt:
    """Set a watermark. Raises `InvalidWatermark`, `IsDerivative`, `IsRemote`, `RefConflict`."""
    try:
        when = day_or_instant(text)
    except MalformedInstant as broken:
        raise BadInput("InvalidWatermark", f"watermark: {broken.message}") from None
    refuse_mirror(rewriting.stores.mirrors, entry)
    done = compact.set_watermark(
        rewriting.stores, entry, when, now=rewriting.clock(), dry_run=dry_run
    )
    return _logged("set watermark", actor, entry, done)


def _hash(text: str | None) -> Multihash | None:
    return None if text is None else parse_hash(text)


def _logged(
    what: str, actor: Actor, entry: DatasetEntry, receipt: HistoryReceipt
) -> HistoryReceipt:
    if receipt.outcome == "updated" and not receipt.dry_run:
        _log.warning(
            "history changed how=%s dataset=%s by=%s from=%s to=%s",
            what.replace(" ", "-"),
            entry.id,
            _name(actor),
            receipt.prev_head,
            receipt.head,
        )
    return receipt


def _name(actor: Actor) -> str:
    return "anonymous" if actor.account is None else actor.account.name
