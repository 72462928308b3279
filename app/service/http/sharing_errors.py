"""Errors as the protocol of Delta Sharing has them: a code for programs, a text for people."""

from __future__ import annotations

from starlette.responses import Response

from odf_node.protocol.errors import NodeError

from ..errors import status_of
from .answers import JsonAnswer, error_answer

FOLDER = "/delta-sharing/"
CODES = {
    400: "INVALID_PARAMETER_VALUE",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    413: "RESOURCE_EXHAUSTED",
    429: "REQUEST_LIMIT_EXCEEDED",
    503: "TEMPORARILY_UNAVAILABLE",
}
"""By status; other ones are `INTERNAL_ERROR`."""


def error_answer_at(path: str, error: NodeError, *, explained: bool = False) -> Response:
    """As `error_answer`, in the form that clients of the address know."""
    plain = error_answer(error, explained=explained)
    if not path.startswith(FOLDER):
        return plain
    status = int(status_of(error))
    kept = {"retry-after", "www-authenticate"}
    headers = {name: value for name, value in plain.headers.items() if name in kept}
    told = {"errorCode": CODES.get(status, "INTERNAL_ERROR"), "message": error.message}
    return JsonAnswer(told, status, headers)
