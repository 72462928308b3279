"""Upload tokens, which a client sends to upload a file, to download it, and to ingest it.

A token is URL-safe base64 of JSON. It is not signed, so the node looks up the owner of the upload
and does not trust the token. Source: reference node, file upload.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from odf_protocol.errors import BadInput
from odf_protocol.typed import decode_json

MAX_CHARS = 8192


class InvalidUploadToken(BadInput):
    """The text is not an upload token."""

    def __init__(self) -> None:
        super().__init__("Invalid upload token")


class UploadToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The claims of a token. `content_length` is in bytes; `owner_account_id` has no `did:odf:`."""

    upload_id: str
    file_name: str
    owner_account_id: str
    content_length: int
    content_type: str | None = None

    @classmethod
    def parse(cls, text: str) -> UploadToken:
        """Parse a token. Raises `InvalidUploadToken`."""
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
