"""Stores of derivations keep their promises in both databases."""

from __future__ import annotations

from tests.conformance.derivation_store import DerivationStoreContract


class TestDerivationStores(DerivationStoreContract):
    pass
