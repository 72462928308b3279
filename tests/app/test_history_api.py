"""Compaction, reset and watermarks over HTTP and from the command line: who may, and what comes."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from service import SCHEMA, Chain, Service, described, seeded, serving

from odf_node.cli.datasets.describe import receipt_text
from odf_node.cli.main import main
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.datasets.job_payloads import compact_job
from odf_storage.datasets.rewrite.compact import HistoryReceipt, MergedBlocks
from odf_storage.stores.ports.values import DatasetEntry, Role, Visibility

OPENAPI = Path(__file__).parents[2] / "openapi" / "openapi.yaml"


@pytest.fixture
def service(tmp_path: Path) -> Any:
    with serving(tmp_path, poll_s=0.05, ingest_wait_s=0.05) as service:
        yield service


@pytest.fixture
def city() -> Chain:
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA))
    return chain.add_rows(3).add_rows(3).add_rows(4)


@pytest.fixture
def entry(service: Service, city: Chain) -> DatasetEntry:
    return service.keep(city, "kamu/city", Visibility.PUBLIC)


def head_of(service: Service) -> str:
    return str(service.node.stores.dataset(DatasetRef.parse("kamu/city")).head())


def run(service: Service, *words: str) -> Any:
    env = {"ODF_NODE_TOKEN": service.token()}
    return CliRunner().invoke(main, list(words), env=env, input="y\n")


def test_a_dry_run_says_which_blocks_become_one(
    service: Service, city: Chain, entry: DatasetEntry
) -> None:
    with service.http(service.token()) as client:
        answer = client.post("/city/compact", params={"dryRun": "true", "maxSliceRecords": 7})
    receipt = msgspec.convert(answer.json(), HistoryReceipt)
    assert (receipt.blocks_before, receipt.blocks_after, receipt.head) == (6, 5, None)
    [merged] = receipt.merges
    assert (merged.from_block, merged.to_block, merged.offset_start) == (4, 5, 3)
    assert head_of(service) == str(city.head)


def test_merging_is_a_job_for_a_worker_asked_for_once(
    service: Service, entry: DatasetEntry
) -> None:
    with service.http(service.token()) as client:
        answers = [client.post("/city/compact", params={"maxSliceSize": 10**9}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [202, 202]
        assert answers[0].json()["job"] == answers[1].json()["job"]
        shown = client.get(answers[0].json()["url"]).json()
    assert shown["kind"] == "compact"
    job = service.node.stores.jobs.get(shown["id"])
    assert job.spec.lock == str(entry.id)
    payload = compact_job.payload_of(job.spec.payload)
    assert (payload.max_slice_size, payload.requested_by) == (10**9, "kamu")


def test_metadata_only_is_done_at_once_and_logged_with_who_asked(
    service: Service, city: Chain, entry: DatasetEntry, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "odf.node"), service.http(service.token()) as client:
        answer = client.post("/city/compact", params={"keepMetadataOnly": "true"})
    assert answer.json()["head"] == str(city.blocks[2].hash) == head_of(service)
    [record] = [r for r in caplog.records if "history changed" in r.getMessage()]
    assert f"by=kamu from={city.head} to={city.blocks[2].hash}" in record.getMessage()


def test_a_reset_names_what_it_expects_and_is_refused_if_that_is_gone(
    service: Service, city: Chain, entry: DatasetEntry
) -> None:
    target = str(city.blocks[3].hash)
    with service.http(service.token()) as client:
        wrong = client.post("/city/reset", params={"block": target, "oldHead": target})
        assert wrong.status_code == 409
        assert wrong.json()["type"].endswith(":OldHeadMismatch")
        missing = client.post("/city/reset", params={"block": "f1620" + "0" * 64})
        assert missing.status_code == 404
        done = client.post("/city/reset", params={"block": target, "oldHead": str(city.head)})
    assert done.json()["recordsAfter"] == 3
    assert head_of(service) == target


def test_a_watermark_goes_forward_only(service: Service, entry: DatasetEntry) -> None:
    with service.http(service.token()) as client:
        later = client.post("/city/set-watermark", params={"watermark": "2051-01-01T00:00:00Z"})
        earlier = client.post("/city/set-watermark", params={"watermark": "2050-01-01T00:00:00Z"})
        wrong = client.post("/city/set-watermark", params={"watermark": "soon"})
        day = client.post("/city/set-watermark", params={"watermark": "2052-11-23"})
        shown = client.get("/city").json()
    assert [later.json()["outcome"], earlier.json()["outcome"]] == ["updated", "up-to-date"]
    assert "is 2051-01-01T00:00:00Z already, and never goes back" in earlier.json()["warnings"][0]
    assert "is ahead of the clock" in later.json()["warnings"][0]
    assert (wrong.status_code, wrong.json()["type"][-16:]) == (400, "InvalidWatermark")
    assert "2026-11-23" in wrong.json()["detail"]
    assert day.json()["outcome"] == "updated"
    assert shown["watermark"] == "2052-11-23T00:00:00Z"


@pytest.mark.parametrize("path", ["compact", "reset", "set-watermark?watermark=2051-01-01"])
def test_strangers_and_readers_may_not(service: Service, entry: DatasetEntry, path: str) -> None:
    with service.http() as client:
        assert client.post(f"/city/{path}").status_code == 403


def test_editors_set_watermarks_but_do_not_rewrite_histories(tmp_path: Path, city: Chain) -> None:
    with serving(tmp_path, tenancy="multi") as service:
        entry = service.keep(city, "anna/city", Visibility.PUBLIC)
        token = service.token("ben")
        ben = next(a for a in service.node.stores.accounts.page() if a.name == "ben")
        service.node.stores.roles.put(entry.id, ben.id, Role.EDITOR)
        at = {"watermark": "2051-01-01T00:00:00Z"}
        with service.http(token) as client:
            assert client.post("/anna/city/reset").status_code == 403
            assert client.post("/anna/city/compact").status_code == 403
            assert client.post("/anna/city/set-watermark", params=at).status_code == 200


def test_the_command_line_asks_before_it_changes_a_history(
    service: Service, city: Chain, entry: DatasetEntry
) -> None:
    url = f"{service.url}/city"
    refused = CliRunner().invoke(
        main, ["reset", url], env={"ODF_NODE_TOKEN": service.token()}, input="n\n"
    )
    assert refused.exit_code == 1
    assert head_of(service) == str(city.head)
    tried = run(service, "reset", url, "--dry-run", "--json")
    assert json.loads(tried.stdout)["head"] == str(city.blocks[0].hash)
    done = run(service, "reset", url, str(city.blocks[3].hash), "--old-head", str(city.head))
    assert (done.exit_code, head_of(service)) == (0, str(city.blocks[3].hash))
    assert "6 block(s) became 4" in done.stdout


def test_the_command_line_compacts_and_sets_watermarks(
    service: Service, city: Chain, entry: DatasetEntry
) -> None:
    url = f"{service.url}/city"
    tried = run(service, "compact", url, "--dry-run")
    assert "blocks 3–5 would become one: 3 slice(s), offsets 0–9" in tried.stdout
    done = run(service, "compact", url, "--keep-metadata-only", "--yes", "--json")
    assert json.loads(done.stdout)["blocksAfter"] == 3
    again = run(service, "compact", url, "--keep-metadata-only", "--yes")
    assert again.stdout.startswith("nothing-to-do")
    marked = run(service, "set-watermark", url, "2051-01-01T00:00:00Z")
    assert "watermark 2051-01-01T00:00:00Z" in marked.stdout
    assert "warning: the watermark is ahead of the clock" in marked.stderr
    assert run(service, "reset", url, "no hash", "--yes").exit_code == 2


def test_the_receipt_is_described_field_by_field() -> None:
    schemas = yaml.safe_load(OPENAPI.read_text(encoding="utf-8"))["components"]["schemas"]
    described = schemas["HistoryReceipt"]
    for kind, part in (
        (HistoryReceipt, described),
        (MergedBlocks, described["properties"]["merges"]["items"]),
    ):
        fields = [field.encode_name for field in msgspec.structs.fields(kind)]
        assert list(part["properties"]) == fields == part["required"]


def test_a_receipt_for_a_person_names_both_heads() -> None:
    text = receipt_text(
        {
            "outcome": "updated",
            "prevHead": "a",
            "head": "b",
            "blocksBefore": 2,
            "blocksAfter": 1,
            "recordsBefore": 3,
            "recordsAfter": 3,
        }
    )
    assert text.splitlines()[-2:] == ["head a", "  → b"]
