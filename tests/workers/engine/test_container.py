"""An engine in an image sees the files of its query, answers, and is gone."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from protocol.instant import Instant
from protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseSuccess,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
    TransformResponseSuccess,
)
from tests.conformance.engine_transforms import ALL
from tests.workers.engine import runtime
from tests.workers.engine.changes import APPEND, CITIES, cities, listed
from tests.workers.engine.requests import Derivative, sql
from workers.engine.container import ContainerEngine, ContainerRules

IMAGE = "ghcr.io/example/engine@sha256:00"
MARK = Instant.parse("2024-01-01T00:00:00Z")


@pytest.fixture
def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}


def engine_of(folder: Path, environment: dict[str, str], **told: object) -> ContainerEngine:
    seconds = float(str(told.pop("start_seconds", 30.0)))
    command = runtime.installed(folder, **told)
    rules = ContainerRules(
        runtime=str(command), environment=environment, memory="1g", start_seconds=seconds
    )
    return ContainerEngine("datafusion", IMAGE, rules, seconds=60)


def derivative(engine: ContainerEngine, folder: Path, query: str = ALL) -> Derivative:
    folder.mkdir(exist_ok=True)
    return Derivative(
        engine=engine,
        folder=folder,
        transform=sql(query, engine="datafusion"),
        schemas={"cities": CITIES},
    )


def gone(folder: Path) -> bool:
    """Whether what ran in the container has ended."""
    pid = int((folder / "pid").read_text())
    for _ in range(100):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True
        if "State:\tZ" in status:
            return True
        time.sleep(0.05)
    return False


def test_a_transform_runs_in_the_image_and_its_files_come_out(
    environment: dict[str, str], tmp_path: Path
) -> None:
    engine = engine_of(tmp_path / "bin", environment)
    asked = derivative(engine, tmp_path / "work")
    response = asked.run({"cities": cities((APPEND, "a", 1))}, {"cities": [MARK]})
    assert isinstance(response, TransformResponseSuccess), response
    assert response.new_watermark == MARK
    assert listed(asked.table(), "city", "n") == [("a", 1)]
    assert asked.checkpoint is not None
    assert gone(tmp_path / "bin")
    run, *_, remove = runtime.calls(tmp_path / "bin")
    assert run[:3] == ["run", "--detach", "--rm"]
    assert run[-1] == IMAGE
    assert "--publish=127.0.0.1::2884" in run
    inputs = next(a for a in run if a.startswith("--volume=") and a.endswith("/in:ro"))
    assert inputs.endswith(":/opt/engine/in:ro")
    assert remove[:2] == ["rm", "--force"]
    names = sorted(path.name for path in asked.data.parent.iterdir())
    assert names == ["checkpoint", "data", "input-0-0", "schema-0"]


def test_a_raw_query_runs_in_the_image(environment: dict[str, str], tmp_path: Path) -> None:
    engine = engine_of(tmp_path / "bin", environment)
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "in.parquet")
    response = engine.execute_raw_query(
        RawQueryRequest(
            input_data_paths=(str(tmp_path / "in.parquet"),),
            transform=sql("select n + 1 as m from input", engine="datafusion"),
            output_data_path=str(tmp_path / "out.parquet"),
        )
    )
    assert response == RawQueryResponseSuccess(num_records=2)
    assert pq.read_table(tmp_path / "out.parquet")["m"].to_pylist() == [2, 3]
    assert gone(tmp_path / "bin")


def test_a_wrong_query_is_an_answer_and_the_container_is_gone(
    environment: dict[str, str], tmp_path: Path
) -> None:
    asked = derivative(engine_of(tmp_path / "bin", environment), tmp_path / "work", "selec")
    assert isinstance(asked.run({}), TransformResponseInvalidQuery)
    assert gone(tmp_path / "bin")


def test_an_image_that_does_not_start_is_an_error_of_the_engine(
    environment: dict[str, str], tmp_path: Path
) -> None:
    asked = derivative(engine_of(tmp_path / "bin", environment, fails=True), tmp_path / "work")
    response = asked.run({})
    assert isinstance(response, TransformResponseInternalError)
    assert "no such image" in response.message


def test_an_image_that_does_not_answer_is_stopped(
    environment: dict[str, str], tmp_path: Path
) -> None:
    engine = engine_of(tmp_path / "bin", environment, silent=True, start_seconds=1.0)
    response = derivative(engine, tmp_path / "work").run({})
    assert isinstance(response, TransformResponseInternalError)
    assert "within 1 seconds" in response.message
    assert [call[0] for call in runtime.calls(tmp_path / "bin")][-2:] == ["stop", "rm"]


@pytest.mark.parametrize("wanted", [None, "no-such-runtime"])
def test_without_a_runtime_images_are_refused(
    wanted: str | None, environment: dict[str, str], tmp_path: Path
) -> None:
    rules = ContainerRules(runtime=wanted, environment=environment, memory="1g")
    engine = ContainerEngine("flink", IMAGE, rules)
    response = derivative(engine, tmp_path / "work").run({})
    assert isinstance(response, TransformResponseInternalError)
    assert "container image" in response.message
    answer = engine.execute_raw_query(
        RawQueryRequest(
            input_data_paths=(),
            transform=sql("select 1", engine="flink"),
            output_data_path=str(tmp_path / "out"),
        )
    )
    assert isinstance(answer, RawQueryResponseInternalError)


@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no docker command")
def test_docker_knows_what_it_is_told_and_a_daemon_that_is_away_is_named(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock",
    }
    rules = ContainerRules(runtime="docker", environment=environment, memory="1g")
    response = derivative(ContainerEngine("flink", "engine", rules), tmp_path / "work").run({})
    assert isinstance(response, TransformResponseInternalError)
    assert "the engine flink was not started" in response.message
    assert "Cannot connect to the Docker daemon" in response.message


def test_the_version_is_the_image() -> None:
    rules = ContainerRules(runtime=None, environment={}, memory="1g")
    assert ContainerEngine("flink", IMAGE, rules).version == IMAGE
