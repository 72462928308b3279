"""Ports for the objects of datasets, and for uploads in progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Protocol

from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from .values import AccountId, BucketPlace, ObjectInfo, ObjectKey, ObjectKind, TransferUrl


class Objects(Protocol):
    """Immutable bytes addressed by their hash: one object per dataset, kind and hash.

    `put` hashes while it writes: content with another hash raises `HashMismatch` and never
    becomes visible. An object appears complete and at once. Putting an object again only renews
    it. For absent objects `stat` returns None, `open` raises `ObjectNotFound`, and `delete` does
    nothing. `open` with an offset past the end returns an empty stream.
    """

    def stat(self, key: ObjectKey) -> ObjectInfo | None: ...
    def open(self, key: ObjectKey, *, offset: int = 0) -> BinaryIO: ...
    def put(self, key: ObjectKey, chunks: Iterable[bytes]) -> ObjectInfo: ...
    def put_blocks(self, dataset: DatasetId, blocks: Iterable[tuple[Multihash, bytes]]) -> None:
        """As `put` of each block, but faster. On `HashMismatch` earlier blocks may be stored."""

    def put_all(self, objects: Sequence[tuple[ObjectKey, bytes]]) -> None:
        """As `put` of each object, but faster; for small objects, of any datasets. Successive
        objects of one kind form a group; groups are written in the given order.

        After any error some of the objects may be stored.
        """

    def delete(self, key: ObjectKey) -> None: ...
    def quarantine(self, key: ObjectKey) -> bool:
        """Hide a damaged object but keep its bytes; it is absent afterwards. False if it was."""

    def list(self, dataset: DatasetId) -> Iterator[ObjectInfo]: ...


class ObjectStore(Objects, Protocol):
    """The complete port that an adapter implements: objects, their lifetimes, URLs and notes.

    Every object has an age. A caller that is about to refer to a stored object renews it first.
    The object is then as young as a new one, and `discard`, which removes old objects, does not
    remove it before the caller has stored its reference.

    URLs are for clients that bypass the node. None means that clients must use the node.

    Notes are small texts stored with the objects, so that the folder or bucket is a full ODF
    dataset.
    """

    @property
    def local_paths(self) -> LocalPaths | None:
        """Return None if objects are not files on this machine."""

    @property
    def partial(self) -> PartialUploads | None:
        """Return None if this store accepts only uploads of whole objects."""

    def close(self) -> None:
        """Release connections and other resources; a later call opens them again."""

    def renew(self, key: ObjectKey) -> ObjectInfo | None:
        """As `stat`, and reset the object's age. None also if it is being removed right now."""

    def discard(self, key: ObjectKey, *, before: Instant) -> bool:
        """Remove an object put or renewed before that time, unless it is renewed meanwhile."""

    def remove_abandoned(self, *, before: Instant, dry_run: bool = False) -> int:
        """Remove leftovers of writes interrupted before that time; return their number."""

    def datasets(self) -> Iterator[DatasetId]:
        """Yield every dataset that has stored files, each once, registered or not.

        A removed dataset may still be listed although it is empty.
        """

    def remove(self, dataset: DatasetId) -> None:
        """Remove everything of a dataset, references first. If nothing is there, do nothing."""

    def download_url(self, key: ObjectKey, *, ttl: timedelta) -> TransferUrl | None: ...
    def upload_url(
        self, key: ObjectKey, *, size: int | None, ttl: timedelta
    ) -> TransferUrl | None: ...
    def settle(self, key: ObjectKey) -> ObjectInfo | None:
        """As `renew`, but accept first what a client put by an upload URL.

        Until then such an object is invisible. The store reads and hashes it here; if the hash
        differs, it removes the content and raises `HashMismatch`.
        """

    def copy_source(self, key: ObjectKey) -> BucketPlace | None:
        """Return the bucket and key from which a server can copy the object, or None.

        This does not check whether the object exists; the copy fails if it does not.
        """

    def write_ref(self, dataset: DatasetId, ref: str, head: Multihash) -> None:
        """Publish a moved reference beside the objects (`refs/head`, no newline)."""

    def write_refs(self, ref: str, heads: Mapping[DatasetId, Multihash]) -> None:
        """As `write_ref` of each dataset; cheaper for many."""

    def read_ref(self, dataset: DatasetId, ref: str) -> Multihash | None:
        """Return the published reference. The `RefIndex`, if it exists, is the authority."""

    def remove_ref(self, dataset: DatasetId, ref: str) -> None:
        """Remove the published reference, so that the rest is no dataset. Ignored if absent."""

    def write_alias(self, dataset: DatasetId, alias: DatasetAlias) -> None:
        """Store the alias beside the objects (`info/alias`), so that an index can be rebuilt."""

    def read_alias(self, dataset: DatasetId) -> DatasetAlias | None:
        """Return the stored alias; None if it is absent or not a valid alias."""

    def write_info(self, dataset: DatasetId, name: str, text: str) -> None:
        """Store a note of up to `MAX_INFO_BYTES` beside the objects (`info/<name>`)."""

    def read_info(self, dataset: DatasetId, name: str) -> str | None: ...


class LocalPaths(Protocol):
    """Objects that are files on this machine, for readers that need a file.

    Each method computes a path; it does not check whether the object exists.
    """

    @property
    def root(self) -> Path:
        """Return the folder that contains everything."""

    def path(self, key: ObjectKey) -> Path:
        """Return the path of an object's file."""

    def folder(self, dataset: DatasetId, kind: ObjectKind) -> Path:
        """Return the folder of all objects of a kind, except uploads, which are elsewhere."""


class PartialUploads(Protocol):
    """Uploads that clients may interrupt and resume. An object is invisible until it is complete.

    `remove_abandoned` removes an upload to which nothing was added for a long time.
    """

    def received(self, key: ObjectKey) -> int:
        """Return the number of bytes received; 0 if there is no upload."""

    def begun(self, key: ObjectKey) -> int:
        """Return the number of unfinished uploads for the key's dataset and kind."""

    def claim(
        self, account: AccountId, key: ObjectKey, total: int, judge: Callable[[int, int], None]
    ) -> None:
        """Begin an upload of `total` bytes for an account, or continue one of the account.

        For a new upload, call `judge` with the number of unfinished uploads of the account and
        the sum of their announced bytes; it raises to refuse. Claims of an account are serialized.
        """

    def append(self, key: ObjectKey, offset: int, chunks: Iterable[bytes], *, total: int) -> int:
        """Append bytes; return the number received so far. At `total` bytes the object appears.

        The bytes that arrived before an error are kept. `UploadBusy` and `OffsetMismatch`: nothing
        was added. `HashMismatch`: the content is complete but wrong; nothing is kept.
        """
