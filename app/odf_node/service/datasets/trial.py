"""Trials of manifests on a sample, which create nothing: the rules are checked here, and a worker
reads rows and runs SQL.

Checks of the queries of transforms and sources before they are committed: a worker tries whether
they run, and which columns they return.

A wrong query is refused with the reason and, if the engine reports it, the position. If no worker
answers in time, or the columns are not known yet, the query is accepted unchecked. If it is then
wrong, the first run pauses the derivative, or the first batch of the source is refused.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from starlette.concurrency import run_in_threadpool

from odf_protocol.chain.state import ChainState, Vocab
from odf_protocol.codec.manifests import load_snapshots, to_data
from odf_protocol.columns.column_names import name_remarks
from odf_protocol.ddl import required_unasked
from odf_protocol.errors import BadInput, LimitExceeded, Unavailable
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.metadata.events import (
    AddPushSource,
    DatasetKind,
    DatasetSnapshot,
    MetadataEvent,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SetVocab,
)
from odf_protocol.sources.source_rules import declared_columns
from odf_storage.datasets.job_payloads import transform_job, trial_job
from odf_storage.datasets.job_payloads.transform_job import (
    CheckPayload,
    CheckReceipt,
    CheckSourcePayload,
)
from odf_storage.datasets.job_payloads.trial_job import TrialDataset, TrialPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.values import AccountId, Failed, JobSpec, Succeeded, Visibility

from ..auth.access import Unauthenticated
from ..auth.actors import Actor
from ..derivatives.follow import is_passing
from ..errors import status_of_failed
from ..http.answers import media_type_of
from ..jobs.job_watch import JobWatch
from ..limits.pressure import Pressure
from .datasets import Authoring, PreparedDefinition, Resolve, prepare_snapshot, visible_inputs

UNSEEN = "no worker looked at the query in time"


class TransformRefused(BadInput):
    """A worker found an error in a query. `failed` is its outcome, for the response."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, **{"error": failed.error, **failed.facts})
        self.failed = failed


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of a check of a query. `receipt` is None if no worker checked it, for the
    `reason`."""

    receipt: CheckReceipt | None = None
    reason: str | None = None

    def shown(self) -> dict[str, Any]:
        if self.receipt is None:
            return {"outcome": "unknown", "reason": self.reason}
        return transform_job.to_json(self.receipt)


@dataclass(frozen=True)
class Checking:
    """The dependencies of checks by workers. `patience_s` is how long to wait for a worker, in
    seconds."""

    datasets: Stores
    jobs: JobQueue
    watch: JobWatch
    patience_s: float


async def looked_at(
    checking: Checking, events: Sequence[MetadataEvent], state: ChainState | None = None
) -> dict[str, Any]:
    """Check the queries among the events; return the results as JSON: `transform`, `sources` by
    name, and `warnings` about declared columns. `state` is the state of the dataset that gets
    the events, if it exists.

    Raises:
        TransformRefused: one of the queries is wrong.
    """
    vocab = next((event for event in reversed(events) if isinstance(event, SetVocab)), None)
    if vocab is None and state is not None:
        vocab = state.vocab.event
    shown: dict[str, Any] = {}
    for event in events:
        if isinstance(event, SetTransform):
            spec = await run_in_threadpool(check_job, checking.datasets, event, vocab, state)
            shown["transform"] = (await look(checking, spec)).shown()
        elif isinstance(event, SetPollingSource | AddPushSource) and event.preprocess is not None:
            name = event.source_name if isinstance(event, AddPushSource) else "polling"
            looked = await look(checking, source_job(event, vocab, state))
            shown.setdefault("sources", {})[name] = looked.shown()
    if warnings := name_warnings(events, Vocab.of(vocab or SetVocab())):
        shown["warnings"] = warnings
    return shown


REQUIRED = (
    "each row needs a value in {}, since columns of DATE and DECIMAL in `ddlSchema` are required; "
    "`schema` can declare them as optional, such as `type: {{kind: Option, inner: Date}}`"
)


def name_warnings(events: Sequence[MetadataEvent], vocab: Vocab) -> list[str]:
    """Return warnings of columns that the events declare: whose names differ in case only, or that
    are required although nobody wrote so."""
    said: dict[str, None] = {}
    for event in events:
        names: Sequence[str] = ()
        if isinstance(event, SetDataSchema) and event.schema is not None:
            names = [field.name for field in event.schema.fields]
        elif isinstance(event, SetPollingSource | AddPushSource) and event.preprocess is None:
            declared = declared_columns(event.read)
            names = () if declared is None else declared.names
            if unasked := required_unasked(event.read.ddl_schema or ()):
                said[REQUIRED.format(", ".join(f"`{name}`" for name in unasked))] = None
        if names:
            said |= dict.fromkeys(name_remarks(dict.fromkeys([*vocab.columns, *names])))
    return list(said)


def check_job(
    datasets: Stores,
    transform: SetTransform,
    vocab: SetVocab | None,
    state: ChainState | None = None,
) -> JobSpec | None:
    """Return the job that checks a transform, None if the columns of an input are unknown."""
    for one in _ids(transform):
        found = datasets.dataset(DatasetRef(id=one)).state()
        sources = (found.polling_source, *found.push_sources.values())
        if found.schema is None and not any(map(_declares, sources)):
            return None
    schema = None if state is None else state.data_schema
    last = None if state is None else state.last_execution
    kept = None if last is None else last.new_checkpoint
    payload = CheckPayload(
        definition=to_data(transform),
        vocab=None if vocab is None else to_data(vocab),
        current=None if schema is None else to_data(schema),
        dataset=None if state is None or kept is None else str(state.dataset_id),
        checkpoint=None if kept is None else str(kept.physical_hash),
    )
    return JobSpec(transform_job.CHECK, None, transform_job.to_json(payload))


def source_job(
    source: SetPollingSource | AddPushSource, vocab: SetVocab | None, state: ChainState | None
) -> JobSpec | None:
    """Return the job that checks the query of a source, None if the source declares no columns."""
    if not _declares(source):
        return None
    schema = None if state is None else state.data_schema
    payload = CheckSourcePayload(
        source=to_data(source),
        vocab=None if vocab is None else to_data(vocab),
        current=None if schema is None else to_data(schema),
    )
    return JobSpec(transform_job.CHECK_SOURCE, None, transform_job.to_json(payload))


def _declares(source: SetPollingSource | AddPushSource | None) -> bool:
    read = None if source is None else source.read
    return read is not None and (read.schema is not None or read.ddl_schema is not None)


async def look(checking: Checking, spec: JobSpec | None) -> Looked:
    """Let a worker check a query, and wait for the result.

    Raises:
        TransformRefused: the query is wrong.
    """
    if spec is None:
        return Looked(reason="nothing tells the columns it reads yet")
    job = await run_in_threadpool(checking.jobs.submit, spec)
    ended = await checking.watch.ended(job, checking.patience_s)
    if ended is None:
        await run_in_threadpool(checking.jobs.cancel, job)
        return Looked(reason=UNSEEN)
    match ended.outcome:
        case Succeeded(result=result):
            return Looked(transform_job.checked_of(result))
        case Failed() as failed:
            if status_of_failed(failed) < 500 and not is_passing(failed):
                raise TransformRefused(failed)
            return Looked(reason=f"no worker could look at the query: {failed.message}")
    return Looked(reason=UNSEEN)


def _ids(transform: SetTransform) -> Sequence[DatasetId]:
    return [item.dataset_ref.id for item in transform.inputs if item.dataset_ref.id is not None]


TRIAL_SHOWN_ROWS = 10
"""Rows that a trial shows of each dataset."""

TRIAL_INPUT_ROWS = 10_000
"""Rows of each input that a derivative is tried on, the first."""

TRIAL_MANIFESTS = 100
"""Most manifests that are tried at once."""

TRIAL_SAMPLE_BYTES = 1 << 20
"""Longest sample that manifests are tried on."""

TRIAL_WAIT_S = 60.0
"""Seconds a trial of manifests waits for a worker; then it ends."""

MAX_MANIFEST_BYTES = 2 << 20
"""Largest manifest of a dataset or an event, in bytes."""


class TrialSample(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Some rows of a root, in the form in which they would be posted."""

    content: str
    """The bytes in Base64."""
    file_name: str = ""
    """The name whose extension gives the format, unless `media_type` does. Without either, the
    format of the source applies."""
    media_type: str | None = None
    dataset: str | None = None
    """The name of the root in its manifest. Required if there are several roots."""
    source_name: str | None = None


class TrialAsked(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The body of a request: manifests in one text, and an optional sample."""

    manifests: str
    sample: TrialSample | None = None


@dataclass(frozen=True)
class Trials:
    """The dependencies and limits of trials. `patience_s` is how long to wait for a worker, in
    seconds."""

    authoring: Authoring
    pressure: Pressure
    jobs: JobQueue
    watch: JobWatch
    patience_s: float
    sample_bytes: int
    manifests: int
    input_rows: int
    shown_rows: int
    manifest_bytes: int

    @property
    def body_bytes(self) -> int:
        """Limit of bytes in the body of a request. A text may be twice as long in JSON, and a
        sample is a third longer in Base64."""
        return 2 * self.manifest_bytes + self.sample_bytes * 4 // 3 + 4096


async def tried(trials: Trials, actor: Actor, asked: TrialAsked) -> dict[str, Any]:
    """Run a trial, and return the content that each dataset would have, inputs first.

    Raises:
        TransformRefused: a worker found an error.
        SampleTooLarge, SampleForNone, TooManyTried, TrialNotRun, QueueFull, NodeBusy,
        CircularInputs, NameGivenTwice, and the errors of `prepare_dataset`.
    """
    made, spec = await run_in_threadpool(_prepared, trials, actor, asked)
    job = await run_in_threadpool(trials.jobs.submit, spec)
    ended = await trials.watch.ended(job, trials.patience_s)
    if ended is None:
        await run_in_threadpool(trials.jobs.cancel, job)
        raise Unavailable("TrialNotRun", "no worker had time for the trial; try again later")
    match ended.outcome:
        case Succeeded(result=result):
            receipt = trial_job.receipt_of(result)
            found = [
                {"alias": each.alias, "kind": str(one.entry.kind), **trial_job.to_json(each)}
                for one, each in zip(made, receipt.datasets, strict=True)
            ]
            return {"dryRun": True, "datasets": found}
        case Failed() as failed:
            raise TransformRefused(failed)
    raise Unavailable("TrialNotRun", "the trial was cancelled")


def _prepared(
    trials: Trials, actor: Actor, asked: TrialAsked
) -> tuple[Sequence[PreparedDefinition], JobSpec]:
    """Check the rules; return all datasets, and the job that tries them."""
    from ...client.transfer.folder import in_order  # importing the client takes long

    if actor.account is None:
        raise Unauthenticated
    account = AccountId(actor.account.id)
    trials.pressure.admit(None, account)
    body = _content(trials, asked.sample)
    snapshots = load_snapshots(asked.manifests)
    if len(snapshots) > trials.manifests:
        raise LimitExceeded(
            "TooManyTried",
            f"one trial takes {trials.manifests} manifests",
            limit=trials.manifests,
        )
    made: list[PreparedDefinition] = []
    for snapshot in in_order(snapshots):
        resolve = _among(made, trials, actor)
        made.append(
            prepare_snapshot(trials.authoring, actor, snapshot, Visibility.PRIVATE, resolve)
        )
    sample, sample_of = asked.sample, None
    if sample is not None:
        alias = trials.authoring.access.new_alias(actor, _root(snapshots, sample))
        sample_of = str(alias)
    payload = TrialPayload(
        datasets=tuple(
            TrialDataset(alias=str(one.entry.alias), events=tuple(map(to_data, one.events)))
            for one in made
        ),
        sample_of=sample_of,
        source_name=None if sample is None else sample.source_name,
        media_type=(None if sample is None else media_type_of(sample.media_type, sample.file_name)),
        input_rows=trials.input_rows,
        shown_rows=trials.shown_rows,
    )
    spec = JobSpec(trial_job.KIND, None, trial_job.to_json(payload), account=account, body=body)
    return made, spec


def _among(made: Sequence[PreparedDefinition], trials: Trials, actor: Actor) -> Resolve:
    """Return a function that finds inputs among the datasets prepared so far, else on the node."""
    access = trials.authoring.access
    on_node = visible_inputs(access, actor)

    def resolve(ref: DatasetRef) -> DatasetId | None:
        alias = None if ref.alias is None else access.new_alias(actor, ref.alias).folded
        for one in made:
            if alias is not None and one.entry.alias.folded == alias:
                return one.entry.id
        return on_node(ref)

    return resolve


def _root(snapshots: Sequence[DatasetSnapshot], sample: TrialSample) -> DatasetAlias:
    """Return the name of the root that the sample is for. Raises `SampleForNone`."""
    roots = [one.name for one in snapshots if one.kind is DatasetKind.Root]
    names = [str(one) for one in roots]
    if sample.dataset is not None:
        wanted = DatasetAlias.parse(sample.dataset).folded
        roots = [one for one in roots if one.folded == wanted]
    if len(roots) != 1:
        raise BadInput(
            "SampleForNone",
            "the sample has to be for one of the roots among the manifests: name it",
            roots=names,
        )
    return roots[0]


def _content(trials: Trials, sample: TrialSample | None) -> bytes | None:
    """Decode the bytes of a sample. Raises `SampleTooLarge`, `SampleForNone`."""
    if sample is None:
        return None
    try:
        content = base64.b64decode(sample.content, validate=True)
    except (binascii.Error, ValueError):
        raise BadInput("SampleForNone", "the content of a sample is bytes in Base64") from None
    if len(content) > trials.sample_bytes:
        raise LimitExceeded(
            "SampleTooLarge",
            f"a sample has at most {trials.sample_bytes} bytes: send the first rows of the file",
            limit=trials.sample_bytes,
        )
    return content
