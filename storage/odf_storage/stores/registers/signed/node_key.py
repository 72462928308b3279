"""The seed of the node's own key, which the first start makes and the database keeps sealed."""

from __future__ import annotations

import hashlib
import hmac
import os

from odf_protocol.commitments import SEED_BYTES

from ..accounts.accounts import AccountStore
from ..accounts.sealing import SecretKeys, secret_unreadable

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
    return _sealed_seed(keys, stored)


def reseal_node_seed(accounts: AccountStore, keys: SecretKeys) -> int:
    """Seal the seed with the newest key, if there is a sealed one. Return how many were changed.

    Raises `SecretUnreadable`.
    """
    if not accounts.has_secret(NODE_KEY):
        return 0
    own = accounts.secret(NODE_KEY, b"")
    if own.startswith((OPEN, f"{keys.newest}:".encode())):
        return 0
    new = keys.kept(NODE_KEY, NODE_KEY, _sealed_seed(keys, own).hex())
    return int(accounts.replace_secret(NODE_KEY, own, new))


def _sealed_seed(keys: SecretKeys, stored: bytes) -> bytes:
    """Return the seed out of its sealed form, or of the form of databases before there was one:
    a value of 32 bytes, of which and of the key of secrets the seed is a digest."""
    key_id, _, value = stored.partition(b":")
    if len(value) != SEED_BYTES:
        return bytes.fromhex(keys.text_of(NODE_KEY, NODE_KEY, stored))
    key = keys.keys.get(key_id.decode())
    if key is None:
        raise secret_unreadable(NODE_KEY, key_id.decode())
    return hmac.digest(key, NODE_KEY.encode() + value, hashlib.sha256)
