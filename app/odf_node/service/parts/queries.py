"""Parts for queries: their engine, Flight SQL, background queries, and proofs of answers."""

from __future__ import annotations

from functools import cached_property

from odf_storage.datasets.query.results import QueryResults

from ..flight.door import FlightDoor
from ..flight.observed import Watching
from ..limits.texts import query_text
from ..pages.profiles import PAGE_STATISTICS_CELLS, Profiles
from ..pages.sample import MAX_BYTES
from ..pages.views import Views
from ..query.background import BackgroundQueries
from ..query.files import SliceFiles
from ..query.inputs import QUERY_MAX_DATASETS, Inputs
from ..query.proofs import SigningKeys, open_signing_keys
from ..query.query import Queries
from ..query.verify import Verification
from .reading import ReadParts


class QueryParts(ReadParts):
    """Parts for queries: their engine, Flight SQL, background queries, and proofs of answers."""

    @cached_property
    def query_inputs(self) -> Inputs:
        return Inputs(
            stores=self.stores,
            access=self.access,
            outlines=self.outlines,
            bounds=self.learned_bounds,
            max_datasets=QUERY_MAX_DATASETS,
            longest=query_text(self.settings.query_text_bytes),
        )

    @cached_property
    def queries(self) -> Queries:
        settings = self.settings
        return Queries(
            settings=settings,
            inputs=self.query_inputs,
            files=SliceFiles(
                self.stores, settings.data / "query-copies", settings.query_copies_bytes
            ),
            current=self.current,
            counters=self.counters,
        )

    @cached_property
    def background_queries(self) -> BackgroundQueries:
        stores, keep_s = self.stores, self.settings.query_result_keep_s
        kept = QueryResults(stores.projections)
        return BackgroundQueries(
            stores.jobs,
            self.query_inputs,
            self.current,
            self.access,
            self.pressure,
            kept,
            keep_s,
            self.clock,
        )

    @cached_property
    def signing_keys(self) -> SigningKeys:
        settings = self.settings
        return open_signing_keys(
            settings.signing_key, settings.signing_key_file, settings.signing_keys_retired
        )

    @cached_property
    def verification(self) -> Verification:
        return Verification(self.queries)

    @cached_property
    def flight(self) -> FlightDoor:
        told = Watching(self.counters, self.audit_writer, self.clock, self.settings.access_log)
        return FlightDoor(
            self.settings, self.callers, self.queries, self.query_inputs, told, self.random
        )

    @cached_property
    def profiles(self) -> Profiles:
        return Profiles(self.tables, self.readers, PAGE_STATISTICS_CELLS, MAX_BYTES)

    @cached_property
    def views(self) -> Views:
        return Views(
            stores=self.stores,
            access=self.access,
            derivatives=self.derivatives,
            lineage=self.lineage,
            outlines=self.outlines,
            tails=self.tails,
            readers=self.readers,
            tables=self.tables,
            current=self.current,
            profiles=self.profiles,
            queries=self.queries,
            clock=self.clock,
            public_url=self.settings.public_url,
        )
