"""Queries as jobs on Spark: submit them with their pins; only their owner may read the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from anyio import from_thread

from odf_protocol.errors import BadInput, Conflict, NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.job_payloads import query_job
from odf_storage.datasets.job_payloads.query_job import (
    QueriedDataset,
    QueryPayload,
    QueryReceipt,
)
from odf_storage.datasets.query.messages import Form, View
from odf_storage.datasets.query.results import QueryResults
from odf_storage.runtime.clock import Clock
from odf_storage.stores.ports import JobSubmissions
from odf_storage.stores.ports.errors import KeyNotFound
from odf_storage.stores.ports.values import Job, JobId, Succeeded

from ..auth.access import Unauthenticated, refuse_bad_token
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..datasets.schema_formats import parse_format
from ..limits.pressure import Pressure
from ..read.current import Current
from .asked import (
    DIALECT,
    IN_JSON,
    Include,
    QueryBody,
    check_names,
    check_part,
    included,
    parsed_projection,
)
from .inputs import DatasetPin, Inputs, PinnedDatasetNotFound, Source


class NotInBackground(BadInput):
    """The request asks for something that a query as a job does not support."""


class NoQueryResult(NotFound):
    """The job is no query."""


class QueryResultGone(NotFound):
    """The rows of the job have expired."""

    def __init__(self, job: JobId) -> None:
        super().__init__(
            f"the rows of job {job} are kept no more; ask again, with the datasets of its input",
            setting="ODF_NODE_QUERY_RESULT_KEEP_S",
        )


class QueryNotEnded(Conflict):
    """The job has no rows: it is unfinished, or it failed or was cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundQuery:
    """A checked request with its defaults filled in."""

    query: str
    projection: View
    form: Form
    pins: tuple[DatasetPin, ...]
    skip: int
    limit: int | None
    """None: all rows."""


def runs_in_background(body: QueryBody, prefer: str) -> bool:
    """Return whether the query is to run on Spark, as a job.

    Raises:
        NotInBackground: the caller prefers a job, but the query is in another dialect.
    """
    if body.query_dialect.lower() == query_job.DIALECT.lower():
        return True
    if "respond-async" in prefer.lower():
        raise NotInBackground(
            f"queries run in the background on Spark, whose SQL gives other results here and there "
            f"than {DIALECT}: send the queryDialect {query_job.DIALECT}, or leave out "
            "`Prefer: respond-async`"
        )
    return False


def checked_for_background(body: QueryBody, *, form: Form) -> BackgroundQuery:
    """Check a request for a job. `form` is the form without a data format.

    Every receipt includes schema and input.

    Raises:
        NotInBackground, InvalidQueryRequest, UnknownFormat.
    """
    if Include.PROOF in {included(name) for name in body.include}:
        raise NotInBackground(
            "a query on Spark has no proof: Spark adds and orders rows by how they are spread over "
            "tasks, so another node could not tell a false answer from another order; ask "
            f"in the dialect {DIALECT}"
        )
    if body.schema_format is not None:
        raise NotInBackground("the receipt of a job has the schema as OdfJson; no schemaFormat")
    form = form if body.data_format is None else parse_format(body.data_format, Form)
    if form in IN_JSON:
        known = ", ".join(each for each in Form if each not in IN_JSON)
        raise NotInBackground(f"the rows of a job are a file of their own: {known}, not {form}")
    check_part(body.skip, body.limit or 0)
    pins = tuple(body.datasets or ())
    check_names(pins)
    return BackgroundQuery(
        query=body.query,
        projection=parsed_projection(body.projection) or View.FACTS,
        form=form,
        pins=pins,
        skip=body.skip,
        limit=body.limit,
    )


@dataclass(frozen=True)
class BackgroundQueries:
    """Submits queries as jobs, and reads and removes their results."""

    jobs: JobSubmissions
    inputs: Inputs
    current: Current
    access: DatasetAccess
    pressure: Pressure
    results: QueryResults
    keep_s: int
    clock: Clock

    def submit(self, actor: Actor, caller: str, asked: BackgroundQuery) -> JobId:
        """Queue the query; datasets that are not pinned are read as of their current head. Call
        this in a thread of the event loop.

        Raises:
            TokenInvalid, TokenExpired. Unauthenticated: an anonymous caller could not read the
            rows.
            TextTooLong. PinnedDatasetNotFound, PinnedBlockNotFound, TooManyTables.
            QueueFull, NodeBusy.
        """
        refuse_bad_token(actor)
        if actor.account is None:
            raise Unauthenticated
        named = [
            QueriedDataset(
                alias=source.alias,
                id=str(source.id),
                block_hash=str(source.outline.head),
                views=tuple(sorted(source.views)),
                plain=self._plain(asked, source, caller).value,
            )
            for source in self.inputs.sources(actor, asked.query, asked.pins)
        ]
        account = actor.account.id
        self.pressure.admit(None, account)
        payload = QueryPayload(
            query=asked.query,
            datasets=tuple(named),
            skip=asked.skip,
            limit=asked.limit,
            form=asked.form.value,
            owner=account,
        )
        return self.jobs.submit(query_job.spec_of(payload, account))

    def _plain(self, asked: BackgroundQuery, source: Source, caller: str) -> View:
        """Return what the name of the dataset means; the changelog if that has the same rows."""
        if asked.projection is not View.FACTS:
            return asked.projection
        changed = from_thread.run(self.current.takes_back, source.id, source.outline, caller)
        return View.FACTS if changed else View.CHANGELOG

    def rows(self, actor: Actor, job: Job) -> tuple[QueryReceipt, BinaryIO]:
        """Return the receipt and the rows of a job of the actor.

        Raises:
            NoQueryResult, QueryNotEnded, QueryResultGone.
            PinnedDatasetNotFound: the actor may no longer read an input.
        """
        if job.spec.kind != query_job.KIND:
            raise NoQueryResult(f"job {job.id} is no query")
        if not isinstance(job.outcome, Succeeded) or job.finished_at is None:
            raise QueryNotEnded(f"job {job.id} has no rows: it is {job.status}")
        receipt = query_job.receipt_of(job.outcome.result)
        for pin in receipt.input["datasets"]:
            if self.access.visible(actor, DatasetId.parse(pin["id"])) is None:
                raise PinnedDatasetNotFound(pin["id"])
        if job.finished_at.ns + self.keep_s * NANOS < self.clock().ns:
            raise QueryResultGone(job.id)
        try:
            return receipt, self.results.open(str(job.spec.account), str(job.id))
        except KeyNotFound:
            raise QueryResultGone(job.id) from None

    def collect(self) -> int:
        """Remove expired rows. Return the number of removed results."""
        return self.results.collect(before=Instant(self.clock().ns - self.keep_s * NANOS))
