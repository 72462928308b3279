"""Authentication of all requests except those for pages, and the policy for anonymous ones.

A malformed credential is refused before any other check.
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from odf_storage.runtime.context import add_facts

from ..auth.access import admit
from ..auth.actors import ANONYMOUS, Actor, bearer_of
from ..auth.callers import Callers
from ..auth.s3_keys import READS, NoSuchS3Key, S3Callers, S3ReadsOnly
from ..auth.signed_urls import signature_of
from ..limits.coalescer import Coalescer
from .addresses import is_open, path_of
from .s3_requests import is_s3, s3_request


class Authentication:
    """Identifies the actor of a request. Concurrent requests share one lookup of their tokens."""

    def __init__(self, callers: Callers, s3_callers: S3Callers, *, allow_anonymous: bool) -> None:
        self._s3_callers = s3_callers
        self._coalescer = Coalescer(callers.identify_all)
        self._allow_anonymous = allow_anonymous

    async def actor(self, scope: Scope) -> Actor:
        """Return the actor of the request.

        Raises:
            MalformedBearer, AnonymousRestricted, NoSuchS3Key, and the errors of
            `S3Callers.identify`.
        """
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
        """Return the actor whose S3 keys signed the request for the dataset of the address.

        Raises:
            NoSuchS3Key: the address serves nothing to S3 clients. S3ReadsOnly, and the other
                errors of `S3Callers.identify`.
        """
        if not getattr(scope.get("route"), "takes_s3", False):
            raise NoSuchS3Key if scope["method"] in READS else S3ReadsOnly
        path, asked = path_of(scope), s3_request(scope)
        identify = self._s3_callers.identify
        return await run_in_threadpool(identify, asked, path.account, path.dataset)


def _is_signed(scope: Scope) -> bool:
    """Return whether the URL is signed and its route authorizes by that signature alone."""
    takes_signed = getattr(scope.get("route"), "takes_signed", False)
    return takes_signed and signature_of(scope["query_string"]) is not None
