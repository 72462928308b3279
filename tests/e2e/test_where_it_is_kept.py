"""A node and its worker on every pair: what is ingested is where it was told to be."""

from __future__ import annotations

import pytest
from backends import BACKENDS
from nodes import odf
from readings import post, snapshot

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def test_rows_are_ingested_read_pulled_and_verified(node, pair, tmp_path):
    with node.http(node.token()) as api:
        assert api.post("/datasets", json=snapshot()).status_code == 201
        for rows in (
            "1,2024-01-01T00:00:00Z\n",
            "1,2024-01-01T00:00:00Z\n2,2024-01-02T00:00:00Z\n",
        ):
            receipt = _ingest(api, rows)
            assert receipt["rowsAdded"] == 1
        assert receipt["rowsKnown"] == 1
        assert [row["id"] for row in api.get("/readings/tail").json()["data"]] == [1, 2]
        odf("pull", f"odf+{node.url}/readings", tmp_path / "copy", "--token", node.token())
    odf("verify", tmp_path / "copy")
    objects = _files_of(tmp_path / "copy" / "data") | _files_of(tmp_path / "copy" / "blocks")
    assert len(objects) >= 5
    in_postgres, in_bucket = BACKENDS[pair]
    kept = _files_of(node.data)
    assert objects.isdisjoint(kept) if in_bucket else objects <= kept
    assert ("node.db" in kept) != in_postgres


def _files_of(folder):
    return {path.name for path in folder.rglob("*") if path.is_file()}


def _ingest(api, rows):
    answer = post(api, f"id,at\n{rows}")
    assert answer.status_code == 200, answer.text
    return answer.json()
