"""Lakes: what a caller may read, as a catalogue file that never changes.

The address of a file has the hash of its state: of the datasets in it, their names and their heads.
A state is made once, and kept until newer ones push it out. Who may read all of its datasets may
read it, now: rights are asked for again with every request, of a second ago at most.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import msgspec
from anyio import to_thread
from pydantic import Field

from odf_protocol.chain.schema_evolution import odf_schema
from odf_protocol.errors import NodeError, NodeFault, NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.typed import decode_json
from odf_storage.datasets.read.view import Outline
from odf_storage.runtime.environment import BaseSettings
from odf_storage.runtime.extras import need
from odf_storage.runtime.logs import line
from odf_storage.stores.keyed.folder import Below
from odf_storage.stores.ports import KeyedStore
from odf_storage.stores.ports.errors import KeyNotFound, SwapLost
from odf_storage.stores.ports.overviews import ListedOverview, Readable

from ..auth.actors import Actor
from ..auth.dataset_access import KEPT_S, DatasetAccess, readable
from ..datasets.listing import ListingRequest, page_of, question
from ..history.versions import VersionReads
from ..http.parameters import MAX_PAGE
from ..projections.gateway import ServedFile
from .catalogue import Catalogue, LakeTable
from .columns import LakeColumns, NotShown
from .taken_back import TakenBackReads

FORM = 1
"""Number of the form of catalogues; another one makes them anew."""
MOST_CHECKED = 1024
PIECE_BYTES = 1 << 20
STATE_BYTES = 16 << 20
ALL = "*"
_STATES, _FILES = "states", "files"
_log = logging.getLogger("odf.node")


class DuckLakeSettings(BaseSettings):
    """Read from `ODF_DUCKLAKE_…`."""

    PREFIX: ClassVar[str] = "ODF_DUCKLAKE_"

    datasets: int = Field(
        10_000, ge=1, description="Most datasets of a lake; it says that there are more."
    )
    slices: int = Field(
        500_000, ge=1, description="Most slices of a lake; datasets beyond that are left out of it."
    )
    deleted_rows: int = Field(
        1_000_000,
        ge=0,
        description="Most rows taken back of one dataset; beyond that a lake shows its changelog "
        "only.",
    )
    kept: int = Field(100, ge=1, description="Catalogue files that are kept, the newest.")


class LakeState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A made state: its file, and what is in it."""

    state: str
    tag: str
    size: int
    account: str | None
    datasets: tuple[str, ...]
    left_out: tuple[NotShown, ...]

    @property
    def file(self) -> str:
        return f"{_FILES}/{self.state}-{self.tag}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeLimits:
    """Limits of one lake."""

    datasets: int
    files: int
    kept: int
    """Number of states that are kept, the newest."""


def no_such_lake() -> NotFound:
    """The state is not kept, or has a dataset that the caller may not read."""
    return NotFound(
        "NoSuchLake",
        "there is no such lake: it is not kept any more, or you may not read a dataset in it; "
        "GET /ducklake names the lake of now",
    )


class CheckedReaders:
    """Remembers for a moment who may read a state."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until: dict[tuple[Readable, str], float] = {}

    def has(self, who: Readable, state: str) -> bool:
        return self._now() < self._until.get((who, state), 0.0)

    def add(self, who: Readable, state: str) -> None:
        if len(self._until) >= MOST_CHECKED:
            self._until.clear()
        self._until[who, state] = self._now() + KEPT_S


class DescribedTables:
    """The datasets of the newest lakes as tables, up to a total number of slices: the next lake
    looks only at those whose heads have moved."""

    def __init__(self, max_slices: int) -> None:
        self._max_slices = max_slices
        self._known: OrderedDict[DatasetId, tuple[str, LakeTable]] = OrderedDict()
        self._slices = 0

    def get(self, listed: ListedOverview) -> LakeTable | None:
        known = self._known.get(listed.entry.id)
        return known[1] if known is not None and known[0] == _of_head(listed) else None

    def put(self, listed: ListedOverview, table: LakeTable) -> None:
        self._forget(listed.entry.id)
        self._known[listed.entry.id] = _of_head(listed), table
        self._slices += len(table.versions) + 1
        while self._slices > self._max_slices:
            self._forget(next(iter(self._known)))

    def _forget(self, dataset: DatasetId) -> None:
        known = self._known.pop(dataset, None)
        if known is not None:
            self._slices -= len(known[1].versions) + 1


def _of_head(listed: ListedOverview) -> str:
    return f"{listed.entry.alias} {listed.head}"


class _Described:
    """Datasets as tables, as long as they fit, and what is left out of them."""

    def __init__(self) -> None:
        self.tables: list[LakeTable] = []
        self.left_out: list[NotShown] = []
        self.failed: list[NotShown] = []
        """Those among the left out that another try may show."""
        self.files = 0

    def add(self, table: LakeTable, most_files: int) -> None:
        """Add a table, or leave it out if it has too many slices."""
        alias = f"{table.account}/{table.name}"
        if self.files + len(table.versions) > most_files:
            why = f"a lake has {most_files} slices at most: ask for those of an account"
            self.left_out.append(NotShown(alias, ALL, why))
            return
        self.files += len(table.versions)
        notes = table.columns.notes.items()
        self.left_out += [NotShown(alias, f"column {name}", why) for name, why in notes]
        self.tables.append(table)


@dataclass(frozen=True)
class Lakes:
    """Makes lakes and finds them. Use it in the thread of the event loop."""

    access: DatasetAccess
    reads: VersionReads
    taken_back: TakenBackReads
    projections: KeyedStore
    limits: LakeLimits
    described: DescribedTables
    checked: CheckedReaders = field(default_factory=CheckedReaders)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def newest(self, actor: Actor, account: str | None, base: str, caller: str) -> LakeState:
        """Return the lake of what the actor may read now; make it if it is not kept.

        Raises:
            ExtraMissing; the errors of busy readers.
        """
        need("duckdb", "lakes are files of DuckDB")
        listed = await to_thread.run_sync(self._listed, actor, account)
        key = self._key(listed, account, base)
        known = await to_thread.run_sync(self._read, key)
        if known is not None:
            return known
        async with self.lock:  # one at a time, each takes a core
            known = await to_thread.run_sync(self._read, key)
            if known is not None:
                return known
            made = await self._described(listed, caller)
            if made.failed:
                key = _hash([key, made.failed])
            return await to_thread.run_sync(self._make, key, account, listed, made, base)

    def file(self, actor: Actor, state: str) -> ServedFile:
        """Return the file of a state. Raises `NoSuchLake`."""
        found = self._read(state)
        if found is None or not self._may_read(actor, found):
            raise no_such_lake()
        store, key = self._store, found.file
        return ServedFile(
            open=lambda: store.open(key),
            size=found.size,
            tag=found.tag,
            is_fixed=True,
            is_public=False,
        )

    @property
    def _store(self) -> Below:
        return Below(self.projections, "ducklake")

    def _may_read(self, actor: Actor, found: LakeState) -> bool:
        who = readable(actor, self.access.reads)
        if not self.checked.has(who, found.state):
            wanted = set(found.datasets)
            for listed in self._pages(actor, found.account):
                wanted.discard(str(listed.entry.id))
            if wanted:
                return False
            self.checked.add(who, found.state)
        return True

    def _pages(self, actor: Actor, account: str | None) -> Iterator[ListedOverview]:
        asked = question(self.access, actor, ListingRequest(account=account))
        after: str | None = None
        while True:
            page, after = page_of(self.access, asked, after=after, limit=MAX_PAGE)
            yield from page
            if after is None:
                return

    def _listed(self, actor: Actor, account: str | None) -> list[ListedOverview]:
        """Return the datasets, one more than the limit if there are more."""
        found = []
        for each in self._pages(actor, account):
            found.append(each)
            if len(found) > self.limits.datasets:
                break
        return found

    def _key(self, listed: Sequence[ListedOverview], account: str | None, base: str) -> str:
        datasets = [(str(each.entry.id), str(each.entry.alias), str(each.head)) for each in listed]
        limits = (self.limits.datasets, self.limits.files, self.taken_back.most_rows)
        return _hash([FORM, limits, account, base, datasets])

    async def _described(self, listed: Sequence[ListedOverview], caller: str) -> _Described:
        made = _Described()
        for each in listed[: self.limits.datasets]:
            await self._describe(each, made, caller)
        if len(listed) > self.limits.datasets:
            why = f"a lake has {self.limits.datasets} datasets at most: ask for those of an account"
            made.left_out.append(NotShown(ALL, ALL, why))
        return made

    async def _describe(self, listed: ListedOverview, made: _Described, caller: str) -> None:
        """Add a dataset. One that a lake cannot show is left out and harms no other."""
        entry, taken_back = listed.entry, None
        alias, known = str(entry.alias), self.described.get(listed)
        if known is not None:
            made.add(known, self.limits.files)
            return
        try:
            found = await self.reads.of(entry, caller)
            columns = LakeColumns(_schemas(found.outline))
            try:
                taken_back = await self.taken_back.of(found, caller)
            except NodeError as error:
                made.failed.append(_failed(alias, "current rows", error))
        except ValueError as bad:
            made.left_out.append(NotShown(alias, ALL, str(bad)))
            return
        except NodeError as error:
            made.failed.append(_failed(alias, ALL, error))
            return
        table = LakeTable(
            account=str(entry.alias.account),
            name=str(entry.alias.name),
            location=f"{self.access.shown_alias(entry)}/data/",
            about=f"{entry.id} as of the block {found.outline.head}",
            columns=columns,
            versions=found.versions[:],
            taken_back=taken_back,
        )
        if taken_back is not None and found.outline.head == listed.head:
            self.described.put(listed, table)
        made.add(table, self.limits.files)

    def _make(
        self,
        state: str,
        account: str | None,
        listed: Sequence[ListedOverview],
        made: _Described,
        base: str,
    ) -> LakeState:
        left_out = [*made.left_out, *made.failed]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "catalogue")
            Catalogue(made.tables, left_out, base).write(path)
            with path.open("rb") as file:
                tag = hashlib.file_digest(file, "sha256").hexdigest()
            found = LakeState(
                state=state,
                tag=tag,
                size=path.stat().st_size,
                account=account,
                datasets=tuple(str(each.entry.id) for each in listed),
                left_out=tuple(left_out),
            )
            with path.open("rb") as file:
                self._store.put(found.file, iter(lambda: file.read(PIECE_BYTES), b""))
        try:
            self._store.swap(_key_of(state), msgspec.json.encode(found), expected=None)
        except SwapLost:  # another service made it meanwhile
            return self._read(state) or found
        self._forget()
        _log.info(line("a lake was made", datasets=len(made.tables), left_out=len(left_out)))
        return found

    def _read(self, state: str) -> LakeState | None:
        try:
            content = self._store.read(_key_of(state), most=STATE_BYTES)
        except KeyNotFound:
            return None
        return None if content is None else decode_json(content.raw, LakeState)

    def _forget(self) -> None:
        """Delete all but the newest states."""
        infos = sorted(self._store.list(_STATES), key=lambda info: info.modified.ns, reverse=True)
        old = {info.key.rpartition("/")[2] for info in infos[self.limits.kept :]}
        files = [info.key for info in self._store.list(_FILES)] if old else []
        gone = [key for key in files if key.rpartition("/")[2].partition("-")[0] in old]
        self._store.delete([*map(_key_of, old), *gone])


def _key_of(state: str) -> str:
    return f"{_STATES}/{state}"


def _hash(told: object) -> str:
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()


def _failed(alias: str, part: str, error: NodeError) -> NotShown:
    """Return why a part of a dataset is missing. Raise the error if it is of the moment: the next
    try then makes the whole lake."""
    if "retry_after_s" in error.facts:
        raise error
    is_ours = isinstance(error, NodeFault)
    return NotShown(alias, part, f"{error.code}: it cannot be read" if is_ours else error.message)


def _schemas(outline: Outline) -> list[tuple[int, DataSchema]]:
    """Return the schemas that have rows, with the number of their first version; the newest one if
    there are no rows. Raises `ValueError` if there is none."""
    count = len(outline.slices)
    if not outline.schemas:
        raise ValueError("it has no schema yet")
    if not count:
        return [(0, odf_schema(outline.schemas[-1][1]))]
    by_start = {before: event for before, event in outline.schemas if before < count}
    return [(before, odf_schema(event)) for before, event in sorted(by_start.items())]
