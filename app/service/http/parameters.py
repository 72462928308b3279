"""What nobody reads is refused: a misspelt `dryrun`, or one in a body, would have committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import QueryParams
from starlette.types import Scope

from odf_node.protocol.errors import BadInput

_SHOWN = 50
M = TypeVar("M", bound=BaseModel)


class InvalidRequest(BadInput):
    """A parameter that does not have the form it must have. Facts: `parameter`."""

    def __init__(self, where: Sequence[str | int], message: str) -> None:
        parameter = ".".join(map(str, where))
        super().__init__(f"{parameter}: {message}", parameter=parameter)


class UnknownParameter(BadInput):
    """A query parameter that means nothing here. Facts: `parameter`, `known`."""

    def __init__(self, parameter: str, known: frozenset[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"unknown query parameter {parameter[:_SHOWN]!r}; known here: {names}",
            parameter=parameter[:_SHOWN],
            known=sorted(known),
        )


class UnexpectedBody(BadInput):
    """A body where only query parameters are read. Facts: `known`."""

    def __init__(self, known: Iterable[str]) -> None:
        names = sorted(known)
        super().__init__(
            "a body means nothing here; what can be asked for are the query parameters "
            + ", ".join(names),
            known=names,
        )


async def known_parameters(request: Request) -> None:
    """Raises `UnknownParameter` unless the route declares all that is asked."""
    if not request.scope["query_string"]:
        return
    known = frozenset(_names(request.scope["route"].dependant))
    for name in request.query_params:
        if name not in known:
            raise UnknownParameter(name, known)


def query_of(model: type[M], scope: Scope) -> M:
    """The query, where the framework does not read it; of a parameter given twice, the last.

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
    """Raises `UnexpectedBody` if there is one."""
    headers = request.headers
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        raise UnexpectedBody(_names(request.scope["route"].dependant))


def _names(dependant: Any) -> Iterator[str]:
    """Of a handler and of what it depends on."""
    yield from (field.alias for field in dependant.query_params)
    for needed in dependant.dependencies:
        yield from _names(needed)


KNOWN_PARAMETERS = (Depends(known_parameters),)
"""For routers of this node's own API. A peer may send to the others what it likes."""
NO_BODY = (Depends(no_body),)
"""For routes that read none and change something."""
