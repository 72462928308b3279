"""Every block of docs/iceberg.md runs, from top to bottom, against a node."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from iceberg_clients import load_extensions
from service import Service, serving
from table_made import TableMade

PAGE = Path(__file__).parents[2] / "docs" / "iceberg.md"
CITIES = pa.schema([("city", pa.string()), ("population", pa.int64())])


def blocks(language: str, service: Service) -> list[str]:
    text = PAGE.read_text().replace("http://127.0.0.1:8080", service.url)
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory):
    with serving(tmp_path_factory.mktemp("node")) as service:
        cities = TableMade(service.node.stores, "kamu/cities", CITIES, key=["city"])
        cities.add([{"city": "Oslo", "population": 717_000}, {"city": "Hamar", "population": 1}])
        cities.add([{"city": "Hamar", "population": 1}], [1])
        cities.add([{"city": "Rome", "population": 2_800_000}])
        yield service


def test_the_examples_of_the_page_run(service: Service) -> None:
    found = blocks("python", service)
    assert len(found) == 5
    token = {"ODF_NODE_TOKEN": service.token(), "POLARS_ICEBERG_PLANNER": "pyiceberg"}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(found)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **token},
    )
    assert done.returncode == 0, done.stderr
    listed, read, state, polars, lying = done.stdout.splitlines()
    assert listed == "[('kamu', 'cities')]"
    assert read.split()[:2] == ["2", "2"]
    assert (state, polars, lying) == ("2", "2", "4")


def test_the_statements_of_duckdb_run(service: Service) -> None:
    (text,) = blocks("sql", service)
    with duckdb.connect() as db:
        load_extensions(db)
        told = text.replace("ka_…", service.token()).strip().split(";")
        found = [db.execute(each).fetchall() for each in told if each.strip()]
    assert sorted(found[-1]) == [("Oslo", 717_000), ("Rome", 2_800_000)]
