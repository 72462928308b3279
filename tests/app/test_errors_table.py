"""Every error has a status, and every answer says what happened in the agreed form."""

from __future__ import annotations

import ast
import json
import pickle
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path

import pytest
from error_codes import BRANCHES, errors, made

import odf_node
from odf_node.service.errors import (
    BARE,
    STATUS,
    problem_of,
    status_of_code,
    status_of_failed,
)
from odf_node.service.http.answers import error_answer
from odf_protocol.errors import BadInput, branch_of
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.jobs.sql_rows import outcome_of, outcome_to_json
from odf_storage.stores.ports.errors import BlockNotFound
from odf_storage.stores.ports.values import Failed

FROZEN = Path(__file__).parents[1] / "vectors/error_codes.txt"
WITHOUT_CODE = {"node_files.py", "sql_sources.py", "values.py", "candidate.py", "features.py"}
"""Modules with an error whose code is the name of its branch."""


def _known():
    """Code, branch and status of every error; of an error of no branch the table has the status."""
    for code, kind, _ in errors():
        branch = branch_of(kind)
        yield code, branch, int(status_of_code(code, branch))


def test_codes_branches_and_statuses_are_those_that_programs_know():
    """Add a line for a new error; a line that is there stays, because programs rely on it."""
    frozen = {tuple(line.split(" ")) for line in FROZEN.read_text().splitlines()}
    known = {tuple(map(str, each)) for each in _known()}
    assert {"lost": frozen - known, "new": known - frozen} == {"lost": set(), "new": set()}


def test_every_error_the_node_can_raise_has_a_status():
    assert {code for code, branch, _ in _known() if {code, branch}.isdisjoint(STATUS)} == set()


def test_one_code_never_stands_for_two_statuses():
    seen = {}
    for code, _, status in _known():
        seen.setdefault(code, set()).add(status)
    assert {code: found for code, found in seen.items() if len(found) > 1} == {}


def test_the_table_names_only_errors_that_exist():
    codes = {each.code for each in errors()}
    assert set(BARE) - codes == set()
    assert set(STATUS) - codes == set()


def test_an_error_of_a_branch_says_its_code():
    """So that programs can tell it from others of the branch."""
    silent = {path.name for path, name, code in made() if name in BRANCHES and code is None}
    assert silent - WITHOUT_CODE == set()


@pytest.fixture(scope="module")
def raised_by_jobs(tmp_path_factory):
    """A node whose worker raised every error there is, each in the handler of a job: what a
    route that raises it answers, and what a service that never saw the worker answers."""
    folder = tmp_path_factory.mktemp("node")
    known = sorted(errors(), key=lambda each: (each.code, each.room))
    kinds = {code: (kind.__module__, kind.__qualname__) for code, kind, _ in known}
    in_a_route = json.loads(_process(IN_A_WORKER, json.dumps([str(folder), kinds])))
    return in_a_route, json.loads(_process(IN_A_SERVICE, str(folder)))


def test_an_error_of_a_worker_is_answered_as_if_a_route_had_raised_it(raised_by_jobs):
    in_a_route, read_from_the_queue = raised_by_jobs
    assert read_from_the_queue == in_a_route
    assert len(in_a_route) == len({each.code for each in errors()}) > 500


def test_the_service_names_no_error_of_workers_but_those_of_the_version_before():
    """By what an outcome says they are told from each other, not by lists of their names."""
    shared = {each.code for each in errors() if each.room != "odf_workers"}
    theirs = {each.code for each in errors()} - shared
    named = {
        f"{path.name}: {node.value}"
        for path in Path(odf_node.__path__[0]).rglob("*.py")
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
import json, sys
from datetime import timedelta
from pathlib import Path
from importlib import import_module
from operator import attrgetter
from odf_node.service.errors import problem_of
from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node
from odf_protocol.errors import NodeError
from odf_storage.datasets.job_payloads import verify_job
from odf_storage.stores.ports.values import JobSpec
from odf_workers.program.handlers import HANDLERS
from odf_storage.datasets.merge_state.store import MergeStates
from odf_workers.jobs.work.context import Engines, IngestOptions, WorkerContext
from odf_workers.program.loop import Worker

data, kinds = json.load(sys.stdin)
kinds = {code: attrgetter(name)(import_module(module)) for code, (module, name) in kinds.items()}

def error_of(code):
    error = kinds[code].__new__(kinds[code])
    NodeError.__init__(error, code, "text", fact=1)
    return error

def fail(_context, job):
    raise error_of(job.spec.payload["error"])

folder = Path(data)
stores = open_node(Settings(data=folder, workers=0)).stores
for code in kinds:
    stores.jobs.submit(JobSpec(verify_job.KIND, None, {"error": code}))
HANDLERS[verify_job.KIND] = fail
engines = Engines(session=None, first=None)
ingest = IngestOptions(states=MergeStates(folder, max_bytes=0))
context = WorkerContext(engines=engines, objects=stores.objects, scratch=folder, ingest=ingest)
Worker(
    stores=stores, context=context, name="w", lease=timedelta(seconds=30), longest_pause_s=0.1,
    attempts=1,
).work(once=True)
answers = {code: problem_of(error_of(code)) for code in kinds}
json.dump({code: [a["status"], a["type"], a["fact"]] for code, a in answers.items()}, sys.stdout)
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
        [sys.executable, "-c", code],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_code_nobody_knows_is_an_internal_error():
    assert status_of_code("Internal", "") == HTTPStatus.INTERNAL_SERVER_ERROR
    assert status_of_code("Unheard", "BadInput") == HTTPStatus.BAD_REQUEST


def test_an_error_keeps_its_code_and_facts_on_its_way_between_processes():
    for error in (BadInput("Odd", "text", row=1), BlockNotFound(Multihash.of(b"a"))):
        other = pickle.loads(pickle.dumps(error))
        assert (type(other), str(other)) == (type(error), str(error))
        assert vars(other) == vars(error)


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
    assert problem_of(BadInput("Odd", "text", status=200, type="x"))["status"] == 400
