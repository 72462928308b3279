"""One lookup in the index for posts that are taken together: find datasets, authorize actors, check
sources."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import ParamSpec, TypeVar

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_storage.datasets.node.reader import Reader
from odf_storage.runtime.context import add_facts
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.access import Action, DatasetHidden, IsRemote, authorize
from ..auth.dataset_access import DatasetAccess
from .post import Post
from .sources import check_source

P = ParamSpec("P")
T = TypeVar("T")
KEPT_S = 5.0
"""Seconds for which the result of a check of a source is kept, because each check reads the chain,
which changes with every post. After a source is disabled, posts may be accepted for that long."""
MAX_SOURCES = 4096
Destination = tuple[DatasetEntry, NodeError | None]
"""The dataset of a post, and the error if no source of it accepts the post."""


class Destinations:
    """Finds the datasets of posts, and caches for some seconds which sources accept posts.

    It does not cache refusals, so a post is never refused because of outdated facts. A worker
    refuses a post to a source that was removed meanwhile.
    """

    def __init__(self, access: DatasetAccess, *, now: Callable[[], float] = time.monotonic) -> None:
        self._access, self._now = access, now
        self._takes: dict[tuple[DatasetId, str | None, bool], float] = {}

    def find(self, reader: Reader, posts: Sequence[Post]) -> list[Destination | Exception]:
        """Return for each post its dataset, or the error: `DatasetHidden`, `IsRemote` or an error
        of `authorize`."""
        entries = reader.registry.find_named({post.dataset for post in posts})
        mirrors = reader.mirrors.among({entry.id for entry in entries.values()})
        trouble = cache(partial(self._trouble, reader))

        def destination(post: Post) -> Destination:
            entry = entries.get(post.dataset)
            if entry is not None:
                post.work.run(add_facts, dataset=str(entry.id))
            try:
                entry = authorize(post.actor, entry, Action.WRITE, self._access.reads)
            except DatasetHidden:
                entry = None
            if entry is None:
                raise self._access.hidden(post.actor, post.dataset, reader.registry)
            if entry.id in mirrors:
                raise IsRemote
            return entry, trouble(entry.id, post.request.source_name, post.request.changelog)

        return [result_or_error(destination, post) for post in posts]

    def _trouble(
        self, reader: Reader, dataset: DatasetId, source: str | None, changelog: bool
    ) -> NodeError | None:
        """Return the error if the dataset has no such source, else None."""
        asked = (dataset, source, changelog)
        if self._now() < self._takes.get(asked, 0.0):
            return None
        try:
            check_source(reader.chain(dataset).state(), source, changelog=changelog)
        except NodeError as trouble:
            return trouble
        if len(self._takes) >= MAX_SOURCES:
            self._takes.clear()
        self._takes[asked] = self._now() + KEPT_S
        return None


def result_or_error(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | Exception:
    """Call `work`, and return its result or its exception."""
    try:
        return work(*given, **named)
    except Exception as error:
        return error
