"""Garbage collection: remove objects that no chain names, safely while the node works.

Garbage arises by design: a commit writes bytes first and moves the head last, so a commit that
breaks off leaves objects behind; a forced push leaves a whole chain behind. Memory is bounded.
Garbage collection keeps every object that

- the head of its dataset leads to, or a head it had within the grace time;
- was put or renewed within the grace time: a commit puts or renews objects before it names them;
- a job that waits or runs names.

The index first deletes the row of a block to be removed, in a transaction in which the head
cannot move, so that no forced push continues it afterwards. The grace time has to be longer
than any push or ingest takes from its last check of an object to its commit.

Repairs that a running node does by itself, at its start and periodically.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from odf_protocol.chain.definition_rules import ChainRuleBroken
from odf_protocol.errors import BadInput, LimitExceeded
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import Seed
from odf_protocol.multihash import Multihash

from ...runtime.clock import Clock
from ...stores.index.sql_sizes import COUNTED
from ...stores.objects.layout import HEAD
from ...stores.ports.errors import BlockDamaged, BlockNotFound, DatasetNotFound, RefConflict
from ...stores.ports.values import DatasetEntry, JobStatus, ObjectInfo, ObjectKind
from ..dataset.info import read_info
from ..node.stores import Stores
from .marks import LinkMarker, LinksUnreadable, Marks, entries, is_kept_file, walk_back

DEFAULT_GRACE = timedelta(hours=24)
TRIES = 5
"""Number of attempts for a dataset whose head moves meanwhile."""
PAGE = 500
MAX_FORMER_HEADS = 1000
"""Limit of diverged heads within the grace time; a dataset with more is left for later."""

UNNAMED = {
    ObjectKind.BLOCK: "unreferenced block",
    ObjectKind.DATA: "unreferenced data",
    ObjectKind.CHECKPOINT: "unreferenced checkpoint",
    ObjectKind.UPLOAD: "upload without a job",
}
NO_DATASET = "object of no dataset"
ABANDONED_PUSH = "object of an abandoned first push"

Progress = Callable[[str, int], None]
"""Called with the present dataset and the number of objects listed so far."""


@dataclass(slots=True)
class RemovedCount:
    """Number of removed objects, and their bytes."""

    count: int = 0
    size: int = 0


@dataclass(slots=True, kw_only=True)
class GcReport:
    """What was removed, or would be removed without `dry_run`."""

    dry_run: bool
    grace_s: int
    datasets: int = 0
    objects: int = 0
    """Number of objects that were listed."""
    removed: dict[str, RemovedCount] = field(default_factory=dict)
    """Removed objects by reason."""
    young: int = 0
    """Number of garbage objects within the grace time, left for later."""
    blocks_forgotten: int = 0
    """Number of blocks that were deleted from the index."""
    datasets_forgotten: list[str] = field(default_factory=list)
    """Aliases of datasets whose first push never ended."""
    unfinished_writes: int = 0
    merge_states: int = 0
    """Number of deleted datasets that still had merge states."""
    left_alone: list[str] = field(default_factory=list)
    """Datasets that were skipped, and why."""

    def count(self, reason: str, info: ObjectInfo) -> None:
        removed_count = self.removed.setdefault(reason, RemovedCount())
        removed_count.count += 1
        removed_count.size += info.size

    def to_data(self) -> dict[str, Any]:
        """JSON-compatible."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The facts of one run that are known before its first dataset."""

    stores: Stores
    report: GcReport
    before: Instant
    in_use: Collection[tuple[DatasetId, Multihash]]
    former: dict[DatasetId, set[Multihash]]
    progress: Progress


def collect_garbage(
    stores: Stores,
    *,
    grace: timedelta = DEFAULT_GRACE,
    dry_run: bool = False,
    clock: Clock | None = None,
    progress: Progress = lambda _dataset, _objects: None,
) -> GcReport:
    """Remove garbage older than `grace`. Several runs may work at once. Memory is that of `Marks`
    of the largest dataset."""
    seconds = int(grace.total_seconds())
    before = Instant((clock or stores.clock)().ns - seconds * NANOS)
    run = _Run(
        stores=stores,
        report=GcReport(dry_run=dry_run, grace_s=seconds),
        before=before,
        in_use=_named_by_jobs(stores),
        former=_former_heads(stores, before),
        progress=progress,
    )
    for entry in entries(stores.registry):
        _collect(run, entry)
    for dataset in stores.objects.datasets():
        if stores.registry.find(DatasetRef(id=dataset)) is None:
            _collect_unregistered(run, dataset)
    run.report.unfinished_writes = stores.objects.remove_abandoned(before=before, dry_run=dry_run)
    return run.report


def _named_by_jobs(stores: Stores) -> set[tuple[DatasetId, Multihash]]:
    """Return every hash in the payload of a job that has not ended."""
    named: set[tuple[DatasetId, Multihash]] = set()
    after, open_ = None, (JobStatus.WAITING, JobStatus.RUNNING)
    while page := stores.jobs.page(after=after, limit=PAGE, statuses=open_):
        for job in page:
            for value in job.spec.payload.values():
                found = _hash_of(value)
                if job.spec.dataset is not None and found is not None:
                    named.add((job.spec.dataset, found))
        after = page[-1].id
    return named


def _hash_of(value: object) -> Multihash | None:
    try:
        return Multihash.parse(value) if isinstance(value, str) else None
    except BadInput:
        return None


def _former_heads(stores: Stores, since: Instant) -> dict[DatasetId, set[Multihash]]:
    """Return the heads that datasets had before moves since that time."""
    former: dict[DatasetId, set[Multihash]] = defaultdict(set)
    after = 0
    while page := stores.refs.moves(after=after, limit=PAGE, since=since):
        for move in page:
            if move.old is not None:
                former[move.dataset].add(move.old)
        after = page[-1].number
    return former


# --- a registered dataset -------------------------------------------------------------------


class TooManyHeads(LimitExceeded):
    """A dataset has more diverged heads within the grace time than the limit."""


UNREADABLE = (BlockNotFound, BlockDamaged, ChainRuleBroken, TooManyHeads, LinksUnreadable)
"""Errors that prevent the collection of one dataset, but not of others."""


def _collect(run: _Run, entry: DatasetEntry) -> None:
    run.report.datasets += 1
    reason = "its head kept moving"
    for _ in range(TRIES):
        try:
            head = run.stores.refs.head(entry.id)
            if _is_abandoned_push(run, entry, head):
                _forget_push(run, entry, head)
                return
            marks, heads = _mark(run, entry.id, head)
            _forget_blocks(run, entry.id, marks, heads)
            missed = _sweep(run, entry.id, marks)
            _take_off(run, entry.id, marks, head, recount=missed)
            _report_unknown(run, entry, marks)
            return
        except RefConflict:
            continue
        except DatasetNotFound:  # forgotten meanwhile
            return
        except UNREADABLE as problem:
            reason = problem.message
            break
    run.report.left_alone.append(f"{entry.alias}: {reason}")


def _mark(run: _Run, dataset: DatasetId, head: Multihash) -> tuple[Marks, list[Multihash]]:
    """Mark the objects that the head and former heads lead to. Return the marks, and the head with
    the former heads that it does not lead to."""
    marks, heads = Marks(), [head]
    links = LinkMarker(run.stores, dataset, head)
    for block in walk_back(run.stores.blocks, dataset, head):
        marks.add_block(block)
        links.mark(block, marks)
    marks.settle()
    for former in sorted(run.former.get(dataset, ()), key=lambda item: item.digest):
        if marks.has(ObjectKind.BLOCK, former):
            continue
        if len(heads) > MAX_FORMER_HEADS:
            raise TooManyHeads(
                f"more than {MAX_FORMER_HEADS} diverged heads; try again later",
                limit=MAX_FORMER_HEADS,
            )
        heads.append(former)
        _mark_branch(run, dataset, former, marks)
    return marks, heads


def _mark_branch(run: _Run, dataset: DatasetId, head: Multihash, marks: Marks) -> None:
    """Mark what a former head leads to, back to the first marked block. Its blocks may be deleted
    already."""
    fresh = []
    try:
        for block in walk_back(run.stores.blocks, dataset, head):
            if marks.has(ObjectKind.BLOCK, block.hash):
                break
            fresh.append(block)
    except BlockNotFound:
        pass
    links = LinkMarker(run.stores, dataset, head) if fresh else None
    for block in fresh:
        marks.add_block(block)
        if links is not None:
            links.mark(block, marks)
    marks.settle()


def _forget_blocks(run: _Run, dataset: DatasetId, marks: Marks, heads: list[Multihash]) -> None:
    """Delete unmarked blocks from the index. Raise `RefConflict` if the head has moved since."""
    surplus = run.stores.blocks.count(dataset) - marks.count(ObjectKind.BLOCK)
    if surplus <= 0:
        return
    if run.report.dry_run:
        run.report.blocks_forgotten += surplus
        return
    if run.stores.objects.read_ref(dataset, HEAD) != heads[0]:
        run.stores.publish_head(dataset)  # the published head may point to a block to be removed
    run.report.blocks_forgotten += run.stores.refs.prune(dataset, heads=heads)


def _sweep(run: _Run, dataset: DatasetId, marks: Marks) -> bool:
    """Remove what is not marked; count what is marked. Return whether anything of it was not
    counted, as after commits by a version that does not count."""
    infos, missed = _listed(run, dataset), False
    while page := list(islice(infos, PAGE)):
        kept = dict[tuple[ObjectKind, Multihash], int]()
        for info in page:
            if not marks.has(info.key.kind, info.key.hash):
                _discard(run, info, UNNAMED[info.key.kind])
            elif info.key.kind in COUNTED:
                kept[info.key.kind, info.key.hash] = info.size
        if kept and not run.report.dry_run:
            missed |= run.stores.quotas.register(dataset, kept)
    return missed


def _take_off(
    run: _Run, dataset: DatasetId, marks: Marks, head: Multihash, *, recount: bool
) -> None:
    """Stop counting what is not marked. Raise `RefConflict` if the head has moved since."""
    if run.report.dry_run:
        return
    gone = run.stores.quotas.surplus(dataset, marks.has, run.before)
    for start in range(0, max(1, len(gone)), PAGE):
        page = gone[start : start + PAGE]
        run.stores.refs.take_off(dataset, head=head, gone=page, before=run.before, recount=recount)


def _report_unknown(run: _Run, entry: DatasetEntry, marks: Marks) -> None:
    """Report that slices and checkpoints were kept because a block may name any of them."""
    if (block := marks.unknown) is not None:
        run.report.left_alone.append(
            f"{entry.alias}: slices and checkpoints are kept, because block "
            f"{block.sequence_number} is of a newer version; upgrade this node"
        )


# --- first pushes that never ended ----------------------------------------------------------


def _is_abandoned_push(run: _Run, entry: DatasetEntry, head: Multihash) -> bool:
    """Return whether the first push of the dataset never ended: the dataset has never had another
    head than its Seed, and nothing has changed in it within the grace time."""
    if entry.created_at >= run.before:
        return False
    block = run.stores.blocks.find(entry.id, head)
    if block is None or not isinstance(block.event, Seed):
        return False
    info = read_info(run.stores.objects, entry.id)
    if info is None or not info.unfinished or run.stores.refs.has_moved(entry.id):
        return False
    if any(dataset == entry.id for dataset, _ in run.in_use):
        return False
    return all(
        found.modified is not None and found.modified < run.before
        for found in run.stores.objects.list(entry.id)
    )


def _forget_push(run: _Run, entry: DatasetEntry, head: Multihash) -> None:
    """Delete the dataset of an abandoned push, after all objects but its Seed. If one of them was
    renewed meanwhile, a push goes on and the dataset stays. Raise `RefConflict` if it has moved."""
    found = list(_listed(run, entry.id))
    seeds = [info for info in found if info.key.hash == head]
    others = [info for info in found if info.key.hash != head]
    if not all(_discard(run, info, ABANDONED_PUSH) for info in others):
        return
    if not run.report.dry_run:
        run.stores.forget_dataset(entry.id, expected=head)
    for info in seeds:
        run.report.count(ABANDONED_PUSH, info)
    run.report.datasets_forgotten.append(str(entry.alias))


# --- what belongs to no dataset -------------------------------------------------------------


def _collect_unregistered(run: _Run, dataset: DatasetId) -> None:
    """Collect a folder without a dataset. One with a head is a dataset that the index has lost;
    it is never touched."""
    if run.stores.objects.read_ref(dataset, HEAD) is not None:
        run.report.left_alone.append(f"{dataset}: kept, but not in the index; rebuild the index")
        return
    for info in _listed(run, dataset):
        if not is_kept_file(run.stores.files, info.key):
            _discard(run, info, NO_DATASET)


# --- objects --------------------------------------------------------------------------------


def _listed(run: _Run, dataset: DatasetId) -> Iterator[ObjectInfo]:
    for info in run.stores.objects.list(dataset):
        run.report.objects += 1
        run.progress(str(dataset), run.report.objects)
        yield info


def _discard(run: _Run, info: ObjectInfo, reason: str) -> bool:
    """Remove an object that nothing names, if it is old enough; return whether it was."""
    if (info.key.dataset, info.key.hash) in run.in_use:
        return False
    old = info.modified is not None and info.modified < run.before
    if old and not run.report.dry_run:
        old = run.stores.objects.discard(info.key, before=run.before)
    if old:
        run.report.count(reason, info)
    else:
        run.report.young += 1
    return old


ABANDONED_AFTER = timedelta(days=1)
"""Age from which an unfinished write counts as the remains of a crash."""
LOOK_BACK = timedelta(hours=3)
"""Heads that moved within this time are compared with the published files; it is longer than the
pause between two sweeps."""


def republish_recent(stores: Stores, *, clock: Clock | None = None) -> int:
    """Publish again what an outage of the object store prevented after a commit; return how many
    datasets were wrong."""
    return stores.republish_all(moved_since=_ago(clock or stores.clock, LOOK_BACK))


def remove_abandoned(stores: Stores, *, clock: Clock | None = None) -> int:
    """Remove the files of writes that broke off; return their number. It checks every file."""
    return stores.objects.remove_abandoned(before=_ago(clock or stores.clock, ABANDONED_AFTER))


def sweep_merge_states(stores: Stores, data: Path, *, dry_run: bool = False) -> int:
    """Remove merge states of datasets that no longer exist, and return their number.

    This finds states only if workers keep them in this data folder.
    """

    from ..merge_state.store import MergeStates, states_folder  # loads Arrow

    def is_known(dataset: DatasetId) -> bool:
        return stores.registry.find(DatasetRef(id=dataset)) is not None

    return len(MergeStates(states_folder(data), max_bytes=0).sweep(is_known, dry_run=dry_run))


def _ago(clock: Clock, time: timedelta) -> Instant:
    return Instant(clock().ns - int(time.total_seconds()) * NANOS)
