"""Images of engines on the container runtimes of this machine, where there are any."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.engine_transforms import ALL
from tests.workers.engine import images
from tests.workers.engine.changes import APPEND, CITIES, cities, listed
from tests.workers.engine.requests import Derivative, sql

from odf_protocol.metadata.events import TransformResponseInternalError, TransformResponseSuccess
from odf_workers.engines.port.port import EngineListener
from odf_workers.engines.remote.container import ContainerEngine, EngineRules
from odf_workers.engines.remote.runtimes import Runtime
from odf_workers.program.wiring import clear, scratch_folder
from odf_workers.runtime.progress import JobLost
from odf_workers.settings import WorkerSettings

ENDLESS = [sys.executable, "-m", "tests.workers.engine.endless"]


@pytest.fixture(scope="module", params=images.RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    try:
        if reason := images.missing(name):
            pytest.skip(reason)
        yield name
    finally:
        images.forget(name)


@pytest.fixture
def alone(runtime: str, tmp_path: Path) -> Iterator[str]:
    """The runtime; no container of the test is there after it."""
    yield runtime
    assert at_work(runtime, tmp_path) == {}


def at_work(runtime: str, folder: Path) -> dict[str, Path]:
    """Containers, running or not, that work below a folder."""
    found = running(runtime).folders()
    return {name: place for name, place in found.items() if place.is_relative_to(folder)}


def running(runtime: str) -> Runtime:
    return Runtime(images.rules(runtime), runtime)


def asked(
    runtime: str, command: list[str], folder: Path, *, memory: str = "1g"
) -> tuple[ContainerEngine, Derivative]:
    rules = EngineRules(containers=images.rules(runtime, memory=memory))
    engine = ContainerEngine("datafusion", images.image(runtime, command), rules, seconds=60)
    query = sql(ALL, engine="datafusion")
    return engine, Derivative(
        engine=engine, folder=folder, transform=query, schemas={"cities": CITIES}
    )


def failed(runtime: str, command: list[str], folder: Path, memory: str = "1g") -> str:
    response = asked(runtime, command, folder, memory=memory)[1].run({})
    assert isinstance(response, TransformResponseInternalError), response
    return response.message


def test_a_transform_runs_in_an_image_and_is_noted_with_what_ran(
    alone: str, tmp_path: Path
) -> None:
    command = [str(Path(sys.executable).parent / "odf-worker"), "engine", "--engine=datafusion"]
    command += ["--host=0.0.0.0", "--port=2884", "--folder=/opt/engine"]
    engine, derivative = asked(alone, command, tmp_path)
    response = derivative.run({"cities": cities((APPEND, "a", 1))})
    assert isinstance(response, TransformResponseSuccess), response
    assert listed(derivative.table(), "city", "n") == [("a", 1)]
    assert "sha256:" in engine.version
    names = sorted(path.name for path in derivative.data.parent.iterdir())
    assert names == ["data", "input-0-0", "schema-0"]


def test_an_image_that_ends_at_once_says_why(alone: str, tmp_path: Path) -> None:
    message = failed(alone, ["/bin/sh", "-c", "echo no licence >&2; exit 3"], tmp_path)
    assert "exit code 3" in message
    assert "no licence" in message


def test_a_container_without_enough_memory_is_told_so(alone: str, tmp_path: Path) -> None:
    eater = [sys.executable, "-Sc", "x = b'x' * (1 << 30)"]
    assert "memory than the 32m" in failed(alone, eater, tmp_path, "32m")


class Killing(EngineListener):
    """Has the container killed once the query runs."""

    def __init__(self, runtime: str, folder: Path) -> None:
        self._runtime, self._folder = runtime, folder

    def stops(self, stop: object) -> None:
        (container,) = at_work(self._runtime, self._folder)
        assert running(self._runtime).ask("kill", container).ok


def test_a_container_that_is_killed_in_a_query_is_told_from_a_wrong_answer(
    alone: str, tmp_path: Path
) -> None:
    response = asked(alone, ENDLESS, tmp_path)[1].run({}, listener=Killing(alone, tmp_path))
    assert isinstance(response, TransformResponseInternalError)
    assert "was killed" in response.message


class Cancelled(EngineListener):
    """Of a job that is cancelled once its query runs."""

    _running = False

    def stops(self, stop: object) -> None:
        self._running = True

    def progress(self) -> None:
        if self._running:
            raise JobLost


def test_the_container_of_a_job_that_is_cancelled_ends(alone: str, tmp_path: Path) -> None:
    with pytest.raises(JobLost):
        asked(alone, ENDLESS, tmp_path)[1].run({}, listener=Cancelled())


def test_containers_of_a_killed_worker_are_removed_by_the_next(alone: str, tmp_path: Path) -> None:
    rules, runtime = images.rules(alone), running(alone)
    image = images.image(alone, ["/bin/sleep", "600"])
    with scratch_folder(WorkerSettings(scratch=tmp_path)) as living:
        for folder in (tmp_path / "odf-worker-1-gone", living):
            options = rules.confined(folder / "query", pids=16)
            assert runtime.ask("run", "--detach", *options, image).ok
        clear(tmp_path / "of-others", rules)
        assert len(at_work(alone, tmp_path)) == 2
        clear(tmp_path, rules)
        assert list(at_work(alone, tmp_path).values()) == [living / "query"]
    clear(tmp_path, rules)
