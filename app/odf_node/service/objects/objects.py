"""Find, check and locate the content-addressed objects of a dataset, and its references.

Uploads of objects to the node: whole by PUT, or in parts that can be resumed.

    HEAD  …/data/{hash}                        404 and `Upload-Offset`: bytes stored so far
    PATCH …/data/{hash}  Upload-Offset: 4096   the bytes from that offset on
                         Upload-Length: 9000   size of the whole object
                                               204 and `Upload-Offset`; the object once all is here

The header names are those of tus (resumable uploads). The hash of the object identifies an upload,
so the node need not create or remember an id. Callers without write access learn nothing about
uploads.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO, NamedTuple, TypeVar

from anyio import to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope

from odf_protocol.errors import BadInput, LimitExceeded, NotFound
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.multihash import Multihash
from odf_storage.datasets.integrity.healing import (
    DAMAGED,
    HealingStores,
    Identity,
    begin_healing,
    heal_here,
)
from odf_storage.datasets.integrity.opening import ensure_hashed
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.index.sql import Heads
from odf_storage.stores.index.sql_moves import SqliteHeads
from odf_storage.stores.objects.layout import DATASETS, KIND_FOLDERS, dataset_folder
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind, Visibility
from odf_storage.stores.registers.datasets.following import MirrorReads

from ..auth.access import Action, ActionForbidden, DatasetHidden, IsRemote, address, authorize
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess, refuse_mirror
from ..auth.signed_urls import SignedUrls
from ..http.addresses import DatasetPath
from ..http.answers import error_answer
from ..http.bodies import Body
from ..http.parameters import parse_hash
from ..limits.shares import Turns, caller_of
from ..settings import Settings
from . import begun_uploads
from .begun_uploads import BegunUploads

HEAD = "head"
KINDS: dict[str, ObjectKind] = {
    "blocks": ObjectKind.BLOCK,
    "data": ObjectKind.DATA,
    "checkpoints": ObjectKind.CHECKPOINT,
}
"""Kind of the objects in a folder of a dataset, by the word in the address."""
HASHED_AT_ONCE_BYTES = 1024
"""Up to this size, hashing takes no longer than looking up whether the file was hashed before."""
MAX_PLACES = 4096
"""Limit of addresses in the cache, each spelling counted."""
SHA3_PREFIX = "f1620"
_USUAL_HASH = re.compile(SHA3_PREFIX + "[0-9a-f]{64}")
"""Matches a SHA3-256 hash in the usual spelling, which is also the name of the object's file."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in the store: its key, its size, and how to open it at a position."""

    key: ObjectKey
    size: int
    public: bool
    open: Callable[[int], BinaryIO]


class LocalObject(NamedTuple):
    """The path at which an object is stored if it exists; `name` is its hash as text."""

    dataset: DatasetId
    kind: ObjectKind
    name: str
    public: bool
    path: str

    def key(self) -> ObjectKey:
        return ObjectKey(self.dataset, self.kind, Multihash.parse(self.name))


class FoundDataset(NamedTuple):
    """A cached result of resolving the address of a dataset."""

    alias: DatasetAlias
    folded: str
    entry: DatasetEntry
    folder: str


class AtHand:
    """Looks up what needs no waiting: local files, and heads in SQLite.

    Any method may return None; the caller then uses the slow path, which raises all errors. Call
    the methods in the thread of the event loop only.
    """

    def __init__(self, stores: Stores, access: DatasetAccess) -> None:
        self._entries, self._tenancy, self._reads = access.entries, access.tenancy, access.reads
        local = stores.objects.local_paths
        self._root = None if local is None else str(local.root)
        self._heads = SqliteHeads.of(stores.engine)
        self.hashed = stores.hashed
        self._places: dict[tuple[str | None, str], FoundDataset] = {}

    def place(self, actor: Actor, account: str | None, dataset: str) -> FoundDataset | None:
        """Return a recently requested dataset, or None. Raises the errors of `authorize`, but for
        `DatasetHidden`: the slow path answers for what is hidden, as for what is missing."""
        known = self._places.get((account, dataset))
        alias = known.alias if known else address(self._tenancy, account, dataset)
        folded = known.folded if known else alias.folded
        entry = self._entries.recall(folded)
        if entry is None:
            return None
        try:
            authorize(actor, entry, Action.READ, self._reads)
        except DatasetHidden:
            return None
        if known is None or known.entry is not entry:
            folder = f"{self._root}/{DATASETS}/{dataset_folder(entry.id)}"
            known = FoundDataset(alias, folded, entry, folder)
            if len(self._places) >= MAX_PLACES:
                self._places.clear()
            self._places[account, dataset] = known
        return known

    def object(self, place: FoundDataset | None, kind: ObjectKind, text: str) -> LocalObject | None:
        """Return the path of an object, which may not exist. Raises `UnreadableHash`."""
        if self._root is None or place is None:
            return None
        name = text if _USUAL_HASH.fullmatch(text) else str(parse_hash(text))
        public = place.entry.visibility is Visibility.PUBLIC
        path = f"{place.folder}/{KIND_FOLDERS[kind]}/{name}"
        return LocalObject(place.entry.id, kind, name, public, path)

    def is_right(self, name: str, body: bytes | bytearray, identity: Identity) -> bool:
        """Return whether the bytes of a small file have the hash in its name: hash them, or use the
        record of an earlier check."""
        if len(body) > HASHED_AT_ONCE_BYTES and self.hashed.knows(name, identity):
            return True
        right = name[len(SHA3_PREFIX) :] == hashlib.sha3_256(body).hexdigest()
        if right and len(body) > HASHED_AT_ONCE_BYTES:
            self.hashed.note(name, identity)
        return right

    def head(self, place: FoundDataset | None) -> Multihash | None:
        """Return the hash that `head` points to."""
        if self._heads is None or place is None:
            return None
        return self._heads.head(place.entry.id)

    def newest(self, place: FoundDataset | None) -> tuple[Multihash, str] | None:
        """Return the hash that `head` points to, and the newest checkpoint of the log of heads."""
        if self._heads is None or place is None:
            return None
        return self._heads.newest(place.entry.id)

    def close(self) -> None:
        if self._heads is not None:
            self._heads.close()


def read_ref(
    access: DatasetAccess,
    heads: Heads,
    actor: Actor,
    account: str | None,
    dataset: str,
    ref: str,
) -> Multihash:
    """Return the hash that a reference points to.

    Raises:
        UnknownReference, and the same errors as `DatasetAccess.resolve`.
    """
    entry = access.resolve(actor, account, dataset, Action.READ)
    if ref != HEAD:
        raise NotFound(
            "UnknownReference", f"there is no reference {ref!r}; only 'head' is known", ref=ref
        )
    return heads.head(entry.id)


def signed_reader(
    access: DatasetAccess, urls: SignedUrls, actor: Actor, path: DatasetPath, signature: str
) -> Actor:
    """Check a signed URL and return the actor with the right to read the dataset of the file.

    Raises:
        MalformedAddress, UnreadableHash.
        DatasetHidden, SignedUrlExpired: for the same reasons as in `SignedUrls.check`.
    """
    entry = access.entries.find(address(access.tenancy, path.account, path.dataset))
    if entry is None:
        raise DatasetHidden
    urls.check(signature, path.word, entry.id, parse_hash(path.name))
    return replace(actor, reads=entry.id)


def find_object(
    access: DatasetAccess,
    stores: HealingStores,
    actor: Actor,
    account: str | None,
    dataset: str,
    kind: ObjectKind,
    text: str,
) -> StoredObject:
    """Find an object by the hash in its address, which may be in any multibase.

    Raises:
        UnreadableHash, ObjectNotFound, and the same errors as `DatasetAccess.resolve`.
    """
    entry = access.resolve(actor, account, dataset, Action.READ)
    key = ObjectKey(entry.id, kind, parse_hash(text))
    info = stores.objects.stat(key)
    if info is None and kind is ObjectKind.BLOCK and stores.blocks.find(entry.id, key.hash):
        ensure_hashed(stores, key)  # the index has the block, which heals the store
        info = stores.objects.stat(key)
    if info is None:
        raise ObjectNotFound(kind, key.hash)
    return StoredObject(
        key,
        info.size,
        entry.visibility is Visibility.PUBLIC,
        lambda offset: stores.objects.open(key, offset=offset),
    )


def made_sure(stores: HealingStores, found: StoredObject) -> StoredObject:
    """Check the hash of an object before parts of it are sent, and heal it if it is damaged.

    Raises `ObjectNotFound`, and the same errors as `ensure_hashed`.
    """
    ensure_hashed(stores, found.key, named=False)
    info = stores.objects.stat(found.key)
    if info is None:
        raise ObjectNotFound(found.key.kind, found.key.hash)
    return replace(found, size=info.size)


def found_damaged(stores: HealingStores, key: ObjectKey) -> None:
    """Quarantine and report an object whose sent bytes had the wrong hash, and begin to heal it."""
    heal_here(stores, key, DAMAGED)
    if key.kind is not ObjectKind.UPLOAD:
        begin_healing(stores, key)


def upload_target(
    access: DatasetAccess,
    mirrors: MirrorReads,
    actor: Actor,
    account: str | None,
    dataset: str,
    kind: ObjectKind,
    text: str,
) -> ObjectKey:
    """Return the key of an upload. Raise if the actor may not write to the dataset."""
    entry: DatasetEntry = access.resolve(actor, account, dataset, Action.WRITE)
    refuse_mirror(mirrors, entry)
    return ObjectKey(entry.id, kind, parse_hash(text))


def announced_size(length: str | None, limit: int) -> int:
    """Return the size in bytes that an upload announces.

    Raises:
        LengthRequired: absent or no number. ObjectTooLarge: above the limit.
    """
    if length is None or not length.isascii() or not length.isdigit():
        raise BadInput("LengthRequired", "an upload needs a Content-Length header")
    size = int(length)
    if size > limit:
        raise LimitExceeded(
            "ObjectTooLarge",
            f"the object has {size} bytes, this node takes {limit}",
            limit=limit,
            size=size,
            setting="ODF_NODE_MAX_OBJECT_BYTES",
        )
    return size


T = TypeVar("T")
UPLOADS = ("PUT", "PATCH")
UPLOAD_FOLDERS = frozenset({"data", "checkpoints"})
OFFSET = "upload-offset"
LENGTH = "upload-length"


class ObjectUploads:
    """Receives objects, a limited number at a time."""

    def __init__(
        self, stores: Stores, access: DatasetAccess, begun: BegunUploads, settings: Settings
    ) -> None:
        self._objects, self._begun, self._most_bytes = (
            stores.objects,
            begun,
            settings.max_object_bytes,
        )
        self._quotas = stores.quotas
        self._target = partial(upload_target, access, stores.mirrors)
        self._turns = Turns(
            "bodies", most=settings.max_bodies, each=settings.share_of(settings.max_bodies)
        )

    async def take(self, path: DatasetPath, scope: Scope, receive: Receive) -> Response:
        """Receive a whole object, or the next part of one, and return the response."""
        place = (path.account, path.dataset, KINDS[path.word], path.name)
        actor: Actor = scope["state"]["actor"]
        key = await to_thread.run_sync(self._target, actor, *place)
        size = announced_size(_header(scope, "content-length"), self._most_bytes)
        async with Body(receive, limit=size) as body:
            if scope["method"] == "PUT":
                put = partial(self._objects.put, key, body.chunks())
                await self._turns.run(caller_of(scope), partial(self._counted, key, size, put))
                return Response(b"")
            offset, total = _number(scope, OFFSET), _number(scope, LENGTH)
            announced_size(str(total), self._most_bytes)
            if offset + size > total:
                raise BadInput(
                    "UnreadableOffset", f"{size} bytes from {offset} on are more than {total}"
                )
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
            here = await self._turns.run(
                caller_of(scope), partial(self._counted, key, total, append)
            )
            return Response(b"", 204, {OFFSET: str(here)})

    def _counted(self, key: ObjectKey, size: int, store: Callable[[], T]) -> T:
        """Store an object or a part of it, of which the whole size is counted beforehand. Raises
        `QuotaExceeded`, and the errors of `store`."""
        is_new = self._quotas.reserve(key, size)
        try:
            return store()
        except BaseException:
            begun = begun_uploads.received(self._objects, key)
            if is_new and not begun and self._objects.stat(key) is None:
                self._quotas.release(key)
            raise

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
        raise BadInput("UnreadableOffset", f"a part of an upload needs the header {name}, a number")
    return int(text)


def _header(scope: Scope, name: str) -> str | None:
    values = [value for key, value in scope["headers"] if key == name.encode()]
    return values[0].decode("latin-1") if values else None
