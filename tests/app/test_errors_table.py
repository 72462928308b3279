"""Every error has a status, and every answer says what happened in the agreed form."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from http import HTTPStatus
from importlib import import_module

import pytest

import app
import protocol
import storage
import workers
from app.errors import BARE, STATUS, descendants, problem_of, status_of, status_of_name
from app.http.answers import error_answer
from protocol.errors import BadInput, NodeError
from protocol.multihash import HashMismatch, Multihash
from storage.jobs.outcomes import outcome_of, outcome_to_json
from storage.values import Failed

ROOMS = (protocol, storage, app, workers)


def _everything():
    """All errors of the rooms; tests declare some of their own, which nobody is answered with."""
    for room in ROOMS:
        for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
            import_module(module.name)
    names = {room.__name__ for room in ROOMS}
    return {kind for kind in descendants(NodeError) if kind.__module__.split(".")[0] in names}


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
def raised_in_a_worker() -> dict[str, dict[str, object]]:
    """Outcomes of jobs, by error class: as a worker writes each, and what the service answers that
    raises it itself."""
    return json.loads(_process(IN_A_WORKER))


def test_what_a_worker_raises_has_its_status_in_a_service_that_never_imported_it(
    raised_in_a_worker,
):
    seen = json.loads(_process(IN_A_SERVICE, json.dumps(raised_in_a_worker)))
    expected = {name: each["status"] for name, each in raised_in_a_worker.items()}
    assert len(expected) > 150
    assert seen == expected


def test_outcomes_of_the_version_before_have_the_status_they_had():
    before = {"BadRow": 400, "InvalidInputInterval": 409, "InputTooLarge": 413, "JobAbandoned": 500}
    before |= {"SourceUnreachable": 502, "StoreUnavailable": 503, "StorageFull": 507}
    outcomes = {
        name: {"outcome": {"error": name, "message": "text", "facts": {}}} for name in before
    }
    assert json.loads(_process(IN_A_SERVICE, json.dumps(outcomes))) == before


def test_the_version_before_reads_what_is_written_now():
    written = outcome_to_json(Failed("BadRow", "row 1", {"row": 1}, "BadInput"))
    assert set(written) == {"error", "message", "facts"}
    assert outcome_of(written) == Failed("BadRow", "row 1", {"row": 1}, "BadInput")


def test_a_later_version_may_add_to_an_outcome():
    written = {"error": "BadRow", "message": "row 1", "facts": {}, "advice": "mend it"}
    assert outcome_of(written) == Failed("BadRow", "row 1")


IN_A_WORKER = """
import json, pkgutil, sys
from importlib import import_module
import app, protocol, storage, workers
from app.errors import descendants, status_of
from protocol.errors import NodeError
from storage.jobs.outcomes import outcome_to_json
from storage.values import Failed
for room in (protocol, storage, app, workers):
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        import_module(module.name)
told = {}
for kind in descendants(NodeError):
    error = kind.__new__(kind)
    NodeError.__init__(error, "text")
    outcome = outcome_to_json(Failed.of(error))
    told[f"{kind.__module__}.{kind.__name__}"] = {"outcome": outcome, "status": status_of(kind)}
json.dump(told, sys.stdout)
"""
IN_A_SERVICE = """
import json, sys
import app.http.answers as answers
from storage.jobs.outcomes import outcome_of
given = json.load(sys.stdin)
json.dump(
    {
        name: answers.failed_answer(outcome_of(each["outcome"])).status_code
        for name, each in given.items()
    },
    sys.stdout,
)
assert not any(name.startswith("workers") for name in sys.modules)
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
