"""Change of the caller's own password, which needs the old password: a token is not enough."""

from __future__ import annotations

import os

from odf_storage.stores.ports.values import Account

from ..auth.access import Unauthenticated
from ..auth.actors import Actor
from .accounts import set_password
from .login import Passwords, Sessions, check_password


def change_password(
    passwords: Passwords, sessions: Sessions, actor: Actor, old: str, new: str, address: str
) -> Account:
    """Change the password of the actor's account, which ends its sessions.

    Raises:
        Unauthenticated, CredentialsRejected, TooManyAttempts, PasswordNotTaken.
    """
    if actor.account is None:
        raise Unauthenticated
    account = check_password(passwords, str(actor.account.name), old, address)
    accounts = passwords.accounts
    set_password(accounts, account, new, os.urandom, sessions.clock(), passwords.cost)
    return account
