"""Checks of the queries of transforms and sources before they are committed: a worker tries whether
they run, and which columns they return.

A wrong query is refused with the reason and, if the engine reports it, the position. If no worker
answers in time, or the columns are not known yet, the query is accepted unchecked. If it is then
wrong, the first run pauses the derivative, or the first batch of the source is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from odf_protocol.chain.state import ChainState, Vocab
from odf_protocol.codec.manifests import to_data
from odf_protocol.column_names import same_but_case
from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.events import (
    AddPushSource,
    MetadataEvent,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SetVocab,
)
from odf_protocol.source_rules import declared_columns
from odf_storage.datasets.dataset.dataset import Datasets
from odf_storage.datasets.job_payloads import transform_job
from odf_storage.datasets.job_payloads.transform_job import (
    CheckPayload,
    CheckReceipt,
    CheckSourcePayload,
)
from odf_storage.stores.ports import JobSubmissions
from odf_storage.stores.ports.values import Failed, JobSpec, Succeeded

from ..derivatives.follow import is_passing
from ..errors import status_of_failed
from ..jobs.job_watch import JobWatch

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

    datasets: Datasets
    jobs: JobSubmissions
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


def name_warnings(events: Sequence[MetadataEvent], vocab: Vocab) -> list[str]:
    """Return warnings of columns that the events declare, and whose names differ in case only."""
    said: dict[str, None] = {}
    for event in events:
        names: Sequence[str] = ()
        if isinstance(event, SetDataSchema) and event.schema is not None:
            names = [field.name for field in event.schema.fields]
        elif isinstance(event, SetPollingSource | AddPushSource) and event.preprocess is None:
            declared = declared_columns(event.read)
            names = () if declared is None else declared.names
        if names:
            said |= dict.fromkeys(same_but_case(dict.fromkeys([*vocab.columns, *names])))
    return list(said)


def check_job(
    datasets: Datasets,
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
