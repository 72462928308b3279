"""Places in the S3 server of the run that one test has for itself."""

from __future__ import annotations

import secrets

import pytest
from servers import S3Server

from odf_storage.stores.objects.s3_bucket import Bucket, S3Location

BUCKET = "odf-test"


def log_in(patch: pytest.MonkeyPatch, server: S3Server, secret: str | None = None) -> None:
    """Put the server's keys where boto3 finds them."""
    patch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    patch.setenv("AWS_SECRET_ACCESS_KEY", secret or server.secret_key)
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def make_bucket(server: S3Server, name: str = BUCKET) -> str:
    """A new bucket; its objects URL."""
    url = f"{server.endpoint.replace('http', 's3+http', 1)}/{name}"
    with pytest.MonkeyPatch.context() as patch:
        log_in(patch, server)
        Bucket(S3Location.parse(url)).call("create_bucket")
    return url


def fresh_location(url: str) -> S3Location:
    """A prefix that nobody else uses."""
    return S3Location.parse(f"{url}/nodes/{secrets.token_hex(6)}")
