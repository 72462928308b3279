"""Values of the stores: object keys, entries, head moves, jobs, accounts, tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType

from odf_protocol.errors import NodeError, branch_of
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetKind, HashedBlock
from odf_protocol.multihash import Multihash

from ...runtime.logs import current_trace

JobId = NewType("JobId", str)
"""Opaque id. Ids sort by the time of submission."""
AccountId = NewType("AccountId", str)
"""Text of the account's key (`did:odf:…`)."""


class ObjectKind(StrEnum):
    """The kind of an object, which decides its folder."""

    BLOCK = "block"
    DATA = "data"
    CHECKPOINT = "checkpoint"
    UPLOAD = "upload"


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Address of one object. Datasets never share objects, even if the hashes are equal."""

    dataset: DatasetId
    kind: ObjectKind
    hash: Multihash
    copy: str = ""
    """Tells uploads of the same bytes apart: 16 hexadecimal digits. Empty for all other objects."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in the node's bucket that is no object yet: its name below the prefix, the hash of its
    bytes, and the ETag of the version that has these bytes."""

    name: str
    hash: Multihash
    etag: str


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object that exists. `size` is in bytes."""

    key: ObjectKey
    size: int
    modified: Instant | None = field(default=None, compare=False)
    """When the object was put or last renewed, as far as the store reports it."""


@dataclass(frozen=True, slots=True)
class TransferUrl:
    """URL by which a client gets or puts one object without going through the node."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    expires_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """A key in a bucket. `endpoint` is None for the public service."""

    endpoint: str | None
    bucket: str
    key: str


class Visibility(StrEnum):
    PRIVATE = "Private"
    PUBLIC = "Public"


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """The registry's entry of a dataset. In single-tenant mode the owner is `kamu`."""

    id: DatasetId
    alias: DatasetAlias
    """Name of the dataset with the account of its owner; the account is never omitted."""
    kind: DatasetKind
    visibility: Visibility
    created_at: Instant


@dataclass(frozen=True, slots=True)
class HeadMove:
    """A request to move a head from `expected` to `new`; for the other fields see `RefIndex`."""

    dataset: DatasetId
    expected: Multihash
    new: Multihash
    blocks: tuple[HashedBlock, ...] = ()
    ref: str = "head"
    ended: tuple[JobEnd, ...] = ()
    of: DatasetEntry | None = None
    beyond_quota: bool = False


@dataclass(frozen=True, slots=True)
class HeadMoved:
    """One entry of the log of head moves."""

    number: int
    dataset: DatasetId
    ref: str
    old: Multihash | None
    new: Multihash
    at: Instant


class JobStatus(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Work to do. `payload` is JSON. Two jobs with the same `lock` never run at the same time.

    `body` is a small input that the worker gets with the job; it is deleted when the job ends.
    `account` and `schedule` are the origin of the job; `trace` is the trace that it belongs to.
    """

    kind: str
    dataset: DatasetId | None
    payload: dict[str, Any]
    lock: str | None = None
    dedup_key: str | None = None
    account: AccountId | None = None
    schedule: str | None = None
    body: bytes | None = field(default=None, repr=False, compare=False)
    trace: str | None = field(default_factory=current_trace, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class RequestKey:
    """A client's name for a request, by which the node recognizes a repetition of the request.

    The fingerprint distinguishes a repetition from another request under the same name.
    """

    dataset: DatasetId
    account: AccountId
    key: str
    fingerprint: Multihash
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job for a request. `repeated` says that an earlier request created it."""

    job: JobId
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Result of a job that succeeded, as JSON."""

    result: dict[str, Any]
    rejected: bytes | None = field(default=None, repr=False)
    """Rows that the job rejected, as packed NDJSON; stored apart and never shown with the job."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A job that ended in an error. `error` is the code of a `NodeError`, or `Internal`.

    `branch` is the branch of the error (`odf_protocol/errors.py`), which gives a process the HTTP
    status of an error whose class it does not import. It is empty if there is none, or if an older
    version wrote the outcome. The fact `retryable`, if present, says whether a retry may help, and
    overrides the branch.
    """

    error: str
    message: str
    facts: dict[str, Any] = field(default_factory=dict)
    branch: str = ""

    @classmethod
    def of(cls, error: NodeError) -> Failed:
        return cls(error.code, error.message, dict(error.facts), branch_of(type(error)))

    @property
    def retryable(self) -> bool | None:
        """Return what the error says about retries; None if its branch decides."""
        said = self.facts.get("retryable")
        return said if isinstance(said, bool) else None


JobOutcome = Succeeded | Failed


@dataclass(frozen=True, slots=True)
class Job:
    """The current state of a job. `attempt` counts claims; the first claim makes it 1."""

    id: JobId
    spec: JobSpec
    status: JobStatus
    submitted_at: Instant
    attempt: int
    worker: str | None = None
    lease_until: Instant | None = None
    finished_at: Instant | None = None
    outcome: JobOutcome | None = None
    progress: dict[str, Any] | None = None
    """Progress as JSON, possibly slightly outdated."""
    deaths: int = 0
    """Number of attempts that ended because their worker died."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job, to be stored in the same transaction as the job's effect."""

    job: JobId
    worker: str
    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class Backlog:
    """Number of waiting jobs, in total, by dataset and by account."""

    total: int = 0
    by_dataset: dict[DatasetId, int] = field(default_factory=dict)
    by_account: dict[AccountId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failing:
    """A dataset whose last jobs of a kind failed."""

    dataset: DatasetId
    count: int
    """Number of jobs that failed since the last one that succeeded."""
    since: Instant
    """When the first of them was submitted."""
    first: JobId
    last: JobId


@dataclass(frozen=True, slots=True)
class Account:
    """An owner of datasets, on whose behalf requests are made."""

    id: AccountId
    name: str
    is_admin: bool = False
    disabled_at: Instant | None = None
    """Since when nobody may act as this account; None: it is enabled."""
    sessions_end: Instant | None = None
    """Sessions that began until then are over; None: nobody ended any."""


class Scope(StrEnum):
    """A right of a token beyond what anonymous clients may do."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    MANAGE = "manage"


class Reach(StrEnum):
    """The range of a token: everything its account may access, its own datasets, or just one."""

    NODE = "node"
    ACCOUNT = "account"
    DATASET = "dataset"


class Role(StrEnum):
    """Rights of an account for another account's dataset; each role includes the earlier ones."""

    READER = "Reader"
    EDITOR = "Editor"
    MAINTAINER = "Maintainer"


@dataclass(frozen=True, slots=True)
class Token:
    """A stored token: the SHA3-256 hash of its secret, never the secret itself."""

    id: str
    account: AccountId
    secret_hash: bytes
    scopes: frozenset[Scope]
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    label: str = ""
    reach: Reach = Reach.NODE
    dataset: DatasetId | None = None
    """The dataset of a token whose reach is one dataset."""


@dataclass(frozen=True, slots=True)
class StoredPassword:
    """A stored password: its hash with all parameters, as text."""

    text: str = field(repr=False)
    changed_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLogin:
    """A command line that waits until its user logs in elsewhere. Codes are stored as hashes."""

    code_hash: bytes
    created_at: Instant
    expires_at: Instant
    polled_at: Instant | None = None
    account: AccountId | None = None
    """The account that approved it; None before that."""
    is_denied: bool = False
    user_code_hash: bytes | None = None
    """Of the short code that the user types on the page."""
    client: str | None = None
    """What the program that waits calls itself."""
    address: str | None = None
    """The address that it began from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedFile:
    """A file that an account announced; it has arrived once `hash` and `size` are set."""

    id: str
    account: AccountId
    file_name: str
    content_type: str | None
    created_at: Instant
    hash: Multihash | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Work on a dataset that starts by a cron expression or at an interval of seconds.

    `next_at` is None while the schedule is paused, or if no further time matches.
    """

    id: str
    dataset: DatasetId
    kind: str
    payload: dict[str, Any]
    cron: str | None
    every_s: int | None
    time_zone: str
    paused: bool
    created_at: Instant
    created_by: AccountId | None = None
    last_at: Instant | None = None
    next_at: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable that templates of sources read by its name. The value of a secret is encrypted."""

    name: str
    is_secret: bool
    value: bytes = field(repr=False)
    updated_at: Instant
    key_id: str | None = None
    """Id of the key that encrypts a secret."""
