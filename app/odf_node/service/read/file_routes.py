"""`GET {dataset}/files`: the dataset as a list of Parquet files at plain or signed URLs."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Annotated

from anyio import from_thread
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from odf_protocol.identity import DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.stores.objects.layout import KIND_FOLDERS
from odf_storage.stores.ports.errors import BlockNotFound
from odf_storage.stores.ports.values import DatasetEntry, ObjectKind

from ..auth.actors import ANONYMOUS
from ..auth.signed_urls import SignedUrls
from ..http.answers import JsonAnswer, StreamedAnswer
from ..http.deps import AccessDep, ActorDep, BaseDep, ReadableDep, SettingsDep, StoresDep, wired
from ..http.parameters import MAX_PAGE
from ..limits.shares import caller_of
from .file_lists import ListFormat, end_of, list_files, media_type, no_pages, written
from .routes import HEAD, CurrentDep
from .tail import Current

MAX_HASH_CHARS = 256
DEFAULT_FILES = 100
JSON = "json"
FOLDER = KIND_FOLDERS[ObjectKind.DATA]

Hash = Annotated[str | None, Query(max_length=MAX_HASH_CHARS)]
UrlsDep = Annotated[SignedUrls, Depends(wired(SignedUrls))]


def files(
    request: Request,
    stores: StoresDep,
    settings: SettingsDep,
    access: AccessDep,
    urls: UrlsDep,
    current: CurrentDep,
    entry: ReadableDep,
    actor: ActorDep,
    base: BaseDep,
    at: Hash = None,
    before: Hash = None,
    limit: Annotated[int | None, Query(ge=1)] = None,
    form: Annotated[str, Query(alias="format", max_length=50)] = JSON,
    sign: bool | None = None,
) -> Response:
    """Return the files as of the block `at`. JSON lists the newest first, in pages; the other
    formats list all files, the oldest first.

    With `sign`, URLs are signed, and can be read without a token. By default they are signed in
    the other formats if anonymous callers may not read the dataset.
    """
    folder = base.rstrip("/") + request.url.path.removesuffix("files")
    is_open = settings.allow_anonymous and access.may_read(ANONYMOUS, entry)
    is_signed = (form != JSON and not is_open) if sign is None else sign
    account = None if actor.account is None else actor.account.id
    signed = urls.signer(FOLDER, entry.id, urls.expiry(), account) if is_signed else None
    kept = {"cache-control": "no-store"} if is_signed else {}
    if form == JSON:
        size = min(limit or DEFAULT_FILES, MAX_PAGE)
        told = list_files(
            stores,
            stores.blocks,
            entry,
            folder,
            at=at,
            before=before,
            limit=size,
            sign=signed,
            has_retractions=partial(_has_retractions, current, entry, caller_of(request.scope)),
        )
        return JsonAnswer(told, headers=kept)
    wanted = ListFormat.parse(form)
    if before is not None or limit is not None:
        raise no_pages()
    dataset = stores.dataset(DatasetRef(id=entry.id))
    end = end_of(dataset, at)
    lines = written(dataset.pages(upto=end), wanted, folder, signed)
    schema = f'<{folder}metadata?include=schema>; rel="describedby"'
    headers = {HEAD: str(end), "link": schema, **kept}
    return StreamedAnswer(lines, headers=headers, media_type=media_type(wanted))


def _has_retractions(current: Current, entry: DatasetEntry, caller: str, block: Multihash) -> bool:
    """Return whether files up to the block have rows that take others back; of a replaced history,
    True."""
    try:
        return from_thread.run(current.takes_back_upto, entry, block, caller)
    except BlockNotFound:
        return True


def add_file_routes(routes: APIRouter, prefix: str) -> None:
    """Serve lists of files below the dataset addresses."""
    tags: list[str | Enum] = ["datasets"]
    routes.get(prefix + "/files", summary="The data as a list of Parquet files", tags=tags)(files)
