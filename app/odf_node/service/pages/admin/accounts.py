"""Pages for accounts: list, one account with its tokens, forms to create and change them."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_protocol.errors import BadInput, Conflict, NodeError

from ...accounts import accounts, quotas
from ...accounts.accounts import Administration
from ...auth.actors import Actor
from ...errors import status_of
from ...http.deps import part_of
from ...membership import membership
from ...membership.membership import FateOfDatasets, Membership
from ..frame import views
from ..frame.render import (
    Form,
    page,
    posted,
    redirect,
    shown,
)
from ..frame.views import Views
from ..people.tokens import shown_tokens

PATH = "/v/admin/accounts"
ONE = PATH + "/{name}"
ACCOUNTS = 100


def _list(given: Views, actor: Actor, request: Request) -> Response:
    return _list_page(given, actor, request)


def _list_page(
    given: Views, actor: Actor, request: Request, told: NodeError | None = None, name: str = ""
) -> Response:
    after = request.query_params.get("after")
    found, more = accounts.list_accounts(
        part_of(request, Administration), actor, after=after and after[:200], limit=ACCOUNTS
    )
    content = {
        "accounts": found,
        "more": None if more is None else f"?after={quote(more)}",
        "problem": told and told.message,
        "name": name,
        "can_make": actor.has_session,
    }
    around = views.frame(given, actor, PATH)
    return page("admin_accounts", {**around, **content}, int(status_of(told)) if told else 200)


def _make(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    name = form.get("name", "").strip()
    try:
        made = accounts.make_account(
            part_of(request, Administration),
            actor,
            name,
            form.get("password", ""),
            is_admin=form.get("admin") == "yes",
        )
    except (BadInput, Conflict) as error:
        return _list_page(given, actor, request, error, name[:200])
    return redirect(given, f"{PATH}/{quote(made.name)}")


def _one(given: Views, actor: Actor, request: Request) -> Response:
    return _one_page(given, actor, request)


def _one_page(
    given: Views, actor: Actor, request: Request, told: NodeError | None = None
) -> Response:
    its, name = part_of(request, Administration), request.path_params["name"]
    account, tokens = accounts.one_account(its, actor, name)
    content = {
        "its": account,
        "tokens": shown_tokens(given.access, tokens, its.clock()),
        "problem": told and told.message,
        "quota": given.stores.quotas.usage(account["name"]),
        "own_quota": given.stores.quotas.limit(account["id"]),
        "can_make": actor.has_session,
        "at": f"{views.root_of(given)}{PATH}/{quote(account['name'])}",
    }
    around = views.frame(given, actor, PATH)
    return page("admin_account", {**around, **content}, int(status_of(told)) if told else 200)


def _password(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    its, name = part_of(request, Administration), request.path_params["name"]
    try:
        accounts.set_password_of(its, actor, name, form.get("password", ""))
    except BadInput as error:
        return _one_page(given, actor, request, error)
    return redirect(given, f"{PATH}/{quote(name)}")


def _revoke(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    its, name = part_of(request, Administration), request.path_params["name"]
    accounts.revoke_token_of(its, actor, name, form.get("token", "")[:200])
    return redirect(given, f"{PATH}/{quote(name)}")


def _disable(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    its, name = part_of(request, Administration), request.path_params["name"]
    change = accounts.enable if form.get("enable") == "yes" else accounts.disable
    try:
        change(its, actor, name)
    except Conflict as error:
        return _one_page(given, actor, request, error)
    return redirect(given, f"{PATH}/{quote(name)}")


def _promote(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    its, name = part_of(request, Membership), request.path_params["name"]
    try:
        membership.promote(its, actor, name, is_admin=form.get("admin") == "yes")
    except Conflict as error:
        return _one_page(given, actor, request, error)
    return redirect(given, f"{PATH}/{quote(name)}")


def _rename(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    its, name = part_of(request, Membership), request.path_params["name"]
    try:
        made = membership.rename(its, actor, name, form.get("name", "").strip())
    except (BadInput, Conflict) as error:
        return _one_page(given, actor, request, error)
    return redirect(given, f"{PATH}/{quote(made.name)}")


def _set_quota(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    name = request.path_params["name"]
    try:
        quotas.set_quota(given.stores, actor, name, quotas.parse_quota(form.get("quota", "")))
    except BadInput as error:
        return _one_page(given, actor, request, error)
    return redirect(given, f"{PATH}/{quote(name)}")


def _look(given: Views, actor: Actor, request: Request) -> Response:
    asked = request.query_params
    try:
        its, fate, to = _asked(request, asked.get("datasets", ""), asked.get("to", ""))
        leaving = membership.look(its, actor, request.path_params["name"], fate, to)
    except (BadInput, Conflict) as error:
        return _one_page(given, actor, request, error)
    content = {"its": leaving.to_data(), "can_make": actor.has_session}
    at = f"{views.root_of(given)}{PATH}/{quote(leaving.account.name)}"
    return page("admin_deletion", {**views.frame(given, actor, PATH), **content, "at": at})


def _delete(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    try:
        its, fate, to = _asked(request, form.get("datasets", ""), form.get("to", ""))
        membership.delete(its, actor, request.path_params["name"], fate, to)
    except (BadInput, Conflict) as error:
        return _one_page(given, actor, request, error)
    return redirect(given, PATH)


def _asked(request: Request, fate: str, to: str) -> tuple[Membership, FateOfDatasets, str | None]:
    if fate not in {one.value for one in FateOfDatasets}:
        raise BadInput("HeirNeeded", "say what becomes of the datasets: keep, transfer or remove")
    return part_of(request, Membership), FateOfDatasets(fate), to.strip()[:100] or None


ROUTES = (
    Route(PATH, shown(_list), methods=["GET"]),
    Route(PATH, posted(_make, is_costly=True), methods=["POST"]),
    Route(ONE, shown(_one), methods=["GET"]),
    Route(ONE + "/password", posted(_password, is_costly=True), methods=["POST"]),
    Route(ONE + "/disabled", posted(_disable), methods=["POST"]),
    Route(ONE + "/admin", posted(_promote), methods=["POST"]),
    Route(ONE + "/quota", posted(_set_quota), methods=["POST"]),
    Route(ONE + "/name", posted(_rename), methods=["POST"]),
    Route(ONE + "/deletion", shown(_look), methods=["GET"]),
    Route(ONE + "/deletion", posted(_delete), methods=["POST"]),
    Route(ONE + "/revoke", posted(_revoke), methods=["POST"]),
)
