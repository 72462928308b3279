"""Settings → Node: opened stores, clock, source of randomness. The composition root."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from odf_node.protocol.identity import DatasetAlias, Name
from odf_node.protocol.transfer.bundle import BundleLimits
from odf_node.storage.datasets.contents.slice_limits import GateLimits
from odf_node.storage.datasets.gate.gate import SliceGate
from odf_node.storage.datasets.node.naming import RESERVED, SINGLE_OWNER
from odf_node.storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_node.storage.datasets.node.stores import Stores
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
from .auth.sessions import SECRET_BYTES, SECRET_NAME, signing_secrets
from .auth.throttle import SharedThrottle, Throttle
from .datasets.access import DatasetRoles
from .datasets.datasets import Authoring
from .datasets.definition import Checking
from .definitions.authors import Defining
from .derivatives.derivatives import Derivatives
from .derivatives.follow import Following
from .derivatives.refresh import Refreshing
from .derivatives.refresh_derivative import Computing
from .http.deps import part_of
from .ingest.uploads import Uploads
from .jobs.job_watch import JobWatch
from .jobs.jobs import Jobs
from .jobs.waiting import Waiting
from .limits.pressure import Pressure
from .lineage.lineage import Lineage
from .mirrors.mirrors import Mirrors, limits_of
from .observe.audit_writer import AuditWriter
from .observe.counters import Counters
from .observe.metrics import Metrics
from .pages.views import Views
from .read.tail import Tails
from .readers.pool import Readers
from .rewrite.history import Rewriting
from .schedules.clock import Pruning
from .schedules.schedules import Scheduling
from .settings import Settings, Tenancy
from .transfer.admission import Admission
from .transfer.push import Pushing
from .transfer.received import Receiving
from .uploads.uploaded_files import FileUploads
from .variables.variables import NodeVariables
from .verify.verify import Verifying

_log = logging.getLogger("odf.node")


@dataclass(frozen=True)
class Node:
    """What every use case works on."""

    settings: Settings
    stores: Stores
    uploads: Uploads
    access: DatasetAccess
    callers: Callers
    waiting: Waiting
    entries: EntryMemory
    roles: RoleMemory
    throttle: Throttle | SharedThrottle
    session_secrets: tuple[bytes, ...] = field(repr=False)
    """The first signs, all are taken."""
    secret_keys: SecretKeys = field(repr=False)
    watch: JobWatch
    pressure: Pressure
    gate: SliceGate
    counters: Counters
    audit_writer: AuditWriter
    readers: Readers
    authoring: Authoring
    checking: Checking
    dataset_roles: DatasetRoles
    derivatives: Derivatives
    following: Following
    mirrors: Mirrors
    passwords: Passwords
    pushing: Pushing
    refreshing: Refreshing
    rewriting: Rewriting
    tails: Tails
    sessions: Sessions
    devices: Devices
    file_uploads: FileUploads
    jobs: Jobs
    lineage: Lineage
    metrics: Metrics
    pruning: Pruning
    scheduling: Scheduling
    variables: NodeVariables
    verifying: Verifying
    views: Views
    clock: Clock = system_clock
    random: Random = os.urandom

    @property
    def parts(self) -> dict[type, object]:
        """By class: handlers ask for the ones they need."""
        return {type(part): part for part in (self, *vars(self).values())}


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
        _tell_of_reserved_names(stores)
    gate = _gate(settings)
    counters, keys = Counters(), open_keys(settings.secrets_keys, settings.data)
    secrets = _session_secrets(settings, stores, keys)
    entries, roles = EntryMemory(stores.registry), RoleMemory()
    watch = JobWatch(stores.jobs, stores.wake_up, pause_s=settings.ingest_poll_s)
    access = DatasetAccess(
        stores.registry, entries, stores.reading, settings.tenancy, settings.anonymous_reads
    )
    throttle = _throttle(settings, stores, clock)
    defining = Defining(stores, access)
    receiving = Receiving(stores, gate, clock)
    mirrors = Mirrors(stores, receiving, keys, limits_of(settings), clock)
    derivatives = Derivatives(stores, access)
    lineage, readers = Lineage(stores, stores.registry, access), Readers(settings)
    tails = Tails(stores, settings.max_tail_records, settings.max_tail_bytes)
    sessions = Sessions(secrets[0], settings.session_ttl_s, clock)
    return Node(
        settings=settings,
        stores=stores,
        uploads=Uploads(stores.objects),
        access=access,
        callers=Callers(stores.reading, roles, secrets, clock),
        waiting=Waiting(watch, settings.ingest_wait_s),
        entries=entries,
        roles=roles,
        throttle=throttle,
        session_secrets=secrets,
        secret_keys=keys,
        watch=watch,
        pressure=Pressure(
            stores.jobs,
            dataset=settings.max_waiting_dataset,
            account=settings.max_waiting_account,
            node=settings.max_waiting_node,
        ),
        gate=gate,
        counters=counters,
        audit_writer=AuditWriter(stores.audit, counters),
        readers=readers,
        authoring=Authoring(stores, access, defining, clock, os.urandom),
        checking=Checking(stores, stores.jobs, watch, settings.query_check_s),
        dataset_roles=DatasetRoles(stores.accounts, stores.roles, roles),
        derivatives=derivatives,
        following=Following(
            stores=stores,
            everything_is_read=access.everything_is_read,
            debounce_s=settings.follow_debounce_s,
            poll_s=settings.follow_poll_s,
            clock=clock,
        ),
        mirrors=mirrors,
        pushing=Pushing(
            stores=stores,
            defining=defining,
            receiving=receiving,
            admission=Admission(
                validates=settings.validate_pushed_derivatives,
                jobs=stores.jobs,
                objects=stores.objects,
                gate=gate,
                wait_s=settings.validation_wait_s,
                poll_s=settings.ingest_poll_s,
            ),
            limits=BundleLimits(
                max_blocks=settings.max_batch_blocks, max_inflated=settings.max_batch_bytes
            ),
            clock=clock,
        ),
        refreshing=Refreshing(stores.jobs, mirrors, Computing(stores, access)),
        rewriting=Rewriting(stores, defining, clock),
        tails=tails,
        passwords=Passwords(stores.accounts, throttle, Cost(settings.password_work)),
        sessions=sessions,
        devices=Devices(
            logins=stores.devices,
            accounts=stores.accounts,
            sessions=sessions,
            throttle=throttle,
            ttl_s=settings.device_login_ttl_s,
            most=settings.max_device_logins,
            most_per_address=settings.device_logins_per_address,
            clock=clock,
            random=os.urandom,
        ),
        file_uploads=FileUploads(
            stores=stores,
            data=settings.data,
            max_bytes=settings.max_upload_bytes,
            max_per_account=settings.max_uploads,
            keep_s=settings.upload_keep_s,
            clock=clock,
            random=os.urandom,
        ),
        jobs=Jobs(stores.jobs, access),
        lineage=lineage,
        metrics=Metrics(counters, stores, settings.tenancy, clock),
        pruning=Pruning(
            jobs=stores.jobs,
            damages=stores.damages,
            devices=stores.devices,
            job_keep_s=settings.job_keep_s,
            rejected_rows_keep_s=settings.rejected_rows_keep_s,
            clock=clock,
        ),
        scheduling=Scheduling(
            schedules=stores.schedules,
            registry=stores.registry,
            mirrors=stores.mirrors,
            everything_is_read=access.everything_is_read,
            clock=clock,
            random=os.urandom,
        ),
        variables=NodeVariables(stores.variables, keys, clock),
        views=Views(
            stores=stores,
            access=access,
            derivatives=derivatives,
            lineage=lineage,
            tails=tails,
            readers=readers,
            public_url=settings.public_url,
        ),
        verifying=Verifying(stores.jobs, stores, access),
        clock=clock,
    )


def _gate(settings: Settings) -> SliceGate:
    return SliceGate(
        GateLimits(
            memory=settings.slice_memory_bytes,
            seconds=settings.slice_check_s,
            ratio=settings.max_slice_ratio,
            hashed_at_once=settings.rows_hashed_at_once_bytes,
        )
    )


def _tell_of_reserved_names(stores: Stores) -> None:
    """Datasets from before their names were the node's."""
    named = [DatasetAlias(Name(word), Name(SINGLE_OWNER)) for word in sorted(RESERVED)]
    for entry in stores.registry.find_named(named).values():
        _log.warning(
            "the name of the dataset %s is reserved, some of its addresses are the node's own: "
            "odf-node dataset rename",
            entry.alias.name,
        )


def _session_secrets(settings: Settings, stores: Stores, keys: SecretKeys) -> tuple[bytes, ...]:
    """What signs sessions. Services on one PostgreSQL need a key that they share for that."""
    stored = stores.accounts.secret(SECRET_NAME, os.urandom(SECRET_BYTES))
    if settings.secrets_keys is None and _is_shared(stores):
        _log.warning(
            "sessions are signed by a secret that lies open in the database: set "
            "ODF_STORE_SECRETS_KEYS, the same for all services, to seal it"
        )
        return (stored,)
    return signing_secrets(stored, keys.keys.values())


def _is_shared(stores: Stores) -> bool:
    return stores.engine.dialect.name == "postgresql"


def _throttle(settings: Settings, stores: Stores, clock: Clock) -> Throttle | SharedThrottle:
    """Services on one PostgreSQL count together; on SQLite there is one service."""
    if _is_shared(stores):
        counted = SqlAttempts(stores.engine)
        return SharedThrottle(counted, settings.login_attempts, settings.login_window_s, clock)
    return Throttle(settings.login_attempts, settings.login_window_s)


async def _node(request: Request) -> Node:
    return part_of(request, Node)


NodeDep = Annotated[Node, Depends(_node)]
