"""Derivatives are due when inputs move, tried again, paused, or left alone; no worker needed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from constants import constants
from refusals import refusing
from tests.workers.derivatives import commit, derivative, root, transform

from odf_node.service.auth.actors import ANONYMOUS
from odf_node.service.derivatives.derivatives import derivation
from odf_node.service.derivatives.follow import follow, is_passing, submit_transform
from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node
from odf_protocol.errors import Unavailable
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import SetInfo
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.info import write_info
from odf_storage.datasets.job_payloads import transform_job
from odf_storage.datasets.node.rights import inputs_not_here
from odf_storage.stores.jobs.sql_rows import outcome_of, outcome_to_json
from odf_storage.stores.ports.errors import ObjectNotFound, RefConflict
from odf_storage.stores.ports.values import Failed, JobStatus, ObjectKind, Succeeded
from odf_workers.engines.port.port import InvalidQuery
from odf_workers.jobs.ingest.source import EngineFailed
from odf_workers.program.loop import abandoned
from odf_workers.runtime.progress import JobLost

QUERY = "select event_time, n from cities"
NAME = Multihash.of(b"")
DONE = Succeeded({"outcome": "up-to-date"})
KIND = transform_job.KIND


class Clock:
    def __init__(self):
        self.now = Instant.parse("2030-01-01T00:00:00Z")

    def __call__(self):
        return self.now

    def pass_by(self, seconds):
        self.now = Instant(self.now.ns + int(seconds * 1_000_000_000))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def node(tmp_path, clock):
    opened = open_node(Settings(data=tmp_path, workers=0), clock=clock)
    with constants(FOLLOW_DEBOUNCE_S=1.0):
        yield opened
    opened.stores.close()


@pytest.fixture
def cities(node):
    return root(node.stores, "cities")


@pytest.fixture
def tens(node, cities):
    return derivative(node.stores, "tens", [cities], QUERY)


def waiting(node):
    jobs = node.stores.jobs.page(statuses=[JobStatus.WAITING])
    return [job.spec.dataset for job in jobs if job.spec.kind == KIND]


def finish(node, outcome):
    job = node.stores.jobs.claim("w", [KIND], lease=timedelta(seconds=30))
    assert job is not None
    node.stores.jobs.finish(job.id, "w", outcome)


def settled(node, clock, outcome=DONE):
    """Everything that is due by now was done, with that outcome."""
    follow(node.following)
    clock.pass_by(2)
    follow(node.following)
    while waiting(node):
        finish(node, outcome)
    follow(node.following)


def first_of_two(node, clock):
    """The first job of a backlog ends, and the job for the rest waits."""
    follow(node.following)
    clock.pass_by(2)
    follow(node.following)
    job = node.stores.jobs.claim("w", [KIND], lease=timedelta(seconds=30))
    node.stores.jobs.submit(job.spec)
    node.stores.jobs.finish(job.id, "w", Succeeded({"outcome": "updated", "hasMore": True}))
    follow(node.following)


def test_the_rest_of_a_backlog_is_one_job_whose_failure_pauses_the_derivative(node, clock, tens):
    first_of_two(node, clock)
    assert waiting(node) == [tens.id]
    finish(node, Failed("InvalidQuery", "division by zero"))
    follow(node.following)
    row = node.stores.derivations.find(tens.id)
    assert (row.paused, row.problem.error, row.due_at) == (True, "InvalidQuery", None)


def test_the_rest_of_a_backlog_that_fails_at_the_moment_is_retried(node, clock, tens):
    first_of_two(node, clock)
    finish(node, Failed("Internal", "out of memory"))
    follow(node.following)
    assert waiting(node) == []
    clock.pass_by(2)
    follow(node.following)
    assert waiting(node) == [tens.id]
    finish(node, DONE)
    follow(node.following)
    row = node.stores.derivations.find(tens.id)
    assert (row.job, row.due_at, row.problem, row.attempts) == (None, None, None, 0)


def test_a_new_derivative_is_due_after_a_moment(node, clock, tens):
    follow(node.following)
    assert waiting(node) == []
    clock.pass_by(2)
    follow(node.following)
    assert waiting(node) == [tens.id]


def test_many_moves_of_an_input_are_one_job(node, clock, cities, tens):
    settled(node, clock)
    for n in range(5):
        commit(cities, SetInfo(description=str(n)), at=100 + n)
        follow(node.following)
    clock.pass_by(2)
    follow(node.following)
    assert waiting(node) == [tens.id]


def test_a_move_of_an_input_is_a_job_at_once(node, clock, cities, tens):
    settled(node, clock)
    clock.pass_by(2)
    commit(cities, SetInfo(description="more"), at=100)
    follow(node.following)
    assert waiting(node) == [tens.id]


def test_the_next_job_waits_a_moment_for_more_input_and_not_for_the_next_look(
    node, clock, cities, tens
):
    settled(node, clock)
    clock.pass_by(2)
    for n in range(3):
        commit(cities, SetInfo(description=str(n)), at=100 + n)
        pause_s = follow(node.following)
        while waiting(node):
            finish(node, DONE)
    assert follow(node.following) == pause_s == 1.0  # of the debounce
    assert waiting(node) == []
    clock.pass_by(0.75)
    assert follow(node.following) == 0.25
    assert waiting(node) == []
    clock.pass_by(0.25)
    follow(node.following)
    assert waiting(node) == [tens.id]
    assert node.following.submitted == {tens.id: clock.now}


def test_a_move_while_a_job_is_at_it_gets_a_job_of_its_own(node, clock, cities, tens):
    follow(node.following)
    clock.pass_by(2)
    follow(node.following)
    job = node.stores.jobs.claim("w", [KIND], lease=timedelta(seconds=30))
    commit(cities, SetInfo(description="more"), at=100)
    follow(node.following)
    clock.pass_by(2)
    follow(node.following)
    assert waiting(node) == []
    node.stores.jobs.finish(job.id, "w", DONE)
    follow(node.following)
    assert waiting(node) == [tens.id]


def test_what_was_noted_is_not_forgotten_by_the_next_service(node, clock, tmp_path, tens):
    follow(node.following)
    other = open_node(node.settings, clock=clock)
    clock.pass_by(2)
    follow(other.following)
    assert waiting(other) == [tens.id]
    other.stores.close()


def test_problems_that_may_pass_are_tried_again_ever_later(node, clock, tens):
    failed = Failed("StoreUnavailable", "the bucket does not answer")
    settled(node, clock, failed)
    for attempts, pause in ((1, 1), (2, 2), (3, 4)):
        row = node.stores.derivations.find(tens.id)
        assert (row.attempts, row.paused) == (attempts, False)
        assert row.due_at == Instant(clock.now.ns + pause * 1_000_000_000)
        follow(node.following)
        assert waiting(node) == []
        clock.pass_by(pause)
        follow(node.following)
        finish(node, failed)
        follow(node.following)


def test_problems_that_stay_pause_until_a_refresh(node, clock, cities, tens):
    settled(node, clock, Failed("InvalidQuery", "no such column", {"line": 1}))
    row = node.stores.derivations.find(tens.id)
    assert (row.paused, row.problem.error) == (True, "InvalidQuery")
    commit(cities, SetInfo(description="more"), at=100)
    settled(node, clock)
    assert node.stores.derivations.find(tens.id).paused
    submit_transform(node.refreshing.computing, tens.entry)
    settled(node, clock)
    row = node.stores.derivations.find(tens.id)
    assert (row.paused, row.problem) == (False, None)


def test_another_transform_resumes(node, clock, cities, tens):
    settled(node, clock, Failed("InvalidQuery", "no such column"))
    commit(tens, transform([cities], "select event_time, n + 1 as n from cities"), at=100)
    follow(node.following)
    clock.pass_by(2)
    follow(node.following)
    assert waiting(node) == [tens.id]


def test_an_absent_input_is_waited_for(node, clock, tens, cities):
    settled(node, clock, Failed("InputsNotHere", "not here"))
    row = node.stores.derivations.find(tens.id)
    assert (row.paused, row.due_at) == (False, None)
    status = derivation(node.derivatives, ANONYMOUS, tens.entry, tens.state())["status"]
    assert status == "waiting"  # not `up-to-date`, which says that all of its input was read
    commit(cities, SetInfo(description="here"), at=100)
    follow(node.following)
    clock.pass_by(2)
    follow(node.following)
    assert waiting(node) == [tens.id]


def test_rows_that_came_by_a_push_are_computed_elsewhere(node, clock, cities, tens):
    from odf_protocol.metadata.events import ExecuteTransform, ExecuteTransformInput

    item = ExecuteTransformInput(dataset_id=cities.id, new_block_hash=cities.head())
    commit(tens, ExecuteTransform(query_inputs=(item,), new_watermark=clock.now), at=50)
    write_info(node.stores.objects, tens.entry, pushed=True)
    settled(node, clock)
    assert node.stores.derivations.find(tens.id).wanted is False
    assert node.stores.jobs.page() == []
    submit_transform(node.refreshing.computing, tens.entry)
    settled(node, clock)
    commit(cities, SetInfo(description="more"), at=100)
    follow(node.following)
    clock.pass_by(2)
    follow(node.following)
    assert waiting(node) == [tens.id]


def test_a_definition_that_was_pushed_is_computed_here(node, clock, tens):
    write_info(node.stores.objects, tens.entry, pushed=True)
    settled(node, clock)
    assert node.stores.derivations.find(tens.id).wanted is True


def test_the_graph_is_found_again_from_the_log(node, clock, cities, tens):
    node.stores.registry.set_inputs(tens.id, [])
    follow(node.following)
    assert node.stores.registry.dependants(cities.id) == [tens.id]


@pytest.mark.parametrize(
    ("failed", "passing"),
    [
        (Failed("Internal", "text"), True),
        (Failed.of(Unavailable("text")), True),
        (Failed.of(ObjectNotFound(ObjectKind.DATA, NAME)), True),
        (Failed.of(RefConflict(NAME, NAME)), True),
        (Failed.of(EngineFailed("text")), True),
        (Failed.of(JobLost()), True),
        (Failed.of(InvalidQuery("text")), False),
        (Failed.of(abandoned(3, "its worker")), False),
        (Failed.of(inputs_not_here(["a"])), False),
        # a kind of error that this version does not know
        (Failed("OfTomorrow", "text", {}, "BadInput"), False),
        (Failed("OfTomorrow", "text", {}, "RemoteFailed"), True),
        (Failed("OfTomorrow", "text", {"retryable": True}, "BadInput"), True),
        (Failed("OfTomorrow", "text", {"retryable": False}, "RemoteFailed"), False),
        (Failed("OfTomorrow", "text", {"retryable": "no"}, "RemoteFailed"), True),
        # as workers of the version before tell them
        (Failed("EngineFailed", "text", {}, "BadInput"), True),
        (Failed("JobAbandoned", "text", {}, "NodeFault"), False),
        (Failed("InvalidInputInterval", "text"), False),
        (Failed("IncompatibleSchema", "text"), False),
    ],
)
def test_errors_that_may_pass_are_told_from_those_that_stay(failed, passing):
    for told in (failed, outcome_of(outcome_to_json(failed))):
        assert is_passing(told) is passing


def test_a_derivative_reads_only_what_its_owner_may_read(tmp_path, clock):
    from odf_node.service.accounts.accounts import ensure_account
    from odf_protocol.identity import DatasetAlias
    from odf_storage.stores.ports.values import Role

    node = open_node(Settings(data=tmp_path, workers=0, tenancy="multi"), clock=clock)
    secret = root(node.stores, "secret")
    thief = derivative(node.stores, "thief", [secret], "select event_time, n from secret")
    node.stores.rename_dataset(thief.id, DatasetAlias.parse("mallory/thief"))
    mallory = ensure_account(node.stores.accounts, "mallory", lambda n: b"m" * n)
    with constants(FOLLOW_DEBOUNCE_S=0.0):
        follow(node.following)
    row = node.stores.derivations.find(thief.id)
    assert (row.problem.error, row.job) == ("InputsNotHere", None)
    with refusing("InputsNotHere"):
        submit_transform(
            node.refreshing.computing, node.stores.registry.get(DatasetRef(id=thief.id))
        )
    assert node.stores.jobs.page() == []
    node.stores.roles.put(secret.id, mallory.id, Role.READER)
    node.roles.forget(mallory.id)
    submit_transform(node.refreshing.computing, node.stores.registry.get(DatasetRef(id=thief.id)))
    assert waiting(node) == [thief.id]
    node.stores.close()
