"""Trials of manifests on a sample, which create nothing: the rules are checked here, and a worker
reads rows and runs SQL."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from starlette.concurrency import run_in_threadpool

from odf_protocol.codec.manifests import load_snapshots, to_data
from odf_protocol.errors import BadInput, LimitExceeded, Unavailable
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.metadata.block import DatasetSnapshot
from odf_protocol.metadata.events import DatasetKind
from odf_storage.datasets.job_payloads import trial_job
from odf_storage.datasets.job_payloads.trial_job import TrialDataset, TrialPayload
from odf_storage.stores.ports import JobSubmissions
from odf_storage.stores.ports.values import AccountId, Failed, JobSpec, Succeeded, Visibility

from ...client.manifest_order import in_order
from ..auth.access import Unauthenticated
from ..auth.actors import Actor
from ..http.media_types import media_type_of
from ..jobs.job_watch import JobWatch
from ..limits.pressure import Pressure
from .datasets import Authoring, Prepared, Resolve, prepare_snapshot, visible_inputs
from .definition import TransformRefused

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


class SampleTooLarge(LimitExceeded):
    """A sample has too many bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"a sample has at most {limit} bytes: send the first rows of the file",
            limit=limit,
        )


class TooManyTried(LimitExceeded):
    """The request has more manifests than a trial accepts."""


class SampleForNone(BadInput):
    """The sample cannot be assigned to one root: no root among the manifests fits, or several do.
    Or its content is not Base64."""


class TrialNotRun(Unavailable):
    """No worker finished the trial in time, or it was cancelled."""


class Sample(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
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
    sample: Sample | None = None


@dataclass(frozen=True)
class Trials:
    """The dependencies and limits of trials. `patience_s` is how long to wait for a worker, in
    seconds."""

    authoring: Authoring
    pressure: Pressure
    jobs: JobSubmissions
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
        raise TrialNotRun("no worker had time for the trial; try again later")
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
    raise TrialNotRun("the trial was cancelled")


def _prepared(
    trials: Trials, actor: Actor, asked: TrialAsked
) -> tuple[Sequence[Prepared], JobSpec]:
    """Check the rules; return all datasets, and the job that tries them."""
    if actor.account is None:
        raise Unauthenticated
    account = AccountId(actor.account.id)
    trials.pressure.admit(None, account)
    body = _content(trials, asked.sample)
    snapshots = load_snapshots(asked.manifests)
    if len(snapshots) > trials.manifests:
        raise TooManyTried(
            f"one trial takes {trials.manifests} manifests",
            limit=trials.manifests,
        )
    made: list[Prepared] = []
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


def _among(made: Sequence[Prepared], trials: Trials, actor: Actor) -> Resolve:
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


def _root(snapshots: Sequence[DatasetSnapshot], sample: Sample) -> DatasetAlias:
    """Return the name of the root that the sample is for. Raises `SampleForNone`."""
    roots = [one.name for one in snapshots if one.kind is DatasetKind.Root]
    names = [str(one) for one in roots]
    if sample.dataset is not None:
        wanted = DatasetAlias.parse(sample.dataset).folded
        roots = [one for one in roots if one.folded == wanted]
    if len(roots) != 1:
        raise SampleForNone(
            "the sample has to be for one of the roots among the manifests: name it",
            roots=names,
        )
    return roots[0]


def _content(trials: Trials, sample: Sample | None) -> bytes | None:
    """Decode the bytes of a sample. Raises `SampleTooLarge`, `SampleForNone`."""
    if sample is None:
        return None
    try:
        content = base64.b64decode(sample.content, validate=True)
    except (binascii.Error, ValueError):
        raise SampleForNone("the content of a sample is bytes in Base64") from None
    if len(content) > trials.sample_bytes:
        raise SampleTooLarge(trials.sample_bytes)
    return content
