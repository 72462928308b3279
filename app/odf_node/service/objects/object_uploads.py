"""Uploads of objects to the node: whole by PUT, or in parts that can be resumed.

    HEAD  …/data/{hash}                        404 and `Upload-Offset`: bytes stored so far
    PATCH …/data/{hash}  Upload-Offset: 4096   the bytes from that offset on
                         Upload-Length: 9000   size of the whole object
                                               204 and `Upload-Offset`; the object once all is here

The header names are those of tus (resumable uploads). The hash of the object identifies an upload,
so the node need not create or remember an id. Callers without write access learn nothing about
uploads.
"""

from __future__ import annotations

from functools import partial

from anyio import to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope

from odf_protocol.errors import BadInput
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectKind

from ..auth.access import ActionForbidden, IsRemote
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.addresses import DatasetPath
from ..http.answers import error_answer
from ..http.bodies import Body
from ..limits.shares import Turns, caller_of
from ..settings import Settings
from . import begun_uploads
from . import objects as usecase
from .begun_uploads import BegunUploads
from .objects import KINDS

UPLOADS = ("PUT", "PATCH")
UPLOAD_FOLDERS = frozenset({"data", "checkpoints"})
OFFSET = "upload-offset"
LENGTH = "upload-length"


class UnreadableOffset(BadInput):
    """A part of an upload has no valid offset or length."""


class Uploads:
    """Receives objects, a limited number at a time."""

    def __init__(
        self, stores: Stores, access: DatasetAccess, begun: BegunUploads, settings: Settings
    ) -> None:
        self._objects, self._begun, self._most_bytes = (
            stores.objects,
            begun,
            settings.max_object_bytes,
        )
        self._target = partial(usecase.upload_target, access, stores.mirrors)
        self._turns = Turns(
            "bodies", most=settings.max_bodies, each=settings.share_of(settings.max_bodies)
        )

    async def take(self, path: DatasetPath, scope: Scope, receive: Receive) -> Response:
        """Receive a whole object, or the next part of one, and return the response."""
        place = (path.account, path.dataset, KINDS[path.word], path.name)
        actor: Actor = scope["state"]["actor"]
        key = await to_thread.run_sync(self._target, actor, *place)
        size = usecase.announced_size(_header(scope, "content-length"), self._most_bytes)
        async with Body(receive, limit=size) as body:
            if scope["method"] == "PUT":
                work = partial(self._objects.put, key, body.chunks())
                await self._turns.run(caller_of(scope), work)
                return Response(b"")
            offset, total = _number(scope, OFFSET), _number(scope, LENGTH)
            usecase.announced_size(str(total), self._most_bytes)
            if offset + size > total:
                raise UnreadableOffset(f"{size} bytes from {offset} on are more than {total}")
            append = partial(
                begun_uploads.append_object,
                self._begun,
                actor,
                key,
                offset,
                body.chunks(),
                size=size,
                total=total,
            )
            here = await self._turns.run(caller_of(scope), append)
            return Response(b"", 204, {OFFSET: str(here)})

    def how_far(
        self,
        missing: ObjectNotFound,
        actor: Actor,
        account: str | None,
        dataset: str,
        kind: ObjectKind,
        text: str,
    ) -> Response:
        """Return a 404; callers who may write also get the offset at which to resume."""
        answer = error_answer(missing)
        try:
            key = self._target(actor, account, dataset, kind, text)
        except (ActionForbidden, IsRemote):
            return answer
        here = begun_uploads.received(self._objects, key)
        if here is not None:
            answer.headers[OFFSET] = str(here)
            answer.headers["cache-control"] = "no-store"
        return answer


def _number(scope: Scope, name: str) -> int:
    text = _header(scope, name)
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 18:
        raise UnreadableOffset(f"a part of an upload needs the header {name}, a number")
    return int(text)


def _header(scope: Scope, name: str) -> str | None:
    values = [value for key, value in scope["headers"] if key == name.encode()]
    return values[0].decode("latin-1") if values else None
