"""Access to a dataset: its roles and its visibility, which maintainers set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from odf_protocol.errors import BadInput
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports import AccountStore, Identities, RoleStore
from odf_storage.stores.ports.errors import AccountNotFound
from odf_storage.stores.ports.values import Account, AccountId, DatasetEntry, Role, Visibility

from ..accounts.accounts import find_account
from ..auth.access import Action, ActionForbidden
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..auth.entry_cache import EntryMemory
from ..auth.roles import RoleMemory


class UnknownVisibility(BadInput):
    """The visibility is neither public nor private."""


class UnknownRole(BadInput):
    """The role is not a role at datasets."""


class OwnerNeedsNoRole(BadInput):
    """The request gives a role to the account that owns the dataset."""


def parse_visibility(text: str) -> Visibility:
    """Parse a visibility, in any case. Raises `UnknownVisibility`."""
    try:
        return Visibility(text.capitalize())
    except ValueError:
        raise UnknownVisibility(f"visibility is public or private, not {text[:50]!r}") from None


def parse_role(text: str) -> Role:
    """Parse a role, in any case. Raises `UnknownRole`."""
    try:
        return Role(text.capitalize())
    except ValueError:
        known = ", ".join(Role)
        raise UnknownRole(f"a role is one of {known}, not {text[:50]!r}") from None


@dataclass(frozen=True)
class DatasetRoles:
    """The stored roles of accounts at datasets, and the cache of this process."""

    accounts: AccountStore
    roles: RoleStore
    remembered: RoleMemory


def access_of(roles: DatasetRoles, entry: DatasetEntry) -> dict[str, Any]:
    """Return visibility, owner, and all roles, ordered by the name of the account."""
    given = roles.roles.of_dataset(entry.id)
    shown = [_shown(roles.accounts, account, role) for account, role in given.items()]
    return {
        "visibility": entry.visibility.value,
        "owner": str(entry.alias.account),
        "roles": sorted(shown, key=lambda item: str(item["accountName"]).lower()),
    }


def role_of(
    roles: DatasetRoles, access: DatasetAccess, actor: Actor, entry: DatasetEntry, name: str
) -> dict[str, Any]:
    """Return the role of one account. An actor may read its own role; maintainers may read all.

    Raises:
        ActionForbidden, AccountUnknown.
    """
    own = actor.account is not None and actor.account.name.lower() == name.lower()
    if not own and Action.MAINTAIN not in access.grants(actor, entry):
        raise ActionForbidden
    account = find_account(roles.accounts, name)
    return _entry(account, roles.roles.of_dataset(entry.id).get(account.id))


def give_role(roles: DatasetRoles, entry: DatasetEntry, name: str, role: Role) -> dict[str, Any]:
    """Give the account this role, in place of any earlier one.

    Raises:
        AccountUnknown, OwnerNeedsNoRole.
    """
    account = find_account(roles.accounts, name)
    if entry.alias.account is not None and account.name.lower() == entry.alias.account.folded:
        raise OwnerNeedsNoRole(f"{account.name} owns the dataset and may do everything with it")
    roles.roles.put(entry.id, account.id, role)
    roles.remembered.forget(account.id)
    return _entry(account, role)


def take_role(roles: DatasetRoles, entry: DatasetEntry, name: str) -> None:
    """Remove the role of the account. Raises `AccountUnknown`."""
    account = find_account(roles.accounts, name)
    roles.roles.remove(entry.id, account.id)
    roles.remembered.forget(account.id)


def change_visibility(
    stores: Stores, entries: EntryMemory, entry: DatasetEntry, visibility: Visibility
) -> DatasetEntry:
    """Make the dataset readable for everybody, or only for actors with a right to it."""
    stores.set_visibility(entry.id, visibility)
    entries.forget(entry.alias)
    return replace(entry, visibility=visibility)


def _shown(accounts: Identities, account: AccountId, role: Role) -> dict[str, Any]:
    try:
        return _entry(accounts.account(account), role)
    except AccountNotFound:  # deleted in between
        return {"accountName": "", "accountId": account, "role": role.value}


def _entry(account: Account, role: Role | None) -> dict[str, Any]:
    return {
        "accountName": account.name,
        "accountId": account.id,
        "role": role.value if role is not None else None,
    }
