"""The published HTTP contract, as this node serves it.

The document is written by hand (`openapi/`); tests hold it against the routes. What the
framework would make of them knows neither bodies nor errors.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from fastapi import APIRouter
from starlette.responses import Response

from odf_node.storage.runtime.version import app_version

from ..setting_groups.words import Tenancy
from .deps import SettingsDep

router = APIRouter()
SINGLE = "/{dataset}"
ACCOUNT = {"name": "account", "in": "path", "required": True, "schema": {"type": "string"}}


@cache
def contract(tenancy: Tenancy) -> dict[str, Any]:
    """The document for the addresses of a node of this tenancy. Not to be changed."""
    text = files(__package__).joinpath("openapi.yaml").read_bytes()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document: dict[str, Any] = yaml.load(text, Loader=loader)  # noqa: S506 - one of the safe ones
    document["info"]["version"] = app_version()
    if tenancy is Tenancy.MULTI:
        document["paths"] = dict(_below_account(*item) for item in document["paths"].items())
    return document


def _below_account(path: str, item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if not path.startswith(SINGLE):
        return path, item
    return "/{account}" + path, {**item, "parameters": [ACCOUNT, *item.get("parameters", ())]}


@cache
def _as_json(tenancy: Tenancy) -> bytes:
    return json.dumps(contract(tenancy), ensure_ascii=False).encode()


@router.get("/openapi.json", include_in_schema=False)
def openapi(settings: SettingsDep) -> Response:
    return Response(_as_json(settings.tenancy), media_type="application/json")
