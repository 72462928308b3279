"""Secrets of a webhook, sealed: the one that signs, and for a while the one that it replaced.

A secret opens for its webhook and dataset only. The sealed text is the secret; after a change, with
blanks between, also the one before and until when that signs as well.
"""

from __future__ import annotations

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant
from odf_node.storage.stores.ports.values import Variable
from odf_node.storage.stores.ports.webhook_values import Webhook
from odf_node.storage.stores.publishing.sealing import SecretKeys

SECRET = "secret"  # noqa: S105 - the name of a secret, not one


def sealed(keys: SecretKeys, webhook: str, dataset: DatasetId, text: str, at: Instant) -> bytes:
    """As it is kept."""
    made = keys.sealed(_owner(webhook, dataset), SECRET, text, at=at)
    return f"{made.key_id}:".encode() + made.value


def opened(keys: SecretKeys, webhook: Webhook, now: Instant) -> list[str]:
    """Those that sign now, the newest first. Raises `SecretUnreadable`."""
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
    """The text to seal once `new` signs, and `old` as well until then."""
    return f"{new} {old} {until}"


def _owner(webhook: str, dataset: DatasetId) -> str:
    """What a secret is sealed for."""
    return f"webhook:{dataset}:{webhook}"
