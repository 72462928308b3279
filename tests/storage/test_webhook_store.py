"""Webhooks keep their promises in both databases."""

from __future__ import annotations

from tests.conformance.webhook_store import WebhookStoreContract


class TestWebhookStores(WebhookStoreContract):
    pass
