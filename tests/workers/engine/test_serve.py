"""`odf-worker engine` and the table of engines a worker has."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from refusals import refusing
from tests.conformance.engine_transforms import ALL
from tests.workers.engine.changes import APPEND, CITIES, cities
from tests.workers.engine.requests import Derivative, sql

from odf_protocol.metadata.events import TransformResponseSuccess, TransformSql
from odf_workers.engines.datafusion.engine import DataFusionEngine
from odf_workers.engines.port.port import engine_for
from odf_workers.engines.remote.container import ContainerEngine
from odf_workers.engines.remote.remote import RemoteEngine
from odf_workers.main import main
from odf_workers.program.engines import configured, engines
from odf_workers.settings import WorkerSettings


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`odf-worker engine` with DataFusion, and its address."""
    command = [
        sys.executable,
        "-m",
        "odf_workers.main",
        "engine",
        "--engine",
        "datafusion",
        "--port",
    ]
    running = subprocess.Popen(
        [*command, "0", "--folder", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ODF_WORKER_SCRATCH": str(tmp_path)},
    )
    assert running.stderr is not None
    port = re.search(r"port=(\d+)", running.stderr.readline())
    assert port is not None
    yield running, f"127.0.0.1:{port[1]}"
    running.kill()
    running.wait()
    running.stderr.close()


def test_a_served_engine_computes_and_ends_when_it_is_asked_to(
    process: tuple[subprocess.Popen[str], str], tmp_path: Path
) -> None:
    running, address = process
    remote = RemoteEngine("datafusion", address, seconds=30)
    asked = Derivative(
        engine=remote,
        folder=tmp_path / "work",
        transform=sql(ALL, engine="datafusion"),
        schemas={"cities": CITIES},
    )
    answer = asked.run({"cities": cities((APPEND, "a", 1))})
    assert isinstance(answer, TransformResponseSuccess), answer
    assert remote.version == DataFusionEngine.version
    running.send_signal(signal.SIGTERM)
    assert running.wait(90) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


def test_an_engine_we_do_not_have_is_refused() -> None:
    result = CliRunner().invoke(main, ["engine", "--engine", "flink"])
    assert result.exit_code != 0
    assert "datafusion" in result.output


def test_engines_of_the_settings_come_beside_ours_or_instead() -> None:
    settings = WorkerSettings(
        engines={"Flink": "image:ghcr.io/example/flink:1", "datafusion": "127.0.0.1:5544"},
    )
    found = {engine.name: engine for engine in engines(settings, None)}
    assert set(found) == {"flink", "datafusion", "spark"}
    assert isinstance(found["flink"], ContainerEngine)
    assert found["flink"].version == "ghcr.io/example/flink:1"
    assert isinstance(found["datafusion"], RemoteEngine)
    assert isinstance(configured(settings, "flink"), ContainerEngine)


def test_an_engine_of_another_version_stands_behind_and_takes_no_place() -> None:
    settings = WorkerSettings(
        engines={"Spark@3.5": "127.0.0.1:5545", "datafusion@old": "image:x", "flink": "image:y"},
    )
    found = engines(settings, None)
    assert [engine.name for engine in found] == [
        "flink",
        "spark",
        "datafusion",
        "spark",
        "datafusion",
    ]
    assert isinstance(found[3], RemoteEngine)
    assert found[4].version == "x"
    with refusing("UnsupportedEngine") as caught:
        engine_for(TransformSql(engine="risingwave", query="select 1"), found)
    assert caught.value.facts["available"] == ["flink", "spark", "datafusion"]


def test_engines_are_found_without_regard_to_case() -> None:
    found = engines(WorkerSettings(), None)
    assert engine_for(TransformSql(engine="DataFusion", query="select 1"), found).name == (
        "datafusion"
    )
    with refusing("UnsupportedEngine"):
        engine_for(TransformSql(engine="risingwave", query="select 1"), found)
