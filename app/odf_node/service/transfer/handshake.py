"""The checks of a smart transfer before the WebSocket upgrade, while it is still plain HTTP.

The order of the checks and the bodies of refusals are those of the reference implementation,
because its client shows the body: address and access, presence of the version header, account
(push only), version, ownership.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from starlette.types import Scope

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.transfer.messages import (
    BATCH_ENCODING,
    COMPACT_ENCODING,
    IN_URLS,
    OBJECTS_HEADER,
    PAYLOAD_HEADER,
    PROTOCOL_VERSION,
    VERSION_HEADER,
)
from odf_storage.datasets.node.naming import refuse_reserved
from odf_storage.datasets.node.stores import Stores

from ..auth.access import Action, Unauthenticated, may_create
from ..auth.actors import Actor
from ..auth.dataset_access import Callers, DatasetAccess, refuse_mirror
from ..http.addresses import DatasetPath
from .pull import Links, PullExchange
from .push import PushExchange, Pushing

SUBPROTOCOL = "odf/smart-transfer-protocol/v1"
"""The subprotocol that the specification names. Known clients do not send it; we echo it if one
does."""
PULL, PUSH = "pull", "push"
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")
_INTEGER = re.compile(r"[+-]?\d{1,9}", re.ASCII)

Exchange = PullExchange | PushExchange


@dataclass(frozen=True)
class Handshake:
    """What an exchange needs to begin, and how its client reaches this node."""

    stores: Stores
    access: DatasetAccess
    callers: Callers
    pushing: Pushing
    public_url: str | None
    port: int
    url_ttl_s: int
    max_object_bytes: int


def shake(handshake: Handshake, actor: Actor, path: DatasetPath, scope: Scope) -> Exchange:
    """Check the request and return the exchange that will run on the socket.

    Raises:
        MalformedAddress, DatasetHidden, TokenInvalid, TokenExpired, ActionForbidden,
        VersionMissing, Unauthenticated, IncompatibleVersion, Unauthorized, ReservedName, IsRemote.
    """
    is_push = path.word == PUSH
    action = Action.WRITE if is_push else Action.READ
    alias, entry = handshake.access.find(actor, path.account, path.dataset, action, creates=is_push)
    version = _version(scope)
    if is_push and actor.is_anonymous:
        raise Unauthenticated
    if version != PROTOCOL_VERSION:
        raise BadInput("IncompatibleVersion", "Incompatible client version")
    links = Links(
        handshake.stores.objects,
        _base_url(handshake, scope) + scope["path"].removesuffix(path.word),
        actor.bearer,
        timedelta(seconds=handshake.url_ttl_s),
        handshake.max_object_bytes,
    )
    if not is_push and entry is not None:
        reads = partial(_still_reads, handshake, actor.bearer, entry.id)
        takes = _header(scope, OBJECTS_HEADER.encode()) == IN_URLS
        return PullExchange(
            handshake.stores,
            entry,
            links,
            encoding=encoding(scope),
            inline=reads if takes else None,
        )
    if entry is None:
        may_create(actor, alias)
        refuse_reserved(alias)
    else:
        refuse_mirror(handshake.stores.mirrors, entry)
    return PushExchange(
        handshake.pushing, alias, entry, links, actor=actor, encoding=encoding(scope)
    )


def _still_reads(handshake: Handshake, bearer: str | None, dataset: DatasetId) -> bool:
    """Whether the caller, by its token, may read the dataset now, as a request for an object would
    find out."""
    try:
        actor = handshake.callers.identify(bearer)
    except NodeError:
        return False
    return handshake.access.visible(actor, dataset) is not None


def encoding(scope: Scope) -> str:
    """Return the encoding of batches: numbers, or the compact one (a third as long) on request."""
    asked = _header(scope, PAYLOAD_HEADER.encode())
    return COMPACT_ENCODING if asked == COMPACT_ENCODING else BATCH_ENCODING


def _version(scope: Scope) -> int:
    text = _header(scope, VERSION_HEADER.encode())
    if text is None or _INTEGER.fullmatch(text) is None:
        raise BadInput("VersionMissing", f"the header {VERSION_HEADER} has to be an integer")
    return int(text)


def _base_url(handshake: Handshake, scope: Scope) -> str:
    """Return the origin of this node, without a slash at the end: the setting, else the Host."""
    if handshake.public_url is not None:
        return handshake.public_url.rstrip("/")
    host = _header(scope, b"host") or ""
    if _HOST.fullmatch(host) is None:
        host, port = scope.get("server") or ("127.0.0.1", handshake.port)
        host = f"{host}:{port}"
    return f"{'https' if scope.get('scheme') == 'wss' else 'http'}://{host}"


def _header(scope: Scope, name: bytes) -> str | None:
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1").strip() if len(values) == 1 else None
