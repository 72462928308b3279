"""Requests of S3 clients, which address files as objects in buckets, path-style."""

from __future__ import annotations

from starlette.types import Scope

from odf_protocol.s3.signature import ALGORITHM, S3Request

_SCHEME = ALGORITHM.encode()


def is_s3(scope: Scope) -> bool:
    """Return whether the request claims to have an S3 signature. It is not verified here."""
    return scope["type"] == "http" and any(
        name == b"authorization" and value.startswith(_SCHEME) for name, value in scope["headers"]
    )


def s3_request(scope: Scope) -> S3Request:
    """Return the parts of the request that its S3 signature covers."""
    return S3Request(
        scope["method"],
        (scope.get("raw_path") or scope["path"].encode()).decode("latin-1"),
        scope["query_string"].decode("latin-1"),
        scope["headers"],
    )
