"""Every error has a status, and every answer says what happened in the agreed form."""

from __future__ import annotations

import ast
import json
import pkgutil
import subprocess
import sys
from http import HTTPStatus
from importlib import import_module
from pathlib import Path

import pytest

import odf_node
import odf_protocol
import odf_storage
import odf_workers
from odf_node.service.errors import (
    BARE,
    STATUS,
    descendants,
    problem_of,
    status_of,
    status_of_failed,
    status_of_name,
)
from odf_node.service.http.answers import error_answer
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.jobs.sql_rows import outcome_of, outcome_to_json
from odf_storage.stores.ports.values import Failed

ROOMS = (odf_protocol, odf_storage, odf_node, odf_workers)


def _everything():
    """All errors of the rooms; tests declare some of their own, which nobody is answered with."""
    for room in ROOMS:
        for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
            import_module(module.name)
    names = {room.__name__ for room in ROOMS}
    return {kind for kind in descendants(NodeError) if kind.__module__.partition(".")[0] in names}


def test_every_error_the_node_can_raise_has_a_status():
    silent = {
        kind.__name__
        for kind in _everything()
        if not any(ancestor.__name__ in STATUS for ancestor in kind.__mro__)
    }
    assert silent == set()


def test_one_name_never_stands_for_two_statuses():
    seen = {}
    for kind in _everything():
        seen.setdefault(kind.__name__, set()).add(status_of(kind))
    assert {name: found for name, found in seen.items() if len(found) > 1} == {}


def test_the_table_names_only_errors_that_exist():
    names = {kind.__name__ for kind in _everything()}
    assert set(BARE) - names == set()
    assert set(STATUS) - names == set()


@pytest.fixture(scope="module")
def raised_by_jobs(tmp_path_factory):
    """A node whose worker raised every error class there is, each in the handler of a job: what a
    route that raises it answers, and what a service that never saw the worker answers."""
    folder = tmp_path_factory.mktemp("node")
    in_a_route = json.loads(_process(IN_A_WORKER, str(folder)))
    return in_a_route, json.loads(_process(IN_A_SERVICE, str(folder)))


def test_an_error_of_a_worker_is_answered_as_if_a_route_had_raised_it(raised_by_jobs):
    in_a_route, read_from_the_queue = raised_by_jobs
    assert read_from_the_queue == in_a_route
    rooms = {name.partition(".")[0] for name in in_a_route}
    assert rooms == {room.__name__ for room in ROOMS}
    assert len(in_a_route) == len(_everything()) > 150


def test_the_service_names_no_error_of_workers_but_those_of_the_version_before():
    """By what an outcome says they are told from each other, not by lists of their names."""
    kinds = _everything()
    shared = {kind.__name__ for kind in kinds if not kind.__module__.startswith("odf_workers.")}
    theirs = {kind.__name__ for kind in kinds} - shared
    named = {
        f"{path.name}: {node.value}"
        for path in Path(odf_node.__path__[0]).rglob("*.py")
        if path.name != "older_outcomes.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in theirs
    }
    assert "EngineFailed" in theirs
    assert named == set()


def test_outcomes_of_the_version_before_have_the_status_they_had():
    before = {"BadRow": 400, "InvalidInputInterval": 409, "InputTooLarge": 413, "JobAbandoned": 500}
    before |= {"SourceUnreachable": 502, "StoreUnavailable": 503, "StorageFull": 507}
    outcomes = {name: outcome_of({"error": name, "message": "text"}) for name in before}
    assert {name: status_of_failed(told) for name, told in outcomes.items()} == before


def test_the_version_before_reads_what_is_written_now():
    written = outcome_to_json(Failed("BadRow", "row 1", {"row": 1}, "BadInput"))
    assert set(written) == {"error", "message", "facts"}
    assert outcome_of(written) == Failed("BadRow", "row 1", {"row": 1}, "BadInput")


def test_a_later_version_may_add_to_an_outcome():
    written = {"error": "BadRow", "message": "row 1", "facts": {}, "advice": "mend it"}
    assert outcome_of(written) == Failed("BadRow", "row 1")


IN_A_WORKER = """
import json, pkgutil, sys
from datetime import timedelta
from importlib import import_module
from pathlib import Path
import odf_node, odf_protocol, odf_storage, odf_workers
rooms = (odf_protocol, odf_storage, odf_node, odf_workers)
for room in rooms:
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        import_module(module.name)
from odf_node.service.errors import descendants, problem_of, status_of
from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node
from odf_protocol.errors import NodeError
from odf_storage.datasets.job_payloads import verify_job
from odf_storage.stores.ports.values import JobSpec
from odf_workers.program.handlers import HANDLERS
from odf_storage.datasets.merge_state.store import MergeStates
from odf_workers.jobs.work.context import Engines, IngestOptions, WorkerContext
from odf_workers.program.loop import Worker

names = tuple(f"{room.__name__}." for room in rooms)  # the command line imports `conformance` too
kinds = {f"{kind.__module__}.{kind.__name__}": kind for kind in descendants(NodeError)}
kinds = {name: kind for name, kind in kinds.items() if name.startswith(names)}

def error_of(name):
    error = kinds[name].__new__(kinds[name])
    NodeError.__init__(error, "text", fact=1)
    return error

def fail(_context, job):
    raise error_of(job.spec.payload["error"])

folder = Path(sys.stdin.read())
stores = open_node(Settings(data=folder, workers=0)).stores
for name in kinds:
    stores.jobs.submit(JobSpec(verify_job.KIND, None, {"error": name}))
HANDLERS[verify_job.KIND] = fail
engines = Engines(session=None, first=None)
ingest = IngestOptions(states=MergeStates(folder, max_bytes=0))
context = WorkerContext(engines=engines, objects=stores.objects, scratch=folder, ingest=ingest)
Worker(
    stores=stores, context=context, name="w", lease=timedelta(seconds=30), longest_pause_s=0.1,
    attempts=1,
).work(once=True)
answers = {name: problem_of(error_of(name)) for name in kinds}
json.dump({name: [a["status"], a["type"], a["fact"]] for name, a in answers.items()}, sys.stdout)
"""
IN_A_SERVICE = """
import json, sys
from pathlib import Path
from odf_node.service.jobs.job_watch import receipt_answer
from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node

jobs = open_node(Settings(data=Path(sys.stdin.read()), workers=0)).stores.jobs
told = {}
for job in jobs.page(limit=10_000):
    answer = receipt_answer(job)
    body = json.loads(answer.body)
    assert answer.status_code == body["status"]
    told[job.spec.payload["error"]] = [answer.status_code, body["type"], body.get("fact")]
json.dump(told, sys.stdout)
assert not any(name.startswith("odf_workers") for name in sys.modules)
"""


def _process(code: str, given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_name_nobody_knows_is_an_internal_error():
    assert status_of_name("Internal") == HTTPStatus.INTERNAL_SERVER_ERROR
    assert status_of_name("HashMismatch") == HTTPStatus.BAD_REQUEST


def test_a_problem_carries_message_and_facts():
    error = HashMismatch(Multihash.of(b"a"), Multihash.of(b"b"))
    document = problem_of(error)
    assert document["message"] == document["detail"] == error.message
    assert document["status"] == 400
    assert document["title"] == "Bad Request"
    assert document["type"].endswith(":HashMismatch")
    assert document["expected"] == str(Multihash.of(b"a"))
    assert error_answer(error).media_type == "application/problem+json"


def test_facts_never_replace_the_fields_of_the_document():
    assert problem_of(BadInput("text", status=200, type="x"))["status"] == 400
