"""The pages and their addresses; requests that do not ask for HTML are passed on to the API.

/                   the datasets
/{dataset}          one dataset, if the request prefers `text/html`; else the API answers
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
from starlette.types import ASGIApp, Receive, Scope, Send

from odf_node.protocol.errors import NodeError, Refused

from ..accounts.login import MAX_LOGIN_CHARS, begin_session, check_password
from ..auth.access import Action, AnonymousRestricted
from ..auth.actors import ANONYMOUS, Actor
from ..errors import status_of
from ..http.bodies import small_form
from ..http.contract import contract
from ..http.deps import base_of, part_of
from ..limits.shares import caller_of
from ..wiring import Node
from . import views
from .reference import reference
from .render import page, static
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


class Pages:
    """ASGI middleware: browsers get pages, everything else goes on.

    `prefix` is the pattern of the addresses of datasets, `words` are the first segments of the
    API's own paths, which are no datasets.
    """

    def __init__(self, inner: ASGIApp, node: Node, prefix: str, words: frozenset[str]) -> None:
        self._inner, self._prefix, self._words = inner, prefix, words
        self._segments = prefix.count("/")
        self._site = site(node, prefix)
        self._routes = {
            route.path: route for route in self._site.routes if isinstance(route, Route)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = self._page(scope) if scope["type"] == "http" else None
        if path is None:
            await self._inner(scope, receive, send)
            return
        scope["route"] = self._routes[path]  # what counts and logs call it
        await self._site(scope, receive, send)

    def _page(self, scope: Scope) -> str | None:
        """Pattern of the page that is asked for, if one is."""
        path: str = scope["path"]
        if path in OWN:
            return path
        parts = path.strip("/").split("/")
        is_dataset = len(parts) == self._segments and parts[0] not in self._words
        asks = is_dataset and scope["method"] in ("GET", "HEAD") and prefers_html(scope)
        return self._prefix if asks else None


def prefers_html(scope: Scope) -> bool:
    """Whether a browser asks: HTML is named, and JSON is not."""
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    return b"text/html" in accepted and b"json" not in accepted


def site(node: Node, dataset: str) -> Starlette:
    """The application that answers for all pages."""
    made = Starlette(
        routes=[
            Route("/", _shown(node, _home)),
            Route("/docs", _shown(node, _reference)),
            *(Route(path, _static, methods=["GET"]) for path in STATIC),
            Route("/v/sign-in", _shown(node, _form), methods=["GET"]),
            Route("/v/sign-in", _sign_in, methods=["POST"]),
            Route("/v/sign-out", _sign_out, methods=["POST"]),
            Route(dataset, _shown(node, _dataset)),
            Route(dataset + "/", _shown(node, _dataset)),
        ]
    )
    made.state.parts = node.parts
    made.state.passwords = CapacityLimiter(MAX_PASSWORDS)
    return made


def _shown(
    node: Node, view: Callable[[Node, Actor, Request], Response]
) -> Callable[[Request], Response]:
    """A page that a thread makes for the account of the cookie; errors are pages as well."""

    def made(request: Request) -> Response:
        actor = ANONYMOUS
        try:
            if view is not _form:
                actor = visitor(node, request)
            return view(node, actor, request)
        except AnonymousRestricted:
            return _redirect(node, f"/v/sign-in?next={quote(request.url.path)}")
        except NodeError as error:
            return _problem(node, actor, request, error)

    return made


def _home(node: Node, actor: Actor, request: Request) -> Response:
    after = request.query_params.get("after")
    content = views.home(node, actor, base_of(request), after and after[:400])
    return page("home", {**views.frame(node, actor, "/"), **content})


def _reference(node: Node, actor: Actor, _: Request) -> Response:
    content = reference(contract(node.settings.tenancy))
    return page("reference", {**views.frame(node, actor, "/docs"), **content})


def _dataset(node: Node, actor: Actor, request: Request) -> Response:
    given = request.path_params
    entry = node.access.resolve(actor, given.get("account"), given["dataset"], Action.READ)
    caller = caller_of(request.scope)
    content = views.dataset(node, actor, entry, base_of(request), caller)
    return page("dataset", {**views.frame(node, actor, request.url.path), **content})


def _form(node: Node, actor: Actor, request: Request) -> Response:
    target = local_path(request.query_params.get("next", "/"))
    return _form_page(node, actor, target)


def _form_page(
    node: Node,
    actor: Actor,
    target: str,
    problem: str | None = None,
    *,
    login: str = "",
    status: int = 200,
) -> Response:
    around = views.frame(node, actor, "/v/sign-in")
    content = {**around, "next": target, "problem": problem, "login": login}
    return page("sign_in", content, status)


async def _sign_in(request: Request) -> Response:
    node = part_of(request, Node)
    try:
        refuse_foreign(node, request)
        form = await small_form(request, MAX_FORM_BYTES)
    except NodeError as error:
        return _problem(node, ANONYMOUS, request, error)
    limiter = request.app.state.passwords
    return await to_thread.run_sync(_signed_in, node, form, request, limiter=limiter)


def _signed_in(node: Node, form: dict[str, str], request: Request) -> Response:
    target = local_path(form.get("next", "/"))
    try:
        token = _token(node, form, request.client.host if request.client else "")
    except NodeError as error:
        login = form.get("login", "")[:MAX_LOGIN_CHARS]
        status = int(status_of(error))
        return _form_page(node, ANONYMOUS, target, error.message, login=login, status=status)
    answer = _redirect(node, target)
    sign_in(answer, token, node.settings.session_ttl_s, base_of(request))
    return answer


def _token(node: Node, form: dict[str, str], address: str) -> str:
    """The access token that was given, or a session for account and password.

    Raises:
        CredentialsRejected, TooManyAttempts, AccessTokenRejected.
    """
    token = form.get("token", "").strip()
    if not token:
        account = check_password(
            node.passwords, form.get("login", ""), form.get("password", ""), address
        )
        return begin_session(node.sessions, account).token
    if node.callers.identify(token).is_anonymous:
        raise AccessTokenRejected
    return token


async def _sign_out(request: Request) -> Response:
    node = part_of(request, Node)
    try:
        refuse_foreign(node, request)
    except NodeError as error:
        return _problem(node, ANONYMOUS, request, error)
    answer = _redirect(node, "/")
    sign_out(answer, base_of(request))
    return answer


async def _static(request: Request) -> Response:
    path = request.url.path
    return static(path.rpartition("/")[2], STATIC[path])


def _problem(node: Node, actor: Actor, request: Request, error: NodeError) -> Response:
    status = int(status_of(error))
    content = {"status": status, "message": error.message}
    path = request.url.path
    return page("problem", {**views.frame(node, actor, path), **content}, status)


def _redirect(node: Node, path: str) -> Response:
    return RedirectResponse(
        views.root_of(node) + path, SEE_OTHER, headers={"cache-control": "no-store"}
    )
