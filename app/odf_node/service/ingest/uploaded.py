"""A file that was uploaded before, used as the body of a post by its upload token."""

from __future__ import annotations

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
from .content import Content


def uploaded_content(uploads: FileUploads, actor: Actor, text: str) -> Content:
    """Return the file of an upload token. Its media type is the declared one, else that of its
    extension.

    Raises:
        InvalidUploadToken, Unauthenticated, UploadNotFound, LengthDiffers.
    """
    token = UploadToken.parse(text)
    if actor.account is None:
        raise Unauthenticated
    expected_upload(uploads, actor.account, token)
    file, size = arrived_file(uploads, token)
    if size != token.content_length:
        raise LengthDiffers(size, token.content_length)
    return Content(content_of(uploads, file), media_type_of(token.content_type, token.file_name))
