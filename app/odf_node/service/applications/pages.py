"""All pages and their addresses.

Each group of pages has a module with a table of its addresses. At the address of a dataset the page
responds if the request prefers `text/html`; otherwise the API does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_storage.runtime.features import loaded

from ..auth.actors import Actor
from ..http.addresses import Route as Address
from ..http.deps import part_of
from ..limits.shares import Turns
from ..pages import datasets
from ..pages.admin import accounts as admin_accounts
from ..pages.admin import audit as admin_audit
from ..pages.admin import jobs as admin_jobs
from ..pages.admin import storage as admin_storage
from ..pages.datasets import files, manage
from ..pages.datasets import page as dataset
from ..pages.frame.render import shown, static
from ..pages.frame.views import Views
from ..pages.guide import home, manual, reference
from ..pages.people import account, password, signing_in, tokens
from ..system.face import Face

MAX_PASSWORDS = 2
"""Limit of passwords that pages check at once; each check takes memory and a core."""
MAX_FILES = 4
"""Limit of files of the publishing form that are received or inspected at once."""
FILES_EACH = 2
"""Limit of these files for one account."""
CSS, SCRIPT = "text/css", "text/javascript"
KEPT = {"cache-control": "max-age=3600"}
ALONE = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
"""For a picture that somebody opens by itself: whatever stands in it runs nowhere."""
SCRIPTS = ("copy", "dataset", "live", "tokens", "verify", "worker", "walk", "blocks", "sha3")
STATIC = {
    "/v/dataset.css": CSS,
    **{f"/v/{name}.js": SCRIPT for name in SCRIPTS},
}


def _publish_form(given: Views, actor: Actor, request: Request) -> Response:
    from ..pages.datasets.publish import form  # not needed to start

    return form(given, actor, request)


def _later(name: str) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint with this name of the form that publishes files, loaded when asked."""
    place = f"{datasets.__name__}.publish:{name}"

    async def asked(request: Request) -> Response:
        endpoint = await to_thread.run_sync(loaded, place)
        response: Response = await endpoint(request)
        return response

    return asked


async def _static(request: Request) -> Response:
    path = request.url.path
    return Response(static(path.rpartition("/")[2]), headers=KEPT, media_type=STATIC[path])


async def _style(request: Request) -> Response:
    """Return the rules of all pages, and the colours of this node."""
    face = part_of(request, Face)
    return Response(static("style.css") + face.style, headers=KEPT, media_type=CSS)


async def _icon(request: Request) -> Response:
    """Return the logo of this node, or ours."""
    face = part_of(request, Face)
    content = static("icon.svg") if face.logo is None else face.logo
    return Response(content, headers=KEPT | ALONE, media_type=face.logo_type)


ROUTES = (
    *home.ROUTES,
    *reference.ROUTES,
    *manual.ROUTES,
    *signing_in.ROUTES,
    *account.ROUTES,
    *tokens.ROUTES,
    *password.ROUTES,
    *admin_jobs.ROUTES,
    *admin_storage.ROUTES,
    *admin_accounts.ROUTES,
    *admin_audit.ROUTES,
    Route(files.PATH, shown(_publish_form), methods=["GET"]),
    Route(files.PATH, _later("looked"), methods=["POST"]),
    Route(f"{files.PATH}/dataset", _later("published"), methods=["POST"]),
    *manage.ROUTES,
    *dataset.CARD_ROUTES,
    *(Route(path, _static, methods=["GET"]) for path in STATIC),
    Route("/v/style.css", _style, methods=["GET"]),
    Route("/v/icon", _icon, methods=["GET"]),
)
"""All routes except those of a dataset."""
OWN = frozenset(route.path for route in ROUTES)


def page_routes(parts: dict[type, object], prefix: str) -> list[Address]:
    """Return the entries of the routing table; `prefix` is the address pattern of datasets."""
    made = site(parts, prefix)
    own = [Address(path, made, is_page=True) for path in sorted(OWN)]
    return [*own, Address(prefix, made, ("GET", "HEAD"), is_page=True)]


def site(parts: dict[type, object], prefix: str) -> Starlette:
    """Return the ASGI application of all pages."""
    made = Starlette(routes=[*ROUTES, *dataset.routes(prefix)])
    made.state.parts = parts
    made.state.passwords = CapacityLimiter(MAX_PASSWORDS)
    made.state.files = Turns("files", most=MAX_FILES, each=FILES_EACH)
    return made
