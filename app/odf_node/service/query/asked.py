"""Requests to `/query`: parse a body or URL parameters, check them, and add defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from odf_protocol.errors import BadInput, LimitExceeded
from odf_protocol.identity import DatasetRef, MalformedDid, MalformedName
from odf_protocol.multihash import MalformedMultibase
from odf_protocol.typed import convert
from odf_storage.datasets.job_payloads import query_job
from odf_storage.datasets.query.messages import Form, View

from ..datasets.schema_formats import SchemaFormat, UnknownFormat, parse_format
from ..http.bodies import MalformedBody
from .inputs import DatasetPin

DIALECT = "SqlDataFusion"
DEFAULT_LIMIT = 100
IN_JSON = frozenset({Form.AOS, Form.SOA, Form.AOA})
"""Forms of rows inside a JSON document; in other forms the rows are the whole body."""


class UnknownField(BadInput):
    """The body has a member that is unknown or has the wrong type."""


class InvalidQueryRequest(BadInput):
    """A member of the request has an invalid value."""


class TooManyRows(LimitExceeded):
    """The request asks for more rows than an answer may have."""


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
class Asked:
    """A checked request with its defaults filled in."""

    query: str
    projection: View
    """What the name of a dataset alone means."""
    form: Form
    include: frozenset[Include]
    schema_form: SchemaFormat
    pins: tuple[DatasetPin, ...]
    skip: int
    limit: int

    @property
    def is_proven(self) -> bool:
        return Include.PROOF in self.include

    def echo(self, pins: Sequence[DatasetPin], projection: View) -> dict[str, Any]:
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
        raise MalformedBody("the body has to be a JSON object")
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
    projection: View = View.FACTS,
    max_rows: int,
) -> Asked:
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
        raise TooManyRows(
            f"an answer has {max_rows} rows at most",
            limit=max_rows,
            setting="ODF_NODE_QUERY_MAX_ROWS",
        )
    pins = tuple(body.datasets or ())
    check_names(pins)
    return Asked(
        query=body.query,
        projection=parsed_projection(body.projection) or projection,
        form=form,
        include=include,
        schema_form=parse_format(body.schema_format or SchemaFormat.ARROW_JSON.value, SchemaFormat),
        pins=pins,
        skip=body.skip,
        limit=limit,
    )


def parsed_projection(name: str | None) -> View | None:
    """Return the projection with this name. Raises `InvalidQueryRequest`."""
    try:
        return None if name is None else View(name.strip().lower())
    except ValueError:
        known = ", ".join(View)
        raise InvalidQueryRequest(f"a projection is one of {known}, not {name!r:.60}") from None


def projection_echo(projection: View) -> dict[str, str]:
    """Return the member of an echo that names the projection; the changelog is not named."""
    return {} if projection is View.CHANGELOG else {"projection": projection.value}


def included(name: str) -> Include:
    """Return the part with this name. Raises `UnknownFormat`."""
    for each in Include:
        if name[:1].upper() + name[1:] == each.value:
            return each
    known = ", ".join(Include)
    raise UnknownFormat(f"what can be included is {known}, not {name[:50]!r}")


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
