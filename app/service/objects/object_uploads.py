"""Objects that are sent to the node: whole by PUT, or in parts that may break off.

    HEAD  …/data/{hash}                        404 and `Upload-Offset`: so much is here
    PATCH …/data/{hash}  Upload-Offset: 4096   the bytes from there on
                         Upload-Length: 9000   how long the whole object is
                                               204 and `Upload-Offset`; the object once all is here

The names are those of tus (resumable uploads); an upload is named by the hash of its object,
so nothing has to be created or remembered. Who may not write is told nothing of uploads.
"""

from __future__ import annotations

from functools import partial

from anyio import to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope

from odf_node.protocol.errors import BadInput
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.stores.ports.errors import ObjectNotFound
from odf_node.storage.stores.ports.values import ObjectKind

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
    """A part of an upload that does not say where it belongs."""


class Uploads:
    """Takes objects, so many at a time."""

    def __init__(
        self, stores: Stores, access: DatasetAccess, begun: BegunUploads, settings: Settings
    ) -> None:
        self._objects, self._begun, self._most_bytes = (
            stores.objects,
            begun,
            settings.max_object_bytes,
        )
        self._target = partial(usecase.upload_target, access, stores.mirrors)
        self._turns = Turns("bodies", most=settings.max_bodies, each=settings.max_bodies_caller)

    async def take(self, path: DatasetPath, scope: Scope, receive: Receive) -> Response:
        """A whole object, or the next part of one; the answer to either."""
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
        """404, and for those who may go on with its upload, where."""
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
