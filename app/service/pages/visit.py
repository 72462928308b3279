"""Somebody looks at a dataset: who, at what, and from where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from odf_node.protocol.chain.state import ChainState
from odf_node.protocol.identity import DatasetRef
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.stores.ports.values import DatasetEntry

from ..auth.actors import Actor
from . import views
from .views import Views, root_of


@dataclass(frozen=True)
class Visit:
    """A look at one dataset, which the actor may read."""

    views: Views
    actor: Actor
    entry: DatasetEntry
    base: str
    """URL of the node, with a slash at the end."""
    caller: str
    """Whose share of the node's readers its rows take."""
    is_open: bool
    """Whether everybody may read it. Scripts of a page carry no session: they reach only such."""

    @cached_property
    def alias(self) -> str:
        return self.views.access.shown_alias(self.entry)

    @property
    def path(self) -> str:
        """Of the dataset's page, as links say it."""
        return f"{root_of(self.views)}/{self.alias}"

    @property
    def url(self) -> str:
        return f"{self.base}{self.alias}"

    @cached_property
    def dataset(self) -> Dataset:
        return self.views.stores.dataset(DatasetRef(id=self.entry.id))

    @cached_property
    def state(self) -> ChainState:
        """What its chain says as of the head."""
        return self.dataset.state()

    def content(self, **more: Any) -> dict[str, Any]:
        """What all pages of a dataset show, and more."""
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
