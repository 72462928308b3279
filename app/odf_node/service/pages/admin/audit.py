"""The page of the audit log: which account requested which change, filtered, newest first."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_protocol.errors import BadInput

from ...accounts.audit import read_audit
from ...accounts.audit import shown as audit_shown
from ...auth.access import require_admin
from ...auth.actors import Actor
from ...errors import status_of
from ..frame import views
from ..frame.render import page, shown
from ..frame.views import Views

PATH = "/v/admin/audit"
ENTRIES = 100
MAX_DIGITS = 18
FIELDS = ("actor", "action", "dataset", "since", "until")


def _audit(given: Views, actor: Actor, request: Request) -> Response:
    require_admin(actor)
    asked = {name: request.query_params.get(name, "").strip()[:200] for name in FIELDS}
    content: dict[str, Any] = {**views.frame(given, actor, PATH), "asked": asked}
    said = {name: text for name, text in asked.items() if text}
    try:
        before = _number(request.query_params.get("before"))
        found = read_audit(given.stores.audit, actor, said, before=before, limit=ENTRIES)
    except BadInput as error:
        content |= {"problem": error.message, "entries": [], "more": None}
        return page("admin_audit", content, int(status_of(error)))
    more = None
    if len(found) == ENTRIES:
        more = "?" + urlencode({**said, "before": found[-1].number})
    entries = [audit_shown(one) for one in found]
    return page("admin_audit", content | {"entries": entries, "more": more, "problem": None})


def _number(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_DIGITS:
        raise BadInput(
            "MalformedPosition",
            "before is the number of an entry; leave it out for the newest ones",
        )
    return int(text)


ROUTES = (Route(PATH, shown(_audit), methods=["GET"]),)
