"""The pages to sign in by password or access token, and to sign out."""

from __future__ import annotations

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_protocol.errors import NodeError, Refused

from ...accounts.login import (
    MAX_LOGIN_CHARS,
    LoginWay,
    LoginWays,
    Passwords,
    Sessions,
    begin_session,
    check_password,
)
from ...auth.actors import ANONYMOUS, Actor
from ...auth.dataset_access import Callers
from ...auth.visitors import (
    local_path,
    refuse_foreign,
    sign_in,
    sign_out,
)
from ...errors import status_of
from ...http.bodies import small_form
from ...http.deps import base_of, part_of
from ..frame import views
from ..frame.render import (
    MAX_FORM_BYTES,
    page,
    problem,
    redirect,
    shown_to_all,
)
from ..frame.views import Views


def _form(given: Views, actor: Actor, request: Request) -> Response:
    target = local_path(request.query_params.get("next", "/"))
    return _form_page(given, actor, target, ways=part_of(request, LoginWays).ways)


def _form_page(
    given: Views,
    actor: Actor,
    target: str,
    told: str | None = None,
    *,
    ways: tuple[LoginWay, ...],
    login: str = "",
    status: int = 200,
) -> Response:
    around = views.frame(given, actor, "/v/sign-in")
    content = {**around, "next": target, "problem": told, "login": login, "ways": ways}
    return page("sign_in", content, status)


async def _sign_in(request: Request) -> Response:
    given = part_of(request, Views)
    try:
        refuse_foreign(request, given.public_url)
        form = await small_form(request, MAX_FORM_BYTES)
    except NodeError as error:
        return problem(given, ANONYMOUS, request, error)
    limiter = request.app.state.passwords
    return await to_thread.run_sync(_signed_in, given, form, request, limiter=limiter)


def _signed_in(given: Views, form: dict[str, str], request: Request) -> Response:
    target = local_path(form.get("next", "/"))
    try:
        token = _token(form, request)
    except NodeError as error:
        login = form.get("login", "")[:MAX_LOGIN_CHARS]
        status = int(status_of(error))
        ways = part_of(request, LoginWays).ways
        return _form_page(
            given, ANONYMOUS, target, error.message, ways=ways, login=login, status=status
        )
    answer = redirect(given, target)
    sign_in(answer, token, part_of(request, Sessions).ttl_s, base_of(request))
    return answer


def _token(form: dict[str, str], request: Request) -> str:
    """Return the given access token, or a session for the given account and password.

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
        raise Refused(
            "AccessTokenRejected",
            "this node does not know the access token, or it expired or was revoked",
        )
    return token


async def _sign_out(request: Request) -> Response:
    given = part_of(request, Views)
    try:
        refuse_foreign(request, given.public_url)
    except NodeError as error:
        return problem(given, ANONYMOUS, request, error)
    return await to_thread.run_sync(_signed_out, given, request)


def _signed_out(given: Views, request: Request) -> Response:
    """Sign out here, and say where the visitor stays signed in."""
    answer = redirect(given, "/")
    ways = part_of(request, LoginWays).ways
    links = [{"label": way.label, "url": way.leave(request, answer)} for way in ways]
    links = [link for link in links if link["url"] is not None]
    if links:  # no redirect: browsers follow none from a form to another site
        around = views.frame(given, ANONYMOUS, "/v/sign-in")
        told = page("signed_out", {**around, "links": links})
        told.raw_headers += [one for one in answer.raw_headers if one[0] == b"set-cookie"]
        answer = told
    sign_out(answer, base_of(request))
    return answer


ROUTES = (
    Route("/v/sign-in", shown_to_all(_form), methods=["GET"]),
    Route("/v/sign-in", _sign_in, methods=["POST"]),
    Route("/v/sign-out", _sign_out, methods=["POST"]),
)
