"""A question about a row: it becomes a job, and its answer gets the columns of the query's SQL.

The inputs that the caller may read are found here, and the worker reads no rows of others for the
answer. The SQL is read in reader processes, like all text of strangers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.events import SetTransform
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import why_job
from odf_storage.datasets.job_payloads.why_job import (
    RANGES,
    UNKNOWN,
    Cell,
    WhyAnswer,
    WhyPayload,
    WhyStep,
)
from odf_storage.datasets.read.view import require_in_history
from odf_storage.stores.ports.values import DatasetEntry, Job, JobId, JobStatus, Succeeded

from ...client.nodes.remotes import Location
from ..auth.access import Action, refuse_bad_token
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..history.verify import Verifying, visible_inputs
from ..http.parameters import parse_hash
from ..limits.pressure import Pressure
from ..lineage.lineage import LineageSources, analysing

DEEPEST = 20
"""Limit of steps from row to row; an answer has `STEPS` of the worker at most."""
ALL = "all"
REMEMBERED = 50
"""Number of earlier questions among which an equal one is looked for."""


@dataclass(frozen=True)
class Provenance:
    """The parts of the node that questions about rows need."""

    verifying: Verifying
    access: DatasetAccess
    pressure: Pressure
    lineage: LineageSources

    @property
    def stores(self) -> Any:
        return self.verifying.datasets


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyQuestion:
    """A question as it was sent, about an offset or a key."""

    offset: int | None = None
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    depth: str = "1"
    at: str | None = None
    after: str | None = None

    def check(self) -> None:
        """Raise `OffsetOrKey`."""
        if (self.offset is None) != bool(self.key):
            raise BadInput(
                "OffsetOrKey",
                "name the row by its offset, or by key: the values of its primary key, one after "
                "the other; by one of them",
            )

    def steps(self) -> int:
        """Return the depth as a number. Raises `MalformedDepth`."""
        if self.depth == ALL:
            return DEEPEST
        if not self.depth.isascii() or not self.depth.isdecimal() or len(self.depth) > 3:
            raise _malformed_depth(self.depth)
        steps = int(self.depth)
        if not 1 <= steps <= DEEPEST:
            raise _malformed_depth(self.depth)
        return steps


def _malformed_depth(depth: str) -> BadInput:
    return BadInput(
        "MalformedDepth", f"depth is a number from 1 to {DEEPEST}, or {ALL}; not {depth[:50]!r}"
    )


def submit(parts: Provenance, actor: Actor, entry: DatasetEntry, asked: WhyQuestion) -> JobId:
    """Queue the question. The job names no dataset, so only the caller's account sees it.

    Raises:
        TokenInvalid, TokenExpired. QueueFull, NodeBusy.
        OffsetOrKey, UnreadableHash, NotInHistory, UnknownColumn, MalformedDepth, MalformedPage.
    """
    refuse_bad_token(actor)
    asked.check()
    dataset = parts.stores.dataset(DatasetRef(id=entry.id))
    at = dataset.head() if asked.at is None else parse_hash(asked.at)
    require_in_history(dataset, at)
    _check_columns(asked.columns, dataset.state(at).data_schema)
    _check_page(asked.after)
    readable = [entry.id, *visible_inputs(parts.verifying, actor, entry)]
    account = None if actor.account is None else actor.account.id
    payload = WhyPayload(
        dataset=str(entry.id),
        offset=asked.offset,
        key=asked.key,
        at=str(at),
        columns=asked.columns,
        depth=asked.steps(),
        after=asked.after,
        readable=tuple(map(str, readable)),
        sees_jobs=tuple(map(str, _of_own_jobs(parts.access, actor, readable))),
    )
    spec = why_job.spec_of(payload, account)
    known = parts.verifying.jobs.page(
        account=account, kinds=(why_job.KIND,), limit=REMEMBERED, newest_first=True
    )
    for job in known:
        is_same = why_job.payload_of(job.spec.payload) == payload
        if is_same and job.spec.account == account and _is_kept(job):
            return job.id
    parts.pressure.admit(None, account)
    return parts.verifying.jobs.submit(spec)


def _is_kept(job: Job) -> bool:
    """Return whether the job answers an equal question, too: what is known as of a block never
    changes, but an input may have come meanwhile."""
    if isinstance(job.outcome, Succeeded):
        return why_job.answer_of(job.outcome.result).step.check.verdict != UNKNOWN
    return job.status in (JobStatus.WAITING, JobStatus.RUNNING)


def _of_own_jobs(
    access: DatasetAccess, actor: Actor, datasets: Iterable[DatasetId]
) -> Iterable[DatasetId]:
    """Yield the datasets whose jobs the caller sees in full."""
    for one in datasets:
        entry = access.visible(actor, one)
        if entry is not None and Action.WRITE in access.grants(actor, entry):
            yield one


def _check_columns(names: Iterable[str], schema: Any) -> None:
    there = {field.name for field in schema.fields} if schema is not None else set()
    for name in names:
        if name not in there:
            raise BadInput(
                "UnknownColumn", f"the dataset has no column {name[:100]!r}", column=name[:100]
            )


def _check_page(after: str | None) -> None:
    parts = [] if after is None else after.split(".")
    is_page = len(parts) == 3 and all(p.isascii() and p.isdecimal() for p in parts[::2])
    if after is not None and not is_page:
        raise BadInput(
            "MalformedPage",
            f"after is the `next` of an answer with {RANGES} ranges of an input; leave it out for "
            "the first page",
        )


def with_columns(
    parts: Provenance, actor: Actor, caller: str, answer: WhyAnswer, asked: WhyQuestion
) -> WhyAnswer:
    """Return the answer with names as this node shows them, with where a mirror is pulled from, and
    with the columns that each value of a derivative is made of, as far as the SQL can be analysed;
    only those asked for.

    Raises `ShareTaken`, `AllTaken`."""
    columns = frozenset(asked.columns)
    return structs.replace(answer, step=_step(parts, actor, caller, answer.step, columns))


def _step(
    parts: Provenance, actor: Actor, caller: str, step: WhyStep, columns: frozenset[str]
) -> WhyStep:
    where = step.where or _where(parts, caller, step)
    kept = {name: cell for name, cell in where.items() if not columns or name in columns}
    # The columns that were asked for are those of the first row alone.
    below = tuple(_step(parts, actor, caller, each, frozenset()) for each in step.inputs)
    row = structs.replace(step.row, alias=_shown_alias(parts, step.row.dataset, step.row.alias))
    why = tuple(
        structs.replace(each, alias=_shown_alias(parts, each.dataset, each.alias))
        for each in step.why
    )
    there = _elsewhere(parts, actor, DatasetId.parse(step.row.dataset))
    return structs.replace(step, row=row, why=why, where=kept, inputs=below, elsewhere=there)


def _elsewhere(parts: Provenance, actor: Actor, dataset: DatasetId) -> str | None:
    """Return where a mirror is pulled from. An address that takes a token is told to those who
    maintain the mirror: others could not read there, and may not know of it."""
    mirror = parts.stores.mirrors.find(dataset)
    if mirror is None:
        return None
    if mirror.sealed_token is not None:
        entry = parts.access.visible(actor, dataset)
        if entry is None or Action.MAINTAIN not in parts.access.grants(actor, entry):
            return None
    return Location.parse(mirror.remote).base or None


def _shown_alias(parts: Provenance, dataset: str, alias: str) -> str:
    """Return the name of a dataset as this node shows it; none if its name is not told."""
    entry = parts.stores.registry.find(DatasetRef(id=DatasetId.parse(dataset))) if alias else None
    return alias if entry is None else parts.access.shown_alias(entry)


def _where(parts: Provenance, caller: str, step: WhyStep) -> dict[str, Cell]:
    """Return the origins of the columns of a derivative; none if they are not known."""
    if step.how.definition is None:
        return {}
    dataset = parts.stores.dataset(DatasetRef(id=DatasetId.parse(step.row.dataset)))
    definition = dataset.block(Multihash.parse(step.how.definition)).event
    if not isinstance(definition, SetTransform):
        return {}
    there = {each.dataset for each in step.why if each.unread is None}
    inputs = {
        item.alias or str(item.dataset_ref): _columns_of(parts, item.dataset_ref, there)
        for item in definition.inputs
    }
    found = analysing(parts.lineage, caller)(definition.transform, inputs)
    if found is None:
        return {}
    return {
        column: Cell(
            kind=cell.kind,
            columns=tuple(sorted(f"{name}.{origin}" for name, origin in cell.origins)),
            expression=cell.expression,
        )
        for column, cell in found.items()
        if column in step.row.values
    }


def _columns_of(parts: Provenance, ref: DatasetRef, there: set[str]) -> list[str]:
    if str(ref.id) not in there:
        return []
    schema = parts.stores.dataset(ref).state().data_schema
    return [] if schema is None else [field.name for field in schema.fields]
