"""Tables of a node that serves nobody without a token, with all its files in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest
from buckets import fresh_location, log_in
from iceberg_clients import catalogue, duck, loaded
from servers import S3Server
from service import serving
from table_made import ITEMS, TableMade, item

R = 1


def test_rows_are_read_out_of_a_bucket_through_the_node(
    tmp_path: Path, s3: S3Server, s3_bucket_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, s3)
    where = f"{s3_bucket_url}/{fresh_location(s3_bucket_url).prefix}".rstrip("/")
    with serving(tmp_path / "node", objects_url=where, allow_anonymous=False) as service:
        made = TableMade(service.node.stores, "kamu/items", ITEMS)
        made.add([item(1), item(2), item(4)])
        made.add([item(2)], [R])
        token = service.token()
        found = loaded(catalogue(service, token), "kamu.items")
        assert [row[4] for row in found] == [1, 4]
        with duck(service, token) as db:
            assert db.execute("SELECT id FROM odf.kamu.items ORDER BY 1").fetchall() == [(1,), (4,)]
