"""Datasets of a node as a DCAT catalogue. Pure functions. Source: DCAT 3, DCAT-AP 3."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .croissant import DatasetTold

_LINK = {"@type": "@id"}
_DATE = {"@type": "xsd:dateTime"}
CONTEXT: dict[str, Any] = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "hydra": "http://www.w3.org/ns/hydra/core#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    **{f"dcat:{name}": _LINK for name in ("accessURL", "downloadURL", "landingPage", "mediaType")},
    **{f"dcat:{name}": _LINK for name in ("endpointURL", "endpointDescription", "accessService")},
    **{f"dct:{name}": _DATE for name in ("issued", "modified")},
    "hydra:next": _LINK,
}
PARQUET = "http://www.iana.org/assignments/media-types/application/vnd.apache.parquet"


def catalogue(base: str, url: str, datasets: Iterable[DatasetTold], following: str | None) -> Any:
    """Return one page of the catalogue of the node at `base`. `url` is the URL of the page,
    `following` that of the next one."""
    service = f"{base}#api"
    told: dict[str, Any] = {
        "@context": CONTEXT,
        "@id": f"{base}#catalog",
        "@type": "dcat:Catalog",
        "dct:title": "Datasets of this node",
        "dct:description": "Public datasets of an Open Data Fabric node",
        "dct:publisher": _agent(base, "Open Data Fabric node"),
        "dcat:service": {
            "@id": service,
            "@type": "dcat:DataService",
            "dct:title": "HTTP API of the node",
            "dcat:endpointURL": base,
            "dcat:endpointDescription": f"{base}openapi.json",
        },
        "dcat:dataset": [_dataset(each, service) for each in datasets],
        "hydra:view": {"@id": url, "@type": "hydra:PartialCollectionView"},
    }
    if following is not None:
        told["hydra:view"]["hydra:next"] = following
    return told


def _dataset(dataset: DatasetTold, service: str) -> dict[str, Any]:
    license_of = {} if dataset.license is None else {"dct:license": {"@id": dataset.license}}
    return {
        "@id": dataset.url,
        "@type": "dcat:Dataset",
        "dct:identifier": dataset.id,
        "dct:title": dataset.name,
        "dct:description": dataset.description,
        "dct:publisher": _agent(f"{dataset.base}#{dataset.account}", dataset.account),
        "dct:issued": dataset.published,
        "dct:modified": dataset.modified,
        "dcat:version": dataset.version,
        "dcat:keyword": list(dataset.keywords),
        "dcat:landingPage": dataset.url,
        "dcat:distribution": {
            "@id": f"{dataset.url}#rows",
            "@type": "dcat:Distribution",
            "dct:title": "All rows as a Parquet file",
            "dcat:accessURL": dataset.url,
            "dcat:downloadURL": dataset.rows_url,
            "dcat:mediaType": PARQUET,
            "dcat:accessService": service,
            **license_of,
        },
    }


def _agent(url: str, name: str) -> dict[str, Any]:
    return {"@id": url, "@type": "foaf:Agent", "foaf:name": name}
