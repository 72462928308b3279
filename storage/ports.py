"""The ports: everything durable the rest of the node relies on, on one page.

All calls are synchronous and safe to make from several threads and processes. Every
promise below is a test in `tests/conformance`, run on every adapter. The errors named here
are declared in `storage/errors.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import BinaryIO, Protocol

from protocol.identity import DatasetAlias, DatasetId, DatasetRef
from protocol.metadata.block import HashedBlock
from protocol.multihash import Multihash

from .values import (
    Account,
    AccountId,
    DatasetEntry,
    HeadMoved,
    Job,
    JobId,
    JobOutcome,
    JobSpec,
    ObjectInfo,
    ObjectKey,
    Token,
    TransferUrl,
)


class ObjectStore(Protocol):
    """Immutable bytes under their own hash. One dataset, one kind, one hash: one object.

    `put` hashes while writing: other content raises `HashMismatch` and is never visible;
    content appears all at once; putting the same object again is harmless.
    Absent objects: `stat` → None, `open` → `ObjectNotFound`, `delete` → nothing happens.
    `open` past the end reads empty. URLs: None means "go through the node".
    """

    def stat(self, key: ObjectKey) -> ObjectInfo | None: ...
    def open(self, key: ObjectKey, *, offset: int = 0) -> BinaryIO: ...
    def put(self, key: ObjectKey, chunks: Iterable[bytes]) -> ObjectInfo: ...
    def delete(self, key: ObjectKey) -> None: ...
    def list(self, dataset: DatasetId) -> Iterator[ObjectInfo]: ...
    def download_url(self, key: ObjectKey, *, ttl: timedelta) -> TransferUrl | None: ...
    def upload_url(
        self, key: ObjectKey, *, size: int | None, ttl: timedelta
    ) -> TransferUrl | None: ...
    def settle(self, key: ObjectKey) -> ObjectInfo | None:
        """As `stat`, but what was put by an upload URL is taken in first.

        Such an object stays invisible until then; it is read and hashed here. Other content
        is removed and raises `HashMismatch`.
        """

    def write_ref(self, dataset: DatasetId, ref: str, head: Multihash) -> None:
        """Mirror a moved reference beside the objects (`refs/head`, no newline)."""

    def read_ref(self, dataset: DatasetId, ref: str) -> Multihash | None:
        """The mirrored reference; the `RefIndex` is the authority while it exists."""

    def write_alias(self, dataset: DatasetId, alias: DatasetAlias) -> None:
        """Keep the alias beside the objects (`info/alias`), so that an index can be rebuilt."""

    def remove(self, dataset: DatasetId) -> None:
        """Everything of a dataset goes, references first. Nothing there: nothing happens."""


class DatasetRegistry(Protocol):
    """Which datasets this node keeps and what they are called.

    `create`: entry and first head appear together or not at all; names compare without
    case; taken → `AliasTaken` / `DatasetIdTaken`. `get` and every change raise
    `DatasetNotFound`.
    """

    def create(self, entry: DatasetEntry, *, blocks: Sequence[HashedBlock]) -> None:
        """Register with its first blocks (oldest first); the last one becomes head."""

    def get(self, ref: DatasetRef) -> DatasetEntry: ...
    def find(self, ref: DatasetRef) -> DatasetEntry | None: ...
    def page(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[DatasetEntry]:
        """Entries by folded alias, those greater than `after`."""

    def rename(self, dataset: DatasetId, alias: DatasetAlias) -> None: ...
    def forget(self, dataset: DatasetId) -> None: ...
    def set_inputs(self, dataset: DatasetId, inputs: Sequence[DatasetId]) -> None: ...
    def dependants(self, dataset: DatasetId) -> Sequence[DatasetId]: ...


class RefIndex(Protocol):
    """Where named references point: the only part of a dataset that ever changes.

    `move` stores the new blocks and compares-and-swaps the head in one transaction and
    logs the move in it; the loser gets `RefConflict(expected, actual)`. The log has no
    late-comers: once a number was read, no smaller one appears. Creation is logged too.
    Absent: `DatasetNotFound`, or `RefNotFound` for another name than `head`.
    """

    def head(self, dataset: DatasetId, ref: str = "head") -> Multihash: ...
    def move(
        self,
        dataset: DatasetId,
        *,
        expected: Multihash,
        new: Multihash,
        blocks: Sequence[HashedBlock] = (),
        ref: str = "head",
    ) -> None: ...
    def moves(self, *, after: int, limit: int = 100) -> Sequence[HeadMoved]: ...


class BlockIndex(Protocol):
    """Blocks with their raw bytes, so that chains are read by range and not one by one."""

    def find(self, dataset: DatasetId, block: Multihash) -> HashedBlock | None: ...
    def ancestors(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[HashedBlock]:
        """`start` and the blocks before it, newest first, following `prev`.

        Stops below sequence number `down_to`, or after `limit`. Unknown start: empty.
        """

    def lineage(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0
    ) -> Iterator[Multihash]:
        """Hashes of `start` and everything before it, newest first; nothing is decoded."""


class JobQueue(Protocol):
    """Work to do later, at least once, one at a time per lock.

    `submit` with a `dedup_key` that still waits gives the same job. An expired lease makes
    a job claimable again; once another worker claimed it, or it was cancelled or finished,
    the late worker's `extend` and `finish` raise `LeaseLost`. Jobs of one lock start in the
    order of their submission. Unknown job: `JobNotFound`.
    """

    def submit(self, spec: JobSpec) -> JobId: ...
    def claim(self, worker: str, kinds: Iterable[str], *, lease: timedelta) -> Job | None: ...
    def extend(self, job: JobId, worker: str, *, lease: timedelta) -> None: ...
    def finish(self, job: JobId, worker: str, outcome: JobOutcome) -> None: ...
    def cancel(self, job: JobId) -> None: ...
    def get(self, job: JobId) -> Job: ...
    def page(
        self, *, dataset: DatasetId | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[Job]: ...


class AccountStore(Protocol):
    """Accounts and the hashes of their tokens. Names compare without case.

    `put_account` adds or changes; a name of another account → `AccountNameTaken`.
    `account` → `AccountNotFound`; `put_token` of a known id → `TokenIdTaken`;
    `revoke_token` → `TokenNotFound`, and again changes nothing.
    """

    def put_account(self, account: Account) -> None: ...
    def find_account(self, name: str) -> Account | None: ...
    def account(self, account: AccountId) -> Account: ...
    def put_token(self, token: Token) -> None: ...
    def find_token(self, token: str) -> Token | None:
        """By token id."""

    def tokens(self, account: AccountId) -> Sequence[Token]: ...
    def revoke_token(self, token: str) -> None: ...
