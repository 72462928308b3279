"""Lists of datasets: overviews, filters, orders and page positions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetKind
from odf_protocol.multihash import Multihash

from .values import AccountId, DatasetEntry, Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What a list shows of a dataset's chain as of `head`. `data_size` is in bytes."""

    head: Multihash
    records: int
    data_size: int
    blocks: int
    updated_at: Instant
    description: str | None = None
    license: str | None = None
    keywords: tuple[str, ...] = ()
    added: tuple[int, ...] = ()
    """Rows of the newest blocks with rows, oldest first, for a drawing."""
    columns: tuple[str, ...] = field(default=(), compare=False)
    """Names of columns, for the search; not stored."""


@dataclass(frozen=True, slots=True)
class ListedOverview:
    """A dataset in a list. The overview may lag behind the head; None if there is none yet."""

    entry: DatasetEntry
    head: Multihash
    overview: Overview | None
    fit: int = 0
    """How well the dataset fits the words of a search; 0 in a list without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """The datasets that a caller may read besides the public ones."""

    everything: bool = False
    datasets: tuple[DatasetId, ...] = ()
    account: str | None = None
    """Folded name of the account whose own datasets the caller may read."""
    roles_of: AccountId | None = None
    """The account whose roles for datasets of other accounts count."""
    within: DatasetId | None = None
    """If set, own datasets and roles count only for this dataset."""


class SortBy(StrEnum):
    """The value that orders a list; datasets with an equal value are ordered by alias."""

    NAME = "name"
    UPDATED = "updated"
    ROWS = "rows"
    BYTES = "bytes"
    RELEVANCE = "relevance"
    """How well a dataset fits the words of a search; without words all are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedOverviews:
    """Filter for a list of datasets. A field that is None does not restrict the list."""

    readable: Readable
    words: tuple[str, ...] = ()
    """Folded words; each must occur in the alias, or begin a word of description, keywords, license
    or columns, or have the stem of one."""
    forgives: bool = False
    """Whether a letter of each word may be wrong, missing, too many, or at its neighbour's
    place."""
    kind: DatasetKind | None = None
    account: str | None = None
    visibility: Visibility | None = None
    keyword: str | None = None
    license: str | None = None
    since: Instant | None = None
    """Time of the last change from which on datasets are listed."""


@dataclass(frozen=True, slots=True)
class Facets:
    """Values of the datasets of a list with their counts, the frequent ones first."""

    kind: tuple[tuple[str, int], ...]
    license: tuple[tuple[str, int], ...]
    account: tuple[tuple[str, int], ...]
    keyword: tuple[tuple[str, int], ...]
    changed: tuple[int, ...]
    """How many changed since each of the times that were asked for."""


@dataclass(frozen=True, slots=True)
class ListOrder:
    """How a list is ordered."""

    by: SortBy = SortBy.NAME
    descending: bool = False


@dataclass(frozen=True, slots=True)
class After:
    """The position after which a page continues: the folded alias of the last dataset and its
    value of the ordering field (None if the list is ordered by alias)."""

    alias: str
    value: int | Instant | None = None
