"""Values the ports speak in: object keys, entries, head moves, jobs, accounts, tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType

from odf_node.protocol.errors import NodeError, branch_of
from odf_node.protocol.identity import DatasetAlias, DatasetId
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.events import DatasetKind
from odf_node.protocol.multihash import Multihash

from ...runtime.context import current_trace

JobId = NewType("JobId", str)
"""Opaque; sorts by time of submission."""
AccountId = NewType("AccountId", str)
"""`did:odf:…` text of the account's key."""


class ObjectKind(StrEnum):
    """What an object is; decides its folder."""

    BLOCK = "block"
    DATA = "data"
    CHECKPOINT = "checkpoint"
    UPLOAD = "upload"


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Address of one object. Content is never shared between datasets by hash alone."""

    dataset: DatasetId
    kind: ObjectKind
    hash: Multihash


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object that exists. `size` in bytes."""

    key: ObjectKey
    size: int
    modified: Instant | None = field(default=None, compare=False)
    """When it was put, or last renewed, as far as a look at it tells."""


@dataclass(frozen=True, slots=True)
class TransferUrl:
    """Where a client may fetch or put one object directly, without the node in between."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    expires_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """A key in a bucket. `endpoint` None: the public service."""

    endpoint: str | None
    bucket: str
    key: str


class Visibility(StrEnum):
    PRIVATE = "Private"
    PUBLIC = "Public"


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """What the registry knows of a dataset. In single-tenant mode the owner is `kamu`."""

    id: DatasetId
    alias: DatasetAlias
    """Name with its owner's account, always both."""
    kind: DatasetKind
    visibility: Visibility
    created_at: Instant


@dataclass(frozen=True, slots=True)
class HeadMove:
    """A head that is to move from `expected` to `new`, and what happens with it."""

    dataset: DatasetId
    expected: Multihash
    new: Multihash
    blocks: tuple[HashedBlock, ...] = ()
    ref: str = "head"
    ended: tuple[JobEnd, ...] = ()
    of: DatasetEntry | None = None


@dataclass(frozen=True, slots=True)
class HeadMoved:
    """One line of the log of head moves."""

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
    """Work to do. `payload` is JSON; `lock` keeps two jobs from running together.

    `body` is a small input that travels with the job to the worker that claims it, and goes with
    its end. `account` and `schedule` say who asked for it, `trace` what it is part of.
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
    """What a client calls a request, so that its repeat is known as one.

    The fingerprint tells a repeat from another request under the same name.
    """

    dataset: DatasetId
    account: AccountId
    key: str
    fingerprint: Multihash
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that waits, and whether it is that of an earlier request."""

    job: JobId
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Result of a finished job, JSON."""

    result: dict[str, Any]
    rejected: bytes | None = field(default=None, repr=False)
    """Rows it set aside, as packed NDJSON; kept apart, so that none is in a job that is shown."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A job that ended in an error. `error` is the class name of a `NodeError`, or `Internal`.

    `branch` is that of the error (`protocol/errors.py`), by which a process knows the status of an
    error whose class it does not import; empty for none, and from versions that told none. The fact
    `retryable` says whether trying again may help, where the branch alone would say otherwise.
    """

    error: str
    message: str
    facts: dict[str, Any] = field(default_factory=dict)
    branch: str = ""

    @classmethod
    def of(cls, error: NodeError) -> Failed:
        kind = type(error)
        return cls(kind.__name__, error.message, dict(error.facts), branch_of(kind))

    @property
    def retryable(self) -> bool | None:
        """What the error says itself about trying again; None: it goes by its branch."""
        said = self.facts.get("retryable")
        return said if isinstance(said, bool) else None


JobOutcome = Succeeded | Failed


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stands. `attempt` counts claims, from 1 at the first."""

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
    """How far it is, JSON; may be a little old."""
    deaths: int = 0
    """How many of the attempts ended with their worker."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job that has to come together with what it did."""

    job: JobId
    worker: str
    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many jobs wait, in all and by whose they are."""

    total: int = 0
    by_dataset: dict[DatasetId, int] = field(default_factory=dict)
    by_account: dict[AccountId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns datasets and asks for them."""

    id: AccountId
    name: str
    is_admin: bool = False


class Scope(StrEnum):
    """What a token allows beyond what its account may do anonymously."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    MANAGE = "manage"


class Reach(StrEnum):
    """How far a token reaches: all its account may touch, its own datasets, or just one."""

    NODE = "node"
    ACCOUNT = "account"
    DATASET = "dataset"


class Role(StrEnum):
    """What an account may do with a dataset of another one; each includes the ones before."""

    READER = "Reader"
    EDITOR = "Editor"
    MAINTAINER = "Maintainer"


@dataclass(frozen=True, slots=True)
class Token:
    """A stored token: the SHA3-256 of its secret, never the secret."""

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
    """The one dataset of a token that reaches no further."""


@dataclass(frozen=True, slots=True)
class StoredPassword:
    """What is kept of a password: its hash with all parameters, as text."""

    text: str = field(repr=False)
    changed_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLogin:
    """A command line that waits for its user to log in elsewhere. Codes are kept as hashes."""

    code_hash: bytes
    created_at: Instant
    expires_at: Instant
    polled_at: Instant | None = None
    account: AccountId | None = None
    """Who approved it; None while nobody has."""
    is_denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedFile:
    """A file of an account that is announced, and here once `hash` and `size` are known."""

    id: str
    account: AccountId
    file_name: str
    content_type: str | None
    created_at: Instant
    hash: Multihash | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Work on a dataset that begins by itself, by a cron expression or every so many seconds.

    `next_at` is None while it is paused, and when there is no time to come.
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
    """What templates of sources may read by its name. That of a secret is encrypted."""

    name: str
    is_secret: bool
    value: bytes = field(repr=False)
    updated_at: Instant
    key_id: str | None = None
    """Which key a secret is encrypted with."""
