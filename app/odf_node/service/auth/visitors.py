"""Identify the visitor of a page by the session cookie, as if it were a bearer token.

Only pages read the cookie. Browsers send it only with requests from this site. We refuse a form
that changes something if the browser says that it comes from another site.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from odf_protocol.errors import Refused

from .access import admit
from .actors import ANONYMOUS, Actor
from .dataset_access import Callers

COOKIE = "odf_session"


def visitor(callers: Callers, request: Request, *, allow_anonymous: bool) -> Actor:
    """Return the actor who requests a page. Raises `AnonymousRestricted`."""
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
    """Set the token as a cookie that scripts and other sites cannot use."""
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
    """Refuse a form whose `Origin` header names another site. Raises `ForeignForm`."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    site = urlsplit(origin).netloc
    # a proxy may send another Host than the one that browsers use
    own = (request.headers.get("host"), urlsplit(public_url or "").netloc)
    if not site or site not in own:
        raise Refused(
            "ForeignForm", "this form comes from another site; open the page here and try again"
        )


def local_path(text: str) -> str:
    """Return the path to open after sign-in: the given one if it is of this site, else `/`."""
    is_local = text.startswith("/") and not text.startswith("//") and "\\" not in text
    return text if is_local and text.isprintable() else "/"
