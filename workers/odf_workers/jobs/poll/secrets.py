"""Variables and secrets for the templates of a source.

They are the dataset's, and also those of the owner's account if that account defined the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odf_protocol.metadata.events import SetPollingSource
from odf_storage.datasets.node.rights import has_account_secrets
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import DatasetEntry
from odf_storage.stores.publishing.sealing import SecretKeys


@dataclass(frozen=True, slots=True)
class Secrets:
    """Reads secrets when they are needed; keeps none."""

    stores: Stores
    keys: SecretKeys

    def of(self, entry: DatasetEntry, source: SetPollingSource) -> Mapping[str, str]:
        """Return the values by name; the dataset's take precedence. Raises `SecretUnreadable`."""
        owner = entry.alias.account
        account = self.stores.accounts.find_account(str(owner)) if owner is not None else None
        its_own = account is not None and has_account_secrets(self.stores, entry, source)
        owners = [str(account.id)] if account is not None and its_own else []
        return {
            name: self.keys.opened(one, variable)
            for one in (*owners, str(entry.id))
            for name, variable in self.stores.variables.of_owner(one).items()
        }
