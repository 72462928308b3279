"""The page of the visitor's access tokens: list, create (the token is shown once), revoke.

Rows of lists of tokens: rights, reach and expiry of each token; never a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_storage.stores.ports.values import Reach, Scope

from ...accounts import accounts
from ...accounts.accounts import OwnTokens, TokenAsked
from ...auth.actors import Actor
from ...auth.dataset_access import DatasetAccess
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

PATH = "/v/tokens"
NEVER = "never"
LIFETIMES = {
    "30": "30 days",
    "7": "7 days",
    "90": "90 days",
    "365": "a year",
    NEVER: "until it is revoked",
}
"""Days for which a new token may be valid; the first is the default."""
REACHES = {
    "node": "all that I may do",
    "account": "my own datasets only",
    "dataset": "one dataset only",
}
SCOPES = {
    Scope.READ: "read datasets",
    Scope.WRITE: "write to datasets",
    Scope.CREATE: "create datasets",
    Scope.MANAGE: "manage datasets and the account",
}
WHERE = {Reach.NODE.value: "all that the account may", Reach.ACCOUNT.value: "own datasets only"}


def shown_tokens(
    access: DatasetAccess, tokens: Sequence[dict[str, Any]], now: Instant
) -> list[dict[str, Any]]:
    """Return the rows for tokens (as from `token_data`): valid ones first, then newest first."""
    ids = {
        one["datasetId"]: DatasetId.parse(one["datasetId"]) for one in tokens if one["datasetId"]
    }
    found = access.registry.find_all(set(ids.values()))
    names = {text: access.shown_alias(found[one]) for text, one in ids.items() if one in found}
    rows = [
        {
            **one,
            "state": _state(one, now),
            "where": WHERE.get(one["reach"]) or names.get(one["datasetId"], "a deleted dataset"),
        }
        for one in sorted(tokens, key=_made, reverse=True)
    ]
    return sorted(rows, key=_is_over)


def _made(token: dict[str, Any]) -> str:
    return str(token["createdAt"])


def _is_over(token: dict[str, Any]) -> bool:
    return bool(token["state"] != "valid")


def _state(token: dict[str, Any], now: Instant) -> str:
    if token["revokedAt"]:
        return "revoked"
    ends = token["expiresAt"]
    return "expired" if ends and Instant.parse(ends) <= now else "valid"


def _tokens(given: Views, actor: Actor, request: Request) -> Response:
    return _page(given, actor, request)


def _make(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    tokens = part_of(request, OwnTokens)
    try:
        made = accounts.make_token(tokens, actor, _asked(form))
    except NodeError as error:
        if actor.account is None:
            raise
        return _page(given, actor, request, form=form, told=error)
    answer = _page(given, actor, request, made=made)
    answer.headers["cache-control"] = "no-store"
    return answer


def _revoke(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    accounts.revoke_token(part_of(request, OwnTokens), actor, form.get("token", "")[:200])
    return redirect(given, PATH)


def _asked(form: Form) -> TokenAsked:
    """Return the request of the form. Raises `MalformedTokenRequest`."""
    scopes = tuple(scope for scope in Scope if form.get(f"may_{scope}"))
    days = form.get("days", "")
    if days not in LIFETIMES:
        raise BadInput("MalformedTokenRequest", "choose for how long the token holds")
    ends = None
    if days != NEVER:
        ends = (datetime.now(UTC) + timedelta(days=int(days))).strftime("%Y-%m-%dT%H:%M:%SZ")
    reach = form.get("reach", "node")
    return TokenAsked(
        label=form.get("label", "").strip(),
        scopes=scopes,
        expires_at=ends,
        dataset=form.get("dataset", "").strip() if reach == "dataset" else None,
        own_datasets_only=reach == "account",
    )


def _page(
    given: Views,
    actor: Actor,
    request: Request,
    *,
    form: Form | None = None,
    told: NodeError | None = None,
    made: dict[str, Any] | None = None,
) -> Response:
    tokens = part_of(request, OwnTokens)
    listed = accounts.list_tokens(tokens, actor)
    content = {
        "tokens": shown_tokens(given.access, listed, tokens.clock()),
        "made": made,
        "problem": told and told.message,
        "form": form or {f"may_{scope}": "yes" for scope in Scope},
        "can_make": actor.has_session,
        "base": base_of(request),
        "lifetimes": LIFETIMES,
        "reaches": REACHES,
        "scopes": SCOPES,
        "max_label": accounts.MAX_LABEL_CHARS,
    }
    around = views.frame(given, actor, PATH)
    return page("tokens", {**around, **content}, int(status_of(told)) if told else 200)


ROUTES = (
    Route(PATH, shown(_tokens), methods=["GET"]),
    Route(PATH, posted(_make), methods=["POST"]),
    Route(f"{PATH}/revoke", posted(_revoke), methods=["POST"]),
)
