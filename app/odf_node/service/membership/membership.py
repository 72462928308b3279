"""Changes of accounts that reach their datasets: rights, names, and leaving for good.

Before an account is deleted, a plan says what becomes of its datasets and what hinders that. A
hindered deletion changes nothing. One that breaks off leaves a disabled account, and goes on when
it is asked for again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Any

from odf_protocol.errors import BadInput, Conflict
from odf_protocol.identity import DatasetAlias, DatasetRef, Name
from odf_storage.datasets.node.naming import SINGLE_OWNER, refuse_reserved_account
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.logs import add_facts
from odf_storage.stores.ports.errors import account_name_taken
from odf_storage.stores.ports.values import Account, DatasetEntry

from ..accounts.accounts import account_disabled, find_account, require_session
from ..auth.access import require_admin
from ..auth.actors import Actor
from ..auth.dataset_access import EntryMemory
from .left_behind import LeftBehind

PAGE = 500
SHOWN = 100
"""Names and hindrances that a plan lists; it counts them all."""
_log = logging.getLogger("odf.node")


class FateOfDatasets(StrEnum):
    """What becomes of the datasets of an account that is deleted."""

    KEEP = "keep"
    TRANSFER = "transfer"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Leaving:
    """What the deletion of an account does."""

    account: Account
    fate: FateOfDatasets
    heir: Account | None
    datasets: list[DatasetEntry]
    hindrances: list[str]
    left_behind: list[str]
    """What stands still afterwards until somebody takes it over."""

    def to_data(self) -> dict[str, Any]:
        return {
            "accountName": self.account.name,
            "accountId": self.account.id,
            "datasets": self.fate.value,
            "to": None if self.heir is None else self.heir.name,
            "count": len(self.datasets),
            "names": [str(entry.alias) for entry in self.datasets[:SHOWN]],
            "hindrances": self.hindrances[:SHOWN],
            "leftBehind": self.left_behind,
            "keepsName": self.keeps_name,
        }

    @property
    def keeps_name(self) -> bool:
        """Whether a disabled account stays, which has the datasets that are kept."""
        return self.fate is FateOfDatasets.KEEP and bool(self.datasets)


@dataclass(frozen=True)
class Membership:
    """Changes accounts. Commands call its methods; others come through the functions below."""

    stores: Stores
    entries: EntryMemory
    clock: Clock

    def set_admin(self, account: Account, *, is_admin: bool) -> Account:
        """Make an account an administrator, or a user again."""
        changed = replace(account, is_admin=is_admin)
        self.stores.accounts.put_account(changed)
        return changed

    def rename(self, account: Account, text: str) -> Account:
        """Rename an account and, in the same transaction, the addresses of its datasets. Earlier
        addresses say where the datasets are.

        Raises:
            MalformedName, ReservedName, AccountNameTaken, AliasTaken, NameTooLong,
            PredefinedAccount.
        """
        name = Name(text)
        _refuse_predefined(account)
        refuse_reserved_account(text)
        holder = self.stores.accounts.find_account(text)
        if holder is not None and holder.id != account.id:
            raise account_name_taken(text)
        self._forget_cached(Name(account.name))
        self.stores.move_datasets(Name(account.name), name, renamed=account.id)
        return replace(account, name=text)

    def plan(self, account: Account, fate: FateOfDatasets, to: str | None) -> Leaving:
        """Return what a deletion would do. It changes nothing.

        Raises:
            PredefinedAccount, HeirNeeded, AccountUnknown, AccountDisabled.
        """
        _refuse_predefined(account)
        heir = None
        if fate is FateOfDatasets.TRANSFER:
            heir = find_account(self.stores.accounts, to or "") if to else None
            if heir is None or heir.id == account.id:
                raise BadInput("HeirNeeded", "name another account that gets the datasets")
            if heir.disabled_at is not None:
                raise account_disabled(heir)
        elif to:
            raise BadInput("HeirNeeded", "only datasets that are transferred go to an account")
        datasets = list(self._of(Name(account.name)))
        hindrances = list(self._hindrances(fate, heir, datasets))
        stays = fate is FateOfDatasets.KEEP and bool(datasets)
        told = LeftBehind(self.stores, account, heir, stays).told(datasets)
        return Leaving(account, fate, heir, datasets, hindrances, list(islice(told, SHOWN)))

    def delete(self, leaving: Leaving) -> None:
        """Delete the account as planned.

        Raises:
            AccountHindered, and the errors of removed datasets, which others may have begun to
            read meanwhile.
        """
        if leaving.hindrances:
            raise Conflict(
                "AccountHindered",
                f"{leaving.account.name} cannot be deleted: {leaving.hindrances[0]}"
                + (", and more" if len(leaving.hindrances) > 1 else ""),
                hindrances=leaving.hindrances[:SHOWN],
            )
        account, name = leaving.account, Name(leaving.account.name)
        self.stores.accounts.set_disabled(account.id, self.clock())
        self._forget_cached(name)
        if leaving.heir is not None:
            self.stores.move_datasets(name, Name(leaving.heir.name))
        if leaving.fate is FateOfDatasets.REMOVE:
            self._remove(leaving.datasets)
        if leaving.keeps_name:
            self.stores.accounts.empty(account.id)
        else:
            self.stores.accounts.delete(account.id)
        _log.info("account deleted id=%s datasets=%s", account.id, leaving.fate.value)

    def _of(self, account: Name) -> Iterator[DatasetEntry]:
        after = None
        while page := self.stores.registry.page(account=account.folded, after=after, limit=PAGE):
            yield from page
            after = page[-1].alias.folded

    def _forget_cached(self, account: Name) -> None:
        for entry in self._of(account):
            self.entries.forget(entry.alias)

    def _hindrances(
        self, fate: FateOfDatasets, heir: Account | None, datasets: list[DatasetEntry]
    ) -> Iterator[str]:
        own = {entry.id for entry in datasets}
        for entry in datasets:
            if heir is not None:
                alias = DatasetAlias(entry.alias.name, Name(heir.name))
                if self.stores.registry.find(DatasetRef(alias=alias)) is not None:
                    yield f"{alias} is there already"
            if fate is not FateOfDatasets.REMOVE:
                continue
            if any(one not in own for one in self.stores.registry.dependants(entry.id)):
                yield f"derivatives of others read {entry.alias}"
            published = self.stores.publications.find(entry.id)
            if published is not None and published.store is not None:
                yield f"{entry.alias} is published to files, which would be left without an owner"

    def _remove(self, datasets: list[DatasetEntry]) -> None:
        """Remove datasets, derivatives before what they read."""
        left = {entry.id: entry for entry in datasets}
        while left:
            free = [one for one in left if not self.stores.registry.dependants(one)]
            for one in free:
                self.stores.forget_dataset(one)
                del left[one]
            if not free:
                names = ", ".join(str(entry.alias) for entry in list(left.values())[:3])
                raise Conflict("StillRead", f"derivatives read {names} now; ask again")


def _refuse_predefined(account: Account) -> None:
    if account.name == SINGLE_OWNER:
        raise Conflict(
            "PredefinedAccount",
            f"{SINGLE_OWNER} is the account of nodes with one tenant, and keeps its name",
        )


def promote(its: Membership, actor: Actor, name: str, *, is_admin: bool) -> Account:
    """Make an account an administrator, or a user again.

    Raises:
        Unauthenticated, Unauthorized, AccountUnknown.
        OwnAccount: nobody takes the right from oneself, so that an administrator remains.
    """
    account = _changed(its, actor, name, "takes the right of an administrator from")
    return its.set_admin(account, is_admin=is_admin)


def rename(its: Membership, actor: Actor, name: str, new: str) -> Account:
    """Rename an account. Raises `Unauthenticated`, `Unauthorized`, `AccountUnknown`, and the errors
    of `Membership.rename`."""
    require_session(actor)
    account = find_account(its.stores.accounts, name)
    add_facts(account=account.name, name=new[:100])
    return its.rename(account, new)


def look(its: Membership, actor: Actor, name: str, fate: FateOfDatasets, to: str | None) -> Leaving:
    """Return what a deletion would do. Raises `Unauthenticated`, `Unauthorized`, `AccountUnknown`,
    and the errors of `Membership.plan`."""
    require_admin(actor)
    return its.plan(find_account(its.stores.accounts, name), fate, to)


def delete(
    its: Membership, actor: Actor, name: str, fate: FateOfDatasets, to: str | None
) -> Leaving:
    """Delete an account. Raises the errors of `promote`, and those of `Membership`."""
    leaving = its.plan(_changed(its, actor, name, "deletes"), fate, to)
    its.delete(leaving)
    return leaving


def _changed(its: Membership, actor: Actor, name: str, what: str) -> Account:
    require_session(actor)
    account = find_account(its.stores.accounts, name)
    if actor.account is not None and account.id == actor.account.id:
        raise Conflict("OwnAccount", f"nobody {what} oneself; another administrator can")
    add_facts(account=account.name)
    return account
