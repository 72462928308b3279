"""Routes to cite a dataset: `GET {dataset}/citation.bib`, `….cff` and `….datacite.json`."""

from __future__ import annotations

from enum import Enum
from types import ModuleType

from fastapi import APIRouter
from starlette.responses import Response

from ..catalogs.routes import FRESH, CatalogsDep
from ..http.answers import JsonAnswer
from ..http.deps import BaseDep, ReadableDep

BIBTEX, YAML = "application/x-bibtex; charset=utf-8", "application/yaml; charset=utf-8"


def bibtex(catalogs: CatalogsDep, entry: ReadableDep, base: BaseDep) -> Response:
    """Return how to cite the dataset as of its head, as BibTeX."""
    return _file(_late().bibtex(catalogs.told(entry, base)), "citation.bib", BIBTEX)


def cff(catalogs: CatalogsDep, entry: ReadableDep, base: BaseDep) -> Response:
    """Return how to cite the dataset as of its head, as a Citation File Format file."""
    return _file(_late().cff(catalogs.told(entry, base)), "CITATION.cff", YAML)


def datacite(catalogs: CatalogsDep, entry: ReadableDep, base: BaseDep) -> Response:
    """Return the metadata of the dataset as of its head that DataCite takes, version 4.5."""
    return JsonAnswer(_late().datacite(catalogs.told(entry, base)), 200, FRESH)


def _late() -> ModuleType:
    from . import citation  # not needed to start

    return citation


def _file(text: str, name: str, media_type: str) -> Response:
    headers = FRESH | {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text, headers=headers, media_type=media_type)


def add_citation_routes(routes: APIRouter, prefix: str) -> None:
    """Serve the files below the addresses of datasets."""
    tags: list[str | Enum] = ["datasets"]
    summary = "How to cite the dataset, as "
    routes.get(prefix + "/citation.bib", summary=summary + "BibTeX", tags=tags)(bibtex)
    routes.get(prefix + "/citation.cff", summary=summary + "CITATION.cff", tags=tags)(cff)
    about = "The metadata of the dataset that DataCite takes"
    routes.get(prefix + "/citation.datacite.json", summary=about, tags=tags)(datacite)
