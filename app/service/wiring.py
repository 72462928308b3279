"""Settings → Node: opened stores, clock, source of randomness. The composition root."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property

from odf_node.protocol.transfer.bundle import BundleLimits
from odf_node.storage.datasets.contents.slice_limits import GateLimits
from odf_node.storage.datasets.gate.gate import SliceGate
from odf_node.storage.datasets.node.naming import SINGLE_OWNER
from odf_node.storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.datasets.pruning.learned import LearnedBounds
from odf_node.storage.datasets.query.results import QueryResults
from odf_node.storage.runtime.clock import Clock, system_clock
from odf_node.storage.runtime.randomness import Random
from odf_node.storage.stores.accounts.sql_attempts import SqlAttempts
from odf_node.storage.stores.publishing.sealing import SecretKeys, open_keys

from .accounts.accounts import ensure_account
from .accounts.login import Devices, Passwords, Sessions
from .auth.callers import Callers
from .auth.dataset_access import DatasetAccess
from .auth.entry_cache import EntryMemory
from .auth.passwords import Cost
from .auth.roles import RoleMemory
from .auth.sessions import session_secrets
from .auth.signed_urls import SignedUrls
from .auth.throttle import SharedThrottle, Throttle
from .datasets.access import DatasetRoles
from .datasets.datasets import Authoring
from .datasets.definition import Checking
from .datasets.rename_and_remove import warn_of_reserved_names
from .definitions.authors import Defining
from .derivatives.derivatives import Derivatives
from .derivatives.follow import Following
from .derivatives.refresh import Refreshing
from .derivatives.refresh_derivative import Computing
from .flight.door import FlightDoor
from .flight.observed import Watching
from .ingest.ingest import Ingesting
from .ingest.routes import IngestEndpoint
from .ingest.uploads import Uploads
from .jobs.job_watch import JobWatch
from .jobs.jobs import Jobs
from .jobs.waiting import Waiting
from .limits.pressure import Pressure
from .limits.shares import Slots
from .lineage.lineage import LineageSources
from .lookup.lookup import Lookups
from .mirrors.mirrors import Mirrors, limits_of
from .news.atom_feeds import AtomFeeds
from .news.feeds import ChainFeed, LogFeed
from .news.head_polls import HeadPolls
from .news.head_watch import HeadWatch
from .news.rights import Rights
from .news.row_texts import RowTexts
from .news.streams import Streams
from .objects.begun_uploads import BegunUploads
from .observe.audit_writer import AuditWriter
from .observe.counters import Counters
from .observe.metrics import Metrics
from .pages.views import Views
from .projections.gateway import Gateway
from .projections.publications import Publishing
from .query.background import BackgroundQueries
from .query.files import SliceFiles
from .query.inputs import Inputs
from .query.proofs import SigningKeys, open_signing_keys
from .query.query import Queries
from .query.verify import Verification
from .read.outlines import OutlineMemory, Outlines
from .read.read import Tables
from .read.tail import Tails
from .readers.pool import Readers
from .rewrite.history import Rewriting
from .schedules.clock import Pruning
from .schedules.schedules import Scheduling
from .settings import Settings, Tenancy
from .sharing.changes import ChangeFeeds
from .sharing.tables import SharedTables
from .transfer.admission import Admission
from .transfer.handshake import Handshake
from .transfer.push import Pushing
from .transfer.received import Receiving
from .uploads.uploaded_files import FileUploads
from .variables.variables import NodeVariables
from .verify.verify import Verifying
from .versions.versions import VersionReads
from .webhooks.delivering import Delivering
from .webhooks.sending import Sender
from .webhooks.webhooks import Webhooks


@dataclass(frozen=True)
class Node:
    """An opened node: its settings and stores, and the parts that are wired from them.

    A part is made when it is asked for, once. Use cases get parts and ports, never the node.
    """

    settings: Settings
    stores: Stores
    session_secrets: tuple[bytes, ...] = field(repr=False)
    """The first signs, all are taken."""
    secret_keys: SecretKeys = field(repr=False)
    clock: Clock = system_clock
    random: Random = os.urandom

    @property
    def parts(self) -> dict[type, object]:
        """By class: handlers ask for the ones they need."""
        wired = [name for name, one in vars(Node).items() if isinstance(one, cached_property)]
        parts = (self.settings, self.stores, *(getattr(self, name) for name in wired))
        return {type(part): part for part in parts}

    # who asks, and what they may do

    @cached_property
    def roles(self) -> RoleMemory:
        return RoleMemory()

    @cached_property
    def callers(self) -> Callers:
        return Callers(self.stores.reading, self.roles, self.session_secrets, self.clock)

    @cached_property
    def access(self) -> DatasetAccess:
        return DatasetAccess(
            registry=self.stores.registry,
            entries=EntryMemory(self.stores.registry),
            reading=self.stores.reading,
            tenancy=self.settings.tenancy,
            reads=self.settings.anonymous_reads,
        )

    @cached_property
    def signed_urls(self) -> SignedUrls:
        return SignedUrls(self.session_secrets, self.settings.transfer_url_ttl_s, self.clock)

    @cached_property
    def throttle(self) -> Throttle | SharedThrottle:
        """Services on one PostgreSQL count together; on SQLite there is one service."""
        attempts, window_s = self.settings.login_attempts, self.settings.login_window_s
        if _is_shared(self.stores):
            return SharedThrottle(SqlAttempts(self.stores.engine), attempts, window_s, self.clock)
        return Throttle(attempts, window_s)

    @cached_property
    def passwords(self) -> Passwords:
        return Passwords(self.stores.accounts, self.throttle, Cost(self.settings.password_work))

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self.session_secrets[0], self.settings.session_ttl_s, self.clock)

    @cached_property
    def devices(self) -> Devices:
        return Devices(
            logins=self.stores.devices,
            accounts=self.stores.accounts,
            sessions=self.sessions,
            throttle=self.throttle,
            ttl_s=self.settings.device_login_ttl_s,
            most=self.settings.max_device_logins,
            most_per_address=self.settings.device_logins_per_address,
            clock=self.clock,
            random=self.random,
        )

    # what is counted and limited

    @cached_property
    def counters(self) -> Counters:
        return Counters()

    @cached_property
    def audit_writer(self) -> AuditWriter:
        return AuditWriter(self.stores.audit, self.counters)

    @cached_property
    def metrics(self) -> Metrics:
        return Metrics(self.counters, self.stores, self.settings.tenancy, self.clock)

    @cached_property
    def pressure(self) -> Pressure:
        return Pressure(
            self.stores.jobs,
            dataset=self.settings.max_waiting_dataset,
            account=self.settings.max_waiting_account,
            node=self.settings.max_waiting_node,
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

    # jobs

    @cached_property
    def watch(self) -> JobWatch:
        return JobWatch(self.stores.jobs, self.stores.wake_up, pause_s=self.settings.ingest_poll_s)

    @cached_property
    def waiting(self) -> Waiting:
        return Waiting(self.watch, self.settings.ingest_wait_s)

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
            clock=self.clock,
            random=self.random,
        )

    # datasets: made, defined, changed

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
        return Authoring(self.stores, self.access, self.defining, self.clock, self.random)

    @cached_property
    def checking(self) -> Checking:
        return Checking(self.stores, self.stores.jobs, self.watch, self.settings.query_check_s)

    @cached_property
    def rewriting(self) -> Rewriting:
        return Rewriting(self.stores, self.defining, self.clock)

    # datasets: filled

    @cached_property
    def ingest_endpoint(self) -> IngestEndpoint:
        return IngestEndpoint(
            ingesting=self.ingesting,
            uploads=self.file_uploads,
            waiting=self.waiting,
            max_bytes=self.settings.max_body_bytes,
            max_unpacked_ratio=self.settings.max_unpacked_ratio,
        )

    @cached_property
    def ingesting(self) -> Ingesting:
        return Ingesting(
            stores=self.stores,
            pressure=self.pressure,
            uploads=Uploads(self.stores.objects),
            data=self.settings.data,
            key_ttl_s=self.settings.request_key_ttl_s,
            clock=self.clock,
        )

    @cached_property
    def begun_uploads(self) -> BegunUploads:
        return BegunUploads(
            objects=self.stores.objects,
            of_dataset=self.settings.max_begun_uploads,
            of_account=self.settings.max_begun_uploads_account,
            bytes_of_account=self.settings.max_begun_bytes_account,
        )

    @cached_property
    def file_uploads(self) -> FileUploads:
        return FileUploads(
            stores=self.stores,
            data=self.settings.data,
            max_bytes=self.settings.max_upload_bytes,
            max_per_account=self.settings.max_uploads,
            keep_s=self.settings.upload_keep_s,
            clock=self.clock,
            random=self.random,
        )

    @cached_property
    def following(self) -> Following:
        return Following(
            stores=self.stores,
            everything_is_read=self.access.everything_is_read,
            debounce_s=self.settings.follow_debounce_s,
            poll_s=self.settings.follow_poll_s,
            clock=self.clock,
        )

    @cached_property
    def publishing(self) -> Publishing:
        return Publishing(self.stores, self.settings.publish_to, self.clock)

    @cached_property
    def gateway(self) -> Gateway:
        return Gateway(self.stores, self.access, self.settings.gateway_rewrite_bytes)

    @cached_property
    def refreshing(self) -> Refreshing:
        return Refreshing(self.stores.jobs, self.mirrors, Computing(self.stores, self.access))

    @cached_property
    def mirrors(self) -> Mirrors:
        return Mirrors(
            stores=self.stores,
            receiving=self.receiving,
            keys=self.secret_keys,
            limits=limits_of(self.settings),
            clock=self.clock,
        )

    @cached_property
    def gate(self) -> SliceGate:
        return SliceGate(
            GateLimits(
                memory=self.settings.slice_memory_bytes,
                seconds=self.settings.slice_check_s,
                ratio=self.settings.max_slice_ratio,
                hashed_at_once=self.settings.rows_hashed_at_once_bytes,
            )
        )

    @cached_property
    def receiving(self) -> Receiving:
        return Receiving(self.stores, self.gate, self.clock)

    @cached_property
    def pushing(self) -> Pushing:
        return Pushing(
            stores=self.stores,
            defining=self.defining,
            receiving=self.receiving,
            admission=Admission(
                validates=self.settings.validate_pushed_derivatives,
                jobs=self.stores.jobs,
                objects=self.stores.objects,
                gate=self.gate,
                wait_s=self.settings.validation_wait_s,
                poll_s=self.settings.ingest_poll_s,
            ),
            limits=BundleLimits(
                max_blocks=self.settings.max_batch_blocks,
                max_inflated=self.settings.max_batch_bytes,
            ),
            clock=self.clock,
        )

    @cached_property
    def handshake(self) -> Handshake:
        return Handshake(
            stores=self.stores,
            access=self.access,
            pushing=self.pushing,
            public_url=self.settings.public_url,
            port=self.settings.port,
            url_ttl_s=self.settings.transfer_url_ttl_s,
        )

    # news

    @cached_property
    def head_watch(self) -> HeadWatch:
        pause_s = self.settings.events_poll_s
        return HeadWatch(self.stores.refs, self.stores.wake_up, pause_s=pause_s)

    @cached_property
    def listeners(self) -> Slots:
        return Slots(
            "listeners",
            most=self.settings.events_listeners,
            each=self.settings.events_listeners_caller,
            settings=("ODF_NODE_EVENTS_LISTENERS", "ODF_NODE_EVENTS_LISTENERS_CALLER"),
        )

    @cached_property
    def atom_feeds(self) -> AtomFeeds:
        stores = self.stores
        return AtomFeeds(
            heads=stores.refs,
            moves=stores.refs,
            blocks=stores.blocks,
            reading=stores.reading,
            access=self.access,
            clock=self.clock,
        )

    @cached_property
    def head_polls(self) -> HeadPolls:
        return HeadPolls(self.head_watch, self.listeners, self.settings.events_max_wait_s)

    @cached_property
    def streams(self) -> Streams:
        settings, shown = self.settings, self.access.shown_alias
        return Streams(
            watch=self.head_watch,
            chain_feed=ChainFeed(self.stores.reading, shown),
            log_feed=LogFeed(self.stores.refs, self.stores.reading, shown),
            rights=Rights(self.callers, self.access, settings.allow_anonymous),
            row_texts=RowTexts(
                self.stores,
                self.readers,
                max_rows=settings.events_max_rows,
                max_bytes=settings.events_max_row_bytes,
            ),
            slots=self.listeners,
            keep_alive_s=settings.events_keep_alive_s,
            idle_s=settings.events_idle_s,
        )

    @cached_property
    def webhooks(self) -> Webhooks:
        settings = self.settings
        networks = tuple(str(network) for network in settings.webhook_networks)
        return Webhooks(
            store=self.stores.webhooks,
            reading=self.stores.reading,
            keys=self.secret_keys,
            sender=Sender(networks, settings.webhook_timeout_s),
            most=settings.webhooks_account,
            old_secret_s=settings.webhook_old_secret_s,
            public_url=settings.public_url,
            clock=self.clock,
            random=self.random,
        )

    @cached_property
    def delivering(self) -> Delivering:
        return Delivering(
            hooks=self.webhooks,
            feed=ChainFeed(self.stores.reading, self.access.shown_alias),
            access=self.access,
            retry_s=self.settings.webhook_retry_s,
        )

    # datasets: read

    @cached_property
    def readers(self) -> Readers:
        return Readers(self.settings)

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
        return VersionReads(self.stores, self.tables, self.readers, most, dead)

    @cached_property
    def shared_tables(self) -> SharedTables:
        return SharedTables(self.version_reads, self.access, self.signed_urls, self.learned_bounds)

    @cached_property
    def change_feeds(self) -> ChangeFeeds:
        most, rewritten = self.settings.sharing_new_files, self.settings.gateway_rewrite_bytes
        return ChangeFeeds(self.shared_tables, most, rewritten)

    @cached_property
    def lookups(self) -> Lookups:
        return Lookups(
            self.tables,
            self.settings.max_tail_records,
            self.settings.max_tail_bytes,
        )

    @cached_property
    def query_inputs(self) -> Inputs:
        return Inputs(
            stores=self.stores,
            access=self.access,
            outlines=self.outlines,
            bounds=self.learned_bounds,
            max_datasets=self.settings.query_max_datasets,
        )

    @cached_property
    def flight(self) -> FlightDoor:
        told = Watching(self.counters, self.audit_writer, self.clock, self.settings.access_log)
        return FlightDoor(
            self.settings, self.callers, self.queries, self.query_inputs, told, self.random
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
            counters=self.counters,
        )

    @cached_property
    def background_queries(self) -> BackgroundQueries:
        stores, keep_s = self.stores, self.settings.query_result_keep_s
        kept = QueryResults(stores.projections)
        return BackgroundQueries(
            stores.jobs, self.query_inputs, self.access, self.pressure, kept, keep_s, self.clock
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
    def lineage(self) -> LineageSources:
        return LineageSources(self.stores, self.stores.registry, self.access)

    @cached_property
    def derivatives(self) -> Derivatives:
        return Derivatives(self.stores, self.access)

    @cached_property
    def views(self) -> Views:
        return Views(
            stores=self.stores,
            access=self.access,
            derivatives=self.derivatives,
            lineage=self.lineage,
            tails=self.tails,
            readers=self.readers,
            queries=self.queries,
            public_url=self.settings.public_url,
        )


def open_node(settings: Settings, *, clock: Clock = system_clock) -> Node:
    """Open the stores (migrating them) and make sure of the predefined account."""
    stores = open_stores(
        StoreSettings(
            data=settings.data,
            database_url=settings.database_url,
            objects_url=settings.objects_url,
            objects_public_url=settings.objects_public_url,
            object_copies=settings.object_copies,
            rehash_s=settings.rehash_s,
        )
    )
    if settings.tenancy is Tenancy.SINGLE:
        ensure_account(stores.accounts, SINGLE_OWNER, os.urandom, is_admin=True)
        warn_of_reserved_names(stores.registry)
    keys = open_keys(settings.secrets_keys, settings.data)
    lies_open = settings.secrets_keys is None and _is_shared(stores)
    secrets = session_secrets(stores.accounts, keys, lies_open=lies_open)
    return Node(settings, stores, secrets, keys, clock)


def _is_shared(stores: Stores) -> bool:
    """Whether services elsewhere may use the same database."""
    return stores.engine.dialect.name == "postgresql"
