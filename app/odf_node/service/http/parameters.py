"""Refuse unknown parameters and unexpected bodies: with a misspelt `dryrun` that is ignored, a
request would commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import QueryParams
from starlette.types import Scope

from odf_protocol.errors import BadInput

MAX_PAGE = 1000
"""Most datasets in one page of a listing."""

_SHOWN = 50
M = TypeVar("M", bound=BaseModel)


class InvalidRequest(BadInput):
    """A parameter does not have the required form. Facts: `parameter`."""

    def __init__(self, where: Sequence[str | int], message: str) -> None:
        parameter = ".".join(map(str, where))
        super().__init__(f"{parameter}: {message}", parameter=parameter)


class UnknownParameter(BadInput):
    """A query parameter that the route does not declare. Facts: `parameter`, `known`."""

    def __init__(self, parameter: str, known: frozenset[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"unknown query parameter {parameter[:_SHOWN]!r}; known here: {names}",
            parameter=parameter[:_SHOWN],
            known=sorted(known),
        )


class UnexpectedBody(BadInput):
    """A request has a body, but the route reads query parameters only. Facts: `known`."""

    def __init__(self, known: Iterable[str]) -> None:
        names = sorted(known)
        super().__init__(
            "a body means nothing here; what can be asked for are the query parameters "
            + ", ".join(names),
            known=names,
        )


async def known_parameters(request: Request) -> None:
    """Raise `UnknownParameter` if the query has a parameter that the route does not declare."""
    if not request.scope["query_string"]:
        return
    known = frozenset(_names(request.scope["route"].dependant))
    for name in request.query_params:
        if name not in known:
            raise UnknownParameter(name, known)


def query_of(model: type[M], scope: Scope) -> M:
    """Parse the query, for routes outside the framework. Of a repeated parameter, the last value
    counts.

    Raises:
        UnknownParameter, InvalidRequest.
    """
    asked = dict(QueryParams(scope["query_string"])) if scope["query_string"] else {}
    known = frozenset(field.alias or name for name, field in model.model_fields.items())
    for name in asked:
        if name not in known:
            raise UnknownParameter(name, known)
    try:
        return model.model_validate(asked)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidRequest(("query", *first["loc"]), first["msg"]) from None


async def no_body(request: Request) -> None:
    """Raise `UnexpectedBody` if the request has a body."""
    headers = request.headers
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        raise UnexpectedBody(_names(request.scope["route"].dependant))


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
