"""Automatic updates of derivatives: read head moves from the log, submit jobs for dependants.

One transaction stores both the derivatives that are due and the position in the log, so nothing is
lost when a service dies in between. Several services may do this concurrently. A derivative is due
at once when an input moves, unless it is new or its last job was submitted a moment ago: then it
waits for more. It has one job at a time, is retried after temporary failures, and paused by
permanent ones.

Refresh of derivatives on request, on demand after all datasets that they depend on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import DatasetKind, SetTransform
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset, InvalidInterval
from odf_storage.datasets.dataset.info import read_info
from odf_storage.datasets.job_payloads.transform_job import TransformPayload, job_of
from odf_storage.datasets.node.rights import (
    refuse_hidden_inputs,
    remember_inputs,
    upstream,
)
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.stores.jobs.sql_rows import older_retryable
from odf_storage.stores.objects.layout import HEAD
from odf_storage.stores.ports.errors import BlockNotFound, DatasetNotFound, RefConflict
from odf_storage.stores.ports.following import Derivation, Problem
from odf_storage.stores.ports.values import (
    DatasetEntry,
    Failed,
    HeadMoved,
    Job,
    JobId,
    JobSpec,
    Succeeded,
)

from ..auth.access import Action
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..errors import status_of_failed


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
    _refuse_hidden_inputs(stores, entry, everything_is_read=everything_is_read)
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


def _refuse_hidden_inputs(stores: Stores, entry: DatasetEntry, *, everything_is_read: bool) -> None:
    """Raise `InputsNotHere` if the author of the definition may not read all of its inputs."""
    state = stores.dataset(DatasetRef(id=entry.id)).state()
    refuse_hidden_inputs(stores, entry, state, everything_is_read=everything_is_read)


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
        if found.id != entry.id and has_something_to_do(stores, found):
            levels.setdefault(depth, []).append(found)
    return [levels[depth] for depth in sorted(levels, reverse=True)]


def has_something_to_do(stores: Stores, entry: DatasetEntry) -> bool:
    """Return whether a refresh of the dataset polls, pulls or computes anything."""
    if entry.kind is DatasetKind.Derivative or stores.mirrors.find(entry.id) is not None:
        return True
    return stores.dataset(DatasetRef(id=entry.id)).state().polling_source is not None


FOLLOW_DEBOUNCE_S = 0.5
"""Seconds between two jobs of a derivative, in which more may come in."""

_log = logging.getLogger("odf.follow")
PAGE = 1000
LONGEST_PAUSE_S = 300
ATTEMPTS_COUNTED = 10
"""Number of failures after which the pause between retries does not grow further."""
WAITS_FOR_INPUT = frozenset({"InputsNotHere"})
"""Errors that only a move of an input can end, so the job is not retried before."""
PASSING = frozenset({RefConflict.__name__, DatasetNotFound.__name__})
"""Errors of the stores that are temporary, although their status is that of permanent errors."""


@dataclass(frozen=True)
class FollowingInputs:
    """The dependencies of automatic updates. `debounce_s` is the time between two jobs of a
    derivative, `poll_s` that between two looks at the log, both in seconds."""

    stores: Stores
    everything_is_read: bool
    """Whether derivatives may read all datasets of the node."""
    debounce_s: float
    poll_s: float
    clock: Clock
    submitted: dict[DatasetId, Instant] = field(default_factory=dict)
    """When the last jobs were submitted, for as long as the next ones wait for it. It only sets the
    pace: another service does not know it."""


def follow(following: FollowingInputs) -> float:
    """Do one round: read moves, handle jobs that ended, submit what is due. Return the seconds to
    the next round."""
    moves = look_at_moves(following)
    look_at_jobs(following)
    submit_due(following)
    if len(moves) == PAGE:
        return 0.0
    due = following.stores.derivations.next_due()
    if due is None:
        return following.poll_s
    return min(following.poll_s, max(0.0, (due.ns - following.clock().ns) / NANOS))


def look_at_moves(following: FollowingInputs) -> Sequence[HeadMoved]:
    """Read a page of the log, and record the derivatives that are due because of it."""
    store = following.stores.derivations
    cursor = store.cursor()
    moves = following.stores.refs.moves(after=cursor, limit=PAGE)
    if not moves:
        return moves
    due, resumed = dict[DatasetId, Instant](), set[DatasetId]()
    spans = _spans(moves)
    moved = [last.dataset for _, last in spans]
    entries = following.stores.registry.find_all(moved)
    for first, last in spans:
        entry = entries.get(last.dataset)
        if entry is None or entry.kind is not DatasetKind.Derivative:
            continue
        if _definition_changed(following.stores, Dataset(entry, following.stores), first, last):
            due[last.dataset] = _after(following.clock(), following.debounce_s)
            resumed.add(last.dataset)
    for dependant in following.stores.registry.dependants_of_any(moved):
        due.setdefault(dependant, _when(following, dependant))
    store.found_moves(expected=cursor, cursor=moves[-1].number, due=due, resumed=resumed)
    return moves


def _when(following: FollowingInputs, dataset: DatasetId) -> Instant:
    """Return when a derivative with new input is due: now, or after its pause."""
    now, last = following.clock(), following.submitted.get(dataset)
    return now if last is None else max(now, _after(last, following.debounce_s))


def _spans(moves: Sequence[HeadMoved]) -> list[tuple[HeadMoved, HeadMoved]]:
    """Return the first and the last move of each head."""
    spans = dict[DatasetId, tuple[HeadMoved, HeadMoved]]()
    for move in moves:
        if move.ref == HEAD:
            spans[move.dataset] = (spans.get(move.dataset, (move,))[0], move)
    return list(spans.values())


def _definition_changed(
    stores: Stores, dataset: Dataset, first: HeadMoved, last: HeadMoved
) -> bool:
    """Return whether a derivative has a new transform, and store its inputs if so.

    A dataset that cannot be read is logged, so that it does not block updates of the others.
    """
    try:
        if changed := _has_new_transform(dataset, first.old, last.new):
            remember_inputs(stores, last.dataset)
    except DatasetNotFound:  # deleted meanwhile
        return False
    except NodeError:
        _log.exception("derivative %s cannot be read", last.dataset)
        return False
    return changed


def _has_new_transform(dataset: Dataset, old: Multihash | None, new: Multihash) -> bool:
    try:
        pages = dataset.pages(after=old, upto=new)
        return any(isinstance(b.event, SetTransform) for page in pages for b in page)
    except (InvalidInterval, BlockNotFound):  # another history
        return True


def look_at_jobs(following: FollowingInputs) -> None:
    """Record the outcomes of submitted jobs that have ended."""
    rows = following.stores.derivations.at_work()
    found = following.stores.jobs.get_all([row.job for row in rows if row.job is not None])
    for row in rows:
        if row.job is None:
            continue
        job = found.get(row.job)
        if job is None or job.finished_at is not None:
            _ended(following, row, job)


def _ended(following: FollowingInputs, row: Derivation, job: Job | None) -> None:
    store = following.stores.derivations
    if job is None:  # its record is deleted, so the outcome is unknown: retry
        store.ended(row.dataset, job=row.job, retry_at=following.clock())
    elif isinstance(outcome := job.outcome, Failed):
        _failed(following, row, outcome)
    elif isinstance(outcome, Succeeded) and outcome.result.get("hasMore"):
        # Due at once, so that `submit_due` joins the job for the rest, and its end is recorded too.
        store.ended(row.dataset, job=row.job, retry_at=following.clock())
    else:
        store.ended(row.dataset, job=row.job)


def _failed(following: FollowingInputs, row: Derivation, failed: Failed) -> None:
    """Record a failure: schedule a retry, wait for an input, or pause the derivative."""
    paused, retry_at = False, None
    if is_passing(failed):
        pause = min(LONGEST_PAUSE_S, 2 ** min(row.attempts, ATTEMPTS_COUNTED))
        retry_at = _after(following.clock(), pause)
    else:
        paused = failed.error not in WAITS_FOR_INPUT
    problem = Problem(failed.error, failed.message, failed.facts)
    following.stores.derivations.ended(
        row.dataset, job=row.job, problem=problem, paused=paused, retry_at=retry_at
    )


def is_passing(failed: Failed) -> bool:
    """Return whether a retry may help: by the `retryable` flag of the error, else by its status."""
    said = failed.retryable
    if said is None:
        said = older_retryable(failed.error)
    if said is not None:
        return said
    if failed.error in WAITS_FOR_INPUT:
        return False
    status = status_of_failed(failed)
    return status >= 500 or status == 404 or failed.error in PASSING


def submit_due(following: FollowingInputs) -> None:
    """Submit jobs for the derivatives that are due."""
    store, now = following.stores.derivations, following.clock()
    everything_is_read = following.everything_is_read
    for dataset, last in list(following.submitted.items()):
        if _after(last, following.debounce_s) <= now:
            del following.submitted[dataset]
    for row in store.due(now=now):
        try:
            if _is_wanted(following.stores, row):
                entry = following.stores.registry.get(DatasetRef(id=row.dataset))
                _refuse_hidden_inputs(
                    following.stores, entry, everything_is_read=everything_is_read
                )
                job = following.stores.jobs.submit(
                    transform_spec(row.dataset, everything_is_read=everything_is_read)
                )
                store.submitted(row.dataset, version=row.version, job=job)
                following.submitted[row.dataset] = now
        except NodeError as error:
            store.submitted(row.dataset, version=row.version, job=None)
            _failed(following, row, Failed.of(error))


def _is_wanted(stores: Stores, row: Derivation) -> bool:
    """Return whether a derivative is updated automatically. This is decided when it is due for the
    first time.

    A derivative whose rows were pushed is computed on another node: if it were computed here as
    well, the next push would find a diverged chain. Mirrors accept blocks of their remote only.
    """
    store = stores.derivations
    if row.wanted is not None:
        return row.wanted
    entry = stores.registry.find(DatasetRef(id=row.dataset))
    if entry is None:
        return False
    state = stores.dataset(DatasetRef(id=row.dataset)).state()
    if state.transform is None:  # it becomes due again when a transform is set
        store.submitted(row.dataset, version=row.version, job=None)
        return False
    info = read_info(stores.objects, row.dataset)
    pushed = info is not None and info.pushed and state.last_execution is not None
    wanted = not pushed and stores.mirrors.find(row.dataset) is None
    store.decide(row.dataset, wanted=wanted)
    return wanted


def _after(now: Instant, seconds: float) -> Instant:
    return Instant(now.ns + int(seconds * NANOS))
