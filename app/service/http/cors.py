"""What pages of other sites may ask, and the headers by which their browsers know.

Every origin may: nothing here goes by cookies, so that does no harm.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import Scope

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
"""The reference grants GET and POST."""
EXPOSED = (
    "ETag",
    "Location",
    "Retry-After",
    "Content-Range",
    "Accept-Ranges",
    "Upload-Offset",
    "Idempotent-Replayed",
    "X-Trace-Id",
)
VARY_ORIGIN = (b"vary", b"Origin")
GRANTED = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", ", ".join(EXPOSED).encode()),
]
"""Headers of every answer to a request that names its origin."""
_RULES = CORSMiddleware(
    lambda *_: None,  # type: ignore[arg-type]
    allow_origins=["*"],
    allow_methods=METHODS,
    allow_headers=["*"],
    expose_headers=EXPOSED,
)


def preflight_answer(scope: Scope) -> Response | None:
    """The answer to a browser that asks whether it may ask; None for any other request."""
    if scope.get("method") != "OPTIONS":
        return None
    headers = Headers(scope=scope)
    if "origin" not in headers or "access-control-request-method" not in headers:
        return None
    answer = _RULES.preflight_response(headers)
    for name, _ in GRANTED:  # which every answer is given on its way out
        del answer.headers[name.decode()]
    return answer
