"""The record of a published dataset: what the publisher wrote last, and what it began to write.

A write is recorded before it begins. So a later run recognises the state file of a run that was
killed, and knows the files that such a run left behind. Of two runs that record at the same time,
one fails, and has written nothing.

Stores to which datasets may be published: folders and buckets that the administrator names.

A user chooses the URL of a store, and this machine writes to it. So without a setting only the
node's internal store is allowed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from odf_protocol.errors import BadInput, NodeFault, Refused
from odf_protocol.typed import decode_json

from ...stores.keyed.folder import open_keyed_store
from ...stores.ports import KeyedStore

MAX_RECORD_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One state of the published dataset. Times are nanoseconds since 1970."""

    state_hash: str
    head: str
    config: str
    """Fingerprint of the publication."""
    schema_hash: str
    rows: Mapping[str, int]
    """Number of rows of each partition, by label."""
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Number of values, and bytes, of each index, by column."""
    skipped: tuple[str, ...] = ()
    """Columns whose index was too large."""
    keys: tuple[str, ...] = ()
    """Keys of files that were written for it."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Keys of files that are in no state any more, with the time since when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`last` was written; each of `begun` may have been written, or may still be in progress."""

    last: WrittenFile | None = None
    begun: tuple[WrittenFile, ...] = ()

    @property
    def ours(self) -> Mapping[str, WrittenFile]:
        """Every state that may be in the store, by the hash of its file."""
        every = (*(() if self.last is None else (self.last,)), *self.begun)
        return {each.state_hash: each for each in every}


def record_key(url: str, uuid: str) -> str:
    """Return the key of the record of a publication at a store, among the dataset's projections."""
    place = hashlib.sha3_256(f"{url}\n{uuid}".encode()).hexdigest()[:16]
    return f"records/{place}.json"


class KeyedRecords:
    """The record of one publication, in a file of a keyed store, for one run of a publisher."""

    def __init__(self, store: KeyedStore, key: str) -> None:
        self._store, self._key = store, key
        self._tag: str | None = None

    def read(self) -> Record:
        """Return the record, empty if nothing was published. Raise `UnreadableRecord`."""
        found = self._store.read(self._key, most=MAX_RECORD_BYTES)
        self._tag = None if found is None else found.tag
        if found is None:
            return Record()
        try:
            return decode_json(found.raw, Record)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NodeFault("UnreadableRecord", f"{self._key} cannot be read: {error}") from None

    def write(self, record: Record) -> None:
        """Replace atomically the record that was read or written last. Raise `SwapLost`."""
        raw = msgspec.json.encode(record)
        self._tag = self._store.swap(self._key, raw, expected=self._tag)

    def remove(self) -> None:
        self._store.delete([self._key])


SETTING = "ODF_STORE_PUBLISH_TO"


def store_not_allowed() -> Refused:
    """The administrator does not allow publication at this address."""
    return Refused(
        "StoreNotAllowed",
        f"the administrator allows no publication there; {SETTING} names the folders and "
        "buckets that are allowed",
        setting=SETTING,
    )


def allowed_store(url: str, allowed: Sequence[str], *, kept_in: Sequence[Path]) -> KeyedStore:
    """Open the store at a URL below one of the `allowed` ones. `kept_in` are the folders of the
    node's state: they and all folders that contain them are refused.

    Raises:
        StoreNotAllowed. MalformedKeyedStoreUrl, MalformedStoreUrl.
    """
    scheme, segments = _place(url)
    if not any(_is_below(scheme, segments, *_place(each)) for each in allowed):
        raise store_not_allowed()
    if scheme == "file":
        folder = Path("/", *segments).resolve()
        roots = [Path("/", *_place(each)[1]).resolve() for each in allowed if _is_file(each)]
        if not any(folder.is_relative_to(root) for root in roots):  # a symbolic link leads outside
            raise store_not_allowed()
        own = [each.resolve() for each in kept_in]
        if any(folder.is_relative_to(each) or each.is_relative_to(folder) for each in own):
            raise store_not_allowed()
    return open_keyed_store(url)


def _is_file(url: str) -> bool:
    return url.startswith("file://")


def _is_below(scheme: str, segments: Sequence[str], its: str, root: Sequence[str]) -> bool:
    return scheme == its and list(segments[: len(root)]) == list(root)


def _place(url: str) -> tuple[str, list[str]]:
    """Return the scheme, and the segments of host and path. Raise `MalformedKeyedStoreUrl`."""
    scheme, separator, _ = url.partition("://")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BadInput("MalformedKeyedStoreUrl", "the store is no URL") from None
    path = unquote(parts.path) if scheme == "file" else parts.path
    pieces = [piece for piece in (parts.netloc, *path.split("/")) if piece]
    if not separator or parts.query or parts.fragment or not {".", ".."}.isdisjoint(pieces):
        raise BadInput(
            "MalformedKeyedStoreUrl", "a store is named by a plain URL of a folder or a bucket"
        )
    return scheme, pieces
