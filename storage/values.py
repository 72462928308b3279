"""Values the ports speak in: object keys, entries, head moves, jobs, accounts, tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType

from protocol.identity import DatasetAlias, DatasetId
from protocol.instant import Instant
from protocol.metadata.events import DatasetKind
from protocol.multihash import Multihash

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


@dataclass(frozen=True, slots=True)
class TransferUrl:
    """Where a client may fetch or put one object directly, without the node in between."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    expires_at: Instant | None = None


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
    """Work to do. `payload` is JSON; `lock` keeps two jobs from running together."""

    kind: str
    dataset: DatasetId | None
    payload: dict[str, Any]
    lock: str | None = None
    dedup_key: str | None = None


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Result of a finished job, JSON."""

    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """A job that ended in an error. `error` is the class name of a `NodeError`, or `Internal`."""

    error: str
    message: str
    facts: dict[str, Any] = field(default_factory=dict)


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
