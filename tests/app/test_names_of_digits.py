"""Columns whose names are bare numbers, as years are: they are names at every door."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from service import serving
from table_made import TableMade

SYSTEM = ["offset", "op", "system_time", "event_time"]
NAMES = ["2021", "land", "2020", "0", "-1", "1.5", "1e3"]
"""Not in their order as numbers, in which JavaScript would list some."""
ROWS = [[21, "NO", 20, 0, -1, 15, 1000], [31, "SE", 30, 1, -2, 25, 2000]]


@pytest.fixture(scope="module")
def client(tmp_path_factory: Any) -> Iterator[httpx.Client]:
    with serving(tmp_path_factory.mktemp("digits") / "node", turn_wait_s=60) as service:
        types = [pa.string() if name == "land" else pa.int64() for name in NAMES]
        columns = pa.schema(list(zip(NAMES, types, strict=True)))
        made = TableMade(service.node.stores, "kamu/years", columns, key=["2020"])
        for row in ROWS:
            made.add([dict(zip(NAMES, row, strict=True))])
        with service.http(service.token()) as client:
            yield client


def asked(client: httpx.Client, path: str, **params: Any) -> Any:
    answer = client.get(f"/years/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer


def test_the_last_rows_have_them_in_the_order_of_the_dataset(client: httpx.Client) -> None:
    (*_, row) = asked(client, "tail", dataFormat="JsonAoS").json()["data"]
    assert list(row) == SYSTEM + NAMES
    assert [row[name] for name in NAMES] == ROWS[1]
    columns = asked(client, "tail", dataFormat="JsonSoA").json()["data"]
    assert list(columns) == SYSTEM + NAMES
    assert columns["2020"] == [20, 30]
    (*_, values) = asked(client, "tail", dataFormat="JsonAoA").json()["data"]
    assert values[len(SYSTEM) :] == ROWS[1]


def test_reads_choose_and_filter_by_them(client: httpx.Client) -> None:
    answer = asked(client, "read", format="csv", columns="2021,0,1e3", filter="2020:gt:20")
    assert list(csv.reader(io.StringIO(answer.text))) == [["2021", "0", "1e3"], ["31", "1", "2000"]]
    found = asked(client, "lookup", column="2020", value="30").json()
    assert "31" in str(found)


def test_queries_name_them_in_quotes(client: httpx.Client) -> None:
    query = 'select "2021", "0", "1.5" from years where "2020" = 30'
    answer = client.post("/query", json={"query": query, "dataFormat": "JsonAoA"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["output"]["data"] == [[31, 1, 25]]
