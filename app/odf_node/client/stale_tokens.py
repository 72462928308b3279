"""Reads with a token that the node does not know, or that has expired: tried again without it.

What everybody may read is then read, with a warning. Whatever needs the token fails as before, and
writes are sent once.
"""

from __future__ import annotations

import warnings
from typing import Any

import httpx

from .limits import ClientLimits
from .notices import Notice
from .reach import PatientClient

AUTHORIZATION, CHALLENGE = "authorization", "www-authenticate"
INVALID = "invalid_token"
_READS = frozenset({"GET", "HEAD"})
QUERY = "/query"
"""End of the address that answers queries, the one read that is a POST."""


class TokenNotKnown(Notice):
    """The node does not take the token; what was read is what everybody may read."""


class ForgivingClient(PatientClient):
    """A client that reads without a token that the node refuses."""

    def __init__(self, limits: ClientLimits, **given: Any) -> None:
        super().__init__(limits, **given)
        self._refused: set[tuple[str, str]] = set()
        """Origins, each with a token that it does not take."""

    def send(self, request: httpx.Request, **given: Any) -> httpx.Response:
        token = request.headers.get(AUTHORIZATION)
        if token is None or not _is_read(request):
            return super().send(request, **given)
        known = (_origin(request), token)
        if known in self._refused:
            return super().send(_without_token(request), **given)
        answer = super().send(request, **given)
        if answer.status_code != 401 and INVALID not in answer.headers.get(CHALLENGE, ""):
            return answer
        other = super().send(_without_token(request), **given)
        if not other.is_success:
            other.close()
            return answer
        answer.close()
        self._refused.add(known)
        warn(known[0])
        return other


def _is_read(request: httpx.Request) -> bool:
    return request.method in _READS or request.url.path.endswith(QUERY)


def _origin(request: httpx.Request) -> str:
    url = request.url
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _without_token(request: httpx.Request) -> httpx.Request:
    headers = request.headers.copy()
    del headers[AUTHORIZATION]
    return httpx.Request(
        request.method,
        request.url,
        headers=headers,
        stream=request.stream,
        extensions=request.extensions,
    )


def warn(where: str) -> None:
    warnings.warn(
        f"{where} does not know this token, or it has expired; read without it. Log in again "
        "(odf-node login), or unset ODF_NODE_TOKEN",
        TokenNotKnown,
        stacklevel=3,
    )
