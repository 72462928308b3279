"""Who asks, and are they let in at all: the first question to a request that is no page.

A malformed credential is refused before anything else is looked at.
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from odf_node.storage.runtime.context import add_facts

from ..auth.access import admit
from ..auth.actors import ANONYMOUS, Actor, bearer_of
from ..auth.callers import Callers
from ..auth.s3_keys import READS, NoSuchS3Key, S3Callers, S3ReadsOnly
from ..auth.signed_urls import signature_of
from ..limits.coalescer import Coalescer
from .addresses import is_open, path_of
from .s3_requests import is_s3, s3_request


class Authentication:
    """Finds out who asks. Requests that arrive together share a look at their tokens."""

    def __init__(self, callers: Callers, s3_callers: S3Callers, *, allow_anonymous: bool) -> None:
        self._s3_callers = s3_callers
        self._coalescer = Coalescer(callers.identify_all)
        self._allow_anonymous = allow_anonymous

    async def actor(self, scope: Scope) -> Actor:
        """Raises `MalformedBearer`, `AnonymousRestricted`, and as `S3Callers.identify`."""
        if is_s3(scope):
            return await self._signer(scope)
        bearer = bearer_of(scope["headers"])
        actor = ANONYMOUS
        if bearer is not None:
            actor = await self._coalescer.ask(bearer)
            add_facts(actor=actor.account.name if actor.account else None)
        if not self._allow_anonymous and not is_open(scope["path"]) and not _is_signed(scope):
            admit(actor, allow_anonymous=False)
        return actor

    async def _signer(self, scope: Scope) -> Actor:
        """Whoever has keys for the dataset of the address. Raises `NoSuchS3Key`."""
        if not getattr(scope.get("route"), "takes_s3", False):
            raise NoSuchS3Key if scope["method"] in READS else S3ReadsOnly
        path, asked = path_of(scope), s3_request(scope)
        identify = self._s3_callers.identify
        return await run_in_threadpool(identify, asked, path.account, path.dataset)


def _is_signed(scope: Scope) -> bool:
    """Whether what serves the address looks at the signature of the URL, and at nothing else."""
    takes_signed = getattr(scope.get("route"), "takes_signed", False)
    return takes_signed and signature_of(scope["query_string"]) is not None
