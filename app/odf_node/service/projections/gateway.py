"""Published datasets as a read-only store: find the file under a key, with access checks.

The first part of a key is the name of a publication that the node serves, or the hash of a block.
The latter means the dataset as of that block, which requires no publication.

`GET /platform/kartothek/{key}`: published datasets as a read-only store over HTTP.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, BinaryIO
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse

from odf_protocol.errors import BadInput, NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.kartothek.keys import INDICES, SCHEMA_NAME, state_keys
from odf_protocol.kartothek.state import MAX_STATE_BYTES
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.kartothek.own_index import made_of, noted_slice, served_store
from odf_storage.datasets.kartothek.parts import FrozenDataset, frozen_dataset
from odf_storage.datasets.kartothek.rows import complete_slice, completed_key
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports import KeyedReads
from odf_storage.stores.ports.errors import KeyNotFound, KeyRefused
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind, Visibility

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.answers import HEADERS_ONLY, Span, Unsatisfiable, parse_ranges
from ..http.deps import ActorDep, wired

GATEWAY_REWRITE_BYTES = 1 << 30
"""Most bytes of a slice that is written anew for readers: from before a column was added, at
/platform/kartothek; with rows taken back, for changes of a shared table."""

MAX_FROZEN = 64
"""Limit of cached datasets as of a block."""
MOST_ESCAPES = 4
"""Limit of nested percent encodings of a key."""


def no_such_key() -> NotFound:
    """The key names no file of a dataset that the caller may read."""
    return NotFound("NoSuchKey", "there is no such key")


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A file of the store. `tag` changes with the bytes, which never change if `is_fixed`."""

    open: Callable[[], BinaryIO]
    size: int
    tag: str
    is_fixed: bool
    is_public: bool


@dataclass(frozen=True)
class Gateway:
    """The parts of the node that serve the store."""

    stores: Stores
    access: DatasetAccess
    rewrite_bytes: int
    """Limit of the size in bytes of a slice that is rewritten for a request."""
    frozen: FrozenMemory = field(default_factory=lambda: FrozenMemory())


class FrozenMemory:
    """A cache of datasets as of a block, which never change."""

    def __init__(self) -> None:
        self._known: OrderedDict[Multihash, tuple[DatasetId, FrozenDataset]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, at: Multihash) -> tuple[DatasetId, FrozenDataset] | None:
        with self._lock:
            found = self._known.get(at)
            if found is not None:
                self._known.move_to_end(at)
            return found

    def put(self, at: Multihash, dataset: DatasetId, frozen: FrozenDataset) -> None:
        with self._lock:
            self._known[at] = dataset, frozen
            while len(self._known) > MAX_FROZEN:
                self._known.popitem(last=False)


def find_file(gateway: Gateway, actor: Actor, key: str) -> ServedFile:
    """Return the file under a key. Raises `NoSuchKey`, also if the actor may not read the file."""
    plain = decoded(key)
    name = plain.split("/", 1)[0].split(".by-dataset-metadata.", 1)[0]
    block = _block(name)
    if block is not None:
        return _frozen_file(gateway, actor, plain, block)
    return _published_file(gateway, actor, key, plain, name)


def _published_file(gateway: Gateway, actor: Actor, key: str, plain: str, name: str) -> ServedFile:
    found = gateway.stores.publications.served_as(name)
    entry = None if found is None else gateway.access.visible(actor, found.dataset)
    if entry is None:
        raise no_such_key()
    store = served_store(gateway.stores.projections, entry.id)
    try:
        spelling = _as_stored(store, name, key, plain)
        if spelling in state_keys(name) or spelling.endswith(f"/{SCHEMA_NAME}"):
            content = store.read(spelling, most=MAX_STATE_BYTES)
            if content is None:
                raise no_such_key()
            return _small(entry, content.raw, is_fixed=False)
        slice_hash = noted_slice(store, spelling)
        if slice_hash is not None:
            return _slice(gateway, entry, slice_hash)
        return _stored(entry, store, spelling)
    except (KeyNotFound, KeyRefused):
        raise no_such_key() from None


def _as_stored(store: KeyedReads, name: str, key: str, plain: str) -> str:
    """Return the key as stored: clients encode percent signs never, once or twice. Only keys of
    indices have percent signs."""
    folder = f"{name}/{INDICES}"
    if plain.startswith(f"{folder}/"):
        for info in store.list(folder):
            if decoded(info.key) == plain:
                return info.key
    return key


def decoded(key: str) -> str:
    """Return the key without nested percent escapes. Raises `NoSuchKey` if they are too deep."""
    for _ in range(MOST_ESCAPES):
        plain = unquote(key)
        if plain == key:
            return key
        key = plain
    raise no_such_key()


def _frozen_file(gateway: Gateway, actor: Actor, key: str, block: Multihash) -> ServedFile:
    known = gateway.frozen.find(block)
    owner = known[0] if known is not None else gateway.stores.blocks.owner(block)
    entry = None if owner is None else gateway.access.visible(actor, owner)
    if entry is None:
        raise no_such_key()
    if known is None:
        frozen = frozen_dataset(_dataset(gateway, entry), block)
        gateway.frozen.put(block, entry.id, frozen)
    else:
        frozen = known[1]
    if key in frozen.files:
        return _small(entry, frozen.files[key], is_fixed=True)
    if key in frozen.incomplete:
        return _completed(gateway, entry, frozen, key)
    if key in frozen.slices:
        return _slice(gateway, entry, frozen.slices[key])
    raise no_such_key()


def _completed(
    gateway: Gateway, entry: DatasetEntry, frozen: FrozenDataset, key: str
) -> ServedFile:
    """Return the slice rewritten with all columns. Raises the same errors as `complete_slice`."""
    slice_hash = frozen.slices[key]
    kept = completed_key(slice_hash, frozen.raw_schema)
    store = made_of(gateway.stores.projections, entry.id)
    dataset, most = _dataset(gateway, entry), gateway.rewrite_bytes
    complete_slice(dataset, slice_hash, frozen.schema, store, kept, most=most)
    return _stored(entry, store, kept)


def _stored(entry: DatasetEntry, store: KeyedReads, key: str) -> ServedFile:
    """Return a stored file that never changes. Raises `KeyNotFound`."""
    with store.open(key) as stream:
        size = stream.seek(0, io.SEEK_END)
    return ServedFile(
        open=lambda: store.open(key),
        size=size,
        tag=Multihash.of(key.encode()).digest.hex(),
        is_fixed=True,
        is_public=_is_public(entry),
    )


def _slice(gateway: Gateway, entry: DatasetEntry, slice_hash: Multihash) -> ServedFile:
    dataset = _dataset(gateway, entry)
    found = gateway.stores.objects.stat(ObjectKey(entry.id, ObjectKind.DATA, slice_hash))
    if found is None:
        raise no_such_key()
    return ServedFile(
        open=lambda: dataset.open_whole(ObjectKind.DATA, slice_hash),
        size=found.size,
        tag=str(slice_hash),
        is_fixed=True,
        is_public=_is_public(entry),
    )


def _small(entry: DatasetEntry, raw: bytes, *, is_fixed: bool) -> ServedFile:
    tag = Multihash.of(raw).digest.hex()
    return ServedFile(lambda: io.BytesIO(raw), len(raw), tag, is_fixed, _is_public(entry))


def _dataset(gateway: Gateway, entry: DatasetEntry) -> Dataset:
    return Dataset(entry, gateway.stores)


def _is_public(entry: DatasetEntry) -> bool:
    return entry.visibility is Visibility.PUBLIC


def _block(name: str) -> Multihash | None:
    try:
        return Multihash.parse(name)
    except BadInput:
        return None


GatewayDep = Annotated[Gateway, Depends(wired(Gateway))]
CHUNK_BYTES = 1 << 20
TYPE = "application/octet-stream"
router = APIRouter()


@router.get("/platform/kartothek/{key:path}", summary="A file of a dataset", tags=["projections"])
def read(key: str, request: Request, gateway: GatewayDep, actor: ActorDep) -> Response:
    """Return the whole file, or one range of it. State and schema files change with every refresh;
    all other files never change."""
    return file_answer(find_file(gateway, actor, key), request)


def file_answer(file: ServedFile, request: Request) -> Response:
    """Return the response for a file, also of other stores."""
    etag = f'"{file.tag}"'
    headers = {"etag": etag, "accept-ranges": "bytes", "cache-control": _kept(file)}
    if etag in [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    asked = request.headers.get("range")
    if request.headers.get("if-range", etag) != etag:
        asked = None
    try:
        spans: Sequence[Span] = parse_ranges(asked, file.size)
    except Unsatisfiable:
        headers["content-range"] = f"bytes */{file.size}"
        return Response(status_code=416, headers=headers)
    is_part = len(spans) == 1
    span = spans[0] if is_part else Span(0, file.size)
    headers["content-length"] = str(span.length)
    if is_part:
        headers["content-range"] = f"bytes {span.start}-{span.end - 1}/{file.size}"
    is_head = bool(request.scope.get("state", {}).get(HEADERS_ONLY))
    body = iter(()) if is_head else _pieces(file, span)
    return StreamingResponse(body, 206 if is_part else 200, headers, TYPE)


def _pieces(file: ServedFile, span: Span) -> Iterator[bytes]:
    with file.open() as stream:
        stream.seek(span.start)
        left = span.length
        while left:
            piece = stream.read(min(left, CHUNK_BYTES))
            if not piece:
                raise OSError(f"a file ended {left} bytes early")
            left -= len(piece)
            yield piece


def _kept(file: ServedFile) -> str:
    whose = "public" if file.is_public else "private"
    return f"{whose}, max-age=31536000, immutable" if file.is_fixed else f"{whose}, no-cache"
