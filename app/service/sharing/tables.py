"""What shared tables hold: metadata, files as of a version, changes between versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyio import to_thread

from odf_node.protocol.delta.schemas import DeltaSchema
from odf_node.protocol.errors import BadInput
from odf_node.protocol.instant import Instant
from odf_node.storage.datasets.pruning.learned import LearnedBounds
from odf_node.storage.datasets.verify.source import DatasetSource
from odf_node.storage.datasets.versions.dead_rows import DeadRows
from odf_node.storage.datasets.versions.versions import Version

from ..auth.dataset_access import DatasetAccess
from ..auth.signed_urls import SignedUrls
from ..versions.versions import Versioned, VersionReads
from .files import slice_files
from .forms import Capabilities, Form
from .hinted import hinted_columns, may_hold_hinted
from .hints import Alternatives
from .lines import Line, TableTold, file_line, head_lines
from .names import VIEWS, SharedTable


class BadVersion(BadInput):
    """Several versions are asked for at once, or none in a way that tells which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """A version, by number or by time; the newest by default."""

    version: int | None = None
    timestamp: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What of a version is asked for. Hints may be ignored."""

    when: When
    limit: int | None = None
    """Of rows that the client looks at: with hints nobody knows in how many files they are."""
    hints: Alternatives | None = None
    """None: the client gave none."""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer: its version, its form, its lines."""

    version: int
    form: Form
    lines: list[Line]


@dataclass(frozen=True)
class SharedTables:
    """What shared tables are told from."""

    reads: VersionReads
    access: DatasetAccess
    urls: SignedUrls
    bounds: LearnedBounds

    async def newest(self, table: SharedTable, caller: str, *, since: Instant | None = None) -> int:
        """The newest version, or the oldest since a time. Raises `NoSuchVersion`."""
        found = await self.reads.of(table.entry, caller)
        return found.versions.last if since is None else found.versions.since(since)

    async def metadata(self, table: SharedTable, can: Capabilities, caller: str) -> Told:
        """Raises as `files`."""
        found, number, dead = await self._as_of(table, When(), caller)
        return await to_thread.run_sync(self._told, table, found, number, dead, can, None, "")

    async def files(
        self, table: SharedTable, wanted: Wanted, can: Capabilities, base: str, caller: str
    ) -> Told:
        """The files of a version, with URLs below `base`.

        Raises:
            NoSuchVersion, BadVersion, NeedsDeltaFormat, NotInDeltaFormat.
            What `VersionReads` raises.
        """
        found, number, dead = await self._as_of(table, wanted.when, caller)
        return await to_thread.run_sync(self._told, table, found, number, dead, can, wanted, base)

    async def _as_of(
        self, table: SharedTable, when: When, caller: str
    ) -> tuple[Versioned, int, DeadRows]:
        found = await self.reads.of(table.entry, caller)
        number = version_of(found, when)
        return found, number, await self.reads.dead_rows(found, number, table.view, caller)

    def _told(
        self,
        table: SharedTable,
        found: Versioned,
        number: int,
        dead: DeadRows,
        can: Capabilities,
        wanted: Wanted | None,
        base: str,
    ) -> Told:
        schema = found.schema(number)
        versions = found.versions[: number + 1]
        form = can.form(has_dead_rows=bool(dead), foreign=DeltaSchema(schema).foreign)
        about = DeltaSchema(schema, plain=form is Form.PARQUET)
        lines = head_lines(
            form, told_of(table, found, versions, number, about, has_dead_rows=bool(dead))
        )
        if wanted is not None:
            kept = self._kept(found, versions, dead, wanted)
            files = slice_files(self.urls, self.access, table, found, base)
            lines += [file_line(form, each) for each in files.told(kept, dead)]
        return Told(number, form, lines)

    def _kept(
        self, found: Versioned, versions: Sequence[Version], dead: DeadRows, wanted: Wanted
    ) -> Sequence[Version]:
        """Those that may hold a wanted row; without hints only as many as the limit takes."""
        if wanted.hints is not None:
            return self._hinted(found, versions, wanted.hints)
        if wanted.limit is None:
            return versions
        kept: list[Version] = []
        left = wanted.limit
        for each in versions:
            if left <= 0:
                break
            bitmap = dead.get(str(each.data.physical_hash))
            kept.append(each)
            left -= each.rows - (0 if bitmap is None else bitmap.cardinality)
        return kept

    def _hinted(
        self, found: Versioned, versions: Sequence[Version], hints: Alternatives
    ) -> Sequence[Version]:
        columns = hinted_columns(hints)
        if not columns:
            return versions
        view = found.outline.on(DatasetSource(found.dataset))
        names = [str(data.physical_hash) for data, _ in view.slices]
        bounds = self.bounds.of(str(found.dataset.id), columns, names)
        is_kept = may_hold_hinted(view, hints, bounds)
        return [each for each in versions if is_kept[each.number]]


def version_of(found: Versioned, when: When) -> int:
    """Raises `NoSuchVersion`, `BadVersion`."""
    if when.version is not None and when.timestamp is not None:
        raise BadVersion("ask by version or by timestamp, not by both")
    if when.version is not None:
        return found.versions.check(when.version)
    return found.versions.last if when.timestamp is None else found.versions.at(when.timestamp)


def told_of(
    table: SharedTable,
    found: Versioned,
    versions: Sequence[Version],
    number: int,
    schema: DeltaSchema,
    *,
    has_dead_rows: bool = False,
    is_feed: bool = False,
) -> TableTold:
    """The table as of a version whose files are those of `versions`."""
    view = next(name for name, each in VIEWS.items() if each is table.view)
    return TableTold(
        id=found.history.identity(found.dataset.id, view),
        name=str(table.entry.alias.name).replace(".", "_"),
        schema=schema,
        version=number,
        size=sum(each.data.size for each in versions),
        files=len(versions),
        block=str(versions[-1].block if versions else found.outline.head),
        created_ms=table.entry.created_at.millis,
        has_dead_rows=has_dead_rows,
        is_feed=is_feed,
    )
