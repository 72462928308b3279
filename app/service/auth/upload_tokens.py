"""Upload tokens: what a client shows to upload a file, to fetch it, and to ingest it.

URL-safe base64 of JSON, not signed: a token claims, and the node looks up whose upload it is.
Source: reference node, file upload.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from odf_node.protocol.errors import BadInput
from odf_node.protocol.typed import decode_json

MAX_CHARS = 8192


class InvalidUploadToken(BadInput):
    """Text that is no upload token."""

    def __init__(self) -> None:
        super().__init__("Invalid upload token")


class UploadToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a token claims. `content_length` in bytes; the owner without `did:odf:`."""

    upload_id: str
    file_name: str
    owner_account_id: str
    content_length: int
    content_type: str | None = None

    @classmethod
    def parse(cls, text: str) -> UploadToken:
        """Raises `InvalidUploadToken`."""
        if len(text) > MAX_CHARS or not text.isascii():
            raise InvalidUploadToken
        bare = text.rstrip("=")
        try:
            raw = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
            return decode_json(raw, cls)
        except (binascii.Error, msgspec.DecodeError, UnicodeError):
            raise InvalidUploadToken from None

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()
