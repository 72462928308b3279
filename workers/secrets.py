"""Variables and secrets of a dataset and of the account that owns it, for its templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from storage.sealing import SecretKeys
from storage.stores import Stores
from storage.values import DatasetEntry


@dataclass(frozen=True, slots=True)
class Secrets:
    """Reads them when they are needed; nothing is kept."""

    stores: Stores
    keys: SecretKeys

    def of(self, entry: DatasetEntry) -> Mapping[str, str]:
        """By name; those of the dataset go before. Raises `SecretUnreadable`."""
        owner = entry.alias.account
        account = self.stores.accounts.find_account(str(owner)) if owner is not None else None
        owners = [str(account.id)] if account is not None else []
        return {
            name: self.keys.opened(one, variable)
            for one in (*owners, str(entry.id))
            for name, variable in self.stores.variables.of_owner(one).items()
        }
