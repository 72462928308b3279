"""A data folder that an older commit wrote is served, read and written by this one.

`kept/data-folder-fd0a49ea.tar.gz` was made by that commit: `serve` on an empty folder, a dataset
`ferries` with the columns at, ship and cars, and one post of two rows.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

from nodes import odf, served

KEPT = Path(__file__).parent / "kept" / "data-folder-fd0a49ea.tar.gz"
NEXT = "at,ship,cars\n2026-01-02T08:00:00Z,Alma,44\n"


def test_a_data_folder_of_an_older_commit_is_read_and_takes_posts(tmp_path: Path) -> None:
    with tarfile.open(KEPT) as kept:
        kept.extractall(tmp_path, filter="data")
    data = tmp_path / "data"
    once = {"ODF_WORKER_WARM_UP": "false", "ODF_NODE_QUERY_WORKERS": "0"}
    with served(data, **once) as node, node.http(node.token()) as client:
        before = client.get("/ferries/tail")
        assert [row["cars"] for row in before.json()["data"]] == [31, 17]
        csv = {"content-type": "text/csv"}
        posted = client.post("/ferries/ingest", content=NEXT, headers=csv)
        assert posted.status_code == 200, posted.text
        after = client.get("/ferries/tail")
        assert [row["cars"] for row in after.json()["data"]] == [31, 17, 44]
    odf("fsck", "--data", data)
    odf("index", "rebuild", "--check", "--data", data)
