"""Verification asked of a node: who may, what is handed to a worker, what is shown afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from service import SCHEMA, Chain, Service, described, seeded, serving

from odf_node.cli.main import main
from odf_node.service.history import verify as usecase
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import SetDataSchema
from odf_protocol.multihash import ARROW0_SHA3_256, Multihash
from odf_storage.datasets.job_payloads import verify_job
from odf_storage.datasets.job_payloads.verify_job import VerifiedDataset, VerifyAnswer, listed
from odf_storage.datasets.verify.note import ValidationNote, read_note, write_note
from odf_storage.datasets.verify.run import DatasetSource, verify_chain
from odf_storage.stores.ports.values import (
    DatasetEntry,
    Failed,
    Job,
    JobOutcome,
    Succeeded,
    Visibility,
)

OTHER_ROWS = Multihash(ARROW0_SHA3_256, bytes(32))
OPENAPI = Path(__file__).parents[2] / "openapi" / "openapi.yaml"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path, poll_s=0.05) as service:
        yield service


@pytest.fixture
def city() -> Chain:
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA))
    return chain.add_rows(3, declared=OTHER_ROWS)


@pytest.fixture
def entry(service: Service, city: Chain) -> DatasetEntry:
    return service.keep(city, "kamu/city", Visibility.PUBLIC)


def answer(service: Service) -> VerifyAnswer:
    """What a worker says of the dataset: its rows are not what was declared."""
    dataset = service.node.stores.dataset(DatasetRef.parse("kamu/city"))
    report = verify_chain(DatasetSource(dataset))
    found = VerifiedDataset(
        id=str(dataset.id),
        alias="kamu/city",
        ok=report.ok,
        replayed=1,
        not_verifiable=2,
        engines=("datafusion 1",),
        report=listed(report),
    )
    lost = VerifiedDataset(
        id="did:odf:x",
        alias="",
        ok=False,
        replayed=0,
        not_verifiable=0,
        engines=(),
        report={},
        error="DatasetNotFound: gone",
    )
    return VerifyAnswer(ok=report.ok, head=report.head, datasets=(lost, found))


@contextmanager
def finishing(service: Service, outcome: JobOutcome) -> Iterator[list[Job]]:
    """A worker that ends every verification so."""
    seen: list[Job] = []
    stop, jobs = Event(), service.node.stores.jobs

    def work() -> None:
        while not stop.wait(0.01):
            job = jobs.claim("w", [verify_job.KIND], lease=timedelta(seconds=30))
            if job is not None:
                seen.append(job)
                jobs.finish(job.id, "w", outcome)

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def test_what_is_asked_reaches_the_worker_and_its_answer_comes_back(
    service: Service, entry: DatasetEntry, city: Chain
) -> None:
    said = answer(service)
    block = str(city.blocks[1].hash)
    params = {"rows": "false", "after": block, "recursive": "true"}
    with (
        finishing(service, Succeeded(verify_job.to_json(said))) as seen,
        service.http(service.token()) as client,
    ):
        found = client.post("/city/verify", params=params)
        client.post("/city/verify", params={"metadataOnly": "true"})
    assert found.status_code == 200
    assert verify_job.answer_of(found.json()) == said
    asked, less = (verify_job.payload_of(job.spec.payload) for job in seen)
    assert (asked.objects, asked.rows, asked.replay, asked.after) == (True, False, True, block)
    assert (less.objects, less.rows, less.replay) == (False, False, False)
    assert asked.requested_by == "kamu"
    assert {job.spec.lock for job in seen} == {None}


def test_strangers_may_verify_a_copy_but_not_have_the_node_work(
    service: Service, entry: DatasetEntry
) -> None:
    with service.http() as client:
        assert client.post("/city/verify").status_code == 403
        assert client.post("/nowhere/verify").status_code == 404
    with service.http(service.token()) as client:
        assert client.post("/city/verify", params={"after": "x"}).status_code == 400


def test_inputs_the_caller_may_not_read_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, tenancy="multi") as service:
        made = {}
        for name, visibility in (
            ("shown", Visibility.PUBLIC),
            ("hidden", Visibility.PRIVATE),
            ("behind", Visibility.PUBLIC),
            ("top", Visibility.PUBLIC),
        ):
            service.token(name)
            made[name] = service.keep(seeded().add(described()), f"{name}/{name}", visibility)
        graph = {
            made["top"].id: (made["shown"].id, made["hidden"].id),
            made["hidden"].id: (made["behind"].id,),
            made["shown"].id: (made["behind"].id, made["top"].id),
        }
        monkeypatch.setattr(usecase, "_inputs", lambda _node, one: list(graph.get(one, ())))
        anonymous = service.node.callers.identify(None)
        found = usecase.visible_inputs(service.node.verifying, anonymous, made["top"])
        assert found == [made["behind"].id, made["shown"].id]


def test_the_last_validation_is_shown_with_the_dataset(
    service: Service, entry: DatasetEntry, city: Chain
) -> None:
    with service.http() as client:
        assert client.get("/city").json()["validation"] is None
        note = ValidationNote(
            ok=True,
            block=str(city.head),
            sequence_number=3,
            at="2050-01-01T00:00:00Z",
            engines=("spark 4",),
            replayed=2,
        )
        write_note(service.node.stores.objects, entry.id, note)
        shown = client.get("/city").json()["validation"]
    assert (shown["ok"], shown["block"], shown["engines"]) == (True, str(city.head), ["spark 4"])
    assert shown["isCurrent"] is True
    assert read_note(service.node.stores.objects, entry.id) == note
    service.node.stores.objects.write_info(entry.id, "validation", "nonsense")
    assert read_note(service.node.stores.objects, entry.id) is None


def test_the_command_line_prints_what_the_node_found(service: Service, entry: DatasetEntry) -> None:
    env = {"ODF_NODE_TOKEN": service.token()}
    with finishing(service, Succeeded(verify_job.to_json(answer(service)))):
        words = ["verify", f"{service.url}/city", "--replay", "--recursive"]
        found = CliRunner().invoke(main, words, env=env)
        as_json = CliRunner().invoke(main, [*words, "--json"], env=env)
    lines = found.stdout.splitlines()
    assert found.exit_code == as_json.exit_code == 6
    assert lines[0] == "did:odf:x: DatasetNotFound: gone"
    assert lines[1] == "kamu/city:"
    assert lines[2].startswith("DataDoesNotMatchMetadata, LogicalHashMismatch: #3 ")
    assert lines[-1] == (
        "1 execution(s) made again with the same result by datafusion 1, 2 not verifiable here"
    )
    assert json.loads(as_json.stdout)["datasets"][1]["report"]["problems"]


def test_a_failed_job_is_the_problem_it_reports(service: Service, entry: DatasetEntry) -> None:
    failed = Failed("InvalidInterval", "no such blocks", {}, "BadInput")
    with finishing(service, failed), service.http(service.token()) as client:
        found = client.post("/city/verify")
    assert (found.status_code, found.json()["message"]) == (400, "no such blocks")


def test_a_folder_has_nobody_to_execute_anything(tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["verify", str(tmp_path), "--recursive"])
    assert found.exit_code == 2


def test_answers_are_described_field_by_field() -> None:
    schemas = yaml.safe_load(OPENAPI.read_text(encoding="utf-8"))["components"]["schemas"]
    dataset = schemas["VerifyAnswer"]["properties"]["datasets"]["items"]
    for kind, part in (
        (VerifyAnswer, schemas["VerifyAnswer"]),
        (VerifiedDataset, dataset),
        (ValidationNote, schemas["Validation"]),
    ):
        fields = [field.encode_name for field in msgspec.structs.fields(kind)]
        told = [field for field in fields if field != "version"]
        if kind is ValidationNote:
            told.append("isCurrent")  # added when it is shown
        assert list(part["properties"]) == told == part["required"]
