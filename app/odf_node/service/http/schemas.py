"""JSON Schemas of manifests, for editors and validators.

An editor finds the schema by the first line of a manifest:
`# yaml-language-server: $schema=http://127.0.0.1:8080/schemas/DatasetSnapshot.json`
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, cast, get_args

from fastapi import APIRouter, Path
from starlette.responses import Response

from odf_protocol.codec.normalize import ManifestKind, json_schema
from odf_protocol.errors import NotFound

from .answers import JsonAnswer
from .deps import BaseDep

router = APIRouter(prefix="/schemas", tags=["schemas"])
KINDS = get_args(ManifestKind)
MAX_AGE_S = 3600


@router.get("", summary="Schemas of the manifests")
async def schemas(base: BaseDep) -> Response:
    return JsonAnswer({kind: f"{base}schemas/{kind}.json" for kind in KINDS})


@router.get("/{kind}.json", summary="JSON Schema of one kind of manifest")
def schema(kind: Annotated[str, Path()]) -> Response:
    if kind not in KINDS:
        raise NotFound(
            "SchemaNotFound", f"no manifest is called {kind!r}; there are {', '.join(KINDS)}"
        )
    headers = {"cache-control": f"max-age={MAX_AGE_S}", "access-control-allow-origin": "*"}
    answer = JsonAnswer(_schema(cast("ManifestKind", kind)), headers=headers)
    answer.headers["content-type"] = "application/schema+json"
    return answer


@lru_cache(maxsize=len(KINDS))
def _schema(kind: ManifestKind) -> dict[str, Any]:
    return json_schema(kind, short_forms=True)
