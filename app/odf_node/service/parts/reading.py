"""Parts that read datasets: rows, versions, shared tables, lookups."""

from __future__ import annotations

from functools import cached_property

from odf_storage.datasets.pruning.learned import REMEMBERED_BOUNDS, LearnedBounds
from odf_storage.datasets.versions.dead_rows import DEAD_ROWS_BYTES

from ..derivatives.derivatives import Derivatives
from ..iceberg.made_files import FILE_MEMORY_BYTES, FileMemory
from ..iceberg.tables import MAX_SNAPSHOTS, IcebergTables
from ..lineage.lineage import LineageSources
from ..lookup.lookup import Lookups
from ..projections.gateway import GATEWAY_REWRITE_BYTES, Gateway
from ..read.current import Current
from ..read.outlines import REMEMBERED_SLICES, OutlineMemory, Outlines
from ..read.read import Tables
from ..read.tail import MAX_TAIL_BYTES, MAX_TAIL_RECORDS, Tails
from ..readers.pool import Readers
from ..readers.text_answers import TextAnswers
from ..sharing.changes import SHARING_NEW_FILES, ChangeFeeds
from ..sharing.tables import SharedTables
from ..versions.steps import DEAD_ROWS_INDEX_ROWS, Steps
from ..versions.versions import VersionReads
from .callers import CallerParts


class ReadParts(CallerParts):
    """Parts that read datasets: rows, versions, shared tables, lookups."""

    @cached_property
    def readers(self) -> Readers:
        return Readers(self.settings)

    @cached_property
    def text_answers(self) -> TextAnswers:
        return TextAnswers(self.readers)

    @cached_property
    def tails(self) -> Tails:
        return Tails(self.stores, MAX_TAIL_RECORDS, MAX_TAIL_BYTES)

    @cached_property
    def learned_bounds(self) -> LearnedBounds:
        return LearnedBounds(REMEMBERED_BOUNDS)

    @cached_property
    def outlines(self) -> Outlines:
        return Outlines(self.stores.projections, OutlineMemory(REMEMBERED_SLICES))

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.stores, self.outlines, self.learned_bounds)

    @cached_property
    def version_reads(self) -> VersionReads:
        most = self.settings.max_read_bytes
        return VersionReads(
            self.stores, self.tables, self.readers, self.steps, most, DEAD_ROWS_BYTES
        )

    @cached_property
    def current(self) -> Current:
        return Current(self.stores, self.outlines, self.version_reads)

    @cached_property
    def steps(self) -> Steps:
        kept = self.stores.projections
        return Steps(self.tables, self.readers, kept, DEAD_ROWS_INDEX_ROWS)

    @cached_property
    def shared_tables(self) -> SharedTables:
        return SharedTables(self.version_reads, self.access, self.signed_urls, self.learned_bounds)

    @cached_property
    def change_feeds(self) -> ChangeFeeds:
        return ChangeFeeds(self.shared_tables, SHARING_NEW_FILES, GATEWAY_REWRITE_BYTES)

    @cached_property
    def iceberg_tables(self) -> IcebergTables:
        settings = self.settings
        return IcebergTables(
            reads=self.version_reads,
            access=self.access,
            keys=self.vended_keys,
            memory=FileMemory(FILE_MEMORY_BYTES),
            most_snapshots=MAX_SNAPSHOTS,
            most_deleted=settings.iceberg_deleted_rows,
        )

    @cached_property
    def lookups(self) -> Lookups:
        return Lookups(
            self.tables,
            MAX_TAIL_RECORDS,
            MAX_TAIL_BYTES,
        )

    @cached_property
    def lineage(self) -> LineageSources:
        return LineageSources(self.stores, self.stores.registry, self.access, self.text_answers)

    @cached_property
    def derivatives(self) -> Derivatives:
        return Derivatives(self.stores, self.access)

    @cached_property
    def gateway(self) -> Gateway:
        return Gateway(self.stores, self.access, GATEWAY_REWRITE_BYTES)
