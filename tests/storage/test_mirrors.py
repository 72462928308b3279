"""Mirrors keep their promises in both databases."""

from __future__ import annotations

from tests.conformance.mirror_store import MirrorStoreContract


class TestMirrorStores(MirrorStoreContract):
    pass
