"""How to cite a dataset as of its head: a sentence, BibTeX, `CITATION.cff` (version 1.2.0), and the
metadata of DataCite (version 4.5), with which a DOI is registered."""

from __future__ import annotations

import json
from typing import Any

from ...client.nodes.limits import one_line
from ..catalogs.catalogs import Catalogs
from ..catalogs.told import DatasetTold
from ..pages.datasets.blocks import Visit
from ..pages.datasets.content import PagePart
from ..pages.frame.render import rendered

MAX_CHARS = 1000
"""Limit of a text in a citation."""
MESSAGE = "If you use these data, please cite them as below."
BIBTEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "{}$&#%_"},
}
"""What BibTeX would read as commands, and how it is written instead."""


def sentence(dataset: DatasetTold) -> str:
    """Return the citation as a sentence."""
    head = f"{dataset.id}, block {dataset.head}"
    return one_line(f"{dataset.account}: {dataset.name}, {head}. {dataset.url}", MAX_CHARS)


def bibtex(dataset: DatasetTold) -> str:
    """Return an entry of BibTeX. Its key names the dataset and its head."""
    key = "".join(
        sign if sign.isascii() and sign.isalnum() else "-"
        for sign in f"{dataset.account}-{dataset.name}-{dataset.head[-8:]}"
    )
    fields = {
        "author": f"{{{_plain(dataset.account)}}}",
        "title": f"{{{_plain(dataset.name)}}}",
        "year": _day(dataset).partition("-")[0],
        "version": _plain(dataset.version),
        "url": _block_url(dataset),
        "note": _plain(f"{dataset.id}, block {dataset.head}"),
    }
    lines = ",\n".join(f"  {name} = {{{text}}}" for name, text in fields.items())
    return f"@misc{{{key},\n{lines}\n}}\n"


def _plain(text: str) -> str:
    return "".join(BIBTEX_SIGNS.get(sign, sign) for sign in one_line(text, MAX_CHARS))


def cff(dataset: DatasetTold) -> str:
    """Return the content of `CITATION.cff`. Its texts are quoted as in JSON, which is YAML."""
    lines = [
        "cff-version: 1.2.0",
        f"message: {_quoted(MESSAGE)}",
        "type: dataset",
        f"title: {_quoted(dataset.name)}",
        f"abstract: {_quoted(dataset.description)}",
        f"authors:\n  - name: {_quoted(dataset.account)}",
        f"version: {_quoted(dataset.version)}",
        f"date-released: {_quoted(_day(dataset))}",
        f"url: {_quoted(_block_url(dataset))}",
        "identifiers:",
        f"  - type: other\n    value: {_quoted(dataset.id)}\n    description: id of the dataset",
        f"  - type: other\n    value: {_quoted(dataset.head)}\n    description: hash of its head",
    ]
    words = dict.fromkeys(word for each in dataset.keywords if (word := one_line(each)))
    if words:
        lines.append("keywords:\n" + "\n".join(f"  - {_quoted(word)}" for word in words))
    if dataset.license_id is not None:
        lines.append(f"license: {_quoted(dataset.license_id)}")
    elif dataset.license_url is not None:
        lines.append(f"license-url: {_quoted(dataset.license_url)}")
    return "\n".join(lines) + "\n"


def datacite(dataset: DatasetTold) -> dict[str, Any]:
    """Return the metadata that DataCite takes. They have no DOI: who registers one adds it."""
    words = dict.fromkeys(word for each in dataset.keywords if (word := one_line(each, MAX_CHARS)))
    identifiers = {"DID": dataset.id, "multihash of the head": dataset.head}
    rights = {} if dataset.license_url is None else {"rightsUri": dataset.license_url}
    if dataset.license_id is not None:
        rights |= {"rightsIdentifier": dataset.license_id, "rightsIdentifierScheme": "SPDX"}
    told = {
        "schemaVersion": "http://datacite.org/schema/kernel-4",
        "creators": [{"name": _line(dataset.account), "nameType": "Organizational"}],
        "titles": [{"title": _line(dataset.name)}],
        "publisher": {"name": _line(dataset.account)},
        "publicationYear": _day(dataset).partition("-")[0],
        "types": {"resourceTypeGeneral": "Dataset", "resourceType": "Rows of a table"},
        "version": dataset.version,
        "url": _block_url(dataset),
        "formats": ["application/vnd.apache.parquet"],
        "descriptions": [
            {"description": _line(dataset.description), "descriptionType": "Abstract"}
        ],
        "dates": [
            {"date": dataset.published, "dateType": "Created"},
            {"date": dataset.modified, "dateType": "Updated"},
        ],
        "alternateIdentifiers": [
            {"alternateIdentifier": value, "alternateIdentifierType": kind}
            for kind, value in identifiers.items()
        ],
        "subjects": [{"subject": word} for word in words],
        "rightsList": [rights] if rights else [],
    }
    return {name: value for name, value in told.items() if value != []}


def _line(text: str) -> str:
    return one_line(text, MAX_CHARS)


def _quoted(text: str) -> str:
    return json.dumps(_line(text), ensure_ascii=False)


def _day(dataset: DatasetTold) -> str:
    return dataset.modified.partition("T")[0]


def _block_url(dataset: DatasetTold) -> str:
    return f"{dataset.url}?block={dataset.head}"


def page_part(visit: Visit) -> PagePart:
    """Return the section of the page of a dataset."""
    views = visit.views
    told = Catalogs(views.stores, views.access, views.outlines).told(visit.entry, visit.base)
    content = {"sentence": sentence(told), "bibtex": bibtex(told)}
    return PagePart("Cite it", rendered("cite", {**content, **visit.content()}))
