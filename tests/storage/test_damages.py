"""Logs of damaged objects keep their promises in both databases."""

from __future__ import annotations

from tests.conformance.damage_log import DamageLogContract


class TestDamageLogs(DamageLogContract):
    pass
