"""Errors in the forms of other protocols: Delta Sharing, Iceberg, S3.

Each form has a code for programs and a text for people. Sources: Delta Sharing protocol; Iceberg
REST catalog, `ErrorModel`; S3, "Error responses".
"""

from __future__ import annotations

from collections.abc import Callable
from xml.sax.saxutils import escape

from starlette.responses import Response
from starlette.types import Scope

from odf_protocol.errors import NodeError

from ..errors import status_of
from .answers import JsonAnswer, error_answer
from .s3_requests import is_s3

SHARING_CODES = {
    400: "INVALID_PARAMETER_VALUE",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    413: "RESOURCE_EXHAUSTED",
    429: "REQUEST_LIMIT_EXCEEDED",
    503: "TEMPORARILY_UNAVAILABLE",
}
"""Codes by status; any other status has `INTERNAL_ERROR`."""
ICEBERG_TYPES = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    406: "UnsupportedOperationException",
    413: "BadRequestException",
    503: "ServiceUnavailableException",
}
"""Error types by status; any other status has `InternalServerError`."""
ICEBERG_NAMES = ("NoSuchTable", "NoSuchNamespace", "NoSuchWarehouse")
"""Names of errors that Iceberg defines itself: their type is the name with `Exception`."""
S3_CODES = {
    400: "InvalidRequest",
    403: "AccessDenied",
    404: "NoSuchKey",
    429: "SlowDown",
    503: "ServiceUnavailable",
}
"""Codes by status; any other status has `InternalError`."""
S3_NAMES = {
    "MalformedS3Signature": "AuthorizationHeaderMalformed",
    "S3KeysExpired": "ExpiredToken",
    "S3ClockOff": "RequestTimeTooSkewed",
}
KEPT = ("retry-after", "www-authenticate")
"""Headers with the same meaning in every protocol."""


def error_answer_for(scope: Scope, error: NodeError, *, explained: bool = False) -> Response:
    """Return the response for an error, as `error_answer`, in the protocol of the client."""
    plain = error_answer(error, explained=explained)
    told = _form(scope)
    if told is None:
        return plain
    answer = told(int(status_of(error)), type(error).__name__, error.message)
    answer.headers.update({name: plain.headers[name] for name in KEPT if name in plain.headers})
    return answer


def _sharing(status: int, _: str, message: str) -> Response:
    code = SHARING_CODES.get(status, "INTERNAL_ERROR")
    return JsonAnswer({"errorCode": code, "message": message}, status)


def _iceberg(status: int, name: str, message: str) -> Response:
    if name in ICEBERG_NAMES:
        kind = f"{name}Exception"
    else:
        kind = ICEBERG_TYPES.get(status, "InternalServerError")
    return JsonAnswer({"error": {"message": message, "type": kind, "code": status}}, status)


def _s3(status: int, name: str, message: str) -> Response:
    code = S3_NAMES.get(name) or S3_CODES.get(status, "InternalError")
    text = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return Response(f'<?xml version="1.0" encoding="UTF-8"?>\n{text}', status, None, XML)


XML = "application/xml"
_FORMS: dict[str, Callable[[int, str, str], Response]] = {
    "/delta-sharing/": _sharing,
    "/iceberg/": _iceberg,
}
"""Functions that make the response, by the prefix of the path."""


def _form(scope: Scope) -> Callable[[int, str, str], Response] | None:
    if is_s3(scope):
        return _s3
    return next((form for folder, form in _FORMS.items() if scope["path"].startswith(folder)), None)
