"""The accounts of persons who log in by the provider, and the rights that their groups give.

The account of a person is found by issuer and subject alone. A name that another account has is no
claim to it: the new account gets another name.
"""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass, replace
from functools import partial

from odf_protocol.commitments import SEED_BYTES, key_pair
from odf_protocol.errors import NodeError, Refused
from odf_protocol.identity import Name
from odf_protocol.instant import Instant
from odf_storage.datasets.node.naming import dataset_ref, refuse_reserved_account
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock, Random
from odf_storage.runtime.logs import add_facts
from odf_storage.stores.ports.values import Account, AccountId, Role

from ..accounts.accounts import account_disabled
from ..auth.passwords import SharedThrottle, Throttle
from .provider import OidcSettings
from .tokens import EndedLogin, Person, token_not_taken

NAME_CHARS = 60
_STRANGE = re.compile(r"[^a-z0-9]+")
_RANK = {role: rank for rank, role in enumerate((Role.READER, Role.EDITOR, Role.MAINTAINER))}
_log = logging.getLogger("odf.node")


@dataclass(frozen=True)
class People:
    """Finds and makes the accounts of persons, and ends their sessions."""

    settings: OidcSettings
    stores: Stores
    throttle: Throttle | SharedThrottle
    clock: Clock
    random: Random

    def log_in(self, person: Person, ends: Instant) -> Account:
        """Return the account of a person, with the rights of today's groups.

        Raises:
            NotInAGroup, AccountNotMade, AccountDisabled.
        """
        groups, asked = person.groups, frozenset(self.settings.login_groups)
        if asked and not asked & (groups or frozenset()):
            raise Refused(
                "NotInAGroup",
                f"{self.settings.name} says of you no group that may log in here; ask an "
                "administrator of the node",
                said=groups is not None,
            )
        account = self.stores.accounts.account(self._account_of(person))
        if account.disabled_at is not None:
            raise account_disabled(account)
        if groups is not None:
            account = self._with_rights(account, groups)
        if person.sid is not None:
            its = (self.issuer, person.sid, account.id)
            self.stores.provider_accounts.begin_session(*its, now=self.clock(), ends=ends)
        add_facts(account=account.name)
        return account

    def end_sessions(self, ended: EndedLogin) -> None:
        """End the sessions of whoever logged out at the provider, once for each logout.

        Raises:
            ProviderTokenNotTaken: it was taken before.
        """
        number = hashlib.sha3_256(f"{self.issuer} {ended.number}".encode()).hexdigest()
        if self.throttle.count({(f"logout:{number}", ""): 1}) is not None:
            raise token_not_taken("this logout was taken before")
        known, account = self.stores.provider_accounts, None
        if ended.subject is not None:
            account = known.find(self.issuer, ended.subject)
        elif ended.sid is not None:
            account = known.find_session(self.issuer, ended.sid)
        if account is not None:
            self.stores.accounts.end_sessions(account, self.clock())
            add_facts(account=account)

    @property
    def issuer(self) -> str:
        return str(self.settings.issuer)

    def _account_of(self, person: Person) -> AccountId:
        known = self.stores.provider_accounts.find(self.issuer, person.subject)
        if known is not None:
            return known
        if not self.settings.makes_accounts:
            raise Refused(
                "AccountNotMade",
                "you have no account here yet; an administrator gives you one by `odf-node account "
                f"link NAME --subject {person.subject}`",
                subject=person.subject,
            )
        make = partial(self.stores.provider_accounts.create, self.issuer, person.subject)
        identity = AccountId(str(key_pair(self.random(SEED_BYTES)).dataset_id))
        return make(Account(identity, self._free_name(person)))

    def _free_name(self, person: Person) -> str:
        """Return a name for a new account: as the provider says, unless somebody has it."""
        digest = hashlib.sha3_256(f"{self.issuer} {person.subject}".encode()).hexdigest()
        wanted = _STRANGE.sub("-", (person.name or "").partition("@")[0].lower()[:NAME_CHARS])
        wanted = wanted.strip("-") or "user"
        try:
            refuse_reserved_account(str(Name(wanted)))
        except NodeError:
            return f"{wanted}-{digest[:8]}"
        taken = self.stores.accounts.find_account(wanted) is not None
        return f"{wanted}-{digest[:8]}" if taken else wanted

    def _with_rights(self, account: Account, groups: frozenset[str]) -> Account:
        admins = frozenset(self.settings.admin_groups)
        if admins and account.is_admin is not bool(admins & groups):
            account = replace(account, is_admin=not account.is_admin)
            self.stores.accounts.put_account(account)
            _log.info(
                "%s is %san administrator by its groups",
                account.name,
                "" if account.is_admin else "no longer ",
            )
        for name in sorted({name for of in self.settings.roles.values() for name in of}):
            given = [
                of[name]
                for group, of in self.settings.roles.items()
                if name in of and group in groups
            ]
            self._set_role(account, name, max(given, key=_RANK.__getitem__, default=None))
        return account

    def _set_role(self, account: Account, name: str, role: Role | None) -> None:
        """Give the account this role at a dataset that the settings name, or none."""
        entry = self.stores.registry.find(dataset_ref(name))
        if entry is None:
            _log.warning("ODF_OIDC_ROLES names the dataset %s, which is not here", name)
        elif role is None:
            self.stores.roles.remove(entry.id, account.id)
        else:
            self.stores.roles.put(entry.id, account.id, role)
