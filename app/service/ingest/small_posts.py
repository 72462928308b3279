"""Small posts that came together: one look at their datasets, one transaction for their jobs.

Each is let in, refused and answered as `ingest.post` would; shared is what costs by the look, the
transaction and the thread. Posts under an `Idempotency-Key` go the long way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import cache, partial
from typing import ParamSpec, TypeVar

from odf_node.protocol.errors import NodeError
from odf_node.protocol.identity import DatasetAlias, DatasetId
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.node.reader import Reader, Reading
from odf_node.storage.runtime.context import add_facts
from odf_node.storage.stores.ports import JobSubmissions
from odf_node.storage.stores.ports.values import AccountId, DatasetEntry, JobSpec

from ..auth.access import Action, DatasetHidden, IsRemote, address, authorize
from ..auth.actors import Actor
from ..limits.pressure import Pressure
from ..setting_groups.words import AnonymousReads, Tenancy
from .ingest import IngestRequest, Posted, check_source, spec_of

P = ParamSpec("P")
T = TypeVar("T")
KEPT_S = 1.0
"""Finding out reads the chain, which moves with every post; longer, and who disabled a source would
see posts being taken."""
MAX_DATASETS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallPost:
    """A whole body to the only source of the dataset of an address."""

    actor: Actor
    account: str | None
    name: str
    media_type: str | None
    body: bytes = field(repr=False)
    work: Context = field(default_factory=copy_context, repr=False)
    """What it is part of: its trace, and what becomes known of it."""


class SmallPosts:
    """Takes them, and remembers for a second which datasets do.

    Only that a dataset takes posts is remembered, so nobody is refused by what is old; a post to
    a source that went meanwhile is refused by the worker.
    """

    def __init__(
        self,
        reading: Reading,
        jobs: JobSubmissions,
        pressure: Pressure,
        tenancy: Tenancy,
        reads: AnonymousReads,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reading, self._jobs, self._pressure = reading, jobs, pressure
        self._tenancy, self._reads, self._now = tenancy, reads, now
        self._takes: dict[DatasetId, float] = {}

    def take(self, posts: Sequence[SmallPost]) -> list[Posted | Exception]:
        """Queue each behind others of the same dataset; its job, or what `post` would raise."""
        with self._reading() as reader:
            trouble = partial(self._trouble, reader)
            look = _Look(self._tenancy, self._reads, reader, posts, trouble)
            places = [_tried(look.place, post) for post in posts]
        specs = [
            place if isinstance(place, Exception) else _tried(self._spec, post, *place)
            for post, place in zip(posts, places, strict=True)
        ]
        good = [spec for spec in specs if isinstance(spec, JobSpec)]
        jobs = iter(self._jobs.submit_all(good) if good else ())
        return [spec if isinstance(spec, Exception) else Posted(next(jobs)) for spec in specs]

    def _trouble(self, reader: Reader, entry: DatasetEntry) -> NodeError | None:
        """Why the dataset takes no posts."""
        if self._now() < self._takes.get(entry.id, 0.0):
            return None
        try:
            check_source(reader.chain(entry.id).state(), None)
        except NodeError as trouble:
            return trouble
        if len(self._takes) >= MAX_DATASETS:
            self._takes.clear()
        self._takes[entry.id] = self._now() + KEPT_S
        return None

    def _spec(self, post: SmallPost, entry: DatasetEntry, trouble: NodeError | None) -> JobSpec:
        return post.work.run(self._told, post, entry, trouble)

    def _told(self, post: SmallPost, entry: DatasetEntry, trouble: NodeError | None) -> JobSpec:
        account = post.actor.account.id if post.actor.account is not None else AccountId("")
        self._pressure.admit(entry.id, account)
        asked = IngestRequest(media_type=post.media_type).canonical()
        if trouble is not None:
            raise trouble
        return spec_of(entry, account, asked, Multihash.of(post.body), post.body)


class _Look:
    """One look into the index for all posts: at each thing once, at all of a kind together."""

    def __init__(
        self,
        tenancy: Tenancy,
        reads: AnonymousReads,
        reader: Reader,
        posts: Sequence[SmallPost],
        trouble: Callable[[DatasetEntry], NodeError | None],
    ) -> None:
        self._tenancy, self._reads = tenancy, reads
        self._trouble = cache(trouble)
        named = {alias for post in posts if isinstance(alias := self._alias(post), DatasetAlias)}
        self._entries = reader.registry.find_named(named)
        self._mirrors = reader.mirrors.among({each.id for each in self._entries.values()})

    def place(self, post: SmallPost) -> tuple[DatasetEntry, NodeError | None]:
        """Where a post goes that is let in, and why nothing may go there all the same."""
        alias = self._alias(post)
        if isinstance(alias, Exception):
            raise alias
        entry = self._entries.get(alias)
        if entry is not None:
            post.work.run(add_facts, dataset=str(entry.id))
        entry = authorize(post.actor, entry, Action.WRITE, self._reads)
        if entry is None:  # only a creating push may have none
            raise DatasetHidden(post.actor.reason)
        if entry.id in self._mirrors:
            raise IsRemote
        return entry, self._trouble(entry)

    def _alias(self, post: SmallPost) -> DatasetAlias | Exception:
        return _tried(address, self._tenancy, post.account, post.name)


def _tried(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | Exception:
    """What came of it, as a value."""
    try:
        return work(*given, **named)
    except Exception as error:
        return error
