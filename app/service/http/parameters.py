"""What nobody reads is refused: a misspelt `dryrun`, or one in a body, would have committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import Depends, Request

from odf_node.protocol.errors import BadInput

_SHOWN = 50


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
