"""The bytes of datasets, and what is on its way to become some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Protocol

from odf_node.protocol.identity import DatasetAlias, DatasetId
from odf_node.protocol.instant import Instant
from odf_node.protocol.multihash import Multihash

from .values import AccountId, BucketPlace, ObjectInfo, ObjectKey, ObjectKind, TransferUrl


class Objects(Protocol):
    """Immutable bytes under their own hash. One dataset, one kind, one hash: one object.

    `put` hashes while writing: other content raises `HashMismatch` and is never visible;
    content appears all at once; putting the same object again is harmless, and renews it.
    Absent objects: `stat` → None, `open` → `ObjectNotFound`, `delete` → nothing happens.
    `open` past the end reads empty.
    """

    def stat(self, key: ObjectKey) -> ObjectInfo | None: ...
    def open(self, key: ObjectKey, *, offset: int = 0) -> BinaryIO: ...
    def put(self, key: ObjectKey, chunks: Iterable[bytes]) -> ObjectInfo: ...
    def put_blocks(self, dataset: DatasetId, blocks: Iterable[tuple[Multihash, bytes]]) -> None:
        """As `put` of each block; cheaper for many. `HashMismatch`: those before may be there."""

    def put_all(self, objects: Sequence[tuple[ObjectKey, bytes]]) -> None:
        """As `put` of small objects of any datasets, kind by kind as they come; cheaper for many.

        Whatever it raises, some of them may be there.
        """

    def delete(self, key: ObjectKey) -> None: ...
    def quarantine(self, key: ObjectKey) -> bool:
        """Take a damaged object out of sight, bytes kept; absent from then on. False if it was."""

    def list(self, dataset: DatasetId) -> Iterator[ObjectInfo]: ...


class LocatedObjects(Objects, Protocol):
    """Objects, and their paths if they are files of this machine."""

    @property
    def local_paths(self) -> LocalPaths | None:
        """None: objects are no files of this machine."""


class ObjectLifetimes(Protocol):
    """How long objects stay.

    Every object has an age. Who is about to name an object that is here already renews it:
    from then on it is as young as one that was just put, so that `discard`, which removes
    the old, does not take it away in between.
    """

    def renew(self, key: ObjectKey) -> ObjectInfo | None:
        """As `stat`, and the object is young again. None also when it is just being removed."""

    def discard(self, key: ObjectKey, *, before: Instant) -> bool:
        """Remove an object put or renewed before then, unless it is renewed meanwhile."""

    def remove_abandoned(self, *, before: Instant, dry_run: bool = False) -> int:
        """Remove what writes that broke off before then left behind; returns how many."""

    def datasets(self) -> Iterator[DatasetId]:
        """Every dataset of which anything is kept, each once, registered or not.

        One that was removed may still be named, with nothing in it.
        """

    def remove(self, dataset: DatasetId) -> None:
        """Everything of a dataset goes, references first. Nothing there: nothing happens."""


class ObjectUrls(Protocol):
    """Ways past the node, for clients. No URL: None, which means "go through the node"."""

    def download_url(self, key: ObjectKey, *, ttl: timedelta) -> TransferUrl | None: ...
    def upload_url(
        self, key: ObjectKey, *, size: int | None, ttl: timedelta
    ) -> TransferUrl | None: ...
    def settle(self, key: ObjectKey) -> ObjectInfo | None:
        """As `renew`, but what was put by an upload URL is taken in first.

        Such an object stays invisible until then; it is read and hashed here. Other content
        is removed and raises `HashMismatch`.
        """

    def copy_source(self, key: ObjectKey) -> BucketPlace | None:
        """Where a server keeps the object, for one that copies it there; None: no server does.

        Whether the object is there shows when it is copied.
        """


class DatasetNotes(Protocol):
    """Small texts beside the objects, so that a folder or bucket is a whole ODF dataset."""

    def write_ref(self, dataset: DatasetId, ref: str, head: Multihash) -> None:
        """Publish a moved reference beside the objects (`refs/head`, no newline)."""

    def write_refs(self, ref: str, heads: Mapping[DatasetId, Multihash]) -> None:
        """As `write_ref` of each dataset; cheaper for many."""

    def read_ref(self, dataset: DatasetId, ref: str) -> Multihash | None:
        """The published reference; the `RefIndex` is the authority while it exists."""

    def remove_ref(self, dataset: DatasetId, ref: str) -> None:
        """Remove the published reference: what is left is no dataset. Absent: nothing happens."""

    def write_alias(self, dataset: DatasetId, alias: DatasetAlias) -> None:
        """Keep the alias beside the objects (`info/alias`), so that an index can be rebuilt."""

    def read_alias(self, dataset: DatasetId) -> DatasetAlias | None:
        """The alias kept beside the objects; None if absent or no alias."""

    def write_info(self, dataset: DatasetId, name: str, text: str) -> None:
        """Keep a note of up to `MAX_INFO_BYTES` beside the objects (`info/<name>`)."""

    def read_info(self, dataset: DatasetId, name: str) -> str | None: ...


class ObjectStore(LocatedObjects, ObjectLifetimes, ObjectUrls, DatasetNotes, Protocol):
    """What an adapter is. Only code that builds or holds a store names the whole."""

    @property
    def partial(self) -> PartialUploads | None:
        """None: objects are put in one go here."""

    def close(self) -> None:
        """Give back what is kept between calls; a later call takes it again."""


class LocalPaths(Protocol):
    """Objects that are files of this machine, for readers that need a file.

    A path says where an object lies, whether it is there or not; nothing is looked at.
    """

    @property
    def root(self) -> Path:
        """The folder that everything lies in."""

    def path(self, key: ObjectKey) -> Path:
        """The file of an object."""

    def folder(self, dataset: DatasetId, kind: ObjectKind) -> Path:
        """Where all objects of a kind lie, each under its name. Uploads lie elsewhere."""


class PartialUploads(Protocol):
    """Uploads that may break off and go on. What arrived is seen by nobody until all is there.

    A part that nothing was added to for long is collected by `remove_abandoned`.
    """

    def received(self, key: ObjectKey) -> int:
        """How many bytes are here; 0 when there is no upload."""

    def begun(self, key: ObjectKey) -> int:
        """How many uploads have begun for objects of the dataset and kind of this one."""

    def claim(
        self, account: AccountId, key: ObjectKey, total: int, judge: Callable[[int, int], None]
    ) -> None:
        """Begin an upload of `total` bytes in the name of an account, or go on with its own.

        For one more than those it has begun and not ended `judge` is given how many these are
        and how many bytes they announced, and raises to refuse. Accounts claim one at a time.
        """

    def append(self, key: ObjectKey, offset: int, chunks: Iterable[bytes], *, total: int) -> int:
        """Add bytes; how many are here then. With `total` bytes the object appears.

        Whatever ends it, what arrived before stays. `UploadBusy`, `OffsetMismatch`: nothing
        was added. `HashMismatch`: all is here and is other content; nothing is kept.
        """
