"""Errors as statuses of Flight calls, derived from the table of HTTP statuses."""

from __future__ import annotations

import logging
from http import HTTPStatus

import grpc

from odf_protocol.errors import NodeError

from ..errors import INTERNAL_MESSAGE, problem_of, status_of
from ..query.engine import QueryTakesTooLong

_BY_STATUS: dict[HTTPStatus, grpc.StatusCode] = {
    HTTPStatus.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.UNPROCESSABLE_ENTITY: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    HTTPStatus.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.TOO_MANY_REQUESTS: grpc.StatusCode.UNAVAILABLE,
    HTTPStatus.SERVICE_UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    HTTPStatus.NOT_IMPLEMENTED: grpc.StatusCode.UNIMPLEMENTED,
}
_log = logging.getLogger("odf.node")


def told(error: Exception) -> tuple[HTTPStatus, grpc.StatusCode, str]:
    """Return the HTTP status of an error, the gRPC status, and the same message as over HTTP."""
    if not isinstance(error, NodeError):
        _log.error("a Flight call crashed", exc_info=error)
        return HTTPStatus.INTERNAL_SERVER_ERROR, grpc.StatusCode.INTERNAL, INTERNAL_MESSAGE
    status = status_of(error)
    code = _BY_STATUS.get(status, grpc.StatusCode.INTERNAL)
    if isinstance(error, QueryTakesTooLong):
        code = grpc.StatusCode.DEADLINE_EXCEEDED
    if code is grpc.StatusCode.INTERNAL:
        _log.error("a Flight call failed: %s: %s", type(error).__name__, error.message)
    return status, code, str(problem_of(error)["detail"])
