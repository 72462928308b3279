"""What handlers ask for: the node, the actor, the dataset of the address once authorized.

What waits for nothing is a coroutine: it costs no thread.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from odf_node.storage.stores.ports.values import DatasetEntry

from ..auth.access import Action
from ..auth.actors import Actor
from ..auth.mirror_rule import refuse_mirror
from ..wiring import Node


async def at_node(request: Request) -> Node:
    return node_of(request)


def node_of(request: Request) -> Node:
    node: Node = request.app.state.node
    return node


async def asking(request: Request) -> Actor:
    return actor_of(request)


def actor_of(request: Request) -> Actor:
    actor: Actor = request.scope["state"]["actor"]
    return actor


def _resolve(request: Request, action: Action) -> DatasetEntry:
    path = request.path_params
    return node_of(request).resolve(actor_of(request), path.get("account"), path["dataset"], action)


def readable_of(request: Request) -> DatasetEntry:
    """The dataset of the address, which the actor may read."""
    return _resolve(request, Action.READ)


def writable_of(request: Request) -> DatasetEntry:
    """The dataset of the address, which the actor may write to."""
    return _resolve(request, Action.WRITE)


def open_of(request: Request) -> DatasetEntry:
    """The dataset of the address, which the actor may write to, and which follows no other."""
    path = request.path_params
    return open_dataset(node_of(request), actor_of(request), path.get("account"), path["dataset"])


def open_dataset(node: Node, actor: Actor, account: str | None, name: str) -> DatasetEntry:
    """As `open_of`, by what the address says."""
    with node.stores.reading() as reader:
        entry = node.resolve(actor, account, name, Action.WRITE, registry=reader.registry)
        refuse_mirror(reader.mirrors, entry)
    return entry


def maintained_of(request: Request) -> DatasetEntry:
    """The dataset of the address, whose access the actor may change."""
    return _resolve(request, Action.MAINTAIN)


async def public_base(request: Request) -> str:
    return base_of(request)


def base_of(request: Request) -> str:
    """Where clients reach this node, with a slash at the end: the setting, else the request."""
    return public_base_of(node_of(request), request)


def public_base_of(node: Node, connection: HTTPConnection) -> str:
    """As `base_of`, for who has the node at hand."""
    return node.settings.public_url or str(connection.base_url)


NodeDep = Annotated[Node, Depends(at_node)]
ActorDep = Annotated[Actor, Depends(asking)]
ReadableDep = Annotated[DatasetEntry, Depends(readable_of)]
OpenDep = Annotated[DatasetEntry, Depends(open_of)]
WritableDep = Annotated[DatasetEntry, Depends(writable_of)]
MaintainedDep = Annotated[DatasetEntry, Depends(maintained_of)]
BaseDep = Annotated[str, Depends(public_base)]
