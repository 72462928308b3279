"""Logs of damaged objects keep their promises in memory and both databases."""

from __future__ import annotations

from tests.conformance.damage_log import DamageLogContract


class TestDamageLogs(DamageLogContract):
    pass
