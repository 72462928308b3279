"""Queries as jobs on Spark: submit them with their pins; only their owner may read the rows.

Requests to `/query`: parse a body or URL parameters, check them, and add defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO

import msgspec
from anyio import from_thread

from odf_protocol.errors import BadInput, Conflict, LimitExceeded, NotFound
from odf_protocol.identity import DatasetId, DatasetRef, MalformedDid, MalformedName
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import MalformedMultibase
from odf_protocol.typed import convert
from odf_storage.datasets.job_payloads import query_job
from odf_storage.datasets.job_payloads.query_job import QueriedDataset, QueryPayload, QueryReceipt
from odf_storage.datasets.query.messages import Form, TableView
from odf_storage.datasets.query.tables import QueryResults
from odf_storage.runtime.clock import Clock
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.errors import KeyNotFound
from odf_storage.stores.ports.values import Job, JobId, Succeeded

from ..auth.access import Unauthenticated, refuse_bad_token
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..datasets.schema_formats import SchemaFormat, parse_format
from ..limits.pressure import Pressure
from ..read.tail import Current
from .inputs import DatasetPin, PinnedDatasetNotFound, QueryInputs, SliceSource

DIALECT = "SqlDataFusion"
DEFAULT_LIMIT = 100
IN_JSON = frozenset({Form.AOS, Form.SOA, Form.AOA})
"""Forms of rows inside a JSON document; in other forms the rows are the whole body."""


class UnknownField(BadInput):
    """The body has a member that is unknown or has the wrong type."""


class InvalidQueryRequest(BadInput):
    """A member of the request has an invalid value."""


class Include(StrEnum):
    """Parts of an answer beside its rows, in the order in which the answer echoes them."""

    INPUT = "Input"
    PROOF = "Proof"
    SCHEMA = "Schema"


class QueryBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of a request as sent; absent members have their default."""

    query: str
    query_dialect: str = DIALECT
    projection: str | None = None
    data_format: str | None = None
    include: list[str] = []
    schema_format: str | None = None
    datasets: list[DatasetPin] | None = None
    skip: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    """A checked request with its defaults filled in."""

    query: str
    projection: TableView
    """What the name of a dataset alone means."""
    form: Form
    include: frozenset[Include]
    schema_form: SchemaFormat
    pins: tuple[DatasetPin, ...]
    skip: int
    limit: int
    values: bytes | None = None
    """An Arrow stream with the values of its parameters, see `Question`."""

    @property
    def is_proven(self) -> bool:
        return Include.PROOF in self.include

    def echo(self, pins: Sequence[DatasetPin], projection: TableView) -> dict[str, Any]:
        """Return the request with its defaults, the datasets from which the rows come, and their
        projection. Without one they are rows of changelogs, as on the reference node."""
        shown: dict[str, Any] = {
            "query": self.query,
            "queryDialect": DIALECT,
            **projection_echo(projection),
            "dataFormat": self.form.value,
            "include": [each.value for each in Include if each in self.include],
        }
        if Include.SCHEMA in self.include:
            shown["schemaFormat"] = self.schema_form.value
        datasets = [msgspec.to_builtins(pin) for pin in pins]
        return {**shown, "datasets": datasets, "skip": self.skip, "limit": self.limit}


def parse_body(data: Any) -> QueryBody:
    """Parse the body of a POST. Raises `MalformedBody`, `UnknownField`."""
    if not isinstance(data, dict):
        raise BadInput("MalformedBody", "the body has to be a JSON object")
    known = {field.encode_name for field in msgspec.structs.fields(QueryBody)}
    if unknown := data.keys() - known:
        names = ", ".join(sorted(known))
        raise UnknownField(f"unknown field {min(unknown)[:50]!r}; known here: {names}")
    try:
        return convert(data, QueryBody)
    except msgspec.ValidationError as bad:
        raise UnknownField(str(bad)[:200]) from None


def checked(
    body: QueryBody,
    *,
    form: Form = Form.AOS,
    projection: TableView = TableView.FACTS,
    max_rows: int,
) -> QueryRequest:
    """Check a request and add its defaults. `form` is the form without a data format, `projection`
    what the name of a dataset means without one.

    Raises:
        InvalidQueryRequest, UnknownFormat. TooManyRows.
    """
    if body.query_dialect.lower() != DIALECT.lower():
        raise InvalidQueryRequest(
            f"queries are taken in the dialects {DIALECT} and, posted, {query_job.DIALECT}; "
            f"not {body.query_dialect[:50]!r}"
        )
    form = form if body.data_format is None else parse_format(body.data_format, Form)
    include = frozenset(included(name) for name in body.include)
    if body.schema_format is not None:
        include |= {Include.SCHEMA}
    if Include.PROOF in include:
        include |= {Include.INPUT}
    if include and form not in IN_JSON:
        raise InvalidQueryRequest(f"an answer in {form.value} holds rows and nothing else")
    limit = body.limit
    if limit is None:
        limit = DEFAULT_LIMIT if form in IN_JSON else max_rows
    check_part(body.skip, limit)
    if limit > max_rows:
        raise LimitExceeded(
            "TooManyRows",
            f"an answer has {max_rows} rows at most",
            limit=max_rows,
            setting="ODF_NODE_QUERY_MAX_ROWS",
        )
    pins = tuple(body.datasets or ())
    check_names(pins)
    return QueryRequest(
        query=body.query,
        projection=parsed_projection(body.projection) or projection,
        form=form,
        include=include,
        schema_form=parse_format(body.schema_format or SchemaFormat.ARROW_JSON.value, SchemaFormat),
        pins=pins,
        skip=body.skip,
        limit=limit,
    )


def parsed_projection(name: str | None) -> TableView | None:
    """Return the projection with this name. Raises `InvalidQueryRequest`."""
    try:
        return None if name is None else TableView(name.strip().lower())
    except ValueError:
        known = ", ".join(TableView)
        raise InvalidQueryRequest(f"a projection is one of {known}, not {name!r:.60}") from None


def projection_echo(projection: TableView) -> dict[str, str]:
    """Return the member of an echo that names the projection; the changelog is not named."""
    return {} if projection is TableView.CHANGELOG else {"projection": projection.value}


def included(name: str) -> Include:
    """Return the part with this name. Raises `UnknownFormat`."""
    for each in Include:
        if name[:1].upper() + name[1:] == each.value:
            return each
    known = ", ".join(Include)
    raise BadInput("UnknownFormat", f"what can be included is {known}, not {name[:50]!r}")


def check_part(skip: int, limit: int) -> None:
    """Refuse a negative or too large skip or limit. Raises `InvalidQueryRequest`."""
    if not 0 <= skip < 2**53 or not 0 <= limit < 2**53:
        raise InvalidQueryRequest("skip and limit are numbers of rows, none below zero")


def check_names(pins: Sequence[DatasetPin]) -> None:
    """Refuse malformed or repeated aliases, and ids of other datasets as aliases. Raises
    `InvalidQueryRequest`."""
    names = [pin.alias for pin in pins]
    if len(set(names)) < len(names):
        raise InvalidQueryRequest("two datasets have the same alias")
    for pin in pins:
        try:
            named = DatasetRef.parse(pin.alias).id
        except (MalformedName, MalformedDid, MalformedMultibase) as bad:
            raise InvalidQueryRequest(f"datasets: {bad.message}") from None
        if named is not None and pin.id != str(named):
            raise InvalidQueryRequest("datasets: an alias that is an id is that of its dataset")


def query_result_gone(job: JobId) -> NotFound:
    """The rows of the job have expired."""
    return NotFound(
        "QueryResultGone",
        f"the rows of job {job} are kept no more; ask again, with the datasets of its input",
        setting="ODF_NODE_QUERY_RESULT_KEEP_S",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundQuery:
    """A checked request with its defaults filled in."""

    query: str
    projection: TableView
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
        raise BadInput(
            "NotInBackground",
            f"queries run in the background on Spark, whose SQL gives other results here and there "
            f"than {DIALECT}: send the queryDialect {query_job.DIALECT}, or leave out "
            "`Prefer: respond-async`",
        )
    return False


def checked_for_background(body: QueryBody, *, form: Form) -> BackgroundQuery:
    """Check a request for a job. `form` is the form without a data format.

    Every receipt includes schema and input.

    Raises:
        NotInBackground, InvalidQueryRequest, UnknownFormat.
    """
    if Include.PROOF in {included(name) for name in body.include}:
        raise BadInput(
            "NotInBackground",
            "a query on Spark has no proof: Spark adds and orders rows by how they are spread over "
            "tasks, so another node could not tell a false answer from another order; ask "
            f"in the dialect {DIALECT}",
        )
    if body.schema_format is not None:
        raise BadInput(
            "NotInBackground", "the receipt of a job has the schema as OdfJson; no schemaFormat"
        )
    form = form if body.data_format is None else parse_format(body.data_format, Form)
    if form in IN_JSON:
        known = ", ".join(each for each in Form if each not in IN_JSON)
        raise BadInput(
            "NotInBackground", f"the rows of a job are a file of their own: {known}, not {form}"
        )
    check_part(body.skip, body.limit or 0)
    pins = tuple(body.datasets or ())
    check_names(pins)
    return BackgroundQuery(
        query=body.query,
        projection=parsed_projection(body.projection) or TableView.FACTS,
        form=form,
        pins=pins,
        skip=body.skip,
        limit=body.limit,
    )


@dataclass(frozen=True)
class BackgroundQueries:
    """Submits queries as jobs, and reads and removes their results."""

    jobs: JobQueue
    inputs: QueryInputs
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

    def _plain(self, asked: BackgroundQuery, source: SliceSource, caller: str) -> TableView:
        """Return what the name of the dataset means; the changelog if that has the same rows."""
        if asked.projection is not TableView.FACTS:
            return asked.projection
        changed = from_thread.run(self.current.takes_back, source.id, source.outline, caller)
        return TableView.FACTS if changed else TableView.CHANGELOG

    def rows(self, actor: Actor, job: Job) -> tuple[QueryReceipt, BinaryIO]:
        """Return the receipt and the rows of a job of the actor.

        Raises:
            NoQueryResult, QueryNotEnded, QueryResultGone.
            PinnedDatasetNotFound: the actor may no longer read an input.
        """
        if job.spec.kind != query_job.KIND:
            raise NotFound("NoQueryResult", f"job {job.id} is no query")
        if not isinstance(job.outcome, Succeeded) or job.finished_at is None:
            raise Conflict("QueryNotEnded", f"job {job.id} has no rows: it is {job.status}")
        receipt = query_job.receipt_of(job.outcome.result)
        for pin in receipt.input["datasets"]:
            if self.access.visible(actor, DatasetId.parse(pin["id"])) is None:
                raise PinnedDatasetNotFound(pin["id"])
        if job.finished_at.ns + self.keep_s * NANOS < self.clock().ns:
            raise query_result_gone(job.id)
        try:
            return receipt, self.results.open(str(job.spec.account), str(job.id))
        except KeyNotFound:
            raise query_result_gone(job.id) from None

    def collect(self) -> int:
        """Remove expired rows. Return the number of removed results."""
        return self.results.collect(before=Instant(self.clock().ns - self.keep_s * NANOS))
