"""The context of a request for a page of a dataset: actor, dataset, address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from odf_protocol.chain.state import ChainState
from odf_protocol.identity import DatasetRef
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.actors import Actor
from . import views
from .views import Views, root_of


@dataclass(frozen=True)
class Visit:
    """A request for a page of one dataset, which the actor may read."""

    views: Views
    actor: Actor
    entry: DatasetEntry
    base: str
    """URL of the node, with a slash at the end."""
    caller: str
    """The key under which the request counts against the share of readers."""
    is_open: bool
    """Whether everybody may read the dataset. Scripts of a page send no session, so they work only
    on such datasets."""

    @cached_property
    def alias(self) -> str:
        return self.views.access.shown_alias(self.entry)

    @property
    def path(self) -> str:
        """Path of the dataset's page in links."""
        return f"{root_of(self.views)}/{self.alias}"

    @property
    def url(self) -> str:
        return f"{self.base}{self.alias}"

    @cached_property
    def dataset(self) -> Dataset:
        return self.views.stores.dataset(DatasetRef(id=self.entry.id))

    @cached_property
    def state(self) -> ChainState:
        """State of its chain as of the head."""
        return self.dataset.state()

    def content(self, **more: Any) -> dict[str, Any]:
        """Return what all pages of a dataset show, and `more`."""
        path = self.path.removeprefix(root_of(self.views))
        return {
            **views.frame(self.views, self.actor, path),
            "alias": self.alias,
            "at": self.path,
            "url": self.url,
            "is_open": self.is_open,
            "head": str(self.state.head),
            **more,
        }
