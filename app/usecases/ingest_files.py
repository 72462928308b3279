"""Ingest of a file that was uploaded beforehand, by its upload token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from storage.values import DatasetEntry

from ..auth.access import Unauthenticated
from ..auth.actors import Actor
from ..auth.upload_tokens import UploadToken
from ..wiring import Node
from .formats import media_type_of
from .ingest import IngestRequest, check_ingest
from .uploaded_files import LengthDiffers, arrived_file, content_of, expected_upload


def check_uploaded(
    node: Node, actor: Actor, entry: DatasetEntry, request: IngestRequest, text: str
) -> tuple[IngestRequest, Iterator[bytes]]:
    """The request in canonical form, and the bytes it is about.

    The token's media type, else the extension of its file name, says how to read them;
    a dataset without any push source gets one.

    Raises:
        InvalidUploadToken, Unauthorized, UploadNotFound, LengthDiffers, and what
        `check_ingest` raises.
    """
    token = UploadToken.parse(text)
    if actor.account is None:
        raise Unauthenticated
    expected_upload(node, actor.account, token)
    file, size = arrived_file(node, token)
    if size != token.content_length:
        raise LengthDiffers(size, token.content_length)
    content = content_of(node, file)
    asked = replace(
        request,
        media_type=media_type_of(token.content_type, token.file_name),
        creates_source=not request.dry_run,
    )
    return check_ingest(node, entry, asked), content
