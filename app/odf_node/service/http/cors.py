"""CORS: the requests that pages of other sites may send, and the headers that say so.

Every origin is allowed. This does no harm, because no request is authorized by cookies. On a node
where everybody reads private datasets, the place in the network is what authorizes a visitor, and
every page in the visitor's browser has the same place. There no origin is allowed, and a request
has to name the node by a name that no stranger can point at it (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import Scope

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
"""Allowed methods. The reference allows GET and POST only."""
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
"""Headers of every response to a request with an `Origin` header."""
_RULES = CORSMiddleware(
    lambda *_: None,  # type: ignore[arg-type]
    allow_origins=["*"],
    allow_methods=METHODS,
    allow_headers=["*"],
    expose_headers=EXPOSED,
)


def is_own_host(scope: Scope, public_url: str | None) -> bool:
    """Return whether the `Host` of a request is an address, a name without a dot, a name below
    `localhost`, or the host of the node's public URL. Strangers own no such names."""
    for name, value in scope["headers"]:
        if name == b"host":
            host = urlsplit("//" + value.decode("latin-1")).hostname or ""
            own = None if public_url is None else urlsplit(public_url).hostname
            return "." not in host or host.endswith(".localhost") or host == own or _is_ip(host)
    return True


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def preflight_answer(scope: Scope) -> Response | None:
    """Return the response to a CORS preflight request; None for any other request."""
    if scope.get("method") != "OPTIONS":
        return None
    headers = Headers(scope=scope)
    if "origin" not in headers or "access-control-request-method" not in headers:
        return None
    answer = _RULES.preflight_response(headers)
    for name, _ in GRANTED:  # `Sending` adds these headers to every response
        del answer.headers[name.decode()]
    return answer
