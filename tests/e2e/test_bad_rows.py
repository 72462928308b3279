"""What a publisher sees when a batch is not what the dataset takes, on a real node and worker."""

from __future__ import annotations

import json
import re

import pytest
from readings import post, snapshot

from odf_protocol.multihash import Multihash

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

VALUE = {"name": "value", "type": {"kind": "Option", "inner": "Float64"}}


@pytest.fixture(scope="module")
def api(node):
    with node.http(node.token()) as client:
        yield client


@pytest.fixture
def readings(api, request):
    """A fresh dataset of one good row; yields its name."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:60].strip("-")
    assert api.post("/datasets", json=snapshot(name, VALUE)).status_code == 201
    assert post(api, "id,at,value\n1,2024-01-01T00:00:00Z,0.5\n", name).status_code == 200
    return name


def _head(api, name):
    return api.get(f"/{name}/refs/head").text


def test_one_bad_row_fails_its_batch_and_names_line_column_and_value(api, readings):
    before = _head(api, readings)
    body = "id,at,value\n2,2024-01-02T00:00:00Z,1.5\n3,2024-01-03T00:00:00Z,heavy\n"
    refused = post(api, body, readings)
    assert refused.status_code == 400
    problem = refused.json()
    assert (problem["line"], problem["column"], problem["value"]) == (3, "value", "heavy")
    assert "heavy" in problem["message"]
    assert _head(api, readings) == before


def test_bad_rows_are_set_aside_when_the_publisher_says_so(api, readings):
    body = "id,at,value\n2,2024-01-02T00:00:00Z,1.5\n3,2024-01-03T00:00:00Z,heavy\n4\n"
    send = {
        "content": body.encode(),
        "headers": {"content-type": "text/csv", "idempotency-key": "with bad rows"},
        "params": {"onBadRows": "quarantine"},
    }
    told = api.post(f"/{readings}/ingest", **send).json()
    assert (told["rowsRead"], told["rowsAdded"], told["rowsRejected"]) == (3, 1, 2)
    assert api.post(f"/{readings}/ingest", **send).json() == told
    kept = api.get(f"/jobs/{told['rejectedJob']}/rejected")
    rows = [json.loads(line) for line in kept.text.splitlines()]
    assert [(row["row"], row["line"], row["column"]) for row in rows] == [
        (2, 3, "value"),
        (3, 4, None),
    ]
    assert rows[0]["raw"] == "3,2024-01-03T00:00:00Z,heavy"


def test_a_repeated_batch_changes_nothing_and_says_what_was_known(api, readings):
    before = _head(api, readings)
    receipt = post(api, "id,at,value\n1,2024-01-01T00:00:00Z,0.5\n", readings).json()
    assert (receipt["outcome"], receipt["rowsAdded"], receipt["rowsKnown"]) == ("up-to-date", 0, 1)
    assert receipt["head"] == before == _head(api, readings)


def test_the_same_rows_arrive_as_json_lines_json_and_parquet(api, readings, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = '{"id": %d, "at": "2024-02-01T00:00:00Z", "value": 2.5}'
    lines = post(api, row % 10 + "\n", readings, "application/x-ndjson")
    array = post(api, f"[{row % 11}]", readings, "application/json")
    table = pa.table(
        {
            "id": pa.array([12], pa.int64()),
            "at": pa.array([1706745600000], pa.timestamp("ms", "UTC")),
            "value": pa.array([2.5]),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    parquet = api.post(
        f"/{readings}/ingest",
        content=(tmp_path / "rows.parquet").read_bytes(),
        headers={"content-type": "application/vnd.apache.parquet"},
    )
    assert [lines.status_code, array.status_code, parquet.status_code] == [200, 200, 200]
    tail = api.get(f"/{readings}/tail", params={"limit": 3}).json()["data"]
    assert [(r["offset"], r["id"], r["value"]) for r in tail] == [
        (1, 10, 2.5),
        (2, 11, 2.5),
        (3, 12, 2.5),
    ]


@pytest.mark.parametrize(
    ("path", "body", "media_type", "status"),
    [
        ("{name}/ingest", b"x", "application/pdf", 415),
        ("{name}/ingest", b"id,at,value\n" + b"1" * (2 << 20), "text/csv", 413),
        ("{name}/ingest?sourceName=other", b"id,at,value\n", "text/csv", 400),
        ("{name}/ingest", b'"id,at,value\n', "text/csv", 400),
        ("{name}/ingest", b"id,at,value\n\xff\xfe,x,y\n", "text/csv", 400),
        ("no-such-dataset/ingest", b"", "text/csv", 404),
        ("no_name/ingest", b"", "text/csv", 400),
    ],
)
def test_a_post_that_cannot_be_taken_is_refused_and_the_next_one_works(
    api, node, path, body, media_type, status
):
    name = f"refusals-{Multihash.of(repr((path, body[:20], media_type)).encode())}"[:60]
    assert api.post("/datasets", json=snapshot(name, VALUE)).status_code == 201
    before = _head(api, name)
    refused = api.post(
        f"/{path.format(name=name)}", content=body, headers={"content-type": media_type}
    )
    assert refused.status_code == status, refused.text
    assert _head(api, name) == before
    assert post(api, "id,at,value\n1,2024-01-01T00:00:00Z,\n", name).status_code == 200
    assert node.process.poll() is None
