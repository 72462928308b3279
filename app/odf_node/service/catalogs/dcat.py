"""Datasets of a node as a DCAT catalogue, in JSON-LD and in Turtle. Pure functions.

A node of the graph is a JSON-LD object with an address; what its properties point to is in it.
Whatever an address of a vocabulary stands for is said beside it, since the shapes of DCAT-AP ask
for that. A dataset has a distribution for each form of its rows, none for each slice: a catalogue
like CKAN's makes a resource of each.

Source: DCAT 3, DCAT-AP 3; Turtle 1.1; Hydra.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ..system.face import Face
from .told import DatasetTold

LINK = "@id"
_LINK = {"@type": LINK}
_DATE = {"@type": "xsd:dateTime"}
_LINKS = "accessURL downloadURL accessService endpointURL endpointDescription"
CONTEXT: dict[str, Any] = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "hydra": "http://www.w3.org/ns/hydra/core#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    **{f"dcat:{name}": _LINK for name in _LINKS.split()},
    **{f"dct:{name}": _DATE for name in ("issued", "modified")},
    "hydra:next": _LINK,
}
_MEDIA_TYPES = "http://www.iana.org/assignments/media-types/"
_AUTHORITY = "http://publications.europa.eu/resource/authority/"
FORMS = {
    "Parquet": ("parquet", f"{_MEDIA_TYPES}application/vnd.apache.parquet"),
    "CSV": ("csv", f"{_MEDIA_TYPES}text/csv"),
}
"""The form of the API and the media type of each format, by its name in the authority's table."""
CHANGELOG = ("changelog", "All rows as they were added, as Parquet", "Parquet")
DISTRIBUTIONS = (*(("facts", f"Current rows as {name}", name) for name in FORMS), CHANGELOG)
"""Projection, title and format."""


def catalogue(
    face: Face, base: str, url: str, datasets: Iterable[DatasetTold], following: str | None
) -> Any:
    """Return one page of the catalogue of the node at `base`. `url` is the URL of the page,
    `following` that of the next one."""
    service = f"{base}#api"
    page = _node(url, "hydra:PartialCollectionView")
    if following is not None:
        page["hydra:next"] = following
    return {
        "@context": CONTEXT,
        **_node(f"{base}#catalog", "dcat:Catalog"),
        "dct:title": f"Datasets of {face.name}",
        "dct:description": face.about or "Public datasets of an Open Data Fabric node",
        "dct:publisher": _agent(base, face.name),
        "dcat:service": {
            **_node(service, "dcat:DataService"),
            "dct:title": "HTTP API of the node",
            "dcat:endpointURL": base,
            "dcat:endpointDescription": f"{base}openapi.json",
        },
        "dcat:dataset": [_dataset(each, service) for each in datasets],
        "hydra:view": page,
    }


def _dataset(dataset: DatasetTold, service: str) -> dict[str, Any]:
    return {
        **_node(dataset.url, "dcat:Dataset"),
        "dct:identifier": dataset.id,
        "dct:title": dataset.name,
        "dct:description": dataset.description,
        "dct:publisher": _agent(f"{dataset.base}#{dataset.account}", dataset.account),
        "dct:issued": dataset.published,
        "dct:modified": dataset.modified,
        "dct:accessRights": _node(f"{_AUTHORITY}access-right/PUBLIC", "dct:RightsStatement"),
        "dcat:version": dataset.version,
        "dcat:keyword": list(dataset.keywords),
        "dcat:landingPage": _node(dataset.url, "foaf:Document"),
        "dcat:distribution": [
            _distribution(dataset, service, *about) for about in DISTRIBUTIONS
        ],
    }  # fmt: skip


def _distribution(
    dataset: DatasetTold, service: str, projection: str, title: str, form: str
) -> dict[str, Any]:
    word, media_type = FORMS[form]
    license_of = {}
    if dataset.license_url is not None:
        license_of = {"dct:license": _node(dataset.license_url, "dct:LicenseDocument")}
    format_of = _node(f"{_AUTHORITY}file-type/{form.upper()}", "dct:MediaTypeOrExtent")
    return {
        **_node(f"{dataset.url}#{projection}-{word}", "dcat:Distribution"),
        "dct:title": title,
        "dct:format": {**format_of, "rdfs:label": form},
        "dcat:accessURL": dataset.url,
        "dcat:downloadURL": dataset.rows_as(word, projection),
        "dcat:mediaType": _node(media_type, "dct:MediaType"),
        "dcat:accessService": service,
        **license_of,
    }


def _agent(url: str, name: str) -> dict[str, Any]:
    return {**_node(url, "foaf:Agent"), "foaf:name": name}


def _node(address: str, kind: str) -> dict[str, Any]:
    return {LINK: address, "@type": kind}


def turtle(document: Any) -> str:
    """Return a document of this module in Turtle, with whole addresses throughout."""
    context = document["@context"]
    lines = [
        f"@prefix {prefix}: <{address}> ."
        for prefix, address in context.items()
        if isinstance(address, str)
    ]
    for node in _nodes(document):
        said = [f"a {node['@type']}"]
        for name, value in node.items():
            if not name.startswith("@"):
                values = value if isinstance(value, list) else [value]
                said += [f"{name} {_object(each, context.get(name, {}))}" for each in values]
        lines.append(f"\n<{node[LINK]}> " + " ;\n    ".join(said) + " .")
    return "\n".join(lines) + "\n"


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a node and those in it, to the depth of the document."""
    yield node
    for name, value in node.items():
        if name != "@context":
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict):
                    yield from _nodes(each)


def _object(value: Any, how: dict[str, str]) -> str:
    if isinstance(value, dict):
        return f"<{value[LINK]}>"
    kind = how.get("@type")
    if kind == LINK:
        return f"<{value}>"
    literal = json.dumps(value, ensure_ascii=False)  # escapes of JSON are those of Turtle
    return literal if kind is None else f"{literal}^^{kind}"
