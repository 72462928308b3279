"""The composition root: opens a node (stores, clock, source of randomness) from its settings."""

from __future__ import annotations

import os
from functools import cached_property

from odf_storage.datasets.node.naming import SINGLE_OWNER
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.runtime.clock import Clock
from odf_storage.stores.registers.accounts.sealing import open_keys

from .accounts.accounts import ensure_account
from .auth.actors import session_secrets
from .datasets.datasets import warn_of_reserved_names
from .parts.callers import lies_open
from .parts.features import FeatureParts
from .setting_groups.words import Tenancy
from .settings import Settings


class Node(FeatureParts):
    """An opened node: its settings and stores, and the parts that are built from them.

    A part is made once, on first access. Use cases get parts and stores, never the node.
    """

    @property
    def parts(self) -> dict[type, object]:
        """Return all parts by class; route handlers request the ones they need."""
        pages = (vars(page).items() for page in type(self).__mro__)
        wired = [name for page in pages for name, one in page if isinstance(one, cached_property)]
        own = (getattr(self, name) for name in wired if not name.startswith("_"))
        parts = (self.settings, self.stores, *own)
        return {**{type(part): part for part in parts}, **self._of_features}


def open_node(settings: Settings, *, clock: Clock | None = None) -> Node:
    """Open and migrate the stores, and create the predefined account of a single-tenant node."""
    stores = open_stores(
        StoreSettings(
            data=settings.data,
            database_url=settings.database_url,
            objects_url=settings.objects_url,
            objects_public_url=settings.objects_public_url,
            object_copies=settings.object_copies,
            rehash_s=settings.rehash_s,
        ),
        repair=False,  # the service does it beside its work
    )
    if settings.tenancy is Tenancy.SINGLE:
        ensure_account(stores.accounts, SINGLE_OWNER, os.urandom, is_admin=True)
        warn_of_reserved_names(stores.registry)
    keys = open_keys(settings.secrets_keys, settings.data)
    open_secrets = lies_open(settings, stores)
    secrets = session_secrets(stores.accounts, keys, lies_open=open_secrets)
    return Node(settings, stores, secrets, keys, clock or stores.clock)
