"""The page of the node's storage: sizes, free space, damaged objects, and the largest datasets."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_storage.datasets.backup.last import last_backup
from odf_storage.datasets.node.overviews import read_gauges
from odf_storage.stores.index.sql_sizes import NODE
from odf_storage.stores.ports.accounts import AuditFilter
from odf_storage.stores.ports.overviews import ListOrder, SortBy, WantedOverviews

from ...accounts.audit import shown as audit_shown
from ...auth.access import require_admin
from ...auth.actors import Actor
from ...auth.dataset_access import readable
from ...datasets.datasets import detailed_summary
from ...history.verify import validation_of
from ...http.deps import base_of, part_of
from ...settings import Settings
from ..frame import views
from ..frame.render import page, shown
from ..frame.views import Views

PATH = "/v/admin/storage"
LARGEST = 20
DAMAGES = 100
UPKEEP = ("fsck", "gc", "scrub", "compact")
"""Maintenance, by schedule or command, whose last runs are shown."""


def _storage(given: Views, actor: Actor, request: Request) -> Response:
    require_admin(actor)
    stores, access = given.stores, given.access
    wanted = WantedOverviews(readable=readable(actor, access.reads))
    largest = access.overviews.page(wanted, ListOrder(SortBy.BYTES, descending=True), limit=LARGEST)
    damages = stores.damages.open(limit=DAMAGES)
    entries = stores.registry.find_all({one.key.dataset for one in damages})
    base = base_of(request)
    content = {
        "gauges": read_gauges(stores.engine),
        "quota": stores.quotas.usage(NODE),
        "free": stores.free_bytes(),
        "least_free": part_of(request, Settings).min_free_bytes,
        "trouble": stores.write_trouble(),
        "backup": last_backup(stores.projections),
        "upkeep": [
            (
                action,
                [
                    audit_shown(one)
                    for one in stores.audit.page(AuditFilter(action=action), limit=1)
                ],
            )
            for action in UPKEEP
        ],
        "damages": [
            {
                "dataset": access.shown_alias(entries[one.key.dataset])
                if one.key.dataset in entries
                else None,
                "kind": str(one.key.kind),
                "hash": str(one.key.hash),
                "reason": one.reason,
                "found": str(one.found_at),
                "hopeless": one.hopeless,
            }
            for one in damages
        ],
        "largest": [
            {
                **detailed_summary(stores, access, one, base),
                "validation": validation_of(stores.objects, one.entry.id, one.head),
            }
            for one in largest
        ],
    }
    return page("admin_storage", {**views.frame(given, actor, PATH), **content})


ROUTES = (Route(PATH, shown(_storage), methods=["GET"]),)
