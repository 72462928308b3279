"""The parts of the node that pages need, and the frame around their content. It has no HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.version import app_version

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..derivatives.derivatives import Derivatives
from ..lineage.lineage import LineageSources
from ..query.query import Queries
from ..read.current import Current
from ..read.outlines import Outlines
from ..read.read import Tables
from ..read.tail import Tails
from ..readers.pool import Readers
from .profiles import Profiles


@dataclass(frozen=True)
class Views:
    """The parts of the node that pages need."""

    stores: Stores
    access: DatasetAccess
    derivatives: Derivatives
    lineage: LineageSources
    outlines: Outlines
    tails: Tails
    readers: Readers
    tables: Tables
    current: Current
    profiles: Profiles
    queries: Queries
    clock: Clock
    public_url: str | None


def frame(views: Views, actor: Actor, path: str) -> dict[str, Any]:
    """Return what every page shows around its content."""
    return {
        "version": app_version(),
        "account": None if actor.account is None else str(actor.account.name),
        "may_publish": views.access.may_make_datasets(actor),
        "is_admin": actor.account is not None and actor.account.is_admin,
        "shows_all": views.access.everything_is_read,
        "path": path,
        "root": root_of(views),
    }


def root_of(views: Views) -> str:
    """Return the prefix that a proxy adds to this node's paths, such as `/odf`; often empty."""
    return urlsplit(views.public_url or "").path.rstrip("/")
