"""`odf-node monitor`: what it says of logs that grow, of heads that they lack, and of lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from service import SCHEMA, Chain, Service, seeded, serving

from odf_node.cli.main import main
from odf_node.client.proofs import monitor
from odf_node.client.proofs.trust import LogMemory
from odf_node.service.trust.log import LogKeeper
from odf_node.service.trust.routes import LogRunner
from odf_protocol.commitments import key_pair
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import SetDataSchema
from odf_protocol.trust.notes import NoteKey
from odf_storage.stores.ports.values import Visibility
from odf_storage.stores.registers.signed.head_log import HeadLog


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "PAUSE_S", 0.1)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A node whose log takes in heads when a test or a reader asks: no thread signs between two
    steps of a test, nor writes down what a test takes away."""
    monkeypatch.setattr(LogRunner, "look", lambda _: 3600.0)
    with serving(tmp_path / "node") as one:
        yield one


@pytest.fixture
def chain(service: Service) -> Chain:
    chain = seeded().add(SetDataSchema(schema=SCHEMA))
    service.keep(chain)
    service.extend(chain, 3)
    service.node.part(LogKeeper).bring_up()
    return chain


def monitored(*nodes: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["monitor", *nodes, "--json"])
    return {"exit": result.exit_code, **json.loads(result.stdout)}


def looked(service: Service) -> tuple[int, list[str]]:
    """The exit code, and the words of the alarms."""
    said = monitored(service.url)
    (node,) = said["nodes"]
    return said["exit"], [alarm["word"] for alarm in node["alarms"]]


def restored(service: Service) -> None:
    """Make the log begin anew, as on a node whose folder and database were put back together."""
    with service.node.stores.engine.begin() as db:
        for table in ("log_states", "log_leaves", "log_tiles", "logged_heads", "unlogged_heads"):
            db.exec_driver_sql(f"DELETE FROM {table}")
    service.node.stores.projections.delete(["log/checkpoint"])


def grow(service: Service, count: int) -> None:
    for number in range(count):
        service.keep(seeded(), f"kamu/d{number}")
    service.node.part(LogKeeper).bring_up()


def test_a_log_that_grows_with_its_heads_is_no_alarm(service, chain):
    stores = service.node.stores
    assert looked(service) == (0, [])
    grow(service, 5)
    service.extend(chain, 2)
    assert looked(service) == (0, [])
    head = stores.refs.head(chain.id)
    stores.refs.move(chain.id, expected=head, new=chain.blocks[1].hash)
    service.keep(seeded(), "kamu/hidden", visibility=Visibility.PRIVATE)
    shown = stores.dataset(DatasetRef.parse("kamu/d0")).entry.id
    stores.registry.forget(shown)
    assert looked(service) == (0, [])
    said = monitored(service.url)["nodes"][0]
    assert said["datasets"] == 5
    assert said["size"] == stores.head_log.state().size


def test_a_later_run_reads_what_is_new(service, chain, monkeypatch):
    grow(service, 260)
    looked(service)
    read = list[str]()
    true = monitor.tile_at
    monkeypatch.setattr(
        monitor, "tile_at", lambda there, tile: [read.append(tile.path), true(there, tile)][1]
    )
    grow_more = seeded()
    service.keep(grow_more, "kamu/more")
    assert looked(service) == (0, [])
    assert {path.split(".")[0] for path in read} == {"entries/001"}


def test_a_dataset_that_was_private_is_found_by_its_salted_name(service, chain):
    hidden = service.keep(seeded(), "kamu/hidden", visibility=Visibility.PRIVATE)
    service.node.part(LogKeeper).bring_up()
    service.node.stores.registry.set_visibility(hidden.id, Visibility.PUBLIC)
    assert looked(service) == (0, [])


def test_a_head_that_is_not_that_of_the_newest_leaf_is_named(service, chain, monkeypatch):
    assert looked(service) == (0, [])
    monkeypatch.setattr(HeadLog, "find_missing", lambda *_: None)
    old, new = chain.blocks[1].hash, chain.head
    with service.node.stores.engine.begin() as db:
        db.exec_driver_sql(
            "UPDATE refs SET hash = (SELECT hash FROM blocks WHERE sequence_number = 1)"
        )
    said = monitored(service.url)
    assert said["exit"] == 6
    (alarm,) = said["nodes"][0]["alarms"]
    assert alarm["word"] == "unlogged"
    assert f"says commit {new}; the node serves {old}" in alarm["why"]


def test_a_log_that_became_smaller_is_rolled_back_and_written_down(service, chain, home):
    grow(service, 3)
    looked(service)
    restored(service)
    grow(service, 0)
    service.keep(seeded(), "kamu/x")
    service.node.part(LogKeeper).bring_up()
    assert looked(service) == (6, ["rolled back"])
    (written,) = (home / "evidence").iterdir()
    shown = CliRunner().invoke(main, ["evidence", str(written)])
    assert "rolled back" in shown.output


def test_a_log_that_does_not_continue_what_was_read_is_a_split_view(service, chain):
    looked(service)
    restored(service)
    grow(service, 5)
    assert looked(service) == (6, ["split view"])
    CliRunner().invoke(main, ["trust", "forget", service.url])
    service.node.part(LogKeeper).begin()
    assert looked(service) == (0, [])


def test_a_log_that_verify_saw_is_the_one_that_monitor_reads(service, chain):
    CliRunner().invoke(main, ["verify", f"{service.url}/foo", "--metadata-only"])
    restored(service)
    grow(service, 5)
    assert looked(service) == (6, ["split view"])


def test_entries_that_are_not_those_of_the_signed_root_are_named(service, chain):
    with service.node.stores.engine.begin() as db:
        db.exec_driver_sql(
            "UPDATE log_leaves SET entry = (SELECT entry FROM log_leaves WHERE number = 1)"
            " WHERE number = 0"
        )
    assert looked(service) == (6, ["split view"])


def test_a_node_that_cannot_be_asked_does_not_keep_others_from_being_followed(service, chain):
    said = monitored("http://127.0.0.1:9", service.url)
    assert said["exit"] == 1
    assert ["error" in node for node in said["nodes"]] == [True, False]


def test_a_node_with_another_key_is_refused_until_the_old_one_is_forgotten(service, chain):
    looked(service)
    ((node, log),) = LogMemory().all().items()
    other = NoteKey(NoteKey.parse(log.key).name, key_pair(b"\x02" * 32).public)
    LogMemory().keep(node, type(log)(key=str(other)))
    said = monitored(service.url)
    assert said["exit"] == 1
    assert "trust forget" in said["nodes"][0]["error"]
