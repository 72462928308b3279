"""Routes for catalogues: `GET {dataset}/croissant.json` and `…/stac.json`, `/catalog.jsonld`,
`/catalog.ttl`, `/sitemap.xml`, `/robots.txt`."""

from __future__ import annotations

from enum import Enum
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Query
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from ..http.answers import JsonAnswer
from ..http.deps import AccessDep, BaseDep, ReadableDep, SettingsDep, StoresDep, wired
from ..read.outlines import Outlines
from ..system.face import Face
from .catalogs import CATALOGUE, CATALOGUE_TURTLE, MEDIA_TYPE, SITEMAP, Catalogs

LD_JSON, TURTLE = "application/ld+json", "text/turtle; charset=utf-8"
FRESH = {"cache-control": "no-cache"}
NOT_FOLLOWED = ("*?*query=", "v/admin/", "v/manage/", "v/publish", "v/sign-in", "query", "graphql")
"""Paths at which every link costs a computation, or shows a form."""


class LinkedDataRoute(APIRoute):
    """A route that matches only requests whose `Accept` names linked data; other requests go to
    the next matching route."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        accepted = Headers(scope=scope).get("accept", "")
        return super().matches(scope) if LD_JSON in accepted else (Match.NONE, {})


async def catalogs_of(
    stores: StoresDep, access: AccessDep, outlines: Annotated[Outlines, Depends(wired(Outlines))]
) -> Catalogs:
    return Catalogs(stores, access, outlines)


CatalogsDep = Annotated[Catalogs, Depends(catalogs_of)]
FaceDep = Annotated[Face, Depends(wired(Face))]
After = Annotated[str | None, Query(max_length=400)]
router = APIRouter(tags=["datasets"])


def croissant(catalogs: CatalogsDep, entry: ReadableDep, base: BaseDep) -> Response:
    """Return the description of the dataset in the vocabulary of Croissant 1.1 and schema.org."""
    return JsonAnswer(
        catalogs.croissant(entry, base), headers=FRESH | {"vary": "accept"}, media_type=LD_JSON
    )


def stac(catalogs: CatalogsDep, entry: ReadableDep, base: BaseDep) -> Response:
    """Return the description of the dataset as a Collection of STAC."""
    from .stac import collection  # not needed to start

    return JsonAnswer(collection(catalogs.told(entry, base)), headers=FRESH)


@router.get(f"/{CATALOGUE}", summary="Datasets that anybody may read, as a DCAT catalogue")
def catalogue(catalogs: CatalogsDep, face: FaceDep, base: BaseDep, after: After = None) -> Response:
    """Return a page of the catalogue. `hydra:next` is the URL of the next one."""
    return JsonAnswer(catalogs.catalogue(face, base, after), headers=FRESH, media_type=LD_JSON)


@router.get(f"/{CATALOGUE_TURTLE}", summary="The DCAT catalogue in Turtle")
def catalogue_in_turtle(
    catalogs: CatalogsDep, face: FaceDep, base: BaseDep, after: After = None
) -> Response:
    """Return a page of the catalogue. `hydra:next` is the URL of the next one."""
    from .dcat import turtle  # not needed to start

    page = catalogs.catalogue(face, base, after, CATALOGUE_TURTLE)
    return Response(turtle(page), headers=FRESH, media_type=TURTLE)


@router.get(f"/{SITEMAP}", summary="Pages of datasets that anybody may read, as a site map")
def site_map(catalogs: CatalogsDep, base: BaseDep, after: After = None) -> Response:
    """Return the site map, or for many datasets the index of site maps."""
    return Response(catalogs.sitemap(base, after), headers=FRESH, media_type=MEDIA_TYPE)


@router.get("/robots.txt", summary="What programs that follow links may read")
def robots(base: BaseDep, settings: SettingsDep) -> Response:
    """Return the rules: datasets and the site map, no queries and no forms; nothing of a node that
    lets in nobody without an account. Source: RFC 9309."""
    path = urlsplit(base).path
    if not settings.allow_anonymous:
        rules = [f"Disallow: {path}"]
    else:
        rules = [f"Disallow: {path}{each}" for each in NOT_FOLLOWED]
        rules += ["", f"Sitemap: {base}{SITEMAP}"]
    return Response(
        "\n".join(["User-agent: *", *rules, ""]), headers=FRESH, media_type="text/plain"
    )


def add_catalog_routes(routes: APIRouter, prefix: str) -> None:
    """Serve the documents below the dataset addresses, and the first at the dataset addresses
    for requests for linked data. Call it before other routes at the dataset addresses are added."""
    tags: list[str | Enum] = ["datasets"]
    summary = "The dataset as a Croissant document"
    routes.get(prefix + "/croissant.json", summary=summary, tags=tags)(croissant)
    summary = "The dataset as a Collection of STAC"
    routes.get(prefix + "/stac.json", summary=summary, tags=tags)(stac)
    routes.add_api_route(
        prefix, croissant, include_in_schema=False, route_class_override=LinkedDataRoute
    )
