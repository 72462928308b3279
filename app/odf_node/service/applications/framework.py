"""The common frame of all applications of a node: FastAPI, error responses, authentication."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from odf_protocol.errors import BadInput, NodeError
from odf_storage.runtime.extras import app_version
from odf_storage.runtime.features import Place, loaded

from ..features import features
from ..http.addresses import Addresses
from ..http.answers import error_answer, not_found_answer
from ..http.deps import base_of
from ..http.dispatch import Authentication, Dispatch, error_answer_for
from ..http.parameters import invalid_request
from ..http.sending import Sharing
from ..observe.middleware import Observed
from ..transfer.routes import TRANSFER_TAGS
from ..wiring import Node


def new_api(node: Node, lifespan: Callable[[FastAPI], Any]) -> FastAPI:
    """Return the FastAPI application with the parts of a node, without routes."""
    api = FastAPI(
        title="ODF Node",
        version=app_version(),
        summary="Repository node for Open Data Fabric",
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    api.state.parts = node.parts
    for kind, handler in _HANDLERS.items():
        api.add_exception_handler(kind, handler)
    return api


def observed(node: Node, addresses: Addresses, api: FastAPI) -> ASGIApp:
    """Return the ASGI application that routes, authenticates, counts and logs all requests."""
    asking = Authentication(
        node.callers, node.s3_callers, allow_anonymous=node.settings.allow_anonymous
    )
    served = Dispatch(addresses, api, asking, node.settings)
    return Observed(
        served,
        api,
        node.counters,
        node.audit_writer,
        node.clock,
        logs_all=node.settings.access_log,
        sharing=Sharing(
            is_closed=not node.settings.allow_anonymous,
            grants_origins=not node.access.everything_is_read,
            compresses_from=node.settings.compress_from_bytes,
        ),
    )


async def _node_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, NodeError):
        raise error
    tags = getattr(request.scope.get("route"), "tags", ())
    return error_answer_for(request.scope, error, explained=TRANSFER_TAGS.isdisjoint(tags))


async def _invalid(request: Request, error: Exception) -> Response:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    first = problems[0] if problems else {"loc": ("request",), "msg": str(error)}
    return error_answer_for(request.scope, invalid_request(first["loc"], str(first["msg"])))


async def _no_route(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    path = request.url.path
    match error.status_code:
        case 404 | 405 if missing := _missing_in(path):
            return error_answer_for(request.scope, loaded(missing)(request.method, path))
        case 404 if path.endswith("/") and path.strip("/") and request.method == "GET":
            return _without_slash(request)
        case 404:
            return not_found_answer()
        case 405:
            answer = error_answer(
                BadInput(
                    "MethodNotServed",
                    f"{path} takes no {request.method}; /docs lists what it takes",
                    method=request.method,
                )
            )
        case status:
            answer = PlainTextResponse(str(error.detail), status)
    answer.headers.update(error.headers or {})
    return answer


def _missing_in(path: str) -> Place | None:
    """Return what makes the error for an address that a feature does not serve in its folder."""
    folders = (feature.missing for feature in features() if feature.missing is not None)
    return next((place for folder, place in folders if path.startswith(folder)), None)


def _without_slash(request: Request) -> Response:
    """Return the redirect to the address without its last slash, at the node's public URL. The
    framework's own redirect names the host of the request, which may be one behind a proxy."""
    query = f"?{request.url.query}" if request.url.query else ""
    path = quote(request.url.path.strip("/"), safe="/%")
    return RedirectResponse(f"{base_of(request)}{path}{query}")


_HANDLERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    NodeError: _node_error,
    RequestValidationError: _invalid,
    HTTPException: _no_route,
}
