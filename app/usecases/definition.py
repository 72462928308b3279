"""Transforms are looked at by a worker before they are committed: do they run, what do they give.

A query that is wrong is refused with its reason and, if the engine told it, its position. Where
no worker answers in time, or an input has no schema yet, the transform is taken unseen; should
it be wrong, the derivative is paused by its first run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from protocol.chain.state import ChainState
from protocol.codec.manifests import to_data
from protocol.errors import BadInput
from protocol.identity import DatasetId, DatasetRef
from protocol.metadata.events import MetadataEvent, SetTransform, SetVocab
from storage.contracts import transform_job
from storage.contracts.transform_job import CheckPayload, CheckReceipt
from storage.values import Failed, JobSpec, Succeeded

from ..errors import status_of_name
from ..wiring import Node
from .follow import is_passing

UNSEEN = "no worker looked at the transform in time"


class TransformRefused(BadInput):
    """What a worker found wrong with a transform; carries its answer, to be passed on."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, **{"error": failed.error, **failed.facts})
        self.failed = failed


@dataclass(frozen=True, slots=True)
class Looked:
    """What is known of a transform before it is committed. `receipt` is None if it is unseen."""

    receipt: CheckReceipt | None = None
    reason: str | None = None

    def shown(self) -> dict[str, Any]:
        if self.receipt is None:
            return {"outcome": "unknown", "reason": self.reason}
        return transform_job.to_json(self.receipt)


def transform_among(events: Iterable[MetadataEvent]) -> tuple[SetTransform | None, SetVocab | None]:
    """The transform that will be in force, and the vocabulary."""
    transform: SetTransform | None = None
    vocab: SetVocab | None = None
    for event in events:
        if isinstance(event, SetTransform):
            transform = event
        elif isinstance(event, SetVocab):
            vocab = event
    return transform, vocab


def check_job(
    node: Node, transform: SetTransform, vocab: SetVocab | None, state: ChainState | None = None
) -> JobSpec | None:
    """The job that looks at a transform; None where an input has no schema to look at it by."""
    for one in _ids(transform):
        if node.stores.dataset(DatasetRef(id=one)).state().schema is None:
            return None
    schema = None if state is None else state.data_schema
    if vocab is None and state is not None:
        vocab = state.vocab.event
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


async def look(node: Node, spec: JobSpec | None) -> Looked:
    """Have a worker look at a transform.

    Raises:
        TransformRefused: it is wrong.
    """
    if spec is None:
        return Looked(reason="an input has no schema yet")
    job = await run_in_threadpool(node.stores.jobs.submit, spec)
    ended = await node.watch.ended(job, node.settings.query_check_s)
    if ended is None:
        await run_in_threadpool(node.stores.jobs.cancel, job)
        return Looked(reason=UNSEEN)
    match ended.outcome:
        case Succeeded(result=result):
            return Looked(transform_job.checked_of(result))
        case Failed() as failed:
            if status_of_name(failed.error) < 500 and not is_passing(failed.error):
                raise TransformRefused(failed)
            return Looked(reason=f"no worker could look at the transform: {failed.message}")
    return Looked(reason=UNSEEN)


def _ids(transform: SetTransform) -> Sequence[DatasetId]:
    return [item.dataset_ref.id for item in transform.inputs if item.dataset_ref.id is not None]
