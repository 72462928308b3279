"""The page of an account: its datasets that the visitor may read, and next steps for its owner."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_protocol.errors import BadInput, NotFound

from ...auth.actors import Actor
from ...datasets.listing import ListingRequest
from ...errors import status_of
from ..frame import views
from ..frame.render import page, redirect, shown
from ..frame.views import Views
from ..guide.home import around_list, asked_of, datasets

PATH = "/v/accounts/{name}"
MAX_NAME_CHARS = 100


def _account(given: Views, actor: Actor, request: Request) -> Response:
    name = request.path_params["name"]
    path = f"/v/accounts/{quote(name, safe='')}"
    found = given.stores.accounts.find_account(name) if len(name) <= MAX_NAME_CHARS else None
    is_own = found is not None and actor.account is not None and found.id == actor.account.id
    asked = asked_of(request)
    content = {**views.frame(given, actor, path), **around_list(given, request), "is_own": is_own}
    content["name"] = name if found is None else found.name
    if is_own:
        content["quota"] = given.stores.quotas.usage(name)
    try:
        listed = datasets(given, actor, asked, request, path, account=name)
    except BadInput as error:
        told = {"asked": asked, "problem": error.message}
        return page("account", content | told, int(status_of(error)))
    if not is_own and not listed["total"] and asked == ListingRequest():
        raise NotFound(
            "AccountNotSeen", "There is no such account, or none with a dataset that you may read"
        )
    return page("account", content | listed)


def _own(given: Views, actor: Actor, _: Request) -> Response:
    if actor.account is None:
        return redirect(given, "/v/sign-in?next=/v/account")
    return redirect(given, f"/v/accounts/{quote(str(actor.account.name), safe='')}")


ROUTES = (
    Route("/v/account", shown(_own), methods=["GET"]),
    Route(PATH, shown(_account), methods=["GET"]),
)
