"""One look into the index for all posts that came together: where they go, and who may post."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import ParamSpec, TypeVar

from odf_node.protocol.errors import NodeError
from odf_node.protocol.identity import DatasetId
from odf_node.storage.datasets.node.reader import Reader
from odf_node.storage.runtime.context import add_facts
from odf_node.storage.stores.ports.values import DatasetEntry

from ..auth.access import Action, DatasetHidden, IsRemote, authorize
from ..setting_groups.words import AnonymousReads
from .post import Post
from .sources import check_source

P = ParamSpec("P")
T = TypeVar("T")
KEPT_S = 1.0
"""To look at a source is to read the chain, which moves with every post. A publisher who disables a
source may see posts being taken for so long."""
MAX_SOURCES = 4096
Place = tuple[DatasetEntry, NodeError | None]
"""Where a post goes, and why no source there takes it."""


class Places:
    """Finds where posts go, and remembers for a second which sources take them.

    It remembers no refusal, so nobody is refused by what is old. A worker refuses a post to a
    source that went meanwhile.
    """

    def __init__(self, reads: AnonymousReads, *, now: Callable[[], float] = time.monotonic) -> None:
        self._reads, self._now = reads, now
        self._takes: dict[tuple[DatasetId, str | None], float] = {}

    def find(self, reader: Reader, posts: Sequence[Post]) -> list[Place | Exception]:
        """The place of each post; or `DatasetHidden`, `IsRemote` and what `authorize` raises."""
        entries = reader.registry.find_named({post.dataset for post in posts})
        mirrors = reader.mirrors.among({entry.id for entry in entries.values()})
        trouble = cache(partial(self._trouble, reader))

        def place(post: Post) -> Place:
            entry = entries.get(post.dataset)
            if entry is not None:
                post.work.run(add_facts, dataset=str(entry.id))
            entry = authorize(post.actor, entry, Action.WRITE, self._reads)
            if entry is None:  # only a creating push may have none
                raise DatasetHidden(post.actor.reason)
            if entry.id in mirrors:
                raise IsRemote
            return entry, trouble(entry.id, post.request.source_name)

        return [tried(place, post) for post in posts]

    def _trouble(self, reader: Reader, dataset: DatasetId, source: str | None) -> NodeError | None:
        """Why the dataset has no such source."""
        if self._now() < self._takes.get((dataset, source), 0.0):
            return None
        try:
            check_source(reader.chain(dataset).state(), source)
        except NodeError as trouble:
            return trouble
        if len(self._takes) >= MAX_SOURCES:
            self._takes.clear()
        self._takes[dataset, source] = self._now() + KEPT_S
        return None


def tried(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | Exception:
    """What came of it, as a value."""
    try:
        return work(*given, **named)
    except Exception as error:
        return error
