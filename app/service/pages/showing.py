"""How a page answers: in a thread, for the account of the cookie; errors are pages as well."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from odf_node.protocol.errors import NodeError

from ..auth.access import AnonymousRestricted
from ..auth.actors import ANONYMOUS, Actor
from ..auth.callers import Callers
from ..errors import status_of
from ..http.deps import part_of
from ..settings import Settings
from . import views
from .render import page
from .views import Views
from .visitors import visitor

SEE_OTHER = 303
View = Callable[[Views, Actor, Request], Response]


def shown(view: View) -> Callable[[Request], Response]:
    """The page for the account of the cookie; a node closed to strangers asks to sign in."""

    def made(request: Request) -> Response:
        given, actor = part_of(request, Views), ANONYMOUS
        try:
            is_open = part_of(request, Settings).allow_anonymous
            actor = visitor(part_of(request, Callers), request, allow_anonymous=is_open)
            return view(given, actor, request)
        except AnonymousRestricted:
            return redirect(given, f"/v/sign-in?next={quote(request.url.path)}")
        except NodeError as error:
            return problem(given, actor, request, error)

    return made


def shown_to_all(view: View) -> Callable[[Request], Response]:
    """The page for everybody, signed in or not."""

    def made(request: Request) -> Response:
        return view(part_of(request, Views), ANONYMOUS, request)

    return made


def problem(given: Views, actor: Actor, request: Request, error: NodeError) -> Response:
    """The page that says what went wrong."""
    status = int(status_of(error))
    content = {"status": status, "message": error.message}
    path = request.url.path
    return page("problem", {**views.frame(given, actor, path), **content}, status)


def redirect(given: Views, path: str) -> Response:
    """On to another page of this node."""
    return RedirectResponse(
        views.root_of(given) + path, SEE_OTHER, headers={"cache-control": "no-store"}
    )
