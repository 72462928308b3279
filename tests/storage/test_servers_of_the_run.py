"""The servers that the contract suites rely on are the real ones."""

from __future__ import annotations

import boto3
import pytest
import sqlalchemy
from botocore.exceptions import ClientError


def test_the_database_of_the_run_is_a_real_postgresql(postgres_url):
    engine = sqlalchemy.create_engine(postgres_url)
    with engine.connect() as db:
        assert db.exec_driver_sql("show server_version").scalar_one().startswith("18.")
    engine.dispose()


def test_the_object_server_of_the_run_refuses_a_wrong_secret(s3):
    def client(secret):
        return boto3.client(
            "s3",
            endpoint_url=s3.endpoint,
            aws_access_key_id=s3.access_key,
            aws_secret_access_key=secret,
            region_name="us-east-1",
        )

    client(s3.secret_key).create_bucket(Bucket="probe")
    assert "probe" in [b["Name"] for b in client(s3.secret_key).list_buckets()["Buckets"]]
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        client("wrong").list_buckets()
