"""The examples for programs that run pipelines read a node: Dagster, and dbt by DuckLake.

These programs are large, so `make dev` does not install them: a test is skipped where they are not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest
from ducklake_clients import lake
from service import Service, serving
from table_made import TableMade

from odf_storage.stores.ports.values import Visibility

EXAMPLES = Path(__file__).parents[2] / "examples"
PYTHON = os.environ.get("PIPELINES_PYTHON", sys.executable)
"""The Python that has dagster, or dbt-duckdb and the extensions of duckdb."""
CITIES = pa.schema([("city", pa.string()), ("population", pa.int64())])


def needs(module: str) -> pytest.MarkDecorator:
    is_missing = sys.executable == PYTHON and find_spec(module) is None
    why = f"{module} is not here: install it elsewhere, and set PIPELINES_PYTHON"
    return pytest.mark.skipif(is_missing, reason=why)


@pytest.fixture
def cities(tmp_path: Path) -> Iterator[tuple[Service, TableMade]]:
    with serving(tmp_path / "node") as service:
        made = TableMade(service.node.stores, "kamu/cities", CITIES, visibility=Visibility.PUBLIC)
        made.add([{"city": name, "population": at} for at, name in enumerate("abc")])
        made.add([{"city": "c", "population": 2}], [1])
        yield service, made


def run(words: list[str], folder: Path, **environment: str) -> str:
    """What a program prints."""
    done = subprocess.run(
        [PYTHON, *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip(f"{done.stderr.splitlines()[-1]} in {PYTHON}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


SENSED = """
import json, sys
sys.path.insert(0, sys.argv[1])
import dagster as dg
from definitions import cities, defs, head_moved
instance = dg.DagsterInstance.ephemeral()
first = head_moved(dg.build_sensor_context(instance, definitions=defs))
done = dg.materialize([cities], instance=instance, run_config=first.run_config)
[made] = done.asset_materializations_for_node("cities")
again = head_moved(dg.build_sensor_context(instance, cursor=first.run_key, definitions=defs))
file = made.metadata["file"].value
print(json.dumps([first.run_key, made.tags["dagster/data_version"], file, type(again).__name__]))
"""


@needs("dagster")
def test_dagster_makes_an_asset_of_each_head_once(cities, tmp_path):
    service, made = cities
    heads = []
    for rows in (2, 3):
        with service.http() as http:
            head = http.get("/cities/refs/head").text
        words = ["-c", SENSED, str(EXAMPLES / "dagster")]
        told = run(words, tmp_path, ODF_DATASET=f"{service.url}/cities")
        key, version, file, again = json.loads(told.splitlines()[-1])
        assert (key, version, again) == (head, head, "SkipReason")
        assert pa.parquet.read_table(tmp_path / file).num_rows == rows
        heads.append(key)
        made.add([{"city": "d", "population": 3}])
    assert heads[0] != heads[1]


DBT = """
import duckdb, runpy, sys
with duckdb.connect() as db:  # the extensions, as `INSTALL` puts them
    import duckdb_extensions
    for name in ("httpfs", "ducklake"):
        duckdb_extensions.import_extension(name, con=db)
from dbt.cli.main import dbtRunner
done = dbtRunner().invoke(["run", "--profiles-dir", "."])
if not done.success:
    sys.exit(str(done.exception or [each.message for each in done.result]))
with duckdb.connect("work.duckdb") as db:
    print(db.execute("FROM largest").fetchall())
"""


@needs("dbt")
def test_dbt_makes_models_of_the_current_rows_of_a_lake(cities, tmp_path):
    service, _ = cities
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / "dbt", project)
    told = run(["-c", DBT], project, ODF_LAKE=f"ducklake:{lake(service)['catalogue']}")
    assert told.splitlines()[-1] == "[('b', 1, 4), ('a', 0, 4)]"
