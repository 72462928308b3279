"""Ingest of a file that was uploaded beforehand, by its upload token."""

from __future__ import annotations

from dataclasses import replace

from odf_node.storage.stores.ports.values import DatasetEntry

from ..auth.access import Unauthenticated
from ..auth.actors import Actor
from ..auth.upload_tokens import UploadToken
from ..http.media_types import media_type_of
from ..uploads.uploaded_files import (
    FileUploads,
    LengthDiffers,
    arrived_file,
    content_of,
    expected_upload,
)
from .ingest import Content, Ingesting, IngestRequest, Posted, post


def post_uploaded(
    ingesting: Ingesting,
    uploads: FileUploads,
    actor: Actor,
    entry: DatasetEntry,
    request: IngestRequest,
    text: str,
) -> Posted:
    """Queue the file of a token.

    The token's media type, else the extension of its file name, says how to read it;
    a dataset without any push source gets one.

    Raises:
        InvalidUploadToken, Unauthorized, UploadNotFound, LengthDiffers, and what
        `post` raises.
    """
    token = UploadToken.parse(text)
    if actor.account is None:
        raise Unauthenticated
    expected_upload(uploads, actor.account, token)
    file, size = arrived_file(uploads, token)
    if size != token.content_length:
        raise LengthDiffers(size, token.content_length)
    media_type = media_type_of(token.content_type, token.file_name)
    asked = replace(request, creates_source=not request.dry_run)
    return post(ingesting, actor, entry, asked, Content(content_of(uploads, file), media_type))
