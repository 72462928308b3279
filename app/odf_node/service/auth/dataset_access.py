"""Access to datasets: look up a dataset by address or id, and authorize the actor.

The rule of mirrors: only the remote of a mirror adds data to it.

Cache of registry entries, kept for one second, because a client that reads a chain needs the
same entry a thousand times.

The cache keeps found entries only, and only read requests use it. So if a dataset is renamed,
hidden or deleted, readers notice within a second.

The filter by which the index lists only datasets that an actor may read: `grants` for all
datasets at once.

Cache of the roles of accounts, kept for one second, because every request with a token needs
them.

A change of a role by this process takes effect at once, by another process within a second.

Identification of callers: look up the actors of tokens, with the roles of their accounts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef, Name
from odf_storage.datasets.node.naming import SINGLE_OWNER
from odf_storage.datasets.node.reader import Reader, Reading
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.logs import add_facts
from odf_storage.stores.index.sql import DatasetEntries
from odf_storage.stores.ports.errors import AccountNotFound
from odf_storage.stores.ports.overviews import Readable
from odf_storage.stores.ports.values import AccountId, DatasetEntry, Reach, Role, Scope
from odf_storage.stores.registers.accounts.access import RoleReads
from odf_storage.stores.registers.datasets.following import MirrorReads
from odf_storage.stores.registers.datasets.overviews import OverviewStore

from ..setting_groups.words import AnonymousReads, Tenancy
from .access import Action, DatasetHidden, DatasetRenamed, IsRemote, address, authorize, grants
from .actors import ANONYMOUS, Actor, identify


def refuse_mirror(mirrors: MirrorReads, entry: DatasetEntry) -> None:
    """Raise `IsRemote` if the dataset is a mirror. Call it before every write that does not come
    from the remote."""
    if mirrors.find(entry.id) is not None:
        raise IsRemote


KEPT_S = 1.0
MAX_ENTRIES = 4096


class EntryMemory:
    """A cache of entries by alias. `now` is a monotonic clock in seconds."""

    def __init__(
        self, registry: DatasetEntries, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry, self._now = registry, now
        self._known: dict[str, tuple[float, DatasetEntry]] = {}
        self._lock = threading.Lock()

    def recall(self, folded: str) -> DatasetEntry | None:
        """Return the cached entry of a folded alias, None if there is none. Never read the
        registry."""
        until, entry = self._known.get(folded, (0.0, None))
        return entry if self._now() < until else None

    def forget(self, alias: DatasetAlias) -> None:
        """Drop the entry from the cache, because it has changed."""
        with self._lock:
            self._known.pop(alias.folded, None)

    def find(self, alias: DatasetAlias) -> DatasetEntry | None:
        """Return the entry from the cache or the registry. It may be one second old."""
        key, now = alias.folded, self._now()
        with self._lock:
            until, entry = self._known.get(key, (0.0, None))
        if entry is not None and now < until:
            return entry
        entry = self._registry.find(DatasetRef(alias=alias))
        with self._lock:
            self._known.pop(key, None)
            if entry is not None:
                if len(self._known) >= MAX_ENTRIES:
                    self._known.pop(next(iter(self._known)))
                self._known[key] = (now + KEPT_S, entry)
        return entry


@dataclass(frozen=True)
class DatasetAccess:
    """The datasets of a node, with its policy: its tenancy, and what everybody may read."""

    registry: DatasetEntries
    overviews: OverviewStore
    entries: EntryMemory
    reading: Reading
    tenancy: Tenancy
    reads: AnonymousReads
    base: str = "/"
    """The URL of the node if the settings say it, with a slash at the end."""

    def resolve(
        self,
        actor: Actor,
        account: str | None,
        name: str,
        action: Action,
        *,
        registry: DatasetEntries | None = None,
    ) -> DatasetEntry:
        """Return the dataset of an address, if the actor may perform the action on it.

        `registry` is the registry of a `Reader`, if the lookup is to share its transaction.

        Raises:
            MalformedAddress, DatasetHidden, TokenInvalid, TokenExpired, ActionForbidden.
        """
        _, entry = self.find(actor, account, name, action, creates=False, registry=registry)
        if entry is None:  # `authorize` returns None with `creates` only
            raise DatasetHidden
        return entry

    def resolve_open(self, actor: Actor, account: str | None, name: str) -> DatasetEntry:
        """Return the dataset of an address. The actor must be allowed to write to it, and it must
        not be a mirror.

        Raises:
            The same errors as `resolve`, and IsRemote.
        """
        with self.reading() as reader:
            entry = self.resolve(actor, account, name, Action.WRITE, registry=reader.registry)
            refuse_mirror(reader.mirrors, entry)
        return entry

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
        """As `resolve`, but return the alias too. With `creates` a missing dataset is no error."""
        alias = address(self.tenancy, account, name)
        if action is Action.READ:
            entry = self.entries.find(alias)
        else:
            entry = (registry or self.registry).find(DatasetRef(alias=alias))
        if entry is not None:
            add_facts(dataset=str(entry.id))
        try:
            return alias, authorize(actor, entry, action, self.reads, creates=creates)
        except DatasetHidden:
            raise self.hidden(actor, alias, registry) from None

    def hidden(
        self, actor: Actor, alias: DatasetAlias, registry: DatasetEntries | None = None
    ) -> DatasetHidden:
        """Return the error for a name at which the actor may see nothing: who may read the dataset
        that had the name before is told its name of today."""
        former = self.former(actor, alias, registry)
        if former is None:
            return DatasetHidden(actor.reason)
        return DatasetRenamed(self.shown_alias(former), self.base, actor.reason)

    def former(
        self, actor: Actor, alias: DatasetAlias, registry: DatasetEntries | None = None
    ) -> DatasetEntry | None:
        """Return the dataset that had a name before, if the actor may read it.

        A hidden dataset, a missing one and a hidden one that was renamed cost the same reads.
        """
        found = (registry or self.registry).find_former(alias)
        return found if found is not None and self.may_read(actor, found) else None

    def visible(self, actor: Actor, dataset: DatasetId) -> DatasetEntry | None:
        """Return the dataset if it is on this node and the actor may read it, else None."""
        found = self.registry.find(DatasetRef(id=dataset))
        return found if found is not None and self.may_read(actor, found) else None

    def still_readable(self, dataset: DatasetId, account: AccountId | None) -> DatasetEntry | None:
        """Return the dataset if the account, or everybody if it is None, may read it now; nobody
        reads for a disabled account. Read the index, not the caches."""
        with self.reading() as reader:
            entry, actor = reader.registry.find(DatasetRef(id=dataset)), ANONYMOUS
            if account is not None:
                try:
                    found = reader.accounts.account(account)
                except AccountNotFound:
                    return None
                if found.disabled_at is not None:
                    return None
                roles = reader.roles.of_account(account)
                actor = Actor(found, frozenset({Scope.READ}), roles=roles)
        return entry if entry is not None and self.may_read(actor, entry) else None

    def may_read(self, actor: Actor, entry: DatasetEntry) -> bool:
        return Action.READ in self.grants(actor, entry)

    def grants(self, actor: Actor, entry: DatasetEntry) -> frozenset[Action]:
        """Return all actions that the actor may perform on the dataset."""
        return grants(actor, entry, self.reads)

    @property
    def everything_is_read(self) -> bool:
        """Return whether everybody may read all datasets of the node."""
        return self.reads is AnonymousReads.ALL

    def new_alias(self, actor: Actor, name: DatasetAlias) -> DatasetAlias:
        """Return the full alias of a new dataset. A missing account is that of the actor, or of
        the single owner on a node without accounts."""
        own = SINGLE_OWNER if self.tenancy is Tenancy.SINGLE else ""
        account = name.account or Name(own or (actor.account.name if actor.account else ""))
        return DatasetAlias(name.name, account)

    def may_make_datasets(self, actor: Actor) -> bool:
        """Return whether the account makes datasets on this node: on a node of one tenant only
        the tenant does."""
        is_tenant = actor.account is not None and Name(actor.account.name) == Name(SINGLE_OWNER)
        return is_tenant or (actor.account is not None and self.tenancy is Tenancy.MULTI)

    def shown_alias(self, entry: DatasetEntry) -> str:
        """Return the alias as clients of this node write it: without account on a node of a
        single tenant."""
        return str(self.written(entry.alias))

    def written(self, alias: DatasetAlias) -> DatasetAlias:
        """Return an alias as clients of this node write it."""
        return DatasetAlias(alias.name) if self.tenancy is Tenancy.SINGLE else alias


def readable(actor: Actor, reads: AnonymousReads) -> Readable:
    """Return a filter for the datasets that `grants` allows the actor to read."""
    if reads is AnonymousReads.ALL:
        return Readable(everything=True)
    signed = () if actor.reads is None else (actor.reads,)
    account = actor.account
    if account is None or not actor.may(Scope.READ):
        return Readable(datasets=signed)
    own = Name(account.name).folded
    match actor.reach:
        case Reach.NODE if account.is_admin:
            return Readable(everything=True)
        case Reach.NODE:
            return Readable(datasets=signed, account=own, roles_of=account.id)
        case Reach.ACCOUNT:
            return Readable(datasets=signed, account=own)
        case Reach.DATASET if account.is_admin and actor.dataset is not None:
            return Readable(datasets=(*signed, actor.dataset))
        case Reach.DATASET:
            return Readable(datasets=signed, account=own, roles_of=account.id, within=actor.dataset)


MAX_ACCOUNTS = 1024

Roles = Mapping[DatasetId, Role]


class RoleMemory:
    """A cache of roles by account. `now` is a monotonic clock in seconds."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: dict[AccountId, tuple[float, Roles]] = {}
        self._changes = 0
        self._lock = threading.Lock()

    def of(self, account: AccountId, roles: RoleReads) -> Roles:
        """Return the roles of an account from the cache, else from `roles`. They may be one second
        old."""
        now = self._now()
        with self._lock:
            until, held = self._known.get(account, (0.0, {}))
            changes = self._changes
        if now < until:
            return held
        held = roles.of_account(account)
        with self._lock:
            if changes == self._changes:
                if len(self._known) >= MAX_ACCOUNTS:
                    self._known.clear()
                self._known[account] = (now + KEPT_S, held)
        return held

    def forget(self, account: AccountId) -> None:
        """Drop the roles of an account from the cache, because they have changed."""
        with self._lock:
            self._changes += 1
            self._known.pop(account, None)


@dataclass(frozen=True)
class Callers:
    """Identifies callers by their tokens."""

    reading: Reading
    roles: RoleMemory
    session_secrets: tuple[bytes, ...] = field(repr=False)
    """The first secret signs sessions; signatures of all are accepted."""
    clock: Clock

    def identify(self, bearer: str | None) -> Actor:
        """Return the actor of a token."""
        with self.reading() as reader:
            return self._identify(bearer, reader)

    def identify_all(self, bearers: Sequence[str]) -> list[Actor | Exception]:
        """Return the actor or the error for each token. Equal tokens are looked up once."""
        found: dict[str, Actor | Exception] = {}
        with self.reading() as reader:
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
