"""Names of tables in a query → datasets that the caller may read, as of a block.

We search the text for names: quoted identifiers, and words where a table may stand. This finds
too many names; the engine later reports which tables the query uses. A dataset that the caller may
not read is treated as if it did not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import re2

from odf_protocol.errors import BadInput, NotFound
from odf_protocol.identity import (
    DatasetAlias,
    DatasetId,
    DatasetRef,
    MalformedDid,
    MalformedName,
    Name,
)
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import MalformedHash, MalformedMultibase, Multihash
from odf_storage.datasets.kartothek.index_place import IndexRef
from odf_storage.datasets.node.naming import SINGLE_OWNER
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.pruning.learned import Bounds, LearnedBounds
from odf_storage.datasets.query.messages import TableView, with_own_names
from odf_storage.datasets.query.tables import schema_of
from odf_storage.datasets.read.view import Outline
from odf_storage.stores.ports.errors import BlockNotFound
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.access import DatasetRenamed
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..datasets.listing import list_datasets
from ..limits.texts import TextLimit
from ..read.outlines import Outlines
from ..setting_groups.words import Tenancy
from .engine import MOST_NAMES

QUERY_MAX_DATASETS = 64
"""Most datasets that one query may name."""

MAX_NAMES = 1_000
"""Limit of different names in a query."""
_QUOTED = re2.compile(r'"((?:""|[^"])*)"|`([^`]*)`')
_BARE = re2.compile(
    r"(?i)(?:(?:,\s*)?\b(?:from|join)\b|,)[\s\v\x1c-\x1f\x85\pZ(]*([a-z_][a-z0-9_]*)"
)


class DatasetPin(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A dataset as of a block, under the table name that a query uses."""

    id: str
    alias: str
    block_hash: str | None = None


class PinnedDatasetNotFound(NotFound):
    """The dataset of a pin does not exist here, or the caller may not read it."""

    def __init__(self, dataset: str) -> None:
        super().__init__(f"Dataset not found: {dataset}", dataset_id=dataset)


class PinnedBlockNotFound(NotFound):
    """The dataset does not have the pinned block, or no longer has it."""

    def __init__(self, dataset: str, block: str) -> None:
        super().__init__(
            f"Block not found: {block} of {dataset}; the history may have been rewritten since "
            "(compacted or reset), then its rows are to be asked for anew",
            dataset_id=dataset,
            block_hash=block,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSource:
    """A dataset as of a block, under a name in the query."""

    alias: str
    views: frozenset[TableView]
    """Views that the text names after `@`."""
    id: DatasetId
    outline: Outline
    index: IndexRef | None = None
    bounds: Mapping[str, Sequence[Bounds | None]] = field(default_factory=dict)
    """Known bounds of values in each slice, by columns whose names are in the text."""

    @property
    def pin(self) -> DatasetPin:
        head = str(self.outline.head)
        return DatasetPin(id=str(self.id), alias=self.alias, block_hash=head)


@dataclass(frozen=True)
class QueryInputs:
    """Finds the datasets that a query names."""

    stores: Stores
    access: DatasetAccess
    outlines: Outlines
    bounds: LearnedBounds
    max_datasets: int
    longest: TextLimit

    def sources(self, actor: Actor, query: str, pins: Sequence[DatasetPin]) -> list[SliceSource]:
        """Return the datasets that the query may use.

        Raises:
            TextTooLong. PinnedDatasetNotFound, PinnedBlockNotFound, TooManyTables.
        """
        self.longest.check(query)  # first of all: every query of every door passes here
        asked = views_by_alias(query)
        for pin in pins:
            asked.setdefault(pin.alias, set())
        if len(asked) > MAX_NAMES:
            raise BadInput(
                "TooManyTables", f"a query has {MAX_NAMES} names at most", limit=MAX_NAMES
            )
        by_alias = {pin.alias: self._pinned(actor, pin) for pin in pins}
        found: list[SliceSource] = []
        for alias, views in asked.items():
            source = by_alias.get(alias) or self._newest(actor, alias)
            if source is None:
                continue
            entry, at = source
            if len(found) == self.max_datasets:
                raise BadInput(
                    "TooManyTables",
                    f"a query names {self.max_datasets} datasets at most",
                    limit=self.max_datasets,
                )
            outline, index = self._outline(entry, at)
            found.append(
                SliceSource(
                    alias=alias,
                    views=frozenset(views),
                    id=entry.id,
                    outline=outline,
                    index=index,
                    bounds=self._bounds(entry, outline, query.casefold()),
                )
            )
        return found

    def _bounds(
        self, entry: DatasetEntry, outline: Outline, text: str
    ) -> Mapping[str, Sequence[Bounds | None]]:
        fields = outline.schema.fields if outline.schema is not None else ()
        columns = [each.name for each in fields if each.name.casefold() in text]
        slices = [str(data.physical_hash) for data, _ in outline.slices] if columns else []
        return self.bounds.of(str(entry.id), columns, slices)

    def named(self, actor: Actor, alias: str) -> DatasetEntry | None:
        """Return the dataset that a query means by this name, an alias or an id, or None if it is
        not readable."""
        ref = self._full(actor, alias)
        if ref is None or ref.alias is None:
            return None if ref is None or ref.id is None else self.access.visible(actor, ref.id)
        entry = self.access.entries.find(ref.alias)
        return None if entry is None or not self.access.may_read(actor, entry) else entry

    def renamed(self, actor: Actor, alias: str) -> str | None:
        """Return the name of today of a dataset that had this one, if the actor may read it."""
        ref = self._full(actor, alias)
        if ref is None or ref.alias is None:
            return None
        hidden = self.access.hidden(actor, ref.alias)
        return str(hidden.facts["name"]) if isinstance(hidden, DatasetRenamed) else None

    def _full(self, actor: Actor, alias: str) -> DatasetRef | None:
        """Return the name with its account, which is the actor's own if the name has none."""
        try:
            ref = DatasetRef.parse(alias)
        except (MalformedName, MalformedDid, MalformedMultibase):
            return None
        if ref.alias is None or ref.alias.account is not None:
            return ref
        single = self.access.tenancy is Tenancy.SINGLE
        own = SINGLE_OWNER if single else actor.account.name if actor.account else None
        return None if own is None else DatasetRef(alias=DatasetAlias(ref.alias.name, Name(own)))

    def names(self, actor: Actor) -> list[str]:
        """Return names that a query may use, some of them if there are very many."""
        entries, _ = list_datasets(self.access, actor, account=None, after=None, limit=MOST_NAMES)
        return [self.access.shown_alias(entry) for entry in entries]

    def columns(self, entry: DatasetEntry) -> DataSchema:
        """Return the columns of a dataset as a table, as of its head."""
        outline, _ = self._outline(entry, None)
        return schema_of(outline)

    def key(self, entry: DatasetEntry) -> tuple[str, ...]:
        """Return the columns of the primary key of a dataset; none if it has no key, or one of
        columns that it does not have."""
        outline, _ = self._outline(entry, None)
        names = {each.name for each in schema_of(outline).fields}
        return outline.key if names.issuperset(outline.key) else ()

    def _pinned(self, actor: Actor, pin: DatasetPin) -> tuple[DatasetEntry, Multihash | None]:
        try:
            entry = self.access.visible(actor, DatasetId.parse(pin.id))
        except (MalformedDid, MalformedMultibase):
            entry = None
        if entry is None:
            raise PinnedDatasetNotFound(pin.id[:200])
        if pin.block_hash is None:
            return entry, None
        try:
            return entry, Multihash.parse(pin.block_hash)
        except (MalformedHash, MalformedMultibase):
            raise PinnedBlockNotFound(pin.id, pin.block_hash[:200]) from None

    def _newest(self, actor: Actor, alias: str) -> tuple[DatasetEntry, None] | None:
        entry = self.named(actor, alias)
        return None if entry is None else (entry, None)

    def _outline(
        self, entry: DatasetEntry, at: Multihash | None
    ) -> tuple[Outline, IndexRef | None]:
        dataset = self.stores.dataset(DatasetRef(id=entry.id))
        try:
            return self.outlines.of(dataset, at)
        except BlockNotFound:
            raise PinnedBlockNotFound(str(entry.id), str(at)) from None


def views_by_alias(query: str) -> dict[str, set[TableView]]:
    """Return the names that may be tables, with the views that the text names of each."""
    found: dict[str, set[TableView]] = {}
    for name in _names(with_own_names(query)):
        alias, at, view = name.partition("@")
        if not at:
            found.setdefault(alias, set())
        elif view in set(TableView):
            found.setdefault(alias, set()).add(TableView(view))
    return found


def _names(query: str) -> Iterator[str]:
    for quoted, ticked in _QUOTED.findall(query):
        yield quoted.replace('""', '"') or ticked
    yield from _BARE.findall(query)
