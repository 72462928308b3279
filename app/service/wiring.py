"""Settings → Node: opened stores, clock, source of randomness. The composition root."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from odf_node.protocol.errors import NodeError
from odf_node.protocol.identity import DatasetAlias, DatasetId, DatasetRef, Name
from odf_node.storage.datasets.contents.slice_limits import GateLimits
from odf_node.storage.datasets.gate.gate import SliceGate
from odf_node.storage.datasets.node.naming import RESERVED, SINGLE_OWNER
from odf_node.storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_node.storage.datasets.node.reader import Reader
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.runtime.clock import Clock, system_clock
from odf_node.storage.runtime.context import add_facts
from odf_node.storage.stores.accounts.sql_attempts import SqlAttempts
from odf_node.storage.stores.ports import DatasetEntries
from odf_node.storage.stores.ports.values import DatasetEntry
from odf_node.storage.stores.publishing.sealing import SecretKeys, open_keys

from .accounts.accounts import ensure_account
from .auth.access import Action, DatasetHidden, address, authorize, grants
from .auth.actors import Actor, identify
from .auth.passwords import Cost
from .auth.roles import RoleMemory
from .auth.sessions import SECRET_BYTES, SECRET_NAME, signing_secrets
from .auth.throttle import SharedThrottle, Throttle
from .datasets.entry_cache import EntryMemory
from .ingest.uploads import Uploads
from .jobs.job_watch import JobWatch
from .limits.pressure import Pressure
from .observe.audit_writer import AuditWriter
from .observe.counters import Counters
from .readers.pool import Readers
from .settings import Settings, Tenancy

_log = logging.getLogger("odf.node")
Random = Callable[[int], bytes]
"""Gives that many bytes nobody can guess."""


@dataclass(frozen=True)
class Node:
    """What every use case works on."""

    settings: Settings
    stores: Stores
    uploads: Uploads
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
    clock: Clock = system_clock
    random: Random = os.urandom
    mirror_bell: threading.Event = field(default_factory=threading.Event)
    """Rung when a mirror has something to do."""

    @property
    def password_cost(self) -> Cost:
        """What guessing a new password is to cost."""
        return Cost(self.settings.password_work)

    def identify(self, bearer: str | None) -> Actor:
        """Who asks with this token."""
        with self.stores.reading() as reader:
            return self._identify(bearer, reader)

    def identify_all(self, bearers: Sequence[str]) -> list[Actor | Exception]:
        """Who ask with these tokens, each token looked at once."""
        found: dict[str, Actor | Exception] = {}
        with self.stores.reading() as reader:
            for bearer in set(bearers):
                try:
                    found[bearer] = self._identify(bearer, reader)
                except NodeError as error:
                    found[bearer] = error
        return [found[bearer] for bearer in bearers]

    def _identify(self, bearer: str | None, reader: Reader) -> Actor:
        return identify(
            bearer,
            reader.accounts,
            self.clock(),
            secrets=self.session_secrets,
            roles_of=partial(self.roles.of, roles=reader.roles),
        )

    def resolve(
        self,
        actor: Actor,
        account: str | None,
        name: str,
        action: Action,
        *,
        registry: DatasetEntries | None = None,
    ) -> DatasetEntry:
        """The dataset of an address, once the actor may do this with it.

        `registry` is that of a reader whose transaction the read shares.

        Raises:
            MalformedAddress, DatasetHidden, TokenInvalid, TokenExpired, ActionForbidden.
        """
        _, entry = self.find(actor, account, name, action, creates=False, registry=registry)
        if entry is None:  # `authorize` lets only a creating push have none
            raise DatasetHidden
        return entry

    def visible(self, actor: Actor, dataset: DatasetId) -> DatasetEntry | None:
        """A dataset of this node that the actor may see; None for others, and for none."""
        found = self.stores.registry.find(DatasetRef(id=dataset))
        if found is None or Action.READ not in grants(actor, found, self.settings.anonymous_reads):
            return None
        return found

    def find(
        self,
        actor: Actor,
        account: str | None,
        name: str,
        action: Action,
        *,
        creates: bool,
        registry: DatasetEntries | None = None,
    ) -> tuple[DatasetAlias, DatasetEntry | None]:
        """As `resolve`; with `creates` a missing dataset is no error."""
        alias = address(self.settings.tenancy, account, name)
        if action is Action.READ:
            entry = self.entries.find(alias)
        else:
            entry = (registry or self.stores.registry).find(DatasetRef(alias=alias))
        if entry is not None:
            add_facts(dataset=str(entry.id))
        return alias, authorize(
            actor, entry, action, self.settings.anonymous_reads, creates=creates
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
        _tell_of_reserved_names(stores)
    counters, keys = Counters(), open_keys(settings.secrets_keys, settings.data)
    return Node(
        settings=settings,
        stores=stores,
        uploads=Uploads(stores.objects),
        entries=EntryMemory(stores.registry),
        roles=RoleMemory(),
        throttle=_throttle(settings, stores, clock),
        session_secrets=_session_secrets(settings, stores, keys),
        secret_keys=keys,
        watch=JobWatch(stores.jobs, stores.wake_up, pause_s=settings.ingest_poll_s),
        pressure=Pressure(
            stores.jobs,
            dataset=settings.max_waiting_dataset,
            account=settings.max_waiting_account,
            node=settings.max_waiting_node,
        ),
        gate=_gate(settings),
        counters=counters,
        audit_writer=AuditWriter(stores.audit, counters),
        readers=Readers(settings),
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
            "ODF_NODE_SECRETS_KEYS, the same for all services, to seal it"
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
