"""Locations of datasets as users write them; the scheme alone selects the protocol.

    odf+http://…  odf+https://…   smart transfer (reading and writing)
    http://…      https://…       simple transfer (reading)
    s3://…  s3+http(s)://host/…   a bucket (reading and writing)
    file://…      a plain path    a dataset folder (reading and writing)

A missing trailing slash is added. The client sends no requests to find out the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from odf_protocol.errors import BadInput

ODF = "odf+"
MAX_URL_CHARS = 4096


class UnsupportedUrl(BadInput):
    """The text is no location of a dataset that the client supports."""


class Transfer(Enum):
    """How bytes are transferred to and from a location."""

    SMART = "smart"
    SIMPLE = "simple"
    FOLDER = "folder"
    BUCKET = "bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A parsed dataset location. One of `base` (HTTP, ends in `/`), `bucket` and `path` is set."""

    transfer: Transfer
    base: str = ""
    bucket: str = ""
    path: Path | None = None

    @classmethod
    def parse(cls, text: str) -> Location:
        """Parse a location that a user has typed.

        Raises:
            UnsupportedUrl: the scheme is unknown, there is no host, or the URL has credentials, a
                query or a fragment.
        """
        if not text or len(text) > MAX_URL_CHARS or "\0" in text:
            raise UnsupportedUrl("a dataset location is a URL or a path of a folder")
        scheme, separator, _ = text.partition("://")
        if not separator:
            return cls(transfer=Transfer.FOLDER, path=Path(text))
        match scheme.lower():
            case "file":
                return cls(transfer=Transfer.FOLDER, path=_file_path(text))
            case "http" | "https":
                return cls(transfer=Transfer.SIMPLE, base=http_base(text))
            case "odf+http" | "odf+https":
                return cls(transfer=Transfer.SMART, base=http_base(text[len(ODF) :]))
            case "s3" | "s3+http" | "s3+https":
                return cls(transfer=Transfer.BUCKET, bucket=text.rstrip("/") + "/")
        raise UnsupportedUrl(
            f"cannot reach {scheme}:// locations; use odf+http(s)://, http(s)://, s3://, file://, "
            "a path",
            url=text,
        )

    @property
    def websocket_base(self) -> str:
        """Base URL of WebSockets: `https` becomes `wss`, any other scheme `ws`."""
        scheme, _, rest = self.base.partition("://")
        return ("wss://" if scheme == "https" else "ws://") + rest

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        if self.bucket:
            return self.bucket
        return (ODF if self.transfer is Transfer.SMART else "") + self.base


def http_base(text: str) -> str:
    """Normalize an `http(s)` URL so that paths can be appended. Raises `UnsupportedUrl`."""
    try:
        parts = urlsplit(text)
        host, user, _ = parts.hostname, parts.username, parts.port
    except ValueError:
        raise UnsupportedUrl(f"not a URL: {text!r}") from None
    if not host:
        raise UnsupportedUrl(f"the URL names no host: {text!r}", url=text)
    if user is not None:
        raise UnsupportedUrl("credentials do not belong into the URL; pass a token instead")
    if parts.query or parts.fragment:
        raise UnsupportedUrl("the URL of a dataset has no query and no fragment", url=text)
    if any(ord(char) <= 0x20 for char in text):
        raise UnsupportedUrl(f"the URL contains blanks or control characters: {text!r}")
    path = parts.path if parts.path.endswith("/") else parts.path + "/"
    return urlunsplit((parts.scheme.lower(), parts.netloc, path, "", ""))


def node_base(text: str) -> str:
    """Normalize the URL of a node (not of a dataset), with or without `odf+`, to end in `/`."""
    bare = text[len(ODF) :] if text.lower().startswith(ODF) else text
    if not bare.lower().startswith(("http://", "https://")):
        raise UnsupportedUrl(f"a node is reached by http:// or https://, not by {text!r}", url=text)
    return http_base(bare)


def _file_path(text: str) -> Path:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        raise UnsupportedUrl(f"a file:// URL names no other host: {text!r}", url=text)
    if not parts.path:
        raise UnsupportedUrl(f"the URL names no folder: {text!r}", url=text)
    return Path(unquote(parts.path))
