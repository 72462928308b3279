"""All pages and their addresses; requests that do not ask for HTML are passed on to the API.

Each group of pages has a module with a table of its addresses. The page of a dataset answers if
the request prefers `text/html`; else the API does.
"""

from __future__ import annotations

from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..http.addresses import Route as Address
from . import (
    account,
    admin_accounts,
    admin_audit,
    admin_jobs,
    admin_storage,
    dataset,
    documentation,
    home,
    password,
    publish,
    signing_in,
    tokens,
)
from .render import static

MAX_PASSWORDS = 2
"""Passwords checked at once for pages; each takes memory and a core."""
MAX_FILES = 4
"""Files of the publishing form that arrive or are looked at at once."""
CSS, SCRIPT = "text/css", "text/javascript"
SCRIPTS = ("copy", "dataset", "live", "tokens", "verify", "walk", "blocks", "sha3")
STATIC = {
    "/v/style.css": CSS,
    "/v/dataset.css": CSS,
    **{f"/v/{name}.js": SCRIPT for name in SCRIPTS},
}


async def _static(request: Request) -> Response:
    path = request.url.path
    return static(path.rpartition("/")[2], STATIC[path])


ROUTES = (
    *home.ROUTES,
    *documentation.ROUTES,
    *signing_in.ROUTES,
    *account.ROUTES,
    *tokens.ROUTES,
    *password.ROUTES,
    *admin_jobs.ROUTES,
    *admin_storage.ROUTES,
    *admin_accounts.ROUTES,
    *admin_audit.ROUTES,
    *publish.ROUTES,
    *(Route(path, _static, methods=["GET"]) for path in STATIC),
)
"""All but those of a dataset."""
OWN = frozenset(route.path for route in ROUTES)


def page_routes(parts: dict[type, object], prefix: str) -> list[Address]:
    """The rows of the table of addresses; `prefix` is the pattern of the addresses of datasets."""
    made = site(parts, prefix)
    own = [Address(path, made, is_page=True) for path in sorted(OWN)]
    return [*own, Address(prefix, made, ("GET", "HEAD"), is_page=True)]


def site(parts: dict[type, object], prefix: str) -> Starlette:
    """The application that answers for all pages."""
    made = Starlette(routes=[*ROUTES, *dataset.routes(prefix)])
    made.state.parts = parts
    made.state.passwords = CapacityLimiter(MAX_PASSWORDS)
    made.state.files = CapacityLimiter(MAX_FILES)
    return made
