"""A backup of a node: whole whatever happens, small the next time, and restored to any store."""

from __future__ import annotations

import base64
import os
import resource
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from backends import BACKENDS, credentials, fresh_place
from chain_maker import some_id
from refusals import refusing
from small_disk import fill, small_disk
from tests.storage.conftest import new_database
from upkeep_parts import begun, grown, key_of, longer

from odf_protocol.errors import Damaged
from odf_protocol.identity import DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.backup import check as checking
from odf_storage.datasets.backup.make import BackupReport, back_up
from odf_storage.datasets.backup.manifest import chosen, listed
from odf_storage.datasets.backup.place import Place, Seal, open_place
from odf_storage.datasets.backup.restore import RestoreReport, restore
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.index.sql_sizes import NODE
from odf_storage.stores.ports.accounts import AuditEntry
from odf_storage.stores.ports.values import (
    Account,
    AccountId,
    JobSpec,
    ObjectKey,
    ObjectKind,
    Role,
    StoredPassword,
    UploadedFile,
)
from odf_storage.stores.registers.accounts.sealing import open_keys

ANNA = AccountId("did:odf:fed01anna")
VERSION = "0.1.0"


def place_of(folder: Path, seal: Seal | None = None) -> Place:
    return open_place(str(folder), seal, durable=False)


def made(stores: Stores, place: Place, **more: Any) -> BackupReport:
    return back_up(stores, place, version=VERSION, **more)


def node_at(folder: Path, **more: Any) -> Stores:
    return open_stores(StoreSettings(data=folder, durable=False, **more))


def restored(place: Place, folder: Path, number: int | None = None, **more: Any) -> RestoreReport:
    given = {name: more.pop(name) for name in ("database_url", "objects_url") if name in more}
    settings = StoreSettings(data=folder, durable=False, **given)
    return restore(place, chosen(place, number), settings, **more)


def entry_of(action: str) -> AuditEntry:
    return AuditEntry(
        at=system_clock(), actor="anna", action=action, subject="towns", outcome="done", facts={}
    )


def peopled(stores: Stores) -> None:
    """An account with a password, and a role and a job of a dataset."""
    stores.accounts.put_account(Account(id=ANNA, name="Anna", is_admin=True))
    stores.accounts.set_password(ANNA, StoredPassword("scrypt$…", system_clock()))
    made_of, _ = grown(stores, "kamu/towns")
    stores.roles.put(made_of.id, ANNA, Role.EDITOR)
    stores.jobs.submit(JobSpec("ingest", made_of.id, {"rows": ["ä", None, 1.5]}, body=b"\0\xff"))
    stores.audit.record([entry_of("push")])


def state_of(stores: Stores) -> dict[str, Any]:
    """What a reader, an owner and a worker see."""
    entries = {str(one.alias): one for one in stores.registry.page(limit=1000)}
    return {
        "entries": entries,
        "heads": {name: stores.refs.head(one.id) for name, one in entries.items()},
        "accounts": stores.accounts.page(),
        "passwords": stores.accounts.find_password(ANNA),
        "roles": stores.roles.of_account(ANNA),
        "jobs": [(job.id, job.spec.payload, job.spec.body) for job in stores.jobs.page(limit=100)],
        "moves": stores.refs.moves(after=0, limit=1000),
    }


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Stores]:
    opened = node_at(tmp_path / "data")
    yield opened
    opened.close()


def is_clean(stores: Stores) -> bool:
    report = check_stores(stores, FsckOptions(rehash=True))
    return report.ok and report.note_count == 0


def test_a_backup_restores_on_the_other_kinds_of_database_and_store_what_the_node_had(
    stores: Stores,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peopled(stores)
    place = place_of(tmp_path / "backups")
    assert made(stores, place).missing == []
    is_sqlite, in_files = stores.engine.dialect.name == "sqlite", bool(stores.objects.local_paths)
    target = next(name for name, kinds in BACKENDS.items() if kinds == (is_sqlite, in_files))
    in_postgres, in_bucket = BACKENDS[target]
    more: dict[str, str] = {}
    if in_postgres:
        more["database_url"] = new_database(request.getfixturevalue("postgres_url"))
    if in_bucket:
        for name, value in credentials(target, request).items():
            monkeypatch.setenv(name, value)
        more["objects_url"] = fresh_place(request)
    report = restored(place, tmp_path / "other", **more)
    again = node_at(tmp_path / "other", **more)
    assert (report.datasets, report.left_out) == (1, 0)
    assert state_of(again) == state_of(stores)
    assert is_clean(again)
    new = again.jobs.submit(JobSpec("ingest", None, {}))
    assert new not in [job.id for job in stores.jobs.page(limit=100)]
    again.close()


def test_a_next_backup_after_a_change_of_a_hundredth_reads_at_most_three_hundredths(
    node: Stores, tmp_path: Path
) -> None:
    datasets = [
        grown(node, f"kamu/d{number}", slices=1, value=secrets.token_hex(50_000))
        for number in range(100)
    ]
    place = place_of(tmp_path / "backups")
    first = made(node, place)
    longer(node, *datasets[7], value=secrets.token_hex(50_000))
    counted = place_of(tmp_path / "backups")
    second = made(node, counted)
    assert (first.objects, second.objects, second.changed, second.blocks) == (100, 1, 1, 1)
    assert second.bytes_read <= 0.03 * first.bytes_read
    third = made(node, place_of(tmp_path / "backups"))
    assert (third.objects, third.blocks, third.changed) == (0, 0, 0)


def test_files_that_accounts_uploaded_count_as_no_changed_dataset(
    node: Stores, tmp_path: Path
) -> None:
    grown(node, "kamu/foo", slices=1)
    account = AccountId(str(some_id("an account")))
    node.accounts.put_account(Account(account, "alice"))
    upload = Multihash.of(b"a,b")
    node.objects.put(ObjectKey(some_id("an account"), ObjectKind.UPLOAD, upload), [b"a,b"])
    node.files.put(
        UploadedFile(
            id="1", account=account, file_name="a", content_type=None, created_at=system_clock()
        )
    )
    node.files.arrived("1", upload, 3)
    report = made(node, place_of(tmp_path / "backups"))
    assert (report.datasets, report.changed, report.objects) == (1, 1, 2)


def test_each_kept_backup_restores_its_own_moment(node: Stores, tmp_path: Path) -> None:
    town, blocks = grown(node, "kamu/towns")
    place = place_of(tmp_path / "backups")
    heads = {}
    for number in (1, 2, 3):
        heads[number] = (blocks[-1].hash, len(blocks))
        assert made(node, place).number == number
        longer(node, town, blocks)
    for number, (head, count) in heads.items():
        assert restored(place, tmp_path / f"n{number}", number).blocks == count
        again = node_at(tmp_path / f"n{number}")
        assert again.refs.head(town.id) == head
        assert is_clean(again)
        again.close()


def test_a_forced_push_between_two_backups_restores_the_new_history(
    node: Stores, tmp_path: Path
) -> None:
    town, blocks = grown(node, "kamu/towns", slices=3)
    place = place_of(tmp_path / "backups")
    made(node, place)
    node.refs.move(town.id, expected=blocks[-1].hash, new=blocks[2].hash)
    del blocks[3:]
    longer(node, town, blocks, value="z")
    made(node, place)
    restored(place, tmp_path / "other")
    again = node_at(tmp_path / "other")
    assert again.refs.head(town.id) == blocks[-1].hash
    assert again.dataset(DatasetRef(id=town.id)).state(blocks[-1].hash) is not None
    again.close()


def test_a_backup_beside_writers_is_one_moment(stores: Stores, tmp_path: Path) -> None:
    datasets = [begun(stores, f"kamu/d{number}") for number in range(4)]
    ended = threading.Event()

    def write() -> None:
        for _ in range(100):
            for one in datasets:
                if ended.is_set():
                    return
                longer(stores, *one)

    writer = threading.Thread(target=write)
    writer.start()
    place = place_of(tmp_path / "backups")
    try:
        for number in (1, 2, 3):
            assert made(stores, place).missing == []
            report = checking.check(place, chosen(place, number))
            assert report.ok, report.damages
    finally:
        ended.set()
        writer.join()
    restored(place, tmp_path / "other")
    again = node_at(tmp_path / "other")
    assert check_stores(again, FsckOptions(rehash=True)).ok
    again.close()


def test_only_so_many_backups_are_kept_and_what_they_share_stays(
    node: Stores, tmp_path: Path
) -> None:
    town, blocks = grown(node, "kamu/towns")
    gone, _ = grown(node, "kamu/gone", slices=3, value="gone")
    place = place_of(tmp_path / "backups")
    made(node, place)
    before = len(place.sizes("objects"))
    node.forget_dataset(gone.id)
    longer(node, town, blocks)
    report = made(node, place, keep=1)
    assert report.removed == [1]
    assert [one.number for one in listed(place)] == [2]
    assert len(place.sizes("objects")) == before - 3 + 1
    assert checking.check(place, chosen(place, None)).ok
    with refusing("KeepsNothing"):
        made(node, place, keep=0)


def test_a_sealed_backup_shows_no_content_and_brings_the_keys_of_secrets(
    node: Stores, tmp_path: Path
) -> None:
    peopled(node)
    keys = open_keys(None, tmp_path / "data")
    place = place_of(tmp_path / "backups", Seal(secrets.token_bytes(32)))
    made(node, place, data=tmp_path / "data")
    raw = b"".join(path.read_bytes() for path in (tmp_path / "backups").rglob("*.json*"))
    content = raw + b"".join(
        path.read_bytes() for path in (tmp_path / "backups").rglob("*") if path.is_file()
    )
    names = " ".join(str(path) for path in (tmp_path / "backups").rglob("*"))
    town = next(iter(node.registry.page()))
    assert b"Anna" not in content
    assert b"PAR1" not in content
    assert town.id.multibase not in names
    assert checking.check(place, chosen(place, None)).ok
    assert restored(place, tmp_path / "other").has_keys
    assert open_keys(None, tmp_path / "other").keys == keys.keys
    again = node_at(tmp_path / "other")
    assert state_of(again) == state_of(node)
    again.close()
    with refusing("BackupKeyNeeded", match="--key"):
        chosen(place_of(tmp_path / "backups"), None)
    with refusing("BackupKeyWrong"):
        chosen(place_of(tmp_path / "backups", Seal(bytes(32))), None)


def test_an_open_backup_has_no_keys_of_secrets(node: Stores, tmp_path: Path) -> None:
    open_keys(None, tmp_path / "data")
    key = (tmp_path / "data" / "secret.key").read_bytes()
    place = place_of(tmp_path / "backups")
    made(node, place, data=tmp_path / "data")
    content = b"".join(p.read_bytes() for p in (tmp_path / "backups").rglob("*") if p.is_file())
    assert key not in content
    assert base64.b64encode(key) not in content


# --- refusals -------------------------------------------------------------------------------


def test_backups_go_to_a_place_of_this_node_alone(node: Stores, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    with refusing("BackupPlaceTaken", match="photos"):
        made(node, place_of(tmp_path / "photos"))
    made(node, place_of(tmp_path / "backups"))
    other = node_at(tmp_path / "another")
    with refusing("BackupOfAnotherNode"):
        made(other, place_of(tmp_path / "backups"))
    other.close()
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


def test_two_backups_at_once_are_refused_and_one_that_died_is_not_waited_for(
    node: Stores, tmp_path: Path
) -> None:
    place = place_of(tmp_path / "backups")
    made(node, place)
    with place.claimed(), refusing("BackupRunning"):
        made(node, place_of(tmp_path / "backups"))
    dead = os.fork()
    if dead == 0:
        place.claimed().__enter__()
        os._exit(0)
    os.waitpid(dead, 0)
    assert made(node, place_of(tmp_path / "backups")).number == 2


def test_a_backup_of_a_newer_version_is_refused(node: Stores, tmp_path: Path) -> None:
    place = place_of(tmp_path / "backups")
    made(node, place)
    newer = chosen(place, None)
    about = tmp_path / "backups" / "backup.json"
    text = about.read_text()
    about.write_text(text.replace('"format":1', '"format":2'))
    with refusing("BackupTooNew"):
        chosen(place, None)
    about.write_text(text)
    manifest = type(newer)(
        **{name: getattr(newer, name) for name in newer.__struct_fields__} | {"schema": "9999"}
    )
    with refusing("BackupOfNewerSchema"):
        restore(place, manifest, StoreSettings(data=tmp_path / "other", durable=False))
    assert not (tmp_path / "other").exists()


def test_a_restore_over_a_node_or_other_files_changes_nothing(node: Stores, tmp_path: Path) -> None:
    peopled(node)
    place = place_of(tmp_path / "backups")
    made(node, place)
    other = node_at(tmp_path / "node")
    grown(other, "kamu/other")
    before = state_of(other)
    with refusing("RestoreTargetTaken", match="there is a node"):
        restored(place, tmp_path / "node")
    assert state_of(other) == before
    other.close()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").touch()
    with refusing("RestoreTargetTaken", match=r"thesis\.tex"):
        restored(place, tmp_path / "home")
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("sealed", [False, True])
def test_every_changed_or_missing_file_of_a_backup_is_found_and_no_node_starts_on_it(
    tmp_path: Path, sealed: bool
) -> None:
    stores = node_at(tmp_path / "data")
    peopled(stores)
    place = place_of(tmp_path / "backups", Seal(bytes(range(32))) if sealed else None)
    made(stores, place)
    stores.close()
    files = [path for path in (tmp_path / "backups").rglob("*") if path.is_file()]
    for number, path in enumerate(files):
        if path.name in ("backup.json", "claim.json"):
            continue
        content = path.read_bytes()
        for wrong in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), None):
            path.unlink() if wrong is None else path.write_bytes(wrong)
            if path.parent.name == "backups" and wrong is None:
                with refusing("NoBackup"):
                    chosen(place, None)
            else:
                assert not _is_whole(place), path
                folder = tmp_path / f"r{number}"
                with refusing("BackupDamaged", "HashMismatch"):
                    restored(place, folder)
                if folder.exists():
                    with refusing("RestoreUnfinished"):
                        node_at(folder)
            path.write_bytes(content)
    assert _is_whole(place)


def _is_whole(place: Place) -> bool:
    try:
        return checking.check(place, chosen(place, None)).ok
    except Damaged:
        return False


def test_a_restore_leaves_out_damaged_datasets_if_told(node: Stores, tmp_path: Path) -> None:
    town, _ = grown(node, "kamu/towns")
    other, _ = grown(node, "kamu/rivers")
    place = place_of(tmp_path / "backups")
    made(node, place)
    folder = tmp_path / "backups" / "objects" / town.id.multibase
    next(folder.iterdir()).write_bytes(b"rotten")
    report = checking.check(place, chosen(place, None))
    assert report.damaged_datasets == [str(town.id)]
    with refusing("NotInBackup"):
        restored(place, tmp_path / "n", without=[begun(node, "kamu/new")[0].id])
    restored(place, tmp_path / "n", without=[town.id])
    again = node_at(tmp_path / "n")
    assert [one.id for one in again.registry.page()] == [other.id]
    assert is_clean(again)
    again.close()


def test_what_the_node_itself_has_lost_is_said_and_looked_for_again(
    node: Stores, tmp_path: Path
) -> None:
    town, _ = grown(node, "kamu/towns", slices=2)
    name = next(info.key for info in node.objects.list(town.id) if info.key.kind is ObjectKind.DATA)
    with node.objects.open(name) as stream:
        content = stream.read()
    node.objects.delete(name)
    place = place_of(tmp_path / "backups")
    assert made(node, place).missing == [f"{town.id}/data/{name.hash}"]
    assert not checking.check(place, chosen(place, None)).ok
    assert made(node, place).missing == [f"{town.id}/data/{name.hash}"]
    node.objects.put(key_of(town, ObjectKind.DATA, Multihash.of(content)), [content])
    assert made(node, place).missing == []
    assert checking.check(place, chosen(place, None)).ok


def test_what_a_restore_would_lose_is_said_by_dataset_and_block(
    node: Stores, tmp_path: Path
) -> None:
    town, blocks = grown(node, "kamu/towns")
    gone, _ = grown(node, "kamu/gone")
    place = place_of(tmp_path / "backups")
    made(node, place)
    assert checking.lost_since(node, chosen(place, None)) == []
    longer(node, town, blocks)
    begun(node, "kamu/new")
    node.forget_dataset(gone.id)
    assert checking.lost_since(node, chosen(place, None)) == [
        "kamu/new: all of it, up to block 1",
        "kamu/towns: behind block 3, up to block 4",
        f"{gone.id}: it was removed since, and would come back",
    ]


def test_a_restore_goes_beyond_quotas_which_hold_again_after_it(
    node: Stores, tmp_path: Path
) -> None:
    node.accounts.put_account(Account(id=ANNA, name="kamu", is_admin=False))
    town, blocks = grown(node, "kamu/towns")
    node.quotas.set_limit(NODE, 1)
    node.quotas.set_limit(ANNA, 2)
    place = place_of(tmp_path / "backups")
    made(node, place)
    restored(place, tmp_path / "other")
    again = node_at(tmp_path / "other")
    assert again.refs.head(town.id) == blocks[-1].hash
    assert (again.quotas.limit(NODE), again.quotas.limit(ANNA)) == (1, 2)
    with refusing("QuotaExceeded"):
        longer(again, town, blocks)
    again.quotas.set_limit(NODE, None)
    again.quotas.set_limit(ANNA, None)
    longer(again, town, blocks)
    again.close()


def test_a_dataset_that_is_removed_during_a_backup_does_not_come_back_damaged(
    node: Stores, tmp_path: Path
) -> None:
    town, _ = grown(node, "kamu/towns")
    other, _ = grown(node, "kamu/rivers")
    place = place_of(tmp_path / "backups")

    def meanwhile(step: str, done: int, _total: int) -> None:
        if (step, done) == ("datasets", 0):
            node.forget_dataset(town.id)

    report = made(node, place, progress=meanwhile)
    assert (report.missing, report.gone) == ([], [str(town.id)])
    restored(place, tmp_path / "n")
    again = node_at(tmp_path / "n")
    assert [one.id for one in again.registry.page()] == [other.id]
    assert is_clean(again)
    again.close()


@contextmanager
def full_disk() -> Iterator[None]:
    """No file that is written becomes longer than 500 bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_restore_to_a_full_disk_starts_no_node_and_goes_on_when_there_is_room(
    node: Stores, tmp_path: Path
) -> None:
    peopled(node)
    grown(node, "kamu/large", slices=2, value=secrets.token_hex(500_000))
    place = place_of(tmp_path / "backups")
    made(node, place)
    with small_disk(tmp_path / "disk", megabytes=20) as disk:
        ballast = fill(disk)
        os.truncate(ballast, ballast.stat().st_size - 600_000)
        where = {"objects_url": (disk / "objects").as_uri()}
        with refusing("StorageFull"):
            restored(place, tmp_path / "new", **where)
        with refusing("RestoreUnfinished"):
            node_at(tmp_path / "new", **where)
        ballast.unlink()
        restored(place, tmp_path / "new", **where)
        again = node_at(tmp_path / "new", **where)
        assert state_of(again) == state_of(node)
        assert is_clean(again)
        again.close()


def test_the_version_of_the_database_makes_its_backups(node: Stores, tmp_path: Path) -> None:
    place = place_of(tmp_path / "backups")
    with node.engine.begin() as db:
        db.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with refusing("SchemaOfAnotherVersion", match="schema 9999, and this version knows"):
        made(node, place)
    assert listed(place) == []


def test_a_full_disk_during_a_backup_leaves_the_backup_before(node: Stores, tmp_path: Path) -> None:
    town, blocks = grown(node, "kamu/towns")
    place = place_of(tmp_path / "backups")
    made(node, place)
    longer(node, town, blocks)
    with full_disk(), refusing("StorageFull"):
        made(node, place_of(tmp_path / "backups"))
    assert [one.number for one in listed(place)] == [1]
    assert checking.check(place, chosen(place, None)).ok
    assert made(node, place).number == 2
