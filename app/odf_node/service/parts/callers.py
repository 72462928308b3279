"""Parts about callers: identity, rights, sign-in, counters and limits."""

from __future__ import annotations

from functools import cached_property

from odf_storage.stores.accounts.sql_attempts import SqlAttempts

from ..accounts.administration import Administration
from ..accounts.login import (
    DEVICE_CODE_GUESSES,
    DEVICE_LOGIN_TTL_S,
    DEVICE_LOGINS_PER_ADDRESS,
    MAX_DEVICE_LOGINS,
    Devices,
    Passwords,
    Sessions,
)
from ..accounts.own_tokens import MAX_ACCOUNT_TOKENS, OwnTokens
from ..auth.callers import Callers
from ..auth.dataset_access import DatasetAccess
from ..auth.entry_cache import EntryMemory
from ..auth.passwords import Cost
from ..auth.roles import RoleMemory
from ..auth.s3_keys import S3Callers, VendedKeys
from ..auth.signed_urls import SignedUrls
from ..auth.throttle import LOGIN_WINDOW_S, SharedThrottle, Throttle
from ..limits.pressure import Pressure
from ..observe.audit_writer import AuditWriter
from ..observe.counters import Counters
from ..observe.metrics import Metrics
from .opened import Opened, is_shared


class CallerParts(Opened):
    """Parts about callers: identity, rights, sign-in, counters and limits."""

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
        return SignedUrls(self.session_secrets, self.settings.transfer_url_ttl_s, self.clock)

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
            return SharedThrottle(SqlAttempts(self.stores.engine), attempts, window_s, self.clock)
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
