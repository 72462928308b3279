"""The pages and their addresses; requests that do not ask for HTML are passed on to the API.

/                   the datasets
/{dataset}          one dataset, if the request prefers `text/html`; else the API answers;
                    `?query=` asks by SQL, with `&format=` for a file of the rows
/v/sign-in          account and password, or an access token; /v/sign-out
/v/style.css, /v/live.js
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from odf_node.protocol.errors import NodeError, Refused

from ..accounts.login import MAX_LOGIN_CHARS, Passwords, Sessions, begin_session, check_password
from ..auth.access import Action, AnonymousRestricted
from ..auth.actors import ANONYMOUS, Actor
from ..auth.callers import Callers
from ..catalogs.catalogs import Catalogs
from ..errors import status_of
from ..http.addresses import Route as Address
from ..http.bodies import small_form
from ..http.contract import contract
from ..http.deps import base_of, part_of
from ..limits.shares import caller_of
from ..read.outlines import Outlines
from ..settings import Settings
from . import views
from .asking import taken_along
from .reference import reference
from .render import page, static
from .views import Views
from .visitors import local_path, refuse_foreign, sign_in, sign_out, visitor

MAX_FORM_BYTES = 16 * 1024
MAX_PASSWORDS = 2
"""Passwords checked at once for pages; each takes memory and a core."""
SEE_OTHER = 303
OWN = frozenset({"/", "/docs", "/v/sign-in", "/v/sign-out", "/v/style.css", "/v/live.js"})
STATIC = {"/v/style.css": "text/css", "/v/live.js": "text/javascript"}


class AccessTokenRejected(Refused):
    """The text in the form is no access token of this node."""

    def __init__(self) -> None:
        super().__init__("this node does not know the access token, or it expired or was revoked")


def page_routes(parts: dict[type, object], prefix: str) -> list[Address]:
    """The rows of the table of addresses; `prefix` is the pattern of the addresses of datasets."""
    made = site(parts, prefix)
    own = [Address(path, made, is_page=True) for path in OWN]
    return [*own, Address(prefix, made, ("GET", "HEAD"), is_page=True)]


def site(parts: dict[type, object], dataset: str) -> Starlette:
    """The application that answers for all pages."""
    made = Starlette(
        routes=[
            Route("/", _shown(_home)),
            Route("/docs", _shown(_reference)),
            *(Route(path, _static, methods=["GET"]) for path in STATIC),
            Route("/v/sign-in", _shown(_form), methods=["GET"]),
            Route("/v/sign-in", _sign_in, methods=["POST"]),
            Route("/v/sign-out", _sign_out, methods=["POST"]),
            Route(dataset, _shown(_dataset)),
            Route(dataset + "/", _shown(_dataset)),
        ]
    )
    made.state.parts = parts
    made.state.passwords = CapacityLimiter(MAX_PASSWORDS)
    return made


def _shown(view: Callable[[Views, Actor, Request], Response]) -> Callable[[Request], Response]:
    """A page that a thread makes for the account of the cookie; errors are pages as well."""

    def made(request: Request) -> Response:
        shown, actor = part_of(request, Views), ANONYMOUS
        try:
            if view is not _form:
                is_open = part_of(request, Settings).allow_anonymous
                actor = visitor(part_of(request, Callers), request, allow_anonymous=is_open)
            return view(shown, actor, request)
        except AnonymousRestricted:
            return _redirect(shown, f"/v/sign-in?next={quote(request.url.path)}")
        except NodeError as error:
            return _problem(shown, actor, request, error)

    return made


def _home(shown: Views, actor: Actor, request: Request) -> Response:
    after = request.query_params.get("after")
    content = views.home(shown, actor, base_of(request), after and after[:400])
    return page("home", {**views.frame(shown, actor, "/"), **content})


def _reference(shown: Views, actor: Actor, _: Request) -> Response:
    content = reference(contract(shown.access.tenancy))
    return page("reference", {**views.frame(shown, actor, "/docs"), **content})


def _dataset(shown: Views, actor: Actor, request: Request) -> Response:
    given = request.path_params
    entry = shown.access.resolve(actor, given.get("account"), given["dataset"], Action.READ)
    caller = caller_of(request.scope)
    query, form = (request.query_params.get(name) for name in ("query", "format"))
    if query and form:
        return taken_along(shown.queries, actor, caller, query, form)
    content = views.dataset(shown, actor, entry, base_of(request), caller, query)
    catalogs = Catalogs(shown.stores, shown.access, part_of(request, Outlines))
    content["linked"] = catalogs.croissant(entry, base_of(request))
    return page("dataset", {**views.frame(shown, actor, request.url.path), **content})


def _form(shown: Views, actor: Actor, request: Request) -> Response:
    target = local_path(request.query_params.get("next", "/"))
    return _form_page(shown, actor, target)


def _form_page(
    shown: Views,
    actor: Actor,
    target: str,
    problem: str | None = None,
    *,
    login: str = "",
    status: int = 200,
) -> Response:
    around = views.frame(shown, actor, "/v/sign-in")
    content = {**around, "next": target, "problem": problem, "login": login}
    return page("sign_in", content, status)


async def _sign_in(request: Request) -> Response:
    shown = part_of(request, Views)
    try:
        refuse_foreign(request, shown.public_url)
        form = await small_form(request, MAX_FORM_BYTES)
    except NodeError as error:
        return _problem(shown, ANONYMOUS, request, error)
    limiter = request.app.state.passwords
    return await to_thread.run_sync(_signed_in, shown, form, request, limiter=limiter)


def _signed_in(shown: Views, form: dict[str, str], request: Request) -> Response:
    target = local_path(form.get("next", "/"))
    try:
        token = _token(form, request)
    except NodeError as error:
        login = form.get("login", "")[:MAX_LOGIN_CHARS]
        status = int(status_of(error))
        return _form_page(shown, ANONYMOUS, target, error.message, login=login, status=status)
    answer = _redirect(shown, target)
    sign_in(answer, token, part_of(request, Sessions).ttl_s, base_of(request))
    return answer


def _token(form: dict[str, str], request: Request) -> str:
    """The access token that was given, or a session for account and password.

    Raises:
        CredentialsRejected, TooManyAttempts, AccessTokenRejected.
    """
    token = form.get("token", "").strip()
    if not token:
        address = request.client.host if request.client else ""
        account = check_password(
            part_of(request, Passwords), form.get("login", ""), form.get("password", ""), address
        )
        return begin_session(part_of(request, Sessions), account).token
    if part_of(request, Callers).identify(token).is_anonymous:
        raise AccessTokenRejected
    return token


async def _sign_out(request: Request) -> Response:
    shown = part_of(request, Views)
    try:
        refuse_foreign(request, shown.public_url)
    except NodeError as error:
        return _problem(shown, ANONYMOUS, request, error)
    answer = _redirect(shown, "/")
    sign_out(answer, base_of(request))
    return answer


async def _static(request: Request) -> Response:
    path = request.url.path
    return static(path.rpartition("/")[2], STATIC[path])


def _problem(shown: Views, actor: Actor, request: Request, error: NodeError) -> Response:
    status = int(status_of(error))
    content = {"status": status, "message": error.message}
    path = request.url.path
    return page("problem", {**views.frame(shown, actor, path), **content}, status)


def _redirect(shown: Views, path: str) -> Response:
    return RedirectResponse(
        views.root_of(shown) + path, SEE_OTHER, headers={"cache-control": "no-store"}
    )
