"""A post: a batch that a client wants to add to a dataset, and its job."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace

from odf_protocol.identity import DatasetAlias
from odf_storage.stores.ports.values import AccountId, JobId, ObjectKey

from ..auth.actors import Actor
from .asked import IngestRequest
from .content import Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A body for a dataset, with its actor and parameters."""

    actor: Actor
    dataset: DatasetAlias
    request: IngestRequest
    open: Callable[[], Content] = field(repr=False)
    """Returns the body. It is called after the actor is authorized."""
    work: Context = field(default_factory=copy_context, repr=False)
    """The context of the request: its trace, and the facts that are collected for the log."""

    @property
    def account(self) -> AccountId:
        """The account that posts, or an empty text for an anonymous actor."""
        return self.actor.account.id if self.actor.account is not None else AccountId("")

    def asked(self, content: Content) -> IngestRequest:
        """Return the request with the media type that the content has so far, in canonical form.
        Raises the same errors as `IngestRequest.canonical`."""
        return replace(self.request, media_type=content.media_type).canonical()


@dataclass(frozen=True, slots=True)
class Posted:
    """A batch with a job. `upload`, if any, must be deleted after the job has ended. `repeated`
    says that an earlier request with the same key submitted the job."""

    job: JobId
    upload: ObjectKey | None = None
    repeated: bool = False
