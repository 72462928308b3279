"""What a list of datasets shows of each, and what it can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.events import DatasetKind
from odf_node.protocol.multihash import Multihash

from .values import AccountId, DatasetEntry, Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What the chain of a dataset says as of `head`, for lists. `data_size` in bytes."""

    head: Multihash
    records: int
    data_size: int
    blocks: int
    updated_at: Instant
    description: str | None = None
    license: str | None = None
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """A dataset in a list. The overview may lag behind the head; None: not made yet."""

    entry: DatasetEntry
    head: Multihash
    overview: Overview | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """Which datasets a caller may read besides those that are public."""

    everything: bool = False
    datasets: tuple[DatasetId, ...] = ()
    account: str | None = None
    """Folded name of the account whose datasets are the caller's own."""
    roles_of: AccountId | None = None
    """The account whose roles at datasets of others count."""
    within: DatasetId | None = None
    """The one dataset that own datasets and roles are limited to."""


class SortBy(StrEnum):
    """What a list is ordered by; datasets that are equal in it, by alias."""

    NAME = "name"
    UPDATED = "updated"
    ROWS = "rows"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Datasets that a list is to show; what is None does not matter."""

    readable: Readable
    words: tuple[str, ...] = ()
    """All occur: in the alias, or as the beginning of a word of description or keywords. Folded."""
    kind: DatasetKind | None = None
    account: str | None = None
    visibility: Visibility | None = None
    keyword: str | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """How a list is ordered."""

    by: SortBy = SortBy.NAME
    descending: bool = False


@dataclass(frozen=True, slots=True)
class After:
    """Where a page continues: behind the dataset with this alias (folded), and this value of what
    the list is ordered by; None where that is the alias itself."""

    alias: str
    value: int | Instant | None = None
