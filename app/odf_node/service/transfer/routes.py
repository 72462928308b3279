"""Addresses of the two transfer protocols, declared for the framework and its API documentation.

The node serves object paths and WebSocket upgrades in front of the framework. The handlers here
only refuse clients that request a smart transfer by plain HTTP.
"""

from __future__ import annotations

from enum import Enum

from fastapi import APIRouter, Request
from starlette.responses import Response

from odf_protocol.errors import BadInput

from ..auth.access import Action
from ..http.deps import AccessDep, ActorDep, ReadableDep


def upgrade_required() -> BadInput:
    """A request to a smart transfer address has no WebSocket upgrade."""
    return BadInput(
        "UpgradeRequired", "smart transfer speaks WebSocket: ask with an Upgrade header"
    )


SIMPLE, SMART = "simple transfer", "smart transfer"
TRANSFER_TAGS = frozenset({SIMPLE, SMART})
UPLOADING = {"PUT": "Upload it", "PATCH": "Go on with its upload"}


async def in_front() -> Response:
    """Never called: `Objects` has already responded."""
    raise NotImplementedError


def pull(entry: ReadableDep) -> Response:  # noqa: ARG001
    raise upgrade_required()


def push(request: Request, access: AccessDep, actor: ActorDep) -> Response:
    path = request.path_params
    access.find(actor, path.get("account"), path["dataset"], Action.WRITE, creates=True)
    raise upgrade_required()


def add_transfer_routes(routes: APIRouter, prefix: str) -> None:
    """Declare the transfer addresses below the dataset addresses."""
    simple: list[str | Enum] = [SIMPLE]
    for folder, what, methods in (
        ("refs", "Where a reference points: text, no newline", ("GET", "HEAD")),
        ("blocks", "Bytes of a metadata block", ("GET", "HEAD")),
        ("data", "Bytes of a data slice", ("GET", "HEAD", "PUT", "PATCH")),
        ("checkpoints", "Bytes of a checkpoint", ("GET", "HEAD", "PUT", "PATCH")),
    ):
        path = f"{prefix}/{folder}/{{{'ref' if folder == 'refs' else 'hash'}}}"
        for method in methods:
            routes.add_api_route(
                path,
                in_front,
                methods=[method],
                summary=UPLOADING.get(method, what),
                operation_id=f"{method.lower()}_{folder}",
                tags=simple,
            )
    smart: list[str | Enum] = [SMART]
    routes.get(prefix + "/pull", summary="Smart pull (WebSocket)", tags=smart)(pull)
    routes.get(prefix + "/push", summary="Smart push (WebSocket)", tags=smart)(push)
