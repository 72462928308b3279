"""What went wrong → the status of a Flight call.

The status follows the one table of HTTP statuses. The library has no status for bad input that
does not show a traceback to the client, so that is UNKNOWN, and its text begins with the name of
the error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any, TypeVar

import pyarrow.flight as fl

from odf_node.protocol.errors import NodeError

from ..errors import INTERNAL_MESSAGE, problem_of, status_of
from ..query.engine import QueryTakesTooLong

T = TypeVar("T")
_BY_STATUS: dict[HTTPStatus, type[fl.FlightError]] = {
    HTTPStatus.UNAUTHORIZED: fl.FlightUnauthenticatedError,
    HTTPStatus.FORBIDDEN: fl.FlightUnauthorizedError,
    HTTPStatus.TOO_MANY_REQUESTS: fl.FlightUnavailableError,
    HTTPStatus.SERVICE_UNAVAILABLE: fl.FlightUnavailableError,
    HTTPStatus.INTERNAL_SERVER_ERROR: fl.FlightInternalError,
}
_log = logging.getLogger("odf.node")


def flight_error(error: NodeError) -> fl.FlightError:
    """The error of a call, with the sentence of the node."""
    name, status = type(error).__name__, status_of(error)
    kind = _BY_STATUS.get(status, fl.FlightServerError)
    if isinstance(error, QueryTakesTooLong):
        kind = fl.FlightTimedOutError
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("a Flight call failed: %s: %s", name, error.message)
    return kind(f"{name}: {problem_of(error)['detail']}")


def told(method: Callable[..., T]) -> Callable[..., T]:
    """A method of the server that raises errors of Flight, whatever is raised in it.

    Others would reach the client with a traceback.
    """

    @wraps(method)
    def guarded(*given: Any) -> T:
        try:
            return method(*given)
        except fl.FlightError:
            raise
        except NodeError as error:
            raise flight_error(error) from None
        except Exception:
            _log.exception("a Flight call crashed")
            raise fl.FlightInternalError(INTERNAL_MESSAGE) from None

    return guarded
