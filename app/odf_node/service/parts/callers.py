"""Parts about callers: identity, rights, sign-in, counters and limits.

The base of all parts of a node: settings, opened stores, clock, source of randomness.

Parts that read datasets: rows, versions, lookups.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property

from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.pruning.learned import REMEMBERED_BOUNDS, LearnedBounds
from odf_storage.datasets.versions.dead_rows import DEAD_ROWS_BYTES
from odf_storage.runtime.clock import Clock, Random, system_clock
from odf_storage.stores.registers.accounts.accounts import LoginAttempts
from odf_storage.stores.registers.accounts.sealing import SecretKeys

from ..accounts.accounts import MAX_ACCOUNT_TOKENS, Administration, OwnTokens
from ..accounts.login import (
    DEVICE_CODE_GUESSES,
    DEVICE_LOGIN_TTL_S,
    DEVICE_LOGINS_PER_ADDRESS,
    MAX_DEVICE_LOGINS,
    Devices,
    Passwords,
    Sessions,
)
from ..auth.dataset_access import Callers, DatasetAccess, EntryMemory, RoleMemory
from ..auth.passwords import LOGIN_WINDOW_S, Cost, SharedThrottle, Throttle
from ..auth.signed_urls import S3Callers, SignedUrls, VendedKeys
from ..derivatives.derivatives import Derivatives
from ..history.versions import DEAD_ROWS_INDEX_ROWS, Steps, VersionReads
from ..limits.pressure import Pressure
from ..lineage.lineage import LineageSources
from ..lookup.lookup import Lookups
from ..membership.membership import Membership
from ..observe.audit_writer import AuditWriter
from ..observe.metrics import Counters, Metrics
from ..read.outlines import REMEMBERED_SLICES, OutlineMemory, Outlines
from ..read.read import Tables
from ..read.tail import MAX_TAIL_BYTES, MAX_TAIL_RECORDS, Current, Tails
from ..readers.pool import Readers, TextAnswers
from ..settings import Settings, load_settings_of
from ..system.face import Face, FaceSettings, open_face


@dataclass(frozen=True)
class Opened:
    """An opened node, before any of its parts is made."""

    settings: Settings
    stores: Stores
    session_secrets: tuple[bytes, ...] = field(repr=False)
    """The first secret signs sessions; all of them are accepted."""
    secret_keys: SecretKeys = field(repr=False)
    clock: Clock = system_clock
    random: Random = os.urandom

    @property
    def lies_open(self) -> bool:
        return lies_open(self.settings, self.stores)


def lies_open(settings: Settings, stores: Stores) -> bool:
    """Return whether secrets of all services on a database lie open in it, since the services
    have no common key to seal them."""
    return settings.secrets_keys is None and is_shared(stores)


def is_shared(stores: Stores) -> bool:
    """Return whether services on other machines may use the same database."""
    return stores.engine.dialect.name == "postgresql"


class CallerParts(Opened):
    """Parts about callers: identity, rights, sign-in, counters and limits."""

    @cached_property
    def face(self) -> Face:
        return open_face(load_settings_of(FaceSettings))

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
            overviews=self.stores.overviews,
            entries=EntryMemory(self.stores.registry),
            reading=self.stores.reading,
            tenancy=self.settings.tenancy,
            reads=self.settings.anonymous_reads,
            base=self.settings.public_url or "/",
        )

    @cached_property
    def signed_urls(self) -> SignedUrls:
        ttl_s = self.settings.transfer_url_ttl_s
        return SignedUrls(self.session_secrets, ttl_s, self.clock, self.access)

    @cached_property
    def vended_keys(self) -> VendedKeys:
        return VendedKeys(self.session_secrets, self.settings.transfer_url_ttl_s, self.clock)

    @cached_property
    def s3_callers(self) -> S3Callers:
        return S3Callers(self.access, self.vended_keys)

    @cached_property
    def throttle(self) -> Throttle | SharedThrottle:
        """Services on one PostgreSQL share the count; on SQLite there is only one service."""
        attempts, window_s = self.settings.login_attempts, LOGIN_WINDOW_S
        if is_shared(self.stores):
            return SharedThrottle(LoginAttempts(self.stores.engine), attempts, window_s, self.clock)
        return Throttle(attempts, window_s)

    @cached_property
    def passwords(self) -> Passwords:
        return Passwords(self.stores.accounts, self.throttle, Cost(self.settings.password_work))

    @cached_property
    def own_tokens(self) -> OwnTokens:
        accounts = self.stores.accounts
        return OwnTokens(accounts, self.access, self.clock, self.random, MAX_ACCOUNT_TOKENS)

    @cached_property
    def administration(self) -> Administration:
        return Administration(self.stores.accounts, self.passwords.cost, self.clock, self.random)

    @cached_property
    def membership(self) -> Membership:
        return Membership(self.stores, self.access.entries, self.clock)

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
            ttl_s=DEVICE_LOGIN_TTL_S,
            most=MAX_DEVICE_LOGINS,
            most_per_address=DEVICE_LOGINS_PER_ADDRESS,
            guesses=DEVICE_CODE_GUESSES,
            clock=self.clock,
            random=self.random,
        )

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


class ReadParts(CallerParts):
    """Parts that read datasets: rows, versions, lookups."""

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
        return Current(self.stores, self.outlines, self.version_reads.first_changed)

    @cached_property
    def steps(self) -> Steps:
        kept = self.stores.projections
        return Steps(self.tables, self.readers, kept, DEAD_ROWS_INDEX_ROWS)

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
