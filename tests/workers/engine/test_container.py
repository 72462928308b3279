"""An engine in an image sees the files of its query, answers, and is gone."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conformance.engine_transforms import ALL
from tests.workers.engine import runtime
from tests.workers.engine.changes import APPEND, CITIES, cities, listed
from tests.workers.engine.requests import Derivative, sql

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseSuccess,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
    TransformResponseSuccess,
)
from odf_workers.engines.port.port import EngineListener
from odf_workers.engines.remote.container import ContainerEngine, EngineRules, pinned
from odf_workers.engines.remote.runtimes import ContainerRules
from odf_workers.runtime.progress import JobLost

IMAGE = "ghcr.io/example/engine@sha256:00"
NONE = ContainerRules()
MARK = Instant.parse("2024-01-01T00:00:00Z")


@pytest.fixture
def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}


def engine_of(folder: Path, environment: dict[str, str], **told: object) -> ContainerEngine:
    seconds = float(str(told.pop("start_seconds", 30.0)))
    image = str(told.pop("image", IMAGE))
    command = runtime.installed(folder, **told)
    containers = ContainerRules(runtime=str(command), environment=environment)
    rules = EngineRules(containers=containers, start_seconds=seconds)
    return ContainerEngine("datafusion", image, rules, seconds=60)


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
    _, run, *_, kill, remove = runtime.calls(tmp_path / "bin")
    assert run[:2] == ["run", "--detach"]
    assert run[-1] == IMAGE
    assert "--publish=127.0.0.1::2884" in run
    mounts = [a.partition("target=")[2] for a in run if a.startswith("--mount=")]
    assert mounts == ["/opt/engine/in,readonly", "/opt/engine/out"]
    assert kill[0] == "kill"
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
    assert "no room for it" in response.message


def test_an_image_that_does_not_answer_is_stopped(
    environment: dict[str, str], tmp_path: Path
) -> None:
    engine = engine_of(tmp_path / "bin", environment, silent=True, start_seconds=1.0)
    response = derivative(engine, tmp_path / "work").run({})
    assert isinstance(response, TransformResponseInternalError)
    assert "within 1 seconds" in response.message
    assert "waiting for something" in response.message
    assert [call[0] for call in runtime.calls(tmp_path / "bin")][-2:] == ["kill", "rm"]


@pytest.mark.parametrize("wanted", [None, "no-such-runtime"])
def test_without_a_runtime_images_are_refused(
    wanted: str | None, environment: dict[str, str], tmp_path: Path
) -> None:
    rules = EngineRules(containers=ContainerRules(runtime=wanted, environment=environment))
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
    rules = EngineRules(containers=ContainerRules(runtime="docker", environment=environment))
    response = derivative(ContainerEngine("flink", "engine", rules), tmp_path / "work").run({})
    assert isinstance(response, TransformResponseInternalError)
    assert "the engine flink was not started" in response.message
    assert "Cannot connect to the Docker daemon" in response.message


DIGEST = "example.org/engine@sha256:" + "11" * 32


def test_an_image_that_is_not_here_is_pulled_and_run_by_its_digest_from_then_on(
    environment: dict[str, str], tmp_path: Path
) -> None:
    told = {"images": {}, "remote": {"example.org/engine:1": [DIGEST]}}
    engine = engine_of(tmp_path / "bin", environment, image="example.org/engine:1", **told)
    assert engine.version == DIGEST
    response = derivative(engine, tmp_path / "work", "selec").run({})
    assert isinstance(response, TransformResponseInvalidQuery)
    calls = runtime.calls(tmp_path / "bin")
    assert [call[-1] for call in calls if call[0] in ("pull", "run")] == [
        "example.org/engine:1",
        DIGEST,
    ]


def test_an_image_that_cannot_be_had_is_an_error_of_the_engine(
    environment: dict[str, str], tmp_path: Path
) -> None:
    engine = engine_of(tmp_path / "bin", environment, images={})
    response = derivative(engine, tmp_path / "work").run({})
    assert isinstance(response, TransformResponseInternalError)
    assert "no such image" in response.message
    assert engine.version == IMAGE


@pytest.mark.parametrize(
    ("image", "digests", "version"),
    [
        ("e:1", ["docker.io/library/e@sha256:11"], "docker.io/library/e@sha256:11"),
        ("h:5000/e", ["a/b@sha256:22", "h:5000/e@sha256:11"], "h:5000/e@sha256:11"),
        ("h:5000/e@sha256:11", ["h:5000/e@sha256:11"], "h:5000/e@sha256:11"),
        ("sha256:33", ["e@sha256:11"], "sha256:33"),
        ("made-here", [], "sha256:33"),
        ("made-here", None, "sha256:33"),
    ],
)
def test_the_version_is_what_runs_the_same_image_again(
    image: str, digests: list[str] | None, version: str
) -> None:
    assert pinned(image, {"RepoDigests": digests, "Id": "sha256:33"}) == version
    assert pinned(image, {"RepoDigests": digests, "Id": "33"}) == version


def test_without_a_runtime_the_version_is_the_name_of_the_image() -> None:
    assert ContainerEngine("flink", IMAGE, EngineRules(containers=NONE)).version == IMAGE


def test_a_job_that_is_lost_does_not_wait_for_its_image(
    environment: dict[str, str], tmp_path: Path
) -> None:
    engine = engine_of(tmp_path / "bin", environment, silent=True)
    with pytest.raises(JobLost):
        derivative(engine, tmp_path / "work").run({}, listener=LostAfter(2))
    assert [call[0] for call in runtime.calls(tmp_path / "bin")][-2:] == ["kill", "rm"]


class LostAfter(EngineListener):
    """Of a job that is cancelled while its container starts."""

    def __init__(self, looks: int) -> None:
        self._left = looks

    def progress(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise JobLost
