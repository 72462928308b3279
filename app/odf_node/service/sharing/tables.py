"""The contents of shared tables: versions, metadata, and files as of a version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyio import to_thread

from odf_protocol.delta.schemas import DeltaSchema
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_storage.datasets.pruning.learned import LearnedBounds
from odf_storage.datasets.verify.source import DatasetSource
from odf_storage.datasets.versions.dead_rows import DeadRows
from odf_storage.datasets.versions.versions import Version

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
    """The request names too many versions, or an invalid range of versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """A version by number or by time; by default the newest."""

    version: int | None = None
    timestamp: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The wanted part of a version. Hints may be ignored."""

    when: When
    limit: int | None = None
    """Limit of rows that the client needs. It is not used with hints, since it is unknown how many
    files have the matching rows."""
    hints: Alternatives | None = None
    """None means that the client sent no hints."""


@dataclass(frozen=True, slots=True)
class Told:
    """A response: its version, its format, its lines."""

    version: int
    form: Form
    lines: list[Line]


@dataclass(frozen=True)
class SharedTables:
    """Makes responses about shared tables."""

    reads: VersionReads
    access: DatasetAccess
    urls: SignedUrls
    bounds: LearnedBounds

    async def newest(self, table: SharedTable, caller: str, *, since: Instant | None = None) -> int:
        """Return the newest version, or the oldest since a time. Raises `NoSuchVersion`."""
        found = await self.reads.of(table.entry, caller)
        return found.versions.last if since is None else found.versions.since(since)

    async def metadata(self, table: SharedTable, can: Capabilities, caller: str) -> Told:
        """Return protocol and metadata of the newest version. Raises the same errors as `files`."""
        found, number, dead = await self._as_of(table, When(), caller)
        return await to_thread.run_sync(self._told, table, found, number, dead, can, None, "")

    async def files(
        self, table: SharedTable, wanted: Wanted, can: Capabilities, base: str, caller: str
    ) -> Told:
        """Return the files of a version, with URLs below `base`.

        Raises:
            NoSuchVersion, BadVersion, NeedsDeltaFormat, NotInDeltaFormat.
            The errors of `VersionReads`.
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
        """Return versions that may have wanted rows; without hints, only enough for the limit."""
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
    """Return the number of a version. Raises `NoSuchVersion`, `BadVersion`."""
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
    """Describe the table as of a version whose files are those of `versions`."""
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
