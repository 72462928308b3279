"""Schedules and variables over HTTP and on the command line."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest
from click.testing import CliRunner
from refusals import refusing
from service import seeded, serving

from odf_node.cli.main import main
from odf_node.service.accounts.accounts import ensure_account
from odf_node.service.definitions.variables import reseal
from odf_node.service.schedules.schedules import (
    check_times,
    next_time,
    set_back_schedules,
    start_due,
)
from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node
from odf_protocol.codec.manifests import load_event
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import SetPollingSource
from odf_protocol.metadata.sources import FetchStepUrl, MergeStrategyAppend, ReadStepNdJson
from odf_storage.stores.ports.following import Author, definition_hash
from odf_storage.stores.ports.values import Reach, Schedule, Scope, Succeeded, Visibility
from odf_storage.stores.registers.accounts.sealing import open_keys

SOURCE = """
kind: MetadataEvent
version: 1
content:
  kind: SetPollingSource
  fetch: {kind: Url, url: "https://example.com/cities.csv"}
  read: {kind: Csv, header: true, schema: {fields: [{name: city, type: String}]}}
  merge: {kind: Append}
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("node"), poll_s=0.05) as service:
        service.keep(seeded().add(load_event(SOURCE)), "kamu/city", Visibility.PRIVATE)
        service.keep(seeded(), "kamu/other")
        yield service


@pytest.fixture
def client(service):
    with service.http(service.token()) as client:
        yield client


def table(cron=None, every_s=None, zone="UTC", made="2024-01-01T00:00:10Z"):
    return Schedule(
        id="s",
        dataset=seeded().id,
        kind="refresh",
        payload={},
        cron=cron,
        every_s=every_s,
        time_zone=zone,
        paused=False,
        created_at=Instant.parse(made),
    )


@pytest.mark.parametrize(
    ("times", "after", "expected"),
    [
        ({"cron": "0 6 * * 1-5"}, "2024-03-01T06:00:00Z", "2024-03-04T06:00:00Z"),
        (
            {"cron": "0 6 * * *", "zone": "Europe/Berlin"},
            "2024-03-30T12:00:00Z",
            "2024-03-31T04:00:00Z",
        ),
        # 02:30 does not exist in the night the clock goes forward: it comes right after
        (
            {"cron": "30 2 * * *", "zone": "Europe/Berlin"},
            "2024-03-31T00:30:00Z",
            "2024-03-31T01:00:00Z",
        ),
        (
            {"cron": "5 30 2 * * *", "zone": "Europe/Berlin"},
            "2024-03-31T00:30:00Z",
            "2024-03-31T01:00:05Z",
        ),
        # 02:30 comes twice in the night the clock goes back: it counts at its first time
        *(
            ({"cron": cron, "zone": "Europe/Berlin"}, after, expected)
            for cron in ("30 2 * * *", "0 30 2 * * *")
            for after, expected in (
                ("2026-10-25T00:10:00Z", "2026-10-25T00:30:00Z"),
                ("2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
                ("2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"),
            )
        ),
        # what runs in every hour runs in the repeated one, too
        (
            {"cron": "30 * * * *", "zone": "Europe/Berlin"},
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:30:00Z",
        ),
        ({"cron": "*/10 * * * * *"}, "2024-03-01T06:00:05.5Z", "2024-03-01T06:00:10Z"),
        ({"every_s": 60}, "2024-01-01T00:00:10Z", "2024-01-01T00:01:10Z"),
        ({"every_s": 60}, "2024-01-01T00:05:11Z", "2024-01-01T00:06:10Z"),
    ],
)
def test_the_next_time_of_a_schedule(times, after, expected):
    assert next_time(table(**times), Instant.parse(after)) == Instant.parse(expected)


@pytest.mark.parametrize(
    ("zone", "changed"),
    [
        ("Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("Europe/Berlin", "2026-10-25T01:00:00Z"),
        ("America/Santiago", "2026-04-05T03:00:00Z"),
        ("America/Santiago", "2026-09-06T04:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ],
)
def test_the_next_time_is_later_than_now_however_the_clock_changes(zone, changed):
    expressions = product(
        ("", "0 ", "5,50 "),
        ("0 ", "45 ", "*/15 ", "0-59 "),
        ("1 ", "2 ", "23 ", "0-23 ", "* "),
        ("* * *", "* * SUN"),
    )
    for expression in map("".join, expressions):
        schedule = table(cron=expression, zone=zone)
        for minutes in range(-90, 90, 10):
            now = Instant(Instant.parse(changed).ns + minutes * 60 * NANOS + 5)
            assert next_time(schedule, now) > now, expression


@pytest.mark.parametrize(
    "times",
    [
        (None, None, "UTC"),
        ("* * * * *", 60, "UTC"),
        ("* * *", None, "UTC"),
        ("61 * * * *", None, "UTC"),
        ("0 0 31 2 *", None, "UTC"),
        (None, 0, "UTC"),
        ("* * * * *", None, "Nowhere/City"),
        ("* * * * *", None, "../../etc/passwd"),
    ],
)
def test_a_time_table_that_cannot_be_followed_is_refused(times):
    with refusing("InvalidSchedule"):
        check_times(*times)


def _until(ready):
    deadline = time.monotonic() + 90
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_schedule_begins_runs_by_itself_until_it_is_paused(service, client):
    options = {"exhaustSources": True, "maxVanishPercent": 5}
    made = client.post("/city/schedules", json={"everySeconds": 1, **options})
    assert made.status_code == 201
    name = made.json()["id"]
    _until(lambda: client.get("/city/runs", params={"schedule": name}).json()["runs"])
    jobs = service.node.stores.jobs
    job = jobs.claim("w", ["poll"], lease=timedelta(seconds=30))
    assert job.spec.payload == options == {name: made.json()[name] for name in options}
    assert job.spec.schedule == name
    jobs.finish(job.id, "w", Succeeded({"outcome": "up-to-date"}))
    _until(lambda: len(client.get("/city/runs").json()["runs"]) > 1)
    body = {"everySeconds": 1, "paused": True}
    assert client.put(f"/city/schedules/{name}", json=body).json()["nextAt"] is None
    for waiting in jobs.page(statuses=["waiting"]):
        jobs.cancel(waiting.id)
    count = len(client.get("/city/runs").json()["runs"])
    time.sleep(1.3)
    runs = client.get("/city/runs").json()["runs"]
    assert len(runs) <= count + 1
    assert runs[-1]["result"] == {"outcome": "up-to-date"}
    assert client.delete(f"/city/schedules/{name}").status_code == 204
    assert client.get(f"/city/schedules/{name}").status_code == 404


def test_runs_that_came_due_while_the_node_was_down_are_made_up_for_once(tmp_path):
    with serving(tmp_path, poll_s=0.05) as service:
        entry = service.keep(seeded().add(load_event(SOURCE)), "kamu/city")
        schedules = service.node.stores.schedules
        with service.http(service.token()) as client:
            added = [
                client.post("/city/schedules", json=body).json()["id"]
                for body in ({"everySeconds": 3600}, {"cron": "30 4 * * *"})
            ]
            paused = {"everySeconds": 3600, "paused": True}
            client.post("/city/schedules", json=paused)
        beats = schedules.find(added[0]).next_at
    # As it stands when the node was stopped a year ago.
    down = open_node(Settings(data=tmp_path))
    for name in added:
        kept = down.stores.schedules.find(name)
        long_ago = Instant(kept.next_at.ns - 365 * 86_400 * NANOS)
        down.stores.schedules.put(replace(kept, next_at=long_ago))
    down.stores.close()
    with serving(tmp_path, poll_s=0.05) as service:
        schedules, jobs = service.node.stores.schedules, service.node.stores.jobs
        _until(lambda: all(schedules.find(name).last_at for name in added))
        waiting = jobs.page(dataset=entry.id)
        assert [job.spec.kind for job in waiting] == ["poll"]  # both schedules share the run
        now = service.node.clock()
        every, cron = (schedules.find(name).next_at for name in added)
        assert every == beats
        assert now < cron < Instant(now.ns + 86_400 * NANOS)


def test_a_schedule_that_cannot_be_started_delays_no_other_one(tmp_path, caplog):
    with serving(tmp_path, poll_s=60) as service:
        entry = service.keep(seeded().add(load_event(SOURCE)), "kamu/city")
        stores, due = service.node.stores, Instant(1)
        broken = replace(table("0 6 * * *", zone="Nowhere/City"), id="a", dataset=entry.id)
        intact = replace(table("0 6 * * *"), id="b", dataset=entry.id)
        for schedule in (broken, intact):
            stores.schedules.put(replace(schedule, next_at=due))
        start_due(service.node.scheduling)
        assert stores.schedules.find("a").next_at == due
        assert stores.schedules.find("b").next_at > service.node.clock()
    assert f"schedule a of dataset {entry.id} cannot be started" in caplog.text


def test_schedules_go_on_after_a_clock_two_hours_ahead_is_set_back(tmp_path):
    with serving(tmp_path, poll_s=60) as service:
        entry = service.keep(seeded().add(load_event(SOURCE)), "kamu/city")
        stores, now = service.node.stores, service.node.clock()
        ahead = Instant(now.ns + 7200 * NANOS)
        rests = replace(table("*/5 * * * *"), id="a", dataset=entry.id, last_at=ahead)
        apart = Instant(now.ns + 30 * NANOS)  # as clocks of services differ
        kept = replace(rests, id="b", last_at=apart, next_at=Instant(ahead.ns + 300 * NANOS))
        for schedule in (replace(rests, next_at=kept.next_at), kept):
            stores.schedules.put(schedule)
        assert set_back_schedules(service.node.scheduling) == 1
        assert stores.schedules.find("a").next_at <= Instant(now.ns + 301 * NANOS)
        assert stores.schedules.find("b") == kept
        assert set_back_schedules(service.node.scheduling) == 0


def test_a_dataset_that_has_nothing_to_poll_gets_no_schedule(client):
    refused = client.post("/other/schedules", json={"everySeconds": 600})
    assert refused.status_code == 400
    assert "no source that the node could poll" in refused.json()["detail"]
    assert client.get("/other/schedules").json() == {"schedules": []}


@pytest.mark.parametrize(
    "body", ["", "[]", '{"cron": 5}', '{"cron": "nonsense"}', '{"surprise": 1}', "{}"]
)
def test_a_schedule_that_makes_no_sense_is_refused(client, body):
    assert client.post("/city/schedules", content=body).status_code == 400


def test_schedules_are_changed_by_who_may_write_and_seen_on_their_dataset_only(service, client):
    body = {"cron": "0 6 * * *", "paused": True}
    name = client.post("/city/schedules", json=body).json()["id"]
    assert client.get(f"/other/schedules/{name}").status_code == 404
    with service.http(service.token("kamu", Scope.READ)) as reader:
        assert reader.get(f"/city/schedules/{name}").status_code == 200
        assert reader.post("/city/schedules", json=body).status_code == 403
        assert reader.delete(f"/city/schedules/{name}").status_code == 403


def test_a_secret_goes_in_and_never_comes_out(service, client):
    for name, secret in (("TOKEN", True), ("REGION", False)):
        body = {"value": "hush hush", "secret": secret}
        answer = client.put(f"/city/variables/{name}", json=body)
        assert answer.status_code == 200
        assert ("hush" in answer.text) is not secret
    listed = client.get("/city/variables").json()["variables"]
    assert [(each["name"], each["value"]) for each in listed] == [
        ("REGION", "hush hush"),
        ("TOKEN", None),
    ]
    database = (service.node.settings.data / "node.db-wal").read_bytes()
    assert database.count(b"hush hush") == 1
    with service.http(service.token("kamu", Scope.WRITE)) as writer:
        assert writer.get("/city/variables").status_code == 403
        assert writer.put("/city/variables/X", json={"value": "x"}).status_code == 403
    assert client.delete("/city/variables/TOKEN").status_code == 204
    assert client.delete("/city/variables/TOKEN").status_code == 404


@pytest.mark.parametrize(
    ("name", "body"),
    [("a b", '{"value": "x"}'), ("X", "secret"), ("X", '{"value": 5}'), ("é", '{"value": "x"}')],
)
def test_a_variable_that_is_none_is_refused_without_being_repeated(client, name, body):
    answer = client.put(f"/city/variables/{name}", content=body)
    assert answer.status_code == 400
    assert "x" not in answer.json()["message"].split("alphanumeric")[0][-3:]


def test_the_worker_reads_those_of_the_dataset_before_those_of_its_owner(service, client):
    pytest.importorskip("pyspark")
    from odf_workers.jobs.sources.poll import Secrets

    for path, value in (("accounts/me", "mine"), ("city", "its own")):
        for name in ("BOTH", path.partition("/")[0]):
            client.put(f"/{path}/variables/{name}", json={"value": value}).raise_for_status()
    secrets, source = Secrets(service.node.stores, service.node.secret_keys), _source()
    entry = service.node.stores.registry.get(DatasetRef.parse("kamu/city"))
    found = secrets.of(entry, source)
    assert (found["BOTH"], found["accounts"], found["city"]) == ("its own", "mine", "its own")
    other = service.node.stores.registry.get(DatasetRef.parse("kamu/other"))
    assert secrets.of(other, source)["BOTH"] == "mine"


def test_a_source_of_somebody_else_reads_those_of_the_dataset_alone(service, client):
    """Whoever may write to the dataset decides where the values go."""
    pytest.importorskip("pyspark")
    from odf_workers.jobs.sources.poll import Secrets

    stores, secrets, source = service.node.stores, Secrets, _source()
    client.put("/accounts/me/variables/API", json={"value": "canary"}).raise_for_status()
    client.put("/city/variables/OWN", json={"value": "its own"}).raise_for_status()
    entry = stores.registry.get(DatasetRef.parse("kamu/city"))
    owner = stores.accounts.find_account("kamu")
    other = ensure_account(stores.accounts, "other", os.urandom)
    for author, reach, gets_all in (
        (other, Reach.NODE, False),
        (owner, Reach.DATASET, False),
        (owner, Reach.ACCOUNT, True),
        (owner, Reach.NODE, True),
    ):
        stores.definitions.put(entry.id, definition_hash(source), Author(author.id, reach))
        found = secrets(stores, service.node.secret_keys).of(entry, source)
        assert found["OWN"] == "its own"
        assert ("API" in found) is gets_all


def _source():
    return SetPollingSource(
        fetch=FetchStepUrl(url="https://example.org/${{ env.API }}"),
        read=ReadStepNdJson(),
        merge=MergeStrategyAppend(),
    )


def test_secrets_are_sealed_anew_when_the_key_changes(service, client, tmp_path):
    client.put("/other/variables/OLD", json={"value": "kept"}).raise_for_status()
    old = service.node.secret_keys.keys
    newer = open_keys(None, tmp_path)
    keys = type(newer)({**newer.keys, **old})
    try:
        assert reseal(service.node.stores, keys) > 0
        assert reseal(service.node.stores, keys) == 0
    finally:
        reseal(service.node.stores, type(newer)({**old, **newer.keys}))


def run(*words):
    done = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_line_adds_lists_pauses_and_removes(service):
    at = (f"{service.url}/city", "--token", service.token())
    made = json.loads(run("schedule", "add", *at, "--cron", "0 6 * * *", "--json"))
    name = made["id"]
    assert name in run("schedule", "list", *at)
    assert "paused" in run("schedule", "pause", at[0], name, *at[1:])
    assert "next 2" in run("schedule", "resume", at[0], name, *at[1:])
    run("schedule", "remove", at[0], name, *at[1:])
    assert name not in run("schedule", "list", *at)
    run("variable", "set", at[0], "KEY", "--value", "sealed", *at[1:])
    listed = run("variable", "list", *at)
    assert "KEY  (secret)" in listed
    assert "sealed" not in listed
    run("variable", "remove", at[0], "KEY", *at[1:])
    assert "jobs" in json.loads(run("job", "list", *at, "--json"))
