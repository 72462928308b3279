"""Converts jobs to rows and back, finds jobs by id, and ends jobs in a running transaction.

Converts outcomes of jobs to JSON and back, whatever their texts contain.

The branch of an error is stored among its facts. A version that does not know branches treats it
as an ordinary fact, so old and new processes of a node can read each other's outcomes.

Ids of jobs: a number by which they sort, and a random tag that cannot be guessed.

Facts that outcomes of the previous version lack: the branch of the error, and retryability.

Jobs are kept for weeks, and workers of the previous version keep running while a node is upgraded.
Do not extend these tables: newer outcomes carry both facts. No other module of the service names
errors of workers. This module is removed with the next version.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from odf_protocol.columns.scalar_text import scalar_text
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ..ports.errors import JobNotFound, LeaseLost
from ..ports.values import Failed, Job, JobEnd, JobId, JobOutcome, JobSpec, JobStatus, Succeeded
from ..sql.engine import storable
from ..sql.publishing import rejected_rows
from ..sql.tables import KEY_CHARS, jobs, unattested_jobs

BRANCH = "errorBranch"


def outcome_to_json(outcome: JobOutcome) -> dict[str, Any]:
    """Return the outcome with values that every JSON reader accepts."""
    if isinstance(outcome, Succeeded):
        return {"result": _plain(outcome.result)}
    facts = {**outcome.facts, BRANCH: outcome.branch} if outcome.branch else outcome.facts
    error, message = scalar_text(outcome.error), scalar_text(outcome.message)
    return {"error": error, "message": message, "facts": _plain(facts)}


def outcome_of(value: Mapping[str, Any] | None) -> JobOutcome | None:
    """Return the outcome in a row; ignore fields that a later version added."""
    if value is None:
        return None
    if "result" in value:
        return Succeeded(_plain(value["result"]))
    facts = dict(_plain(value.get("facts") or {}))
    branch = facts.pop(BRANCH, "")
    return Failed(scalar_text(value["error"]), scalar_text(value["message"]), facts, branch)


def _plain(value: Any) -> Any:
    """Keep Unicode scalar values and finite numbers; convert everything else to text."""
    if isinstance(value, str):
        return scalar_text(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {scalar_text(str(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return scalar_text(str(value))


def job_id(number: int, tag: str) -> JobId:
    """Build an id that sorts by number; its random tag cannot be guessed."""
    return JobId(f"{number:012x}-{tag}")


def parse_id(job: str) -> tuple[int, str]:
    """Return number and tag of a job id; for any other text, `(0, "")`, which no job has."""
    number, _, tag = job.partition("-")
    try:
        parsed = int(number, 16)
    except ValueError:
        return 0, ""
    return (parsed, tag) if parsed < 1 << 63 and storable(tag) else (0, "")


OPEN = (JobStatus.WAITING.value, JobStatus.RUNNING.value)
SHOWN = tuple(column for column in jobs.c if column.name != "body")
"""Columns read for display; only a worker that runs the job needs the body."""
_END = (
    sa.update(jobs)
    .where(
        jobs.c.number == sa.bindparam("its_number"),
        jobs.c.tag == sa.bindparam("its_tag"),
        jobs.c.worker == sa.bindparam("its_worker"),
        jobs.c.status == JobStatus.RUNNING.value,
    )
    .values(
        status=sa.bindparam("status"),
        finished_at=sa.bindparam("finished_at"),
        outcome=sa.bindparam("outcome"),
        lease_until=None,
        leader=None,
        body=None,
    )
)
_RUNNING = (
    sa.select(jobs.c.number, jobs.c.tag, jobs.c.worker)
    .where(
        jobs.c.number.in_(sa.bindparam("numbers", expanding=True)),
        jobs.c.status == JobStatus.RUNNING.value,
    )
    .order_by(jobs.c.number)
    .with_for_update()
)
_SPEC = ("kind", "dataset", "payload", "lock", "dedup_key", "account", "schedule", "trace")


def is_job(job: JobId) -> sa.ColumnElement[bool]:
    number, tag = parse_id(job)
    return sa.and_(jobs.c.number == number, jobs.c.tag == tag)


def get_job(db: sa.Connection, job: JobId) -> Job:
    """Raises `JobNotFound`."""
    row = db.execute(sa.select(*SHOWN).where(is_job(job))).mappings().one_or_none()
    if row is None:
        raise JobNotFound(job)
    return job_of(row)


def change_leased(db: sa.Connection, job: JobId, worker: str, /, **values: Any) -> None:
    """Change a job that its worker still has. Raises `LeaseLost`, `JobNotFound`."""
    leased = (is_job(job), jobs.c.worker == worker, jobs.c.status == JobStatus.RUNNING.value)
    if db.execute(sa.update(jobs).where(*leased).values(**values)).rowcount == 0:
        get_job(db, job)
        raise LeaseLost(job, worker)


def end_jobs(db: sa.Connection, ends: Sequence[JobEnd], now: Instant) -> None:
    """Store outcomes in the transaction of the jobs' effects. Raises as `change_leased`."""
    if ends:
        leased = leases_of(db, ends)
        for end in ends:
            leased.require(db, end)
        end_leased(db, ends, now)


def end_leased(db: sa.Connection, ends: Sequence[JobEnd], now: Instant) -> None:
    """As `end_jobs`, for jobs whose leases the caller has verified."""
    if not ends:
        return
    rows = []
    for end in ends:
        number, tag = parse_id(end.job)
        succeeded = isinstance(end.outcome, Succeeded)
        rows.append(
            {
                "its_number": number,
                "its_tag": tag,
                "its_worker": end.worker,
                "status": (JobStatus.SUCCEEDED if succeeded else JobStatus.FAILED).value,
                "finished_at": now,
                "outcome": outcome_to_json(end.outcome),
            }
        )
    db.execute(_END, rows)
    _keep_rejected(db, ends, now)
    _note_added(db, ends)


def cancelled_at(now: Instant) -> dict[str, object]:
    """Return the columns of an open job that change when it is cancelled."""
    return {
        "status": JobStatus.CANCELLED.value,
        "finished_at": now,
        "lease_until": None,
        "leader": None,
        "body": None,
    }


def forget_jobs(db: sa.Connection, dataset: DatasetId, now: Instant) -> None:
    """Delete the ended jobs of a dataset with their rejected rows, and cancel its open jobs.

    The cancelled jobs do not belong to the dataset any more. Their workers lose them, and waiting
    clients see that they have ended.
    """
    its = jobs.c.dataset == dataset
    db.execute(sa.select(jobs.c.number).where(its).order_by(jobs.c.number).with_for_update())
    is_open = jobs.c.status.in_(OPEN)
    db.execute(sa.update(jobs).where(its, is_open).values(**cancelled_at(now), dataset=None))
    db.execute(sa.delete(jobs).where(its))


def _keep_rejected(db: sa.Connection, ends: Sequence[JobEnd], now: Instant) -> None:
    rows = [
        {"job": parse_id(end.job)[0], "content": end.outcome.rejected, "kept_at": now}
        for end in ends
        if isinstance(end.outcome, Succeeded) and end.outcome.rejected is not None
    ]
    if rows:
        db.execute(sa.insert(rejected_rows), rows)


def _note_added(db: sa.Connection, ends: Sequence[JobEnd]) -> None:
    """Note the jobs that added blocks, so that the node attests what they did."""
    rows = [
        {"number": parse_id(end.job)[0]}
        for end in ends
        if isinstance(end.outcome, Succeeded) and _hashes(end.outcome.result.get("blocks"))
    ]
    if rows:
        db.execute(sa.insert(unattested_jobs), rows)


def _hashes(blocks: Any) -> bool:
    """Return whether there are any; receipts of mirrors have the number of blocks."""
    return isinstance(blocks, list | tuple) and bool(blocks)


class Leases:
    """Workers of running jobs, whose rows stay locked until the transaction ends."""

    def __init__(self, workers: dict[JobId, str]) -> None:
        self._workers = workers

    def require(self, db: sa.Connection, end: JobEnd) -> None:
        """Raise `LeaseLost` or `JobNotFound` if the job does not belong to the worker."""
        if self._workers.get(end.job) != end.worker:
            get_job(db, end.job)
            raise LeaseLost(end.job, end.worker)


def leases_of(db: sa.Connection, ends: Sequence[JobEnd]) -> Leases:
    """Read the workers of the jobs, and lock the rows against changes."""
    if not ends:
        return Leases({})
    rows = db.execute(_RUNNING, {"numbers": [parse_id(end.job)[0] for end in ends]})
    return Leases({job_id(row.number, row.tag): row.worker for row in rows})


def kept_key(key: str | None) -> str | None:
    """Return a dedup key that fits into its column; a long key is replaced by its hash."""
    if key is None or len(key) <= KEY_CHARS:
        return key
    return str(Multihash.of(key.encode()))


def row_of(spec: JobSpec, now: Instant) -> dict[str, object]:
    return {
        **{name: getattr(spec, name) for name in _SPEC},
        "dedup_key": kept_key(spec.dedup_key),
        "body": spec.body,
        "tag": secrets.token_hex(8),
        "status": JobStatus.WAITING.value,
        "submitted_at": now,
        "attempt": 0,
    }


def job_of(row: Mapping[Any, Any]) -> Job:
    return Job(
        id=job_id(row["number"], row["tag"]),
        spec=JobSpec(**{name: row[name] for name in _SPEC}, body=row.get("body")),
        status=JobStatus(row["status"]),
        submitted_at=row["submitted_at"],
        attempt=row["attempt"],
        deaths=row["deaths"] or 0,
        worker=row["worker"],
        lease_until=row["lease_until"],
        finished_at=row["finished_at"],
        outcome=outcome_of(row["outcome"]),
        progress=row["progress"],
    )


_LEAVES = {
    "BadInput": """
        BadInputSchema BadRow CannotMerge EngineFailed IncompatibleSchema InvalidQuery QueryTooSlow
        InvalidSetting NotIncremental ForeignState MalformedJob MalformedParquet MalformedShapefile
        NotARootDataset NotVerifiable SnapshotNotWhole SourceNotFound TooManyBadRows
        SubPathNotFound RowsVanished SchemaNotKnown TransformNotDefined UnexpectedNulls Unsupported
        UnsupportedByEngine UnsupportedEngine EntryNotFound EventTimeNotFound ExpansionTooLong
        InvalidParameterFormat InvalidPattern MalformedArchive MalformedSource PipeFailed
        PipeRefused SourceRefused ValueNotFound DanglingReference InvalidValue UnsupportedColumn
        UnsupportedSchema DdlSyntax NotHashable
    """,
    "Conflict": "InvalidInputInterval NotValidated JobLost",
    "LimitExceeded": "InputTooLarge DecompressionTooLarge FetchedTooLarge",
    "RemoteFailed": """
        EngineNotStarted ContainerBrokeProtocol ContainerFailed SourceMissing SourceUnreachable
    """,
    "Unavailable": "StoreUnavailable DatabaseUnavailable",
}
_BRANCHES = {leaf: branch for branch, leaves in _LEAVES.items() for leaf in leaves.split()}


_RETRYABLE = {"EngineFailed": True, "JobLost": True, "JobAbandoned": False}


def older_retryable(error: str) -> bool | None:
    """Return whether a retry may help after an older error; None if its HTTP status decides."""
    return _RETRYABLE.get(error)


def older_branch(error: str) -> str:
    """Return the branch of an error that was stored without one; empty if the error is unknown."""
    return _BRANCHES.get(error, "")
