"""The seed of the node's own key, which the first start makes and the database keeps sealed."""

from __future__ import annotations

import os

from odf_protocol.commitments import SEED_BYTES

from .accounts import AccountStore
from .sealing import SecretKeys

NODE_KEY = "node-key"
"""Name of the secret that is the seed of the node's own key."""
OPEN = b"open:"
"""Before a seed that is not sealed."""


def node_seed(accounts: AccountStore, keys: SecretKeys, *, lies_open: bool) -> bytes:
    """Return the seed of the node's own key, which the first start makes.

    The database keeps it, so that all services on it sign by one key; sealed, but where services
    have no common key of secrets (`lies_open`).

    Raises:
        SecretUnreadable: it was sealed with a key that the node no longer has.
    """
    fresh = os.urandom(SEED_BYTES)
    made = OPEN + fresh if lies_open else keys.kept(NODE_KEY, NODE_KEY, fresh.hex())
    stored = accounts.secret(NODE_KEY, made)
    if stored.startswith(OPEN):
        return stored.removeprefix(OPEN)
    return bytes.fromhex(keys.text_of(NODE_KEY, NODE_KEY, stored))


def reseal_node_seed(accounts: AccountStore, keys: SecretKeys) -> int:
    """Seal the seed with the newest key, if there is a sealed one. Return how many were changed.

    Raises `SecretUnreadable`.
    """
    if not accounts.has_secret(NODE_KEY):
        return 0
    own = accounts.secret(NODE_KEY, b"")
    new = None if own.startswith(OPEN) else keys.renewed(NODE_KEY, NODE_KEY, own)
    return int(new is not None and accounts.replace_secret(NODE_KEY, own, new))
