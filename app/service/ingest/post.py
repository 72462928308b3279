"""A post: a batch that somebody wants in a dataset, and what has become of it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace

from odf_node.protocol.identity import DatasetAlias
from odf_node.storage.stores.ports.values import AccountId, JobId, ObjectKey

from ..auth.actors import Actor
from .asked import IngestRequest
from .content import Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A body for the dataset of an address."""

    actor: Actor
    dataset: DatasetAlias
    request: IngestRequest
    open: Callable[[], Content] = field(repr=False)
    """Gives the body, once it is known that it may be posted."""
    work: Context = field(default_factory=copy_context, repr=False)
    """What it is part of: its trace, and what becomes known of it."""

    @property
    def account(self) -> AccountId:
        """Who posts; nobody's is empty."""
        return self.actor.account.id if self.actor.account is not None else AccountId("")

    def asked(self, content: Content) -> IngestRequest:
        """The request, as far as it shows by now. Raises as `IngestRequest.canonical`."""
        return replace(self.request, media_type=content.media_type).canonical()


@dataclass(frozen=True, slots=True)
class Posted:
    """A batch that has a job. `upload` is to be cleared away once that has ended."""

    job: JobId
    upload: ObjectKey | None = None
    repeated: bool = False
