"""Refuse unknown parameters and unexpected bodies: with a misspelt `dryrun` that is ignored, a
request would commit.

`Idempotency-Key`: the name that a client gives a request, so that it can safely repeat it.

Every repeat gets the response of the first request, until the key expires. A key is valid for one
account and one dataset. Source: the IETF draft of the header, which requires quotes around the
key; the node also accepts keys without quotes.

The header `odf-event-time`: the event time of posted or polled rows that carry none.

Hashes in the addresses of requests: of a block, or of an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import QueryParams
from starlette.types import Scope

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant, MalformedInstant
from odf_protocol.multihash import SHA3_256, MalformedHash, MalformedMultibase, Multihash
from odf_storage.stores.ports.values import AccountId, DatasetEntry, RequestKey

MAX_PAGE = 1000
"""Most datasets in one page of a listing."""

_SHOWN = 50
M = TypeVar("M", bound=BaseModel)


def invalid_request(where: Sequence[str | int], message: str) -> BadInput:
    """A parameter does not have the required form. Facts: `parameter`."""
    parameter = ".".join(map(str, where))
    return BadInput("InvalidRequest", f"{parameter}: {message}", parameter=parameter)


def unknown_parameter(parameter: str, known: frozenset[str]) -> BadInput:
    """A query parameter that the route does not declare. Facts: `parameter`, `known`."""
    names = ", ".join(sorted(known)) or "none"
    return BadInput(
        "UnknownParameter",
        f"unknown query parameter {parameter[:_SHOWN]!r}; known here: {names}",
        parameter=parameter[:_SHOWN],
        known=sorted(known),
    )


def unexpected_body(known: Iterable[str]) -> BadInput:
    """A request has a body, but the route reads query parameters only. Facts: `known`."""
    names = sorted(known)
    return BadInput(
        "UnexpectedBody",
        "a body means nothing here; what can be asked for are the query parameters "
        + ", ".join(names),
        known=names,
    )


async def known_parameters(request: Request) -> None:
    """Raise `UnknownParameter` if the query has a parameter that the route does not declare."""
    if not request.scope["query_string"]:
        return
    refuse_unknown(request.query_params, frozenset(_names(request.scope["route"].dependant)))


def refuse_unknown(asked: Iterable[str], known: frozenset[str] = frozenset()) -> None:
    """Raise `UnknownParameter` if a parameter is not among the known ones."""
    for name in asked:
        if name not in known:
            raise unknown_parameter(name, known)


def query_of(model: type[M], scope: Scope) -> M:
    """Parse the query, for routes outside the framework. Of a repeated parameter, the last value
    counts.

    Raises:
        UnknownParameter, InvalidRequest.
    """
    asked = dict(QueryParams(scope["query_string"])) if scope["query_string"] else {}
    fields = model.model_fields.items()
    refuse_unknown(asked, frozenset(field.alias or name for name, field in fields))
    try:
        return model.model_validate(asked)
    except ValidationError as error:
        first = error.errors()[0]
        raise invalid_request(("query", *first["loc"]), first["msg"]) from None


async def no_body(request: Request) -> None:
    """Raise `UnexpectedBody` if the request has a body."""
    headers = request.headers
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        raise unexpected_body(_names(request.scope["route"].dependant))


def _names(dependant: Any) -> Iterator[str]:
    """Yield the query parameters of a handler and of its dependencies."""
    yield from (field.alias for field in dependant.query_params)
    for needed in dependant.dependencies:
        yield from _names(needed)


KNOWN_PARAMETERS = (Depends(known_parameters),)
"""Dependencies for routers of the node's own API. Other routes ignore unknown parameters, because
peers may send additional ones."""
NO_BODY = (Depends(no_body),)
"""Dependencies for routes that change something and read no body."""


MAX_CHARS = 255
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


def parse_key(header: str | None) -> str | None:
    """Return the key in the header, None without a header. Raises `MalformedRequestKey`."""
    if header is None:
        return None
    text = header.strip()
    if quoted := _QUOTED.fullmatch(text):
        text = re.sub(r"\\(.)", r"\1", quoted[1])
    if len(text) > MAX_CHARS or not _KEY.fullmatch(text):
        raise BadInput(
            "MalformedRequestKey",
            f"an Idempotency-Key has 1 to {MAX_CHARS} printable ASCII characters",
        )
    return text


def request_key(
    entry: DatasetEntry, account: AccountId, key: str, asked: dict[str, Any], *, until: Instant
) -> RequestKey:
    """Return the key with the hash of the request it names. `asked` describes the request, body
    included; the key expires at `until`."""
    content = json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()
    return RequestKey(entry.id, account, key, Multihash.of(content), until)


def parsed_event_time(given: str | None) -> str | None:
    """Return the `odf-event-time` header in canonical form. Raises `InvalidEventTime`."""
    if given is None:
        return None
    try:
        return str(Instant.parse(given.strip()))
    except MalformedInstant as broken:
        raise BadInput("InvalidEventTime", f"odf-event-time: {broken.message}") from None


def parse_hash(text: str) -> Multihash:
    """Parse a SHA3-256 multihash. Raises `UnreadableHash`."""
    try:
        parsed = Multihash.parse(text)
    except (MalformedHash, MalformedMultibase) as broken:
        raise BadInput("UnreadableHash", f"Invalid hash: {broken.message}") from None
    if parsed.code != SHA3_256 or len(parsed.digest) != 32:
        raise BadInput("UnreadableHash", "Invalid hash: objects are named by their SHA3-256")
    return parsed
