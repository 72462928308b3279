"""A query on DataFusion has a process of its own, which holds nothing and ends at its limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processes import with_work
from tests.workers.engine.changes import APPEND, CITIES, cities
from tests.workers.engine.requests import Derivative, sql

from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
    RawQueryResponseSuccess,
    TransformResponseInternalError,
)
from odf_storage.runtime.children import Born, Nursery
from odf_workers import confine
from odf_workers.engines.datafusion.child import EngineQuestion, TableSource, encoded
from odf_workers.engines.datafusion.engine import DataFusionEngine, DataFusionLimits
from odf_workers.engines.port.job_listener import Heard
from odf_workers.engines.port.port import EngineListener, InvalidQuery, is_beyond_limits
from odf_workers.engines.port.query_size import QuerySize
from odf_workers.runtime.progress import JobLost, JobProgress

CANARY = "canary-of-the-worker"
ENDLESS = "select sum(a.n * b.n) as n, 'x' as city from input a, input b, input c, input d"
"""One batch, after sixteen thousand milliards of rows."""
HUGE = "select length(repeat(city, 2000000000)) as n from input"
LONG = "select " + "+".join(["n"] * 20_000) + " as n from input"
PATIENCE_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def _own_nurseries() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("odf_workers.engines.datafusion.engine.Nursery", Nursery)
        yield


@pytest.fixture(scope="module")
def engine(_own_nurseries: None) -> Iterator[DataFusionEngine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODF_STORE_SECRETS_KEYS", CANARY)
        patch.setenv("ODF_STORE_DATABASE_URL", f"postgresql://node:{CANARY}@127.0.0.1/node")
        patch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
        engine = DataFusionEngine(DataFusionLimits(seconds=PATIENCE_S, process_bytes=256 << 20))
        engine.prepare()
        yield engine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = {"n": list(range(2_000)), "city": ["x"] * 2_000}
    pq.write_table(pa.table(rows), tmp_path / "in.parquet")
    (tmp_path / "beside").write_text(CANARY)
    return tmp_path


def ask(engine: Any, folder: Path, query: str, listener: EngineListener | None = None) -> Any:
    request = RawQueryRequest(
        input_data_paths=(str(folder / "in.parquet"),),
        transform=sql(query, engine="datafusion"),
        output_data_path=str(folder / "out.parquet"),
    )
    return engine.execute_raw_query(request, listener or EngineListener())


def nurseries() -> list[psutil.Process]:
    own = psutil.Process().children()
    alive = [each for each in own if each.status() != psutil.STATUS_ZOMBIE]
    return [each for each in alive if "odf_workers.engines.datafusion.process" in each.cmdline()]


def processes_of_queries() -> list[psutil.Process]:
    return [psutil.Process(each) for nursery in nurseries() for each in with_work(nursery.pid)]


class Watching(EngineListener):
    """Does something once, when a query is under way."""

    def __init__(self, act: Callable[[psutil.Process], None]) -> None:
        self._act = act
        self.done = False

    def progress(self) -> None:
        running = processes_of_queries()
        # confined, which is the last thing before it plans
        if running and not self.done and "\nSeccomp:\t2" in status(running[0]):
            self.done = True
            self._act(running[0])


def status(process: psutil.Process) -> str:
    return Path(f"/proc/{process.pid}/status").read_text()


def gone(pid: int) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not psutil.pid_exists(pid)


def test_a_query_of_one_batch_ends_with_its_time(engine: Any, folder: Path) -> None:
    limits = DataFusionLimits(seconds=1.0, cpu_seconds=20)  # which is what ends it otherwise
    response = ask(DataFusionEngine(limits), folder, ENDLESS)
    assert isinstance(response, RawQueryResponseInvalidQuery), response
    assert "within 1 seconds (ODF_WORKER_QUERY_S)" in response.message
    assert is_beyond_limits(InvalidQuery(response.message))
    assert not processes_of_queries()


def test_a_query_of_one_batch_ends_with_its_processor_time(folder: Path) -> None:
    response = ask(DataFusionEngine(DataFusionLimits(cpu_seconds=1)), folder, ENDLESS)
    assert isinstance(response, RawQueryResponseInvalidQuery), response
    assert "1 seconds of processor time (ODF_WORKER_QUERY_S)" in response.message


def test_a_query_of_one_batch_ends_when_it_is_cancelled(engine: Any, folder: Path) -> None:
    job_progress = JobProgress()
    ended: list[int] = []

    class Cancelled(Heard):
        def progress(self) -> None:
            ended.extend(each.pid for each in processes_of_queries())
            if ended:
                threading.Thread(target=job_progress.lose).start()
            Heard.progress(self)

    with pytest.raises(JobLost):
        ask(engine, folder, ENDLESS, Cancelled(job_progress))
    assert gone(ended[0])
    assert ask(engine, folder, "select n from input") == RawQueryResponseSuccess(num_records=2_000)


def test_a_query_nobody_waits_for_any_more_is_stopped(engine: Any, folder: Path) -> None:
    class Left(EngineListener):
        looks = 0

        def stops(self, stop: Callable[[], None]) -> None:
            stop()

        def progress(self) -> None:
            self.looks += 1

    left = Left()
    response = ask(engine, folder, ENDLESS, left)
    assert isinstance(response, RawQueryResponseInvalidQuery)
    assert left.looks == 1
    assert all(gone(each.pid) for each in processes_of_queries())


def test_a_value_beyond_all_memory_ends_its_own_process_only(engine: Any, folder: Path) -> None:
    most: list[int] = []

    class Weighing(EngineListener):
        def progress(self) -> None:
            for each in processes_of_queries():
                try:
                    most.append(each.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue

    own = psutil.Process().memory_info().rss
    response = ask(engine, folder, HUGE, Weighing())
    assert isinstance(response, RawQueryResponseInvalidQuery), response
    assert "ODF_WORKER_DATAFUSION_PROCESS_BYTES" in response.message
    assert is_beyond_limits(InvalidQuery(response.message))
    assert max(most, default=0) < 1 << 30
    assert psutil.Process().memory_info().rss - own < 256 << 20
    assert ask(engine, folder, "select n from input") == RawQueryResponseSuccess(num_records=2_000)


@pytest.mark.parametrize(
    ("query", "limit"),
    [
        (LONG, "terms long; 3000"),
        (
            "select " + "(" * 101 + "n" + ")" * 101 + " from input",
            "101 brackets deep; 100",
        ),
        (f"select '{'x' * 300_000}' as x from input", "ODF_WORKER_MAX_QUERY_BYTES"),
    ],
)
def test_a_query_that_is_too_long_or_too_deep_is_refused_before_it_is_planned(
    query: str, limit: str, engine: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_nursery", None)
    response = ask(engine, folder, query)
    assert isinstance(response, RawQueryResponseInvalidQuery), response
    assert limit in response.message


def test_what_a_query_may_be_counts_its_code_and_not_its_texts(engine: Any, folder: Path) -> None:
    columns = ", ".join(f"n as n{at}" for at in range(2_000))
    listed = ", ".join(map(str, range(5_000)))
    query = f"select '{'(+' * 5_000}' as x, {columns} from input where n in ({listed})"
    assert isinstance(ask(engine, folder, query), RawQueryResponseSuccess)


@pytest.mark.parametrize("count", [300, 1_000])
def test_a_long_union_is_refused_with_what_to_do_and_may_be_bracketed(
    engine: Any, folder: Path, count: int
) -> None:
    some = " union all ".join(["select n from input"] * 50)
    response = ask(engine, folder, " union all ".join([some] * (count // 50)))
    assert isinstance(response, RawQueryResponseInvalidQuery), response
    assert "more than 200 parts of the query are nested in each other" in response.message
    assert "brackets around some dozens" in response.message
    bracketed = " union all ".join([f"({some})"] * 6)
    assert ask(engine, folder, bracketed) == RawQueryResponseSuccess(num_records=600_000)


def test_a_query_that_crashes_its_process_is_an_answer_and_no_more(folder: Path) -> None:
    limits = DataFusionLimits(
        seconds=PATIENCE_S, size=QuerySize(bytes=1 << 24, terms=1 << 24, depth=1 << 24)
    )
    engine = DataFusionEngine(limits)
    crash = Watching(lambda process: os.kill(process.pid, signal.SIGSEGV))
    response = ask(engine, folder, ENDLESS, crash)
    assert isinstance(response, RawQueryResponseInternalError), response
    assert "SIGSEGV" in response.message
    nursery = nurseries()[-1]
    assert ask(engine, folder, "select n from input") == RawQueryResponseSuccess(num_records=2_000)
    assert nursery.is_running()


def test_a_transform_whose_process_is_killed_is_an_answer(folder: Path) -> None:
    engine = DataFusionEngine(DataFusionLimits(seconds=PATIENCE_S))
    derivative = Derivative(
        engine=engine,
        folder=folder / "t",
        transform=sql(
            "select event_time, levenshtein(repeat(city, 20000), repeat('b', 20000)) as x "
            "from cities",
            engine="datafusion",
        ),
        schemas={"cities": CITIES},
    )
    crash = Watching(lambda process: os.kill(process.pid, signal.SIGSEGV))
    rows = cities(*[(APPEND, "a", at) for at in range(2_000)])
    response = derivative.run({"cities": rows}, listener=crash)
    assert isinstance(response, TransformResponseInternalError), response
    assert not derivative.data.exists()
    assert not [path for path in derivative.data.parent.iterdir() if "spill" in path.name]


def test_when_the_process_that_begets_them_is_killed_another_takes_its_place(folder: Path) -> None:
    engine = DataFusionEngine(DataFusionLimits(seconds=PATIENCE_S))
    before = {each.pid for each in nurseries()}
    good = RawQueryResponseSuccess(num_records=2_000)
    assert ask(engine, folder, "select n from input") == good
    (nursery,) = [each for each in nurseries() if each.pid not in before]
    kill = Watching(lambda _: nursery.kill())
    assert isinstance(ask(engine, folder, ENDLESS, kill), RawQueryResponseInternalError)
    assert ask(engine, folder, "select n from input") == good


def test_a_question_that_a_dying_process_took_is_asked_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DataFusionEngine(DataFusionLimits(seconds=PATIENCE_S))
    asked: list[float] = []
    ask_it = Nursery._asked

    def lose_the_first(nursery: Nursery, wait_s: float) -> Born:
        asked.append(wait_s)
        if len(asked) == 1:
            raise ConnectionResetError
        return ask_it(nursery, wait_s)

    monkeypatch.setattr(Nursery, "_asked", lose_the_first)
    assert ask(engine, folder, "select n from input") == RawQueryResponseSuccess(num_records=2_000)
    assert len(asked) == 2


def test_processes_end_with_the_engine(folder: Path) -> None:
    before = {each.pid for each in nurseries()}
    engine = DataFusionEngine()
    assert isinstance(ask(engine, folder, "select n from input"), RawQueryResponseSuccess)
    (nursery,) = [each for each in nurseries() if each.pid not in before]
    del engine
    assert gone(nursery.pid)


def test_a_process_of_a_query_holds_no_secret(engine: Any, folder: Path) -> None:
    seen: dict[str, Any] = {}

    def look(process: psutil.Process) -> None:
        parent = process.parent()
        assert parent is not None
        seen["environment"] = [
            Path(f"/proc/{each.pid}/environ").read_bytes() for each in (process, parent)
        ]
        seen["arguments"] = [each.cmdline() for each in (process, parent)]
        handles = Path(f"/proc/{process.pid}/fd")
        seen["handles"] = [str(each.readlink()) for each in handles.iterdir()]
        seen["status"] = status(process)

    watching = Watching(look)
    response = ask(engine, folder, f"{ENDLESS}, input e where a.n = 1999", _Then(watching))
    assert isinstance(response, RawQueryResponseInvalidQuery)
    assert CANARY.encode() not in b"".join(seen["environment"])
    assert CANARY not in str(seen["arguments"])
    opened = [each for each in seen["handles"] if each.startswith("/") and "/dev/" not in each]
    assert all(each.startswith(str(folder / "in.parquet")) or "spill" in each for each in opened)
    assert sum(each.startswith("socket:") for each in seen["handles"]) == 1
    if not confine.missing():
        assert "NoNewPrivs:\t1" in seen["status"]
        assert "CapEff:\t0000000000000000" in seen["status"]


class _Then(EngineListener):
    """Lets go of a query once it was looked at."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._stop: Callable[[], None] = lambda: None

    def stops(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def progress(self) -> None:
        self._watching.progress()
        if self._watching.done:
            self._stop()


BEYOND = """
import os, sys
import odf_workers.engines.datafusion.process as child
from odf_workers.engines.datafusion.child import EngineQuestion
from odf_protocol.typed import decode_json
def beyond(question):
    with open(sys.argv[2]) as file:
        print(file.read())
if os.fork() == 0:
    child._computed = beyond
    print(child._answered(decode_json(sys.argv[1], EngineQuestion), print), flush=True)
    os._exit(0)
os.wait()
"""
"""What a query would do that found a way to open files."""


@pytest.mark.skipif(bool(confine.missing()), reason="this kernel cannot confine a process")
def test_a_process_of_a_query_is_confined(engine: Any, folder: Path) -> None:
    source = TableSource(name="input", paths=[str(folder / "in.parquet")])
    (folder / "spill").mkdir()
    rules = replace(engine._rules([source], str(folder / "spill")), mode="require")
    question = EngineQuestion(
        sources=[source], steps=[], rules=rules.text(), spill="", pool=1, iterates=False
    )
    done = subprocess.run(
        [sys.executable, "-c", BEYOND, encoded(question).decode(), str(folder / "beside")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "Permission denied" in done.stdout, done.stderr
    assert CANARY not in done.stdout


@pytest.mark.skipif(bool(confine.missing()), reason="this kernel cannot confine a process")
def test_a_query_runs_where_confinement_is_required(engine: Any, folder: Path) -> None:
    required = DataFusionEngine(engine._limits, confinement="require")
    good = RawQueryResponseSuccess(num_records=2_000)
    assert ask(required, folder, "select n from input") == good
