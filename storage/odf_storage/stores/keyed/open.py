"""Keyed stores by their URL: `file:///folder`, `s3://bucket/prefix`, `s3+http://host/bucket/…`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from odf_protocol.errors import BadInput

from ..ports import KeyedStore
from .folder import FolderKeyedStore


class MalformedKeyedStoreUrl(BadInput):
    """The URL addresses neither a folder nor a bucket."""


def open_keyed_store(url: str, *, durable: bool = True) -> KeyedStore:
    """Return the store at a URL, without accessing it yet.

    Raises:
        MalformedKeyedStoreUrl, or MalformedStoreUrl for a bucket.
    """
    scheme = url.partition("://")[0]
    if scheme == "file":
        parts = urlsplit(url)
        path = unquote(parts.path)
        if parts.netloc or parts.query or parts.fragment or not path.startswith("/"):
            raise MalformedKeyedStoreUrl("a folder is named as file:///an/absolute/path")
        return FolderKeyedStore(Path(path), durable=durable)
    if scheme in ("s3", "s3+http", "s3+https"):
        from ..objects.s3_bucket import Bucket, S3Location  # boto3 is slow to import
        from .bucket import BucketKeyedStore

        return BucketKeyedStore(Bucket(S3Location.parse(url)))
    raise MalformedKeyedStoreUrl(
        "a store is at file:///folder, s3://bucket/prefix or s3+http://host:port/bucket/prefix"
    )
