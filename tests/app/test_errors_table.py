"""Every error has a status, and every answer says what happened in the agreed form."""

from __future__ import annotations

import pkgutil
from http import HTTPStatus
from importlib import import_module

import app
import protocol
import storage
import workers
from app.errors import BARE, STATUS, descendants, problem_of, status_of, status_of_name
from app.http.answers import error_answer
from protocol.errors import BadInput, NodeError
from protocol.multihash import HashMismatch, Multihash

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


def test_every_error_of_a_worker_has_the_same_status_by_name():
    theirs = {kind for kind in _everything() if kind.__module__.startswith("workers.")}
    unknown = {
        kind.__name__: status_of(kind)
        for kind in theirs
        if kind.__name__ not in STATUS or STATUS[kind.__name__] != status_of(kind)
    }
    assert unknown == {}


def test_one_name_never_stands_for_two_statuses():
    seen = {}
    for kind in _everything():
        seen.setdefault(kind.__name__, set()).add(status_of(kind))
    assert {name: found for name, found in seen.items() if len(found) > 1} == {}


def test_the_table_names_only_errors_that_exist():
    names = {kind.__name__ for kind in _everything()}
    assert set(BARE) - names == set()
    assert set(STATUS) - names == set()


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
