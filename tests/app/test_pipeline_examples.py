"""The examples for programs that run pipelines read a node: Dagster, Airflow, and dbt by DuckLake.

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
"""The Python that has dagster, apache-airflow-core, or dbt-duckdb and the extensions of duckdb."""
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


DAG_RUNS = """
import json, sys
sys.path[:0] = sys.argv[1:3]
from cities import cities
done = cities.test()
print(json.dumps([str(done.state), [each.state for each in done.get_task_instances()]]))
"""
"""A run with the trigger in this process, on the database that was made before."""


@needs("airflow")
def test_airflow_waits_for_each_head_without_a_worker_and_reads_it(cities, tmp_path):
    service, made = cities
    example = EXAMPLES / "airflow"
    places = [str(example / "plugins"), str(example / "dags")]
    given = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__DAGS_FOLDER": places[1],
        "ODF_DATASET": f"{service.url}/cities",
        "PYTHONPATH": os.pathsep.join(places),
    }
    run(["-m", "airflow", "db", "migrate"], tmp_path, **given)
    heads = []
    for rows in (2, 3):
        with service.http() as http:
            heads.append(http.get("/cities/refs/head").text)
        told = run(["-c", DAG_RUNS, *places], tmp_path, **given).splitlines()[-1]
        assert json.loads(told) == ["success", ["success", "success"]]
        file = tmp_path / "odf-files" / f"{heads[-1]}.parquet"
        assert pa.parquet.read_table(file).num_rows == rows
        made.add([{"city": "d", "population": 3}])
    assert heads[0] != heads[1]


WAITED = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from odf_heads import HeadMoved
async def first(*given):
    async for event in HeadMoved(*given).run():
        return event.payload
print("begun", flush=True)
told = [asyncio.run(first(sys.argv[2], *given)) for given in ((sys.argv[3], None), (None, "ka_no"))]
print(json.dumps(told))
"""
"""What the trigger says, first once the head is another one, then to a token that is none."""


@needs("airflow")
def test_the_trigger_of_airflow_says_the_new_head_or_what_the_node_refused(cities, tmp_path):
    service, made = cities
    with service.http() as http:
        old = http.get("/cities/refs/head").text
        words = ["-c", WAITED, str(EXAMPLES / "airflow" / "plugins"), f"{service.url}/cities", old]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        with subprocess.Popen(
            [PYTHON, *words], env=environment, stdout=subprocess.PIPE, text=True
        ) as waits:
            assert waits.stdout is not None
            begun = waits.stdout.readline()
            if not begun:
                pytest.skip(f"airflow does not start in {PYTHON}")
            made.add([{"city": "d", "population": 3}])
            moved, refused = json.loads(waits.stdout.read().splitlines()[-1])
        assert moved == {"head": http.get("/cities/refs/head").text}
    assert moved["head"] != old
    assert refused["status"] == 401
    assert "token" in refused["error"]


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
