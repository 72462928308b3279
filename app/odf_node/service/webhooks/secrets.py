"""Sealed secrets of a webhook: the current one, and for a while the one that it replaced.

A secret can be unsealed for its webhook and dataset only. The sealed text is the secret. After a
change it is the new secret, the old one, and the time until which the old one also signs,
separated by blanks.
"""

from __future__ import annotations

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_storage.stores.ports.values import Variable
from odf_storage.stores.ports.webhook_values import Webhook
from odf_storage.stores.publishing.sealing import SecretKeys

SECRET = "secret"  # noqa: S105 - the name of a secret, not one


def sealed(keys: SecretKeys, webhook: str, dataset: DatasetId, text: str, at: Instant) -> bytes:
    """Return the secret sealed for storage."""
    made = keys.sealed(_owner(webhook, dataset), SECRET, text, at=at)
    return f"{made.key_id}:".encode() + made.value


def opened(keys: SecretKeys, webhook: Webhook, now: Instant) -> list[str]:
    """Return the secrets that sign now, the newest first. Raises `SecretUnreadable`."""
    key_id, _, value = webhook.sealed_secret.partition(b":")
    found = Variable(
        name=SECRET,
        is_secret=True,
        value=value,
        updated_at=webhook.created_at,
        key_id=key_id.decode(),
    )
    newest, *before = keys.opened(_owner(webhook.id, webhook.dataset), found).split(" ")
    return [newest, before[0]] if before and now < Instant.parse(before[1]) else [newest]


def changed(old: str, new: str, until: Instant) -> str:
    """Return the text to seal when `new` signs, and `old` also signs until `until`."""
    return f"{new} {old} {until}"


def _owner(webhook: str, dataset: DatasetId) -> str:
    """Return the owner for which a secret is sealed."""
    return f"webhook:{dataset}:{webhook}"
