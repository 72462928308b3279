"""What every part of a node is made of: settings, opened stores, clock, source of randomness."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.runtime.clock import Clock, system_clock
from odf_node.storage.runtime.randomness import Random
from odf_node.storage.stores.publishing.sealing import SecretKeys

from ..settings import Settings


@dataclass(frozen=True)
class Opened:
    """A node before any part of it is made."""

    settings: Settings
    stores: Stores
    session_secrets: tuple[bytes, ...] = field(repr=False)
    """The first signs, all are taken."""
    secret_keys: SecretKeys = field(repr=False)
    clock: Clock = system_clock
    random: Random = os.urandom


def is_shared(stores: Stores) -> bool:
    """Whether services elsewhere may use the same database."""
    return stores.engine.dialect.name == "postgresql"
