"""Errors as HTTP responses: problem documents, and the bare bodies of the reference node."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from starlette.responses import PlainTextResponse, Response

from odf_protocol.errors import NodeError
from odf_storage.stores.ports.values import Failed

from ..errors import BARE, INTERNAL_MESSAGE, problem, problem_of, status_of, status_of_failed

PROBLEM_JSON = "application/problem+json"
HEADERS_ONLY = "headers only"
"""Key in the state of a HEAD request. Handlers check it to avoid computing an expensive body."""
CLIENT_ERRORS = range(400, 500)
_log = logging.getLogger("odf.node")


class JsonAnswer(Response):
    """A JSON response written by msgspec: keys in the given order, no blanks, UTF-8."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content, enc_hook=str)


class ProblemAnswer(JsonAnswer):
    media_type = PROBLEM_JSON


def error_answer(error: NodeError, *, explained: bool = False) -> Response:
    """Return the response for an error.

    The transfer protocols prescribe an empty body for some errors. With `explained`, for all
    other routes, the response to such an error carries a problem document.
    """
    status = int(status_of(error))
    if status not in CLIENT_ERRORS:
        _log.error("request failed: %s: %s", type(error).__name__, error.message)
    name = type(error).__name__
    if BARE.get(name):
        return PlainTextResponse(error.message, status)
    if name in BARE and not explained:
        return Response(b"", status, _challenge(error))
    return ProblemAnswer(problem_of(error), status, _headers(error))


def failed_answer(failed: Failed) -> Response:
    """Return the response for an error that is the outcome of a job."""
    status = status_of_failed(failed)
    message = failed.message or INTERNAL_MESSAGE
    return ProblemAnswer(problem(failed.error, status, message, failed.facts), status)


def crash_answer() -> Response:
    """Return the response for an unexpected exception. It reveals no details."""
    return JsonAnswer({"error": "Internal Server Error"}, 500)


def not_found_answer() -> Response:
    """Return the response for an unknown address, with the text of the transfer protocols."""
    return PlainTextResponse("Not Found", 404)


def _challenge(error: NodeError) -> dict[str, str]:
    """Return the `WWW-Authenticate` header if the error carries a challenge."""
    challenge = error.facts.get("challenge")
    return {} if challenge is None else {"www-authenticate": str(challenge)}


def _headers(error: NodeError) -> dict[str, str]:
    status = int(status_of(error))
    if status in (429, 503) and "retry_after_s" in error.facts:
        return {"retry-after": str(error.facts["retry_after_s"])}
    if "challenge" in error.facts:
        return _challenge(error)
    if status == 401:
        return {"www-authenticate": "Bearer"}
    return {"upgrade": "websocket", "connection": "upgrade"} if status == 426 else {}
