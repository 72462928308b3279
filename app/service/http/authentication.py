"""Who asks, and are they let in at all: the first question to a request that is no page.

A malformed credential is refused before anything else is looked at.
"""

from __future__ import annotations

from starlette.types import Scope

from odf_node.storage.runtime.context import add_facts

from ..auth.access import admit
from ..auth.actors import ANONYMOUS, Actor, bearer_of
from ..auth.callers import Callers
from ..limits.coalescer import Coalescer
from .addresses import is_open


class Authentication:
    """Finds out who asks. Requests that arrive together share a look at their tokens."""

    def __init__(self, callers: Callers, *, allow_anonymous: bool) -> None:
        self._coalescer = Coalescer(callers.identify_all)
        self._allow_anonymous = allow_anonymous

    async def actor(self, scope: Scope) -> Actor:
        """Raises `MalformedBearer`, `AnonymousRestricted`."""
        bearer = bearer_of(scope["headers"])
        actor = ANONYMOUS
        if bearer is not None:
            actor = await self._coalescer.ask(bearer)
            add_facts(actor=actor.account.name if actor.account else None)
        if not self._allow_anonymous and not is_open(scope["path"]):
            admit(actor, allow_anonymous=False)
        return actor
