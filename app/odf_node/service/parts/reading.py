"""Parts that read datasets: rows, versions, shared tables, lookups."""

from __future__ import annotations

from functools import cached_property

from odf_storage.datasets.pruning.learned import LearnedBounds

from ..derivatives.derivatives import Derivatives
from ..iceberg.made_files import FileMemory
from ..iceberg.tables import IcebergTables
from ..lineage.lineage import LineageSources
from ..lookup.lookup import Lookups
from ..projections.gateway import Gateway
from ..read.current import Current
from ..read.outlines import OutlineMemory, Outlines
from ..read.read import Tables
from ..read.tail import Tails
from ..readers.pool import Readers
from ..readers.text_answers import TextAnswers
from ..sharing.changes import ChangeFeeds
from ..sharing.tables import SharedTables
from ..versions.steps import Steps
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
        return Tails(self.stores, self.settings.max_tail_records, self.settings.max_tail_bytes)

    @cached_property
    def learned_bounds(self) -> LearnedBounds:
        return LearnedBounds(self.settings.learned_bounds)

    @cached_property
    def outlines(self) -> Outlines:
        memory = OutlineMemory(self.settings.query_remembered_slices)
        return Outlines(self.stores.projections, memory)

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.stores, self.outlines, self.learned_bounds)

    @cached_property
    def version_reads(self) -> VersionReads:
        most, dead = self.settings.max_read_bytes, self.settings.dead_rows_bytes
        return VersionReads(self.stores, self.tables, self.readers, self.steps, most, dead)

    @cached_property
    def current(self) -> Current:
        return Current(self.stores, self.outlines, self.version_reads)

    @cached_property
    def steps(self) -> Steps:
        most = self.settings.dead_rows_index_rows
        return Steps(self.tables, self.readers, self.stores.projections, most)

    @cached_property
    def shared_tables(self) -> SharedTables:
        return SharedTables(self.version_reads, self.access, self.signed_urls, self.learned_bounds)

    @cached_property
    def change_feeds(self) -> ChangeFeeds:
        most, rewritten = self.settings.sharing_new_files, self.settings.gateway_rewrite_bytes
        return ChangeFeeds(self.shared_tables, most, rewritten)

    @cached_property
    def iceberg_tables(self) -> IcebergTables:
        settings = self.settings
        return IcebergTables(
            reads=self.version_reads,
            access=self.access,
            keys=self.vended_keys,
            memory=FileMemory(settings.iceberg_memory_bytes),
            most_snapshots=settings.iceberg_snapshots,
            most_deleted=settings.iceberg_deleted_rows,
        )

    @cached_property
    def lookups(self) -> Lookups:
        return Lookups(
            self.tables,
            self.settings.max_tail_records,
            self.settings.max_tail_bytes,
        )

    @cached_property
    def lineage(self) -> LineageSources:
        return LineageSources(self.stores, self.stores.registry, self.access, self.text_answers)

    @cached_property
    def derivatives(self) -> Derivatives:
        return Derivatives(self.stores, self.access)

    @cached_property
    def gateway(self) -> Gateway:
        return Gateway(self.stores, self.access, self.settings.gateway_rewrite_bytes)
