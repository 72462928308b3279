"""Who looks: the session in the cookie of a browser, the same actor as its bearer would be.

Only pages look at the cookie. Browsers send it with requests of this site alone, and a form that
changes something is refused if its browser says that it comes from another site.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from odf_node.protocol.errors import Refused

from ..auth.access import admit
from ..auth.actors import ANONYMOUS, Actor
from ..auth.callers import Callers

COOKIE = "odf_session"


class ForeignForm(Refused):
    """A form of another site, sent here by a browser."""

    def __init__(self) -> None:
        super().__init__("this form comes from another site; open the page here and try again")


def visitor(callers: Callers, request: Request, *, allow_anonymous: bool) -> Actor:
    """Who looks at a page. Raises `AnonymousRestricted`."""
    actor = _signed_in(callers, request.cookies.get(COOKIE))
    admit(actor, allow_anonymous=allow_anonymous)
    request.scope.setdefault("state", {})["actor"] = actor
    return actor


def _signed_in(callers: Callers, token: str | None) -> Actor:
    if token is None:
        return ANONYMOUS
    actor = callers.identify(token)
    return ANONYMOUS if actor.is_anonymous else actor


def sign_in(answer: Response, token: str, lasts_s: int, base: str) -> None:
    """Hand the token to the browser, out of reach of scripts and of other sites."""
    seen = urlsplit(base)
    answer.set_cookie(
        COOKIE,
        token,
        max_age=lasts_s,
        path=seen.path,
        httponly=True,
        samesite="strict",
        secure=seen.scheme == "https",
    )


def sign_out(answer: Response, base: str) -> None:
    answer.delete_cookie(COOKIE, path=urlsplit(base).path, httponly=True, samesite="strict")


def refuse_foreign(request: Request, public_url: str | None) -> None:
    """Browsers say where a form comes from. Raises `ForeignForm`."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    site = urlsplit(origin).netloc
    # a proxy may name the node another way than browsers do
    own = (request.headers.get("host"), urlsplit(public_url or "").netloc)
    if not site or site not in own:
        raise ForeignForm


def local_path(text: str) -> str:
    """Where to go on after signing in: a path of this site, whatever was asked for."""
    is_local = text.startswith("/") and not text.startswith("//") and "\\" not in text
    return text if is_local and text.isprintable() else "/"
