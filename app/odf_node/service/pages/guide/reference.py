"""The content of the API reference page, from the OpenAPI document. This module has no HTML.

The reference page of the API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...auth.actors import Actor
from ...http.addresses import contract
from ...setting_groups.words import Tenancy
from ..frame import views
from ..frame.render import (
    page,
    rendered,
    shown,
    tagged,
)
from ..frame.views import Views

METHODS = ("get", "head", "post", "put", "patch", "delete")
Words = list[tuple[str, str | None]]
"""Text in pieces, each with the name of its schema, or None."""


def reference(document: dict[str, Any]) -> dict[str, Any]:
    """Return the operations by tag, in the order of the document, and all schemas."""
    found = [
        _operation(document, path, item, method)
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]
    groups = [
        {**tag, "operations": [one for one in found if one["tag"] == tag["name"]]}
        for tag in document["tags"]
    ]
    return {
        "introduction": document["info"]["description"].split("\n\n"),
        "groups": [group for group in groups if group["operations"]],
        "schemas": [
            {"name": name, "description": schema.get("description"), **_shape(schema)}
            for name, schema in document["components"]["schemas"].items()
        ],
    }


def _operation(
    document: dict[str, Any], path: str, item: dict[str, Any], method: str
) -> dict[str, Any]:
    stated = item[method]
    parameters = [*item.get("parameters", ()), *stated.get("parameters", ())]
    body = _target(document, stated.get("requestBody", {}))
    return {
        "id": re.sub(r"\W+", "-", f"{method}{path}").strip("-"),
        "tag": stated["tags"][0],
        "method": method.upper(),
        "path": path,
        "summary": stated.get("summary", ""),
        "description": stated.get("description"),
        "needs_token": {} not in stated.get("security", document["security"]),
        "parameters": [_parameter(_target(document, one)) for one in parameters],
        "bodies": list(_contents(body)),
        "answers": [
            {
                "status": status,
                "description": _target(document, answer).get("description", ""),
                "contents": list(_contents(_target(document, answer))),
            }
            for status, answer in stated["responses"].items()
        ],
    }


def _parameter(stated: dict[str, Any]) -> dict[str, Any]:
    schema = stated.get("schema", {})
    return {
        "name": stated["name"],
        "place": stated["in"],
        "required": stated.get("required", False),
        "description": stated.get("description"),
        "type": words_of(schema),
        "default": schema.get("default"),
    }


def _contents(stated: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for media_type, content in stated.get("content", {}).items():
        yield {"media_type": media_type, **_shape(content.get("schema", {}))}


def _shape(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a schema if it is an object that names them, else its type."""
    required = schema.get("required", ())
    members = [
        {
            "name": name,
            "required": name in required,
            "type": words_of(member),
            "description": member.get("description"),
        }
        for name, member in schema.get("properties", {}).items()
    ]
    return {"members": members, "type": [] if members else words_of(schema)}


def _target(document: dict[str, Any], stated: dict[str, Any]) -> dict[str, Any]:
    """Return the stated object, or the target if it is a reference."""
    found = stated
    if "$ref" in stated:
        found = document
        for step in stated["$ref"].removeprefix("#/").split("/"):
            found = found[step]
    return found


def words_of(schema: dict[str, Any]) -> Words:
    """Return the type of a value in words: `list of AuditEntry`, `string or null`."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return [(name, name)]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _joined([words_of(one) for one in schema[several]], " or ")
    if "allOf" in schema:
        return _joined([words_of(one) for one in schema["allOf"]], " and ")
    if "enum" in schema:
        return [(" or ".join(str(value) for value in schema["enum"]), None)]
    if "const" in schema:
        return [(str(schema["const"]), None)]
    kinds = schema.get("type", [])
    named = [kinds] if isinstance(kinds, str) else kinds
    return _joined([_named(schema, kind) for kind in named], " or ")


def _named(schema: dict[str, Any], kind: str) -> Words:
    if kind == "array":
        inner = words_of(schema.get("items", {}))
        return [("list of ", None), *inner] if inner else [("list", None)]
    if kind == "object" and schema.get("properties"):
        return [("{ " + ", ".join(schema["properties"]) + " }", None)]
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        inner = words_of(schema["additionalProperties"])
        return [("object of ", None), *inner] if inner else [("object", None)]
    told = schema.get("format") if kind == "string" else None
    return [(told or kind, None)]


def _joined(several: list[Words], sign: str) -> Words:
    joined: Words = []
    for words in several:
        joined += [(sign, None), *words] if joined else words
    return joined


def _documentation(given: Views, actor: Actor, request: Request) -> Response:
    text = _reference(given.access.tenancy, views.root_of(given))
    answer = page("reference", {**views.frame(given, actor, "/docs"), "reference": text})
    return tagged(answer, request)


@cache
def _reference(tenancy: Tenancy, root: str) -> str:
    """Return what the page says to everybody, which is long; it is rendered once."""
    return rendered("operations", {**reference(contract(tenancy)), "root": root})


ROUTES = (Route("/docs", shown(_documentation)),)
