"""Events that say what a dataset is about: description, keywords, license, README, columns.

They are manifests as JSON values, made from what the chain says already, so that what nobody
mentions stays. The functions are pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from odf_protocol.columns.column_names import described
from odf_protocol.errors import BadInput

README = "README.md"
LICENSE_PAGE = "https://spdx.org/licenses/{}.html"
KEPT = "attachments,info,license,schema"
"""The aspects of metadata of which the events are made."""


def info_event(
    known: Mapping[str, Any], *, description: str | None, keywords: Sequence[str] | None
) -> dict[str, Any]:
    """Return `SetInfo`. What is None stays, what is empty is removed."""
    given = {"description": description, "keywords": None if keywords is None else [*keywords]}
    info = {**known.get("info", {}), **{key: one for key, one in given.items() if one is not None}}
    return {"kind": "SetInfo", **{key: one for key, one in info.items() if one}}


def license_event(name: str, full: str | None = None, url: str | None = None) -> dict[str, Any]:
    """Return `SetLicense` for an SPDX id, by default with its page at SPDX."""
    return {
        "kind": "SetLicense",
        "shortName": name,
        "name": full or name,
        "spdxId": name,
        "websiteUrl": url or LICENSE_PAGE.format(name),
    }


def columns_event(
    known: Mapping[str, Any], said: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return `SetDataSchema` with texts about columns, by name and key; empty ones are removed, and
    what is not named stays.

    Raises:
        UnknownColumn: the dataset has no such columns, or none yet.
        MalformedColumnText: a text has several lines, or is too long.
    """
    schema = known.get("schema") or {"fields": ()}
    fields = schema["fields"]
    if missing := sorted(said.keys() - {field["name"] for field in fields}):
        told = ", ".join(f"`{name[:50]}`" for name in missing[:5])
        why = f"the dataset has no column {told}" if fields else "columns come with the first rows"
        raise BadInput("UnknownColumn", why, columns=missing[:5])
    new = [described(field, said.get(field["name"], {})) for field in fields]
    return {"kind": "SetDataSchema", "schema": {**schema, "fields": new}}


def readme_event(known: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return `SetAttachments` with all attachments, where the README has this text; an empty one
    is left out."""
    readme = [{"path": README, "content": text}] if text else []
    others = [one for one in _items(known) if not _is_readme(one)]
    return {
        "kind": "SetAttachments",
        "attachments": {"kind": "Embedded", "items": [*readme, *others]},
    }


def readme_of(known: Mapping[str, Any]) -> str:
    """Return the text of the README, empty if there is none."""
    return next((str(one["content"]) for one in _items(known) if _is_readme(one)), "")


def _items(known: Mapping[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = known.get("attachments", {}).get("attachments", {}).get("items")
    return items or []


def _is_readme(item: Mapping[str, Any]) -> bool:
    return str(item.get("path")).lower() == README.lower()
