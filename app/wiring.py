"""Settings → Node: opened stores, clock, source of randomness. The composition root."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from protocol.errors import NodeError
from protocol.identity import DatasetAlias, DatasetRef
from storage.accounts.sql_attempts import SqlAttempts
from storage.clock import Clock, system_clock
from storage.config import StoreSettings, open_stores
from storage.context import add_facts
from storage.naming import SINGLE_OWNER
from storage.sealing import SecretKeys, open_keys
from storage.stores import Stores
from storage.values import DatasetEntry

from .auth.access import Action, DatasetHidden, address, authorize
from .auth.actors import Actor, identify
from .auth.passwords import Cost
from .auth.roles import RoleMemory
from .auth.sessions import SECRET_BYTES, SECRET_NAME
from .auth.throttle import SharedThrottle, Throttle
from .entries import EntryMemory
from .job_watch import JobWatch
from .observe.scribe import Scribe
from .observe.tally import Tally
from .settings import Settings, Tenancy
from .usecases.accounts import ensure_account
from .usecases.pressure import Pressure
from .usecases.uploads import Uploads

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
    session_secret: bytes = field(repr=False)
    secret_keys: SecretKeys = field(repr=False)
    watch: JobWatch
    pressure: Pressure
    tally: Tally
    scribe: Scribe
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
        with self.stores.reading_once():
            return identify(
                bearer,
                self.stores.accounts,
                self.clock(),
                secret=self.session_secret,
                roles_of=self.roles.of,
            )

    def identify_all(self, bearers: Sequence[str]) -> list[Actor | Exception]:
        """Who ask with these tokens, each token looked at once."""
        found: dict[str, Actor | Exception] = {}
        with self.stores.reading_once():
            for bearer in set(bearers):
                try:
                    found[bearer] = self.identify(bearer)
                except NodeError as error:
                    found[bearer] = error
        return [found[bearer] for bearer in bearers]

    def resolve(self, actor: Actor, account: str | None, name: str, action: Action) -> DatasetEntry:
        """The dataset of an address, once the actor may do this with it.

        Raises:
            MalformedAddress, DatasetHidden, TokenInvalid, TokenExpired, ActionForbidden.
        """
        _, entry = self.find(actor, account, name, action, creates=False)
        if entry is None:  # `authorize` lets only a creating push have none
            raise DatasetHidden
        return entry

    def find(
        self, actor: Actor, account: str | None, name: str, action: Action, *, creates: bool
    ) -> tuple[DatasetAlias, DatasetEntry | None]:
        """As `resolve`; with `creates` a missing dataset is no error."""
        tenancy = self.settings.tenancy
        alias = address(tenancy, account, name)
        if action is Action.READ:
            entry = self.entries.find(alias)
        else:
            entry = self.stores.registry.find(DatasetRef(alias=alias))
        if entry is not None:
            add_facts(dataset=str(entry.id))
        return alias, authorize(actor, entry, action, tenancy, creates=creates)


def open_node(settings: Settings, *, clock: Clock = system_clock) -> Node:
    """Open the stores (migrating them) and make sure of the predefined account."""
    stores = open_stores(
        StoreSettings(
            data=settings.data,
            database_url=settings.database_url,
            objects_url=settings.objects_url,
            objects_public_url=settings.objects_public_url,
        )
    )
    if settings.tenancy is Tenancy.SINGLE:
        ensure_account(stores.accounts, SINGLE_OWNER, os.urandom, is_admin=True)
    tally = Tally()
    return Node(
        settings=settings,
        stores=stores,
        uploads=Uploads(stores.objects),
        entries=EntryMemory(stores.registry),
        roles=RoleMemory(stores.roles),
        throttle=_throttle(settings, stores, clock),
        session_secret=stores.accounts.secret(SECRET_NAME, os.urandom(SECRET_BYTES)),
        secret_keys=open_keys(settings.secrets_keys, settings.data),
        watch=JobWatch(stores.jobs, stores.bell, pause_s=settings.ingest_poll_s),
        pressure=Pressure(
            stores.jobs,
            dataset=settings.max_waiting_dataset,
            account=settings.max_waiting_account,
            node=settings.max_waiting_node,
        ),
        tally=tally,
        scribe=Scribe(stores.audit, tally),
        clock=clock,
    )


def _throttle(settings: Settings, stores: Stores, clock: Clock) -> Throttle | SharedThrottle:
    """Services on one PostgreSQL count together; on SQLite there is one service."""
    if stores.engine is not None and stores.engine.dialect.name == "postgresql":
        counted = SqlAttempts(stores.engine)
        return SharedThrottle(counted, settings.login_attempts, settings.login_window_s, clock)
    return Throttle(settings.login_attempts, settings.login_window_s)
