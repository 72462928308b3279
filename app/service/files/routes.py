"""`GET {dataset}/files`: the dataset as a list of Parquet files at plain URLs."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ..http.answers import JsonAnswer
from ..http.deps import BaseDep, ReadableDep, SettingsDep, StoresDep
from .parquet_files import list_files

MAX_HASH_CHARS = 256
DEFAULT_FILES = 100

Hash = Annotated[str | None, Query(max_length=MAX_HASH_CHARS)]


def files(
    request: Request,
    stores: StoresDep,
    settings: SettingsDep,
    entry: ReadableDep,
    base: BaseDep,
    at: Hash = None,
    before: Hash = None,
    limit: Annotated[int, Query(ge=1)] = DEFAULT_FILES,
) -> Response:
    """Newest first, as of the block `at`; `next` is the `before` of the next page."""
    folder = base.rstrip("/") + request.url.path.removesuffix("files")
    size = min(limit, settings.max_page)
    return JsonAnswer(
        list_files(stores, stores.blocks, entry, folder, at=at, before=before, limit=size)
    )


def add_file_routes(routes: APIRouter, prefix: str) -> None:
    """Serve it below the dataset addresses."""
    tags: list[str | Enum] = ["datasets"]
    routes.get(prefix + "/files", summary="The data as a list of Parquet files", tags=tags)(files)
