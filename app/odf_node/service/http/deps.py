"""Dependencies of handlers: parts of the node, the actor, the authorized dataset of the address.

Dependencies that never block are coroutines, because FastAPI runs them without a thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.access import Action
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..limits.shares import Outgoing
from ..settings import Settings

T = TypeVar("T")


def part_of(request: HTTPConnection, kind: type[T]) -> T:
    """Return the part of the node of this class, as `wiring` created it."""
    part: T = request.app.state.parts[kind]
    return part


def wired(kind: type[T]) -> Callable[[Request], Awaitable[T]]:
    """Return a FastAPI dependency on the part of the node of this class."""

    async def given(request: Request) -> T:
        return part_of(request, kind)

    return given


async def asking(request: Request) -> Actor:
    return actor_of(request)


def actor_of(request: Request) -> Actor:
    actor: Actor = request.scope["state"]["actor"]
    return actor


def _resolve(request: Request, action: Action) -> DatasetEntry:
    path = request.path_params
    access = part_of(request, DatasetAccess)
    return access.resolve(actor_of(request), path.get("account"), path["dataset"], action)


def readable_of(request: Request) -> DatasetEntry:
    """Return the dataset of the address. The actor must be allowed to read it."""
    return _resolve(request, Action.READ)


def writable_of(request: Request) -> DatasetEntry:
    """Return the dataset of the address. The actor must be allowed to write to it."""
    return _resolve(request, Action.WRITE)


def open_of(request: Request) -> DatasetEntry:
    """Return the dataset of the address. The actor must be allowed to write to it, and it must
    not be a mirror."""
    path, access = request.path_params, part_of(request, DatasetAccess)
    return access.resolve_open(actor_of(request), path.get("account"), path["dataset"])


def maintained_of(request: Request) -> DatasetEntry:
    """Return the dataset of the address. The actor must be allowed to change its access."""
    return _resolve(request, Action.MAINTAIN)


async def public_base(request: Request) -> str:
    return base_of(request)


def base_of(request: Request) -> str:
    """Return the URL at which clients reach this node, with a slash at the end.

    It is the setting `public_url`, else the base URL of the request.
    """
    return base_at(part_of(request, Settings), request)


def base_at(settings: Settings, connection: HTTPConnection) -> str:
    """As `base_of`, for code that runs outside the framework."""
    return settings.public_url or str(connection.base_url)


StoresDep = Annotated[Stores, Depends(wired(Stores))]
OutgoingDep = Annotated[Outgoing, Depends(wired(Outgoing))]
SettingsDep = Annotated[Settings, Depends(wired(Settings))]
AccessDep = Annotated[DatasetAccess, Depends(wired(DatasetAccess))]
ActorDep = Annotated[Actor, Depends(asking)]
ReadableDep = Annotated[DatasetEntry, Depends(readable_of)]
OpenDep = Annotated[DatasetEntry, Depends(open_of)]
WritableDep = Annotated[DatasetEntry, Depends(writable_of)]
MaintainedDep = Annotated[DatasetEntry, Depends(maintained_of)]
BaseDep = Annotated[str, Depends(public_base)]
