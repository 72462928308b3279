"""Wrap page functions as endpoints: run in a thread, for the cookie's account, errors as pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import quote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from odf_protocol.errors import NodeError

from ..auth.access import AnonymousRestricted, DatasetRenamed, Unauthenticated
from ..auth.actors import ANONYMOUS, Actor
from ..auth.callers import Callers
from ..errors import status_of
from ..http.bodies import small_form
from ..http.deps import part_of
from ..settings import Settings
from . import views
from .render import page
from .views import Views
from .visitors import refuse_foreign, visitor

SEE_OTHER = 303
MAX_FORM_BYTES = 16 * 1024
Form = dict[str, str]
View = Callable[[Views, Actor, Request], Response]
Use = Callable[[Views, Actor, Request, Form], Response]


def shown(view: View) -> Callable[[Request], Response]:
    """Return an endpoint for a page; redirect to sign-in if the page requires an account."""

    def made(request: Request) -> Response:
        return _seen(view, request)

    return made


def posted(use: Use, *, is_costly: bool = False) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint for a form of this site, run for the account of the cookie.

    `is_costly` means that it checks or sets a password; few such requests run at once.
    """

    async def made(request: Request) -> Response:
        given = part_of(request, Views)
        try:
            refuse_foreign(request, given.public_url)
            form = await small_form(request, MAX_FORM_BYTES)
        except NodeError as error:
            return problem(given, ANONYMOUS, request, error)

        def used(given: Views, actor: Actor, request: Request) -> Response:
            return use(given, actor, request, form)

        limiter = request.app.state.passwords if is_costly else None
        return await to_thread.run_sync(partial(_seen, used, request), limiter=limiter)

    return made


def _seen(view: View, request: Request) -> Response:
    given, actor = part_of(request, Views), ANONYMOUS
    try:
        is_open = part_of(request, Settings).allow_anonymous
        actor = visitor(part_of(request, Callers), request, allow_anonymous=is_open)
        return view(given, actor, request)
    except (AnonymousRestricted, Unauthenticated):
        return redirect(given, f"/v/sign-in?next={quote(request.url.path)}")
    except NodeError as error:
        return problem(given, actor, request, error)


def shown_to_all(view: View) -> Callable[[Request], Response]:
    """Return an endpoint for a page that everybody may see, signed in or not."""

    def made(request: Request) -> Response:
        return view(part_of(request, Views), ANONYMOUS, request)

    return made


def problem(given: Views, actor: Actor, request: Request, error: NodeError) -> Response:
    """Return the error page."""
    status = int(status_of(error))
    renamed = error.facts["name"] if isinstance(error, DatasetRenamed) else None
    content = {"status": status, "message": error.message, "renamed": renamed}
    path = request.url.path
    return page("problem", {**views.frame(given, actor, path), **content}, status)


def redirect(given: Views, path: str) -> Response:
    """Redirect to another page of this node."""
    return RedirectResponse(
        views.root_of(given) + path, SEE_OTHER, headers={"cache-control": "no-store"}
    )
