"""The log of heads as a node serves it: signed when a head moves, proven, never taken back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from refusals import refusing
from servers import wait_until
from service import SCHEMA, Service, described, seeded, serving

from odf_node.cli.main import main
from odf_node.service.trust.log import LogKeeper, kept_beside, lost_checkpoint
from odf_protocol.metadata.events import SetDataSchema
from odf_protocol.trust.checkpoints import LogCheckpoint, LogProof
from odf_protocol.trust.heads import HeadKind, HeadRecord, MapRecord, logged_name, read_record
from odf_protocol.trust.merkle import is_included, leaf_hash, tree_root
from odf_protocol.trust.notes import Note, NoteKey, decoded, signers
from odf_protocol.trust.tiles import tile_nodes, tile_of, unbundled
from odf_storage.stores.ports.values import Visibility
from odf_storage.stores.sql.tables import unlogged_heads

PUBLIC_URL = "https://odf.example/ada/"
ORIGIN = "odf.example/ada"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path, public_url=PUBLIC_URL, poll_s=0.05) as one:
        yield one


def keeper(service: Service) -> LogKeeper:
    return service.node.part(LogKeeper)


def signs(service: Service) -> None:
    """Have all signed, and kept beside the objects, whoever did it."""

    def is_kept() -> bool:
        keeper(service).bring_up()
        kept = kept_beside(service.node.stores).read("checkpoint", most=10_000)
        return kept is not None and kept.raw.decode() == keeper(service).checkpoint()

    wait_until(is_kept, "the checkpoint beside the objects")


def key_of(service: Service) -> NoteKey:
    return NoteKey(ORIGIN, service.node.signing_keys.active.public)


def checkpoint_of(service: Service) -> LogCheckpoint:
    with service.http() as client:
        answer = client.get("/log/checkpoint")
    assert answer.status_code == 200
    note = Note.parse(answer.content)
    assert set(signers(note, [key_of(service)])) == {key_of(service)}
    return LogCheckpoint.parse(note.text)


def proof_of(service: Service, name: str = "foo", token: str | None = None) -> dict[str, Any]:
    with service.http(token) as client:
        answer = client.get(f"/{name}/head-proof")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def test_a_new_head_is_signed_without_being_asked_for(service: Service):
    with service.http() as client:
        answer = client.get("/log/checkpoint")
    assert answer.status_code == 404
    assert "NothingLogged" in answer.text
    service.keep(seeded())
    wait_until(lambda: checkpoint_size(service) == 2, "a checkpoint")
    assert checkpoint_of(service).origin == ORIGIN


def test_the_proof_of_a_head_leads_to_a_checkpoint_that_the_node_signed(service: Service):
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA))
    entry = service.keep(chain)
    service.extend(chain, 3)
    shown = proof_of(service)
    record = read_record(shown["leaf"].encode())
    assert isinstance(record, HeadRecord)
    assert (record.name, record.kind, record.block) == (
        str(entry.id),
        HeadKind.COMMIT,
        chain.head,
    )
    proof = LogProof.parse(shown["proof"].encode())
    signers(proof.checkpoint, [key_of(service)])
    checkpoint = LogCheckpoint.parse(proof.checkpoint.text)
    leaf = leaf_hash(shown["leaf"].encode())
    assert is_included(proof.index, checkpoint.size, leaf, proof.path, checkpoint.root)


def test_a_map_shows_that_no_head_is_older_than_it(service: Service):
    chain = seeded().add(SetDataSchema(schema=SCHEMA))
    service.keep(chain)
    proof_of(service)
    service.extend(chain, 3)
    shown = proof_of(service)
    checkpoint = LogCheckpoint.parse(LogProof.parse(shown["proof"].encode()).checkpoint.text)
    within = shown["map"]
    leaf, path = within["leaf"].encode(), [decoded(each, "") for each in within["path"]]
    assert is_included(within["index"], checkpoint.size, leaf_hash(leaf), path, checkpoint.root)
    record = read_record(leaf)
    assert isinstance(record, MapRecord)
    path = [decoded(each, "") for each in within["recordPath"]]
    place, mapped = within["recordIndex"], leaf_hash(within["record"].encode())
    assert is_included(place, record.count, mapped, path, record.root)
    assert read_record(within["record"].encode()).block == chain.blocks[1].hash


def test_the_files_of_the_log_are_a_tree_with_that_root(service: Service):
    for number in range(3):
        service.keep(seeded(), f"kamu/d{number}")
    proof_of(service, "d2")
    checkpoint = checkpoint_of(service)
    with service.http() as client:

        def fetch(tile: Any) -> bytes:
            return client.get(f"/log/tile/{tile.path}").content

        root = tree_root(checkpoint.size, tile_nodes(fetch, checkpoint.size))
        entries = unbundled(fetch(tile_of(None, 0, checkpoint.size)))
        assert [client.get(f"/log/tile/{bad}").status_code for bad in ("0/000", "9/000")] == [
            404,
            400,
        ]
    assert root == checkpoint.root
    assert len(entries) == checkpoint.size
    assert {type(read_record(entry)) for entry in entries} == {HeadRecord, MapRecord}


def test_a_private_dataset_has_no_name_in_the_log_but_for_its_readers(service: Service):
    entry = service.keep(seeded(), visibility=Visibility.PRIVATE)
    with service.http() as client:
        assert client.get("/foo/head-proof").status_code in (401, 404)
    shown = proof_of(service, token=service.token())
    assert str(entry.id) not in shown["leaf"]
    record = read_record(shown["leaf"].encode())
    assert isinstance(record, HeadRecord)
    assert record.name == logged_name(entry.id, decoded(shown["salt"], ""))
    size = checkpoint_of(service).size
    with service.http() as client:
        entries = client.get(f"/log/tile/{tile_of(None, 0, size).path}").content
    assert str(entry.id).encode() not in entries


def test_a_log_that_is_smaller_than_what_was_signed_is_not_signed(service: Service):
    chain = seeded()
    service.keep(chain)
    signs(service)
    before = keeper(service).checkpoint()
    _restored_to_nothing(service)
    service.keep(seeded(), "kamu/later")
    with refusing("LogWentBack", match="head-log resume --accept-gap"):
        keeper(service).bring_up()
    with service.http() as client:
        assert client.get("/later/head-proof").status_code == 409
        assert client.get("/log/checkpoint").status_code == 404
    lost = lost_checkpoint(service.node.stores)
    assert lost == LogCheckpoint.parse(Note.parse(before.encode()).text)


def test_a_log_with_another_beginning_than_what_was_signed_is_not_signed(service: Service):
    service.keep(seeded())
    signs(service)
    _restored_to_nothing(service)
    kept = kept_beside(service.node.stores).read("checkpoint", most=10_000)
    assert kept is not None
    kept_beside(service.node.stores).delete(["checkpoint"])
    for number in range(3):
        service.keep(seeded(), f"kamu/d{number}")
    signs(service)
    kept_beside(service.node.stores).put("checkpoint", [kept.raw])
    service.keep(seeded(), "kamu/more")
    with refusing("LogWentBack"):
        keeper(service).bring_up()


def test_an_accepted_gap_is_a_leaf_and_the_log_goes_on(service: Service):
    service.keep(seeded())
    signs(service)
    lost = LogCheckpoint.parse(Note.parse(keeper(service).checkpoint().encode()).text)
    _restored_to_nothing(service)
    _run(service, "head-log", "resume", "--accept-gap")
    service.keep(seeded(), "kamu/later")
    keeper(service).bring_up()
    assert proof_of(service, "later")
    assert read_record(service.node.stores.head_log.entry(0)).size == lost.size
    service.keep(seeded(), "kamu/latest")
    assert proof_of(service, "latest")


def test_a_log_without_a_gap_needs_not_be_resumed(service: Service):
    service.keep(seeded())
    signs(service)
    assert "NoGap" in _run(service, "head-log", "resume", "--accept-gap", "--json")
    assert keeper(service).checkpoint() in _run(service, "head-log", "show") + "\n"


def _run(service: Service, *words: str) -> str:
    command = CliRunner().invoke(main, [*words, "--data", str(service.node.settings.data)])
    return command.output


def test_a_service_that_died_before_it_kept_what_it_signed_goes_on(service: Service):
    service.keep(seeded())
    signs(service)
    old = kept_beside(service.node.stores).read("checkpoint", most=10_000)
    assert old is not None
    service.keep(seeded(), "kamu/more")
    signs(service)
    kept_beside(service.node.stores).put("checkpoint", [old.raw])
    service.keep(seeded(), "kamu/most")
    keeper(service).bring_up()
    assert checkpoint_of(service).size == 4


def test_heads_that_moved_before_there_was_a_log_are_proven_too(service: Service):
    service.keep(seeded())
    with service.node.stores.engine.begin() as db:
        db.execute(unlogged_heads.delete())
    assert read_record(proof_of(service)["leaf"].encode()).kind in (
        HeadKind.FOUND,
        HeadKind.COMMIT,  # the follower of the service may have been quicker than this test
    )


def test_services_that_sign_at_once_sign_one_log(tmp_path: Path):
    with serving(tmp_path, poll_s=60.0) as service:
        log = keeper(service)
        sizes, notes = list[int](), set[str]()

        def signs() -> None:
            for _ in range(10):
                state = log.bring_up()
                if state is not None:
                    sizes.append(state.size)
                    notes.add(f"{state.size} {state.root.hex()}")

        threads = [threading.Thread(target=signs) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(20):
            service.keep(seeded(), f"kamu/d{number}")
        for thread in threads:
            thread.join()
        log.bring_up()
        assert checkpoint_size(service) == 20 + 1
        assert len({note.split()[0] for note in notes}) == len(notes)


def checkpoint_size(service: Service) -> int:
    state = service.node.stores.head_log.state()
    return 0 if state is None else state.size


def test_a_log_without_a_public_address_is_named_by_its_key(tmp_path: Path):
    with serving(tmp_path) as service:
        key = service.node.signing_keys.active.public
        assert keeper(service).origin == f"unnamed.invalid/{key[:8].hex()}"


def _restored_to_nothing(service: Service) -> None:
    """Make the log of the database that of a backup from before anything was logged."""
    with service.node.stores.engine.begin() as db:
        for table in ("log_states", "log_leaves", "log_tiles", "logged_heads", "unlogged_heads"):
            db.exec_driver_sql(f"DELETE FROM {table}")
