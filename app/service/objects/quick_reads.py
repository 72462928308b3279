"""The shortest way to what is asked for most: public blocks, small files and heads, by nobody.

It stands before everything else and answers only what takes no thread, no token, no condition
and no foreign origin. The rest, errors included, takes the long way behind it, which would
have given the same answer: this way only saves the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from ..http.plain_paths import is_plain
from ..settings import Tenancy
from .object_answer import Headers, whole_headers
from .object_path import KINDS, REFS, ObjectPath
from .objects import HEAD, AtHand, Place, is_usual_hash
from .routes import ref_headers
from .source import read_small

_LONG_WAY = frozenset(
    (b"authorization", b"if-match", b"if-none-match", b"if-range", b"origin", b"range")
)
"""Headers that change the answer."""
_VARY = (b"vary", b"Origin")
NOSNIFF = (b"x-content-type-options", b"nosniff")
"""Bytes are what their type says, whatever they look like."""
Found = tuple[str, Headers, bytes]
"""Folder of an object, headers and body of the answer."""


class QuickReads:
    """ASGI application: answers what it can at once, leaves the rest to `inner`."""

    def __init__(
        self,
        inner: ASGIApp,
        at_hand: AtHand,
        count: Mapping[str, Callable[[int], None]],
        *,
        tenancy: Tenancy,
        is_open: bool,
    ) -> None:
        self.inner, self.at_hand, self.count = inner, at_hand, count
        self.tenancy, self.is_open = tenancy, is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.is_open and scope["type"] == "http" and scope["method"] == "GET":
            found = self._find(scope)
            if found is not None:
                folder, headers, body = found
                self.count[folder](len(body))
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": body})
                return
        await self.inner(scope, receive, send)

    def _find(self, scope: Scope) -> Found | None:
        if any(name in _LONG_WAY for name, _ in scope["headers"]) or not is_plain(scope):
            return None
        path = ObjectPath.of(scope["path"], self.tenancy)
        place = self.at_hand.for_all(path.account, path.dataset) if path is not None else None
        if path is None or place is None:
            return None
        if path.folder == REFS:
            return self._head(place) if path.name == HEAD else None
        return self._object(place, path.folder, path.name)

    def _head(self, place: Place) -> Found | None:
        head = self.at_hand.head(place)
        if head is None:
            return None
        body = str(head).encode()
        return REFS, [*ref_headers(len(body)), _VARY, NOSNIFF], body

    def _object(self, place: Place, folder: str, name: str) -> Found | None:
        if not is_usual_hash(name):
            return None
        local = self.at_hand.object(place, KINDS[folder], name)
        found = read_small(local.path) if local is not None else None
        if local is None or found is None or not self.at_hand.is_right(local.name, *found):
            return None
        body, _ = found
        headers = whole_headers(KINDS[folder], local.name, len(body), public=local.public)
        return folder, [*headers, _VARY, NOSNIFF], body
