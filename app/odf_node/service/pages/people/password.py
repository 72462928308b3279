"""The page where a visitor changes the own password, which requires the old one."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_protocol.errors import NodeError

from ...accounts.login import (
    Passwords,
    Sessions,
    begin_session,
    change_password,
)
from ...auth.access import Unauthenticated
from ...auth.actors import Actor
from ...auth.visitors import sign_in
from ...errors import status_of
from ...http.deps import base_of, part_of
from ..frame import views
from ..frame.render import (
    Form,
    page,
    posted,
    redirect,
    shown,
)
from ..frame.views import Views

PATH = "/v/password"


def _form(given: Views, actor: Actor, request: Request) -> Response:
    return _page(given, actor, request)


def _change(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    sessions = part_of(request, Sessions)
    address = request.client.host if request.client else ""
    old, new = form.get("password", ""), form.get("new", "")
    try:
        account = change_password(part_of(request, Passwords), sessions, actor, old, new, address)
    except NodeError as error:
        return _page(given, actor, request, error)
    answer = redirect(given, "/v/account")
    sign_in(answer, begin_session(sessions, account).token, sessions.ttl_s, base_of(request))
    return answer


def _page(given: Views, actor: Actor, request: Request, told: NodeError | None = None) -> Response:
    if actor.account is None:
        raise Unauthenticated
    accounts = part_of(request, Passwords).accounts
    content = {
        "has_password": accounts.find_password(actor.account.id) is not None,
        "problem": told and told.message,
    }
    around = views.frame(given, actor, PATH)
    return page("password", {**around, **content}, int(status_of(told)) if told else 200)


ROUTES = (
    Route(PATH, shown(_form), methods=["GET"]),
    Route(PATH, posted(_change, is_costly=True), methods=["POST"]),
)
