"""The base of all parts of a node: settings, opened stores, clock, source of randomness."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock, system_clock
from odf_storage.runtime.randomness import Random
from odf_storage.stores.publishing.sealing import SecretKeys

from ..settings import Settings


@dataclass(frozen=True)
class Opened:
    """An opened node, before any of its parts is made."""

    settings: Settings
    stores: Stores
    session_secrets: tuple[bytes, ...] = field(repr=False)
    """The first secret signs sessions; all of them are accepted."""
    secret_keys: SecretKeys = field(repr=False)
    clock: Clock = system_clock
    random: Random = os.urandom


def is_shared(stores: Stores) -> bool:
    """Return whether services on other machines may use the same database."""
    return stores.engine.dialect.name == "postgresql"
