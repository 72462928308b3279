"""Publications keep their promises in both databases."""

from __future__ import annotations

from tests.conformance.publication_store import PublicationStoreContract


class TestPublicationStores(PublicationStoreContract):
    pass
