"""Shared tables of a node that serves nobody without a token, with all its files in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest
from buckets import fresh_location, log_in
from plain_values import plain
from servers import S3Server
from service import serving
from sharing_client import sharing_client
from table_made import ITEMS, TableMade, item

R = 1


def test_both_forms_and_changes_are_read_out_of_a_bucket(
    tmp_path: Path, s3: S3Server, s3_bucket_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, s3)
    where = f"{s3_bucket_url}/{fresh_location(s3_bucket_url).prefix}".rstrip("/")
    with serving(tmp_path / "node", objects_url=where, allow_anonymous=False) as service:
        made = TableMade(service.node.stores, "kamu/items", ITEMS)
        made.add([item(1), item(2), item(4)])
        token = service.token()
        with sharing_client(service, token, tmp_path) as client:
            table = "kamu.default.items"
            ids = [plain(row[4]) for row in client.load(table)["rows"]]
            assert ids == [1, 2, 4]
            made.add([item(2)], [R])
            ids = [plain(row[4]) for row in client.load(table)["rows"]]
            assert ids == [1, 4]
            for is_delta in (None, True):
                found = client.changes(table, starting_version=0, use_delta_format=is_delta)
                at = found["columns"].index("_change_type")
                assert sorted(row[at] for row in found["rows"]) == ["delete", *["insert"] * 3]
