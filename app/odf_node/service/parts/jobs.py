"""Parts for jobs, schedules, and the removal of old records.

Parts for queries: their engine, Flight SQL, background queries, and proofs of answers.

Parts that create, define and change datasets.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from odf_storage.datasets.query.tables import QueryResults
from odf_storage.stores.registers.signed.node_key import node_seed

from ..datasets.datasets import Authoring
from ..datasets.listing import DatasetRoles
from ..datasets.trial import (
    MAX_MANIFEST_BYTES,
    TRIAL_INPUT_ROWS,
    TRIAL_MANIFESTS,
    TRIAL_SAMPLE_BYTES,
    TRIAL_SHOWN_ROWS,
    TRIAL_WAIT_S,
    Checking,
    Trials,
)
from ..definitions.authors import Defining
from ..definitions.variables import NodeVariables
from ..derivatives.follow import has_something_to_do
from ..flight.door import FlightDoor
from ..history.rewrite import Rewriting
from ..history.verify import Verifying
from ..jobs.job_watch import JobWatch, Waiting
from ..jobs.jobs import Jobs
from ..limits.texts import query_text
from ..pages.frame.views import (
    MAX_BYTES,
    PAGE_STATISTICS_CELLS,
    Profiles,
    Views,
)
from ..processes.supervisor import WorkerHealth
from ..query.background import BackgroundQueries
from ..query.folders import SliceFiles
from ..query.inputs import QUERY_MAX_DATASETS, QueryInputs
from ..query.proofs import SigningKeys, open_signing_keys
from ..query.query import Queries
from ..query.verify import Verification
from ..schedules.routes import Pruning
from ..schedules.schedules import Scheduling
from .callers import ReadParts

if TYPE_CHECKING:
    from ..flight.bridge import CallMetrics


class QueryParts(ReadParts):
    """Parts for queries: their engine, Flight SQL, background queries, and proofs of answers."""

    @cached_property
    def query_inputs(self) -> QueryInputs:
        return QueryInputs(
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
            settings.signing_key,
            settings.signing_key_file,
            settings.signing_keys_retired,
            lambda: node_seed(self.stores.accounts, self.secret_keys, lies_open=self.lies_open),
        )

    @cached_property
    def verification(self) -> Verification:
        return Verification(self.queries)

    @cached_property
    def flight(self) -> FlightDoor:
        return FlightDoor(
            self.settings,
            self.callers,
            self.queries,
            self.query_inputs,
            watching=self._flight_calls,
            random=self.random,
        )

    def _flight_calls(self) -> CallMetrics:
        from ..flight.bridge import CallMetrics  # gRPC, which takes long

        return CallMetrics(self.counters, self.audit_writer, self.clock, self.settings.access_log)

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
            face=self.face,
        )


class JobParts(QueryParts):
    """Parts for jobs, schedules, and the removal of old records."""

    @cached_property
    def watch(self) -> JobWatch:
        return JobWatch(self.stores.jobs, self.stores.wake_up, pause_s=self.settings.poll_s)

    @cached_property
    def waiting(self) -> Waiting:
        return Waiting(self.watch, self.settings.ingest_wait_s)

    @cached_property
    def worker_health(self) -> WorkerHealth:
        return WorkerHealth()

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.stores.jobs, self.access)

    @cached_property
    def verifying(self) -> Verifying:
        return Verifying(self.stores.jobs, self.stores, self.access)

    @cached_property
    def scheduling(self) -> Scheduling:
        return Scheduling(
            schedules=self.stores.schedules,
            registry=self.stores.registry,
            mirrors=self.stores.mirrors,
            everything_is_read=self.access.everything_is_read,
            refreshes=partial(has_something_to_do, self.stores),
            clock=self.clock,
            random=self.random,
        )

    @cached_property
    def pruning(self) -> Pruning:
        return Pruning(
            jobs=self.stores.jobs,
            damages=self.stores.damages,
            devices=self.stores.devices,
            queries=self.background_queries,
            job_keep_s=self.settings.job_keep_s,
            rejected_rows_keep_s=self.settings.rejected_rows_keep_s,
            clock=self.clock,
        )


class DefinitionParts(JobParts):
    """Parts that create, define and change datasets."""

    @cached_property
    def defining(self) -> Defining:
        return Defining(self.stores, self.access)

    @cached_property
    def dataset_roles(self) -> DatasetRoles:
        return DatasetRoles(self.stores.accounts, self.stores.roles, self.roles)

    @cached_property
    def variables(self) -> NodeVariables:
        return NodeVariables(self.stores.variables, self.secret_keys, self.clock)

    @cached_property
    def authoring(self) -> Authoring:
        return Authoring(
            stores=self.stores,
            access=self.access,
            defining=self.defining,
            keys=self.secret_keys,
            clock=self.clock,
            random=self.random,
        )

    @cached_property
    def checking(self) -> Checking:
        return Checking(self.stores, self.stores.jobs, self.watch, self.settings.query_check_s)

    @cached_property
    def trials(self) -> Trials:
        return Trials(
            authoring=self.authoring,
            pressure=self.pressure,
            jobs=self.stores.jobs,
            watch=self.watch,
            patience_s=TRIAL_WAIT_S,
            sample_bytes=TRIAL_SAMPLE_BYTES,
            manifests=TRIAL_MANIFESTS,
            input_rows=TRIAL_INPUT_ROWS,
            shown_rows=TRIAL_SHOWN_ROWS,
            manifest_bytes=MAX_MANIFEST_BYTES,
        )

    @cached_property
    def rewriting(self) -> Rewriting:
        return Rewriting(self.stores, self.defining, self.clock)
