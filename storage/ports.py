"""The ports: everything durable the rest of the node relies on, on one page.

All calls are synchronous and safe to make from several threads and processes. Every
promise below is a test in `tests/conformance`, run on every adapter. The errors named here
are declared in `storage/errors.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, BinaryIO, Protocol

from protocol.errors import NodeError
from protocol.identity import DatasetAlias, DatasetId, DatasetRef
from protocol.instant import Instant
from protocol.metadata.block import HashedBlock
from protocol.multihash import Multihash

from .audit.values import Deed, DeedFilter
from .derivations.values import Derivation, Problem
from .mirrors.values import Mirror, MirrorStatus
from .values import (
    Account,
    AccountId,
    Backlog,
    DatasetEntry,
    DeviceLogin,
    HeadMove,
    HeadMoved,
    Job,
    JobEnd,
    JobId,
    JobOutcome,
    JobSpec,
    JobStatus,
    ObjectInfo,
    ObjectKey,
    RequestKey,
    Role,
    Schedule,
    StoredPassword,
    Token,
    TransferUrl,
    UploadedFile,
    Variable,
    Visibility,
)


class ObjectStore(Protocol):
    """Immutable bytes under their own hash. One dataset, one kind, one hash: one object.

    `put` hashes while writing: other content raises `HashMismatch` and is never visible;
    content appears all at once; putting the same object again is harmless, and renews it.
    Absent objects: `stat` → None, `open` → `ObjectNotFound`, `delete` → nothing happens.
    `open` past the end reads empty. URLs: None means "go through the node".

    Every object has an age. Who is about to name an object that is here already renews it:
    from then on it is as young as one that was just put, so that `discard`, which removes
    the old, does not take it away in between.
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
    def list(self, dataset: DatasetId) -> Iterator[ObjectInfo]: ...
    def datasets(self) -> Iterator[DatasetId]:
        """Every dataset of which anything is kept, each once, registered or not.

        One that was removed may still be named, with nothing in it.
        """

    def renew(self, key: ObjectKey) -> ObjectInfo | None:
        """As `stat`, and the object is young again. None also when it is just being removed."""

    def discard(self, key: ObjectKey, *, before: Instant) -> bool:
        """Remove an object put or renewed before then, unless it is renewed meanwhile."""

    def quarantine(self, key: ObjectKey) -> bool:
        """Take a damaged object out of sight, bytes kept; absent from then on. False if it was."""

    def remove_abandoned(self, *, before: Instant, dry_run: bool = False) -> int:
        """Remove what writes that broke off before then left behind; returns how many."""

    def download_url(self, key: ObjectKey, *, ttl: timedelta) -> TransferUrl | None: ...
    def upload_url(
        self, key: ObjectKey, *, size: int | None, ttl: timedelta
    ) -> TransferUrl | None: ...
    def settle(self, key: ObjectKey) -> ObjectInfo | None:
        """As `renew`, but what was put by an upload URL is taken in first.

        Such an object stays invisible until then; it is read and hashed here. Other content
        is removed and raises `HashMismatch`.
        """

    @property
    def partial(self) -> PartialUploads | None:
        """None: objects are put in one go here."""

    def write_ref(self, dataset: DatasetId, ref: str, head: Multihash) -> None:
        """Mirror a moved reference beside the objects (`refs/head`, no newline)."""

    def write_refs(self, ref: str, heads: Mapping[DatasetId, Multihash]) -> None:
        """As `write_ref` of each dataset; cheaper for many."""

    def read_ref(self, dataset: DatasetId, ref: str) -> Multihash | None:
        """The mirrored reference; the `RefIndex` is the authority while it exists."""

    def remove_ref(self, dataset: DatasetId, ref: str) -> None:
        """The mirrored reference goes: what is left is no dataset. Absent: nothing happens."""

    def write_alias(self, dataset: DatasetId, alias: DatasetAlias) -> None:
        """Keep the alias beside the objects (`info/alias`), so that an index can be rebuilt."""

    def read_alias(self, dataset: DatasetId) -> DatasetAlias | None:
        """The alias kept beside the objects; None if absent or no alias."""

    def write_info(self, dataset: DatasetId, name: str, text: str) -> None:
        """Keep a note of up to `MAX_INFO_BYTES` beside the objects (`info/<name>`)."""

    def read_info(self, dataset: DatasetId, name: str) -> str | None: ...

    def remove(self, dataset: DatasetId) -> None:
        """Everything of a dataset goes, references first. Nothing there: nothing happens."""


class PartialUploads(Protocol):
    """Uploads that may break off and go on. What arrived is seen by nobody until all is there.

    A part that nothing was added to for long is collected by `remove_abandoned`.
    """

    def received(self, key: ObjectKey) -> int:
        """How many bytes are here; 0 when there is no upload."""

    def append(self, key: ObjectKey, offset: int, chunks: Iterable[bytes], *, total: int) -> int:
        """Add bytes; how many are here then. With `total` bytes the object appears.

        Whatever ends it, what arrived before stays. `UploadBusy`, `OffsetMismatch`: nothing
        was added. `HashMismatch`: all is here and is other content; nothing is kept.
        """


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
    def find_all(self, wanted: Collection[DatasetId]) -> Mapping[DatasetId, DatasetEntry]:
        """Those of the datasets that are here."""

    def find_named(
        self, wanted: Collection[DatasetAlias]
    ) -> Mapping[DatasetAlias, DatasetEntry]: ...
    def page(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[DatasetEntry]:
        """Entries by folded alias, those greater than `after`."""

    def rename(self, dataset: DatasetId, alias: DatasetAlias) -> None: ...
    def set_visibility(self, dataset: DatasetId, visibility: Visibility) -> None: ...
    def forget(self, dataset: DatasetId, *, expected: Multihash | None = None) -> None:
        """With `expected`, only while that is its head; else `RefConflict`."""

    def set_inputs(self, dataset: DatasetId, inputs: Sequence[DatasetId]) -> None: ...
    def dependants(self, dataset: DatasetId) -> Sequence[DatasetId]: ...
    def dependants_of_any(self, datasets: Collection[DatasetId]) -> Collection[DatasetId]: ...


class RefIndex(Protocol):
    """Where named references point: the only part of a dataset that ever changes.

    `move` stores the new blocks and compares-and-swaps the head in one transaction and
    logs the move in it; the loser gets `RefConflict(expected, actual)`. `ended` are jobs that
    end with the move, or not at all (`LeaseLost`, and the head stays). The log has no
    late-comers: once a number was read, no smaller one appears. Creation is logged too.
    New blocks continue a block that is here (`BlockNotFound`) or nothing at all.
    `of` is the dataset as it was created then: of one that was forgotten and made again in
    the meantime, objects that had been here are gone (`DatasetNotFound`).
    Absent: `DatasetNotFound`, or `RefNotFound` for another name than `head`.
    """

    def head(self, dataset: DatasetId, ref: str = "head") -> Multihash: ...
    def heads(self, wanted: Collection[DatasetId]) -> Mapping[DatasetId, Multihash]:
        """As `head` of each; those of the datasets that are here."""

    def move(
        self,
        dataset: DatasetId,
        *,
        expected: Multihash,
        new: Multihash,
        blocks: Sequence[HashedBlock] = (),
        ref: str = "head",
        ended: Sequence[JobEnd] = (),
        of: DatasetEntry | None = None,
    ) -> None: ...
    def move_all(self, wanted: Sequence[HeadMove]) -> Sequence[NodeError | None]:
        """As `move`, of different datasets and in one transaction; what each would have raised.
        One that is refused keeps none of the others from moving."""

    def moves(
        self, *, after: int, limit: int = 100, since: Instant | None = None
    ) -> Sequence[HeadMoved]:
        """Lines of the log behind number `after`, oldest first; those of `since` and later."""

    def prune(self, dataset: DatasetId, *, heads: Sequence[Multihash]) -> int:
        """Forget the blocks that none of `heads` leads to; returns how many.

        The first of `heads` has to be the head (`RefConflict`). What was forgotten can be
        continued no more: `move` refuses.
        """


class BlockIndex(Protocol):
    """Blocks with their raw bytes, so that chains are read by range and not one by one."""

    def find(self, dataset: DatasetId, block: Multihash) -> HashedBlock | None: ...
    def ancestors(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[HashedBlock]:
        """`start` and the blocks before it, newest first, following `prev`.

        Stops below sequence number `down_to`, or after `limit`. Unknown start: empty.
        """

    def raw(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[tuple[Multihash, bytes]]:
        """As `ancestors`: hash and bytes of each; nothing is decoded or hashed."""

    def lineage(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0
    ) -> Iterator[Multihash]:
        """Hashes of `start` and everything before it, newest first; nothing is decoded."""

    def count(self, dataset: DatasetId) -> int:
        """How many blocks are here, on all branches."""


class JobQueue(Protocol):
    """Work to do later, at least once, one at a time per lock.

    `submit` with a `dedup_key` that still waits gives the same job; with a `request` it gives
    the job the request had before, unless that failed, was cancelled, or the key has expired;
    another fingerprint: `RequestKeyReused`. An expired lease makes a job claimable again; once
    another worker claimed it, or it was cancelled or finished, the late worker's `extend` and
    `finish` raise `LeaseLost`. Jobs of one lock start in the order of their submission. Unknown
    job: `JobNotFound`. Whoever listens to the bell is woken by work and by ends.
    """

    def submit(self, spec: JobSpec, *, request: RequestKey | None = None) -> JobId: ...
    def submit_all(self, specs: Sequence[JobSpec]) -> Sequence[JobId]:
        """As `submit` of each, none of them under a key; all or nothing."""

    def repeated(self, request: RequestKey) -> JobId | None:
        """The job that `submit` would give for this request, if that were no new one."""

    def claim(self, worker: str, kinds: Iterable[str], *, lease: timedelta) -> Job | None: ...
    def claim_groups(
        self,
        worker: str,
        kinds: Iterable[str],
        *,
        lease: timedelta,
        together: Mapping[str, int] | None = None,
        groups: int = 1,
    ) -> Sequence[Sequence[Job]]:
        """As `claim`; and the jobs of the same lock and kind that come right behind it.

        `together` says how many there may be, by kind; by default one. Each has
        its lease and its end. Of several locks up to so many groups, if all of their jobs are of
        the first one's kind and carry a body; the first group alone if that does not.
        """

    def extend(
        self, job: JobId, worker: str, *, lease: timedelta, progress: dict[str, Any] | None = None
    ) -> None: ...
    def finish(self, job: JobId, worker: str, outcome: JobOutcome) -> None: ...
    def cancel(self, job: JobId) -> None: ...
    def get(self, job: JobId) -> Job: ...
    def rejected(self, job: JobId) -> bytes | None:
        """The rows its `Succeeded` said it set aside, as long as they are kept."""

    def get_all(self, wanted: Collection[JobId], *, ended: bool = False) -> Mapping[JobId, Job]:
        """Those of the jobs that are known; with `ended`, that have ended."""

    def page(
        self,
        *,
        dataset: DatasetId | None = None,
        after: str | None = None,
        limit: int = 100,
        statuses: Collection[JobStatus] | None = None,
        kinds: Collection[str] | None = None,
        schedule: str | None = None,
        newest_first: bool = False,
    ) -> Sequence[Job]:
        """Jobs in the order of their submission, or backwards; only those asked for."""

    def backlog(self) -> Backlog:
        """How many jobs wait."""

    def prune(self, *, before: Instant, rejected_before: Instant | None = None) -> int:
        """Forget jobs that ended before then, but those that answer repeats; returns how many.
        Forget also the rows that were set aside before another time."""


class AccountStore(Protocol):
    """Accounts, the hashes of their passwords and tokens. Names compare without case.

    `put_account` adds or changes; a name of another account → `AccountNameTaken`.
    `account`, `set_password` → `AccountNotFound`; `put_token` of a known id → `TokenIdTaken`;
    `revoke_token` → `TokenNotFound`, and again changes nothing.
    """

    def put_account(self, account: Account) -> None: ...
    def find_account(self, name: str) -> Account | None: ...
    def account(self, account: AccountId) -> Account: ...
    def page(self, *, after: str | None = None, limit: int = 100) -> Sequence[Account]:
        """Accounts by folded name, those greater than `after`."""

    def set_password(self, account: AccountId, password: StoredPassword) -> None: ...
    def find_password(self, account: AccountId) -> StoredPassword | None: ...
    def secret(self, name: str, fresh: bytes) -> bytes:
        """The node's secret of that name: `fresh` if it had none; the first one stays."""

    def put_token(self, token: Token) -> None: ...
    def find_token(self, token: str) -> Token | None:
        """By token id."""

    def tokens(self, account: AccountId) -> Sequence[Token]: ...
    def revoke_token(self, token: str) -> None: ...


class RoleStore(Protocol):
    """Who may do what with whose dataset. Roles go with their dataset.

    `put` replaces; unknown → `DatasetNotFound`, `AccountNotFound`. Removing an absent role
    changes nothing.
    """

    def put(self, dataset: DatasetId, account: AccountId, role: Role) -> None: ...
    def remove(self, dataset: DatasetId, account: AccountId) -> None: ...
    def of_dataset(self, dataset: DatasetId) -> Mapping[AccountId, Role]: ...
    def of_account(self, account: AccountId) -> Mapping[DatasetId, Role]: ...


class MirrorStore(Protocol):
    """Which datasets follow one on another node. A mirror goes with its dataset.

    `put` adds or replaces; unknown → `DatasetNotFound`. `note` of what is no mirror, and
    `remove` of it, change nothing.
    """

    def put(self, mirror: Mirror) -> None: ...
    def find(self, dataset: DatasetId) -> Mirror | None: ...
    def among(self, datasets: Collection[DatasetId]) -> Collection[DatasetId]:
        """Those of the datasets that are mirrors."""

    def note(self, dataset: DatasetId, status: MirrorStatus) -> None: ...
    def remove(self, dataset: DatasetId) -> None:
        """From now on the dataset is one like others."""


class DerivationStore(Protocol):
    """How derivatives keep up with their inputs. A row goes with its dataset.

    Rows come into being by what is noted of a dataset; of unknown ones nothing is.
    """

    def place(self) -> int:
        """The number in the log of head moves up to which it was gone through."""

    def found_moves(
        self,
        *,
        expected: int,
        place: int,
        due: Mapping[DatasetId, Instant],
        resumed: Collection[DatasetId] = (),
    ) -> bool:
        """Go on from `expected` to `place`, and note what is due by then: both, or nothing.

        What is due already stays so, and does not come later. False: the place is another.
        """

    def find(self, dataset: DatasetId) -> Derivation | None: ...
    def due(self, *, now: Instant, limit: int = 100) -> Sequence[Derivation]:
        """Those that are due, the longest waiting first; not those paused or at work."""

    def at_work(self) -> Sequence[Derivation]: ...
    def submitted(self, dataset: DatasetId, *, version: int, job: JobId | None) -> None:
        """A job is at it, or none is needed; due no more, unless something came since."""

    def ended(
        self,
        dataset: DatasetId,
        *,
        job: JobId | None,
        problem: Problem | None = None,
        paused: bool = False,
        retry_at: Instant | None = None,
    ) -> None:
        """What became of that job, or why there was none; nothing if another one is at it."""

    def decide(self, dataset: DatasetId, *, wanted: bool) -> None:
        """Whether it is to follow its inputs by itself."""

    def resume(self, dataset: DatasetId, *, job: JobId) -> None:
        """Somebody submitted a job by hand: it follows its inputs again."""


class DeviceLogins(Protocol):
    """Logins of command lines that wait for their user, by the hash of their code.

    An absent one is None or False, never an error: codes come from strangers.
    """

    def put(self, login: DeviceLogin) -> None: ...
    def find(self, code_hash: bytes) -> DeviceLogin | None: ...
    def polled(self, code_hash: bytes, at: Instant) -> None: ...
    def decide(self, code_hash: bytes, account: AccountId | None) -> bool:
        """Approved by the account, or denied (None). False: absent, or decided before."""

    def take(self, code_hash: bytes) -> DeviceLogin | None:
        """The login, gone from now on: one of several callers gets it."""

    def count(self) -> int: ...
    def remove_expired(self, now: Instant) -> int: ...


class UploadedFiles(Protocol):
    """Files accounts uploaded before ingesting them; the bytes are `upload` objects.

    `put` of an unknown account → `AccountNotFound`.
    """

    def put(self, file: UploadedFile) -> None: ...
    def find(self, upload: str) -> UploadedFile | None: ...
    def arrived(self, upload: str, content: Multihash, size: int) -> UploadedFile | None:
        """The file with its content as it is now: the first that arrived stays. None: absent."""

    def count(self, account: AccountId) -> int: ...
    def oldest(self, *, before: Instant, limit: int = 100) -> Sequence[UploadedFile]:
        """Files announced before then, oldest first."""

    def has_content(self, account: AccountId, content: Multihash) -> bool:
        """Whether a file of the account has this content."""

    def remove(self, upload: str) -> None: ...


class AuditLog(Protocol):
    """Who did what. Deeds outlive accounts and datasets; nothing changes them, `prune` ends them.

    `record` counts them up in the order given; texts that are too long are cut.
    """

    def record(self, deeds: Sequence[Deed]) -> None: ...
    def page(
        self, which: DeedFilter = ..., *, before: int | None = None, limit: int = 100
    ) -> Sequence[Deed]:
        """Deeds, newest first, of numbers below `before`."""

    def prune(self, *, before: Instant) -> int:
        """Forget what was done before then; returns how many deeds."""


class Schedules(Protocol):
    """Work that begins by itself. Those of a dataset go with it.

    `put` adds or replaces; unknown dataset → `DatasetNotFound`.
    """

    def put(self, schedule: Schedule) -> None: ...
    def find(self, schedule: str) -> Schedule | None: ...
    def of_dataset(self, dataset: DatasetId) -> Sequence[Schedule]:
        """In the order they were made."""

    def remove(self, schedule: str) -> bool: ...
    def due(self, now: Instant, *, limit: int = 100) -> Sequence[Schedule]:
        """Those whose time has come, longest overdue first."""

    def next_due(self) -> Instant | None: ...
    def start(
        self, schedule: Schedule, spec: JobSpec, *, now: Instant, next_at: Instant | None
    ) -> JobId | None:
        """Queue the job and move on to the next time, both or neither.

        None: another process did, or the schedule was changed since.
        """


class Variables(Protocol):
    """Variables and sealed secrets of datasets and accounts, by the id of their owner."""

    def put(self, owner: str, variable: Variable) -> None: ...
    def of_owner(self, owner: str) -> Mapping[str, Variable]:
        """By name, in the order of names."""

    def remove(self, owner: str, name: str) -> bool: ...
    def owners(self) -> Sequence[str]: ...
