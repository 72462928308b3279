"""A bucket as the place of backups: whole, small the next time, and of one node alone."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backends import credentials, fresh_place
from refusals import refusing
from upkeep_parts import grown, longer

from odf_storage.datasets.backup import check as checking
from odf_storage.datasets.backup.last import last_backup
from odf_storage.datasets.backup.make import BackupReport, back_up
from odf_storage.datasets.backup.manifest import chosen, listed
from odf_storage.datasets.backup.place import FILES, OBJECTS, Place, Seal, open_place
from odf_storage.datasets.backup.restore import restore
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores

SEALS = {"open": None, "sealed": Seal(bytes(range(32)))}


@pytest.fixture
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty part of a bucket, to which the environment has the keys."""
    for name, value in credentials("sqlite, bucket", request).items():
        monkeypatch.setenv(name, value)
    return f"{fresh_place(request)}/{secrets.token_hex(4)}"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Stores]:
    opened = open_stores(StoreSettings(data=tmp_path / "data", durable=False))
    yield opened
    opened.close()


def made(stores: Stores, place: Place, **more: Any) -> BackupReport:
    return back_up(stores, place, version="0.1.0", **more)


def heads(stores: Stores) -> dict[str, Any]:
    return {str(one.alias): stores.refs.head(one.id) for one in stores.registry.page(limit=100)}


@pytest.mark.parametrize("sealed", SEALS)
def test_a_node_comes_back_from_a_bucket_as_each_backup_had_it(
    node: Stores, target: str, tmp_path: Path, sealed: str
) -> None:
    place = open_place(target, SEALS[sealed])
    town, blocks = grown(node, "kamu/towns")
    grown(node, "kamu/rivers")
    states = [heads(node)]
    assert made(node, place).missing == []
    longer(node, town, blocks)
    states.append(heads(node))
    second = made(node, open_place(target, SEALS[sealed]))
    assert (second.number, second.changed, second.objects, second.blocks) == (2, 1, 1, 1)
    for number, state in enumerate(states, 1):
        folder = tmp_path / f"new {number}"
        settings = StoreSettings(data=folder, durable=False)
        report = restore(place, chosen(place, number), settings)
        again = open_stores(settings)
        assert (report.datasets, heads(again)) == (2, state)
        found = check_stores(again, FsckOptions(rehash=True))
        assert (found.ok, found.note_count) == (True, 0)
        again.close()


def test_old_backups_leave_a_bucket_with_what_only_they_had(node: Stores, target: str) -> None:
    place = open_place(target, None)
    town, blocks = grown(node, "kamu/towns")
    made(node, place)
    objects = set(place.sizes(OBJECTS))
    for _ in range(3):
        longer(node, town, blocks)
        made(node, place, keep=2)
    assert [one.number for one in listed(place)] == [3, 4]
    assert objects < set(place.sizes(OBJECTS))
    needed = {f"{FILES}/{each.file}" for one in listed(place) for each in _pieces(place, one)}
    assert set(place.sizes(FILES)) == needed
    assert last_backup(node.projections).number == 4


def _pieces(place: Place, one: Any) -> Any:
    return chosen(place, one.number).pieces()


@pytest.mark.parametrize("folder", [FILES, OBJECTS])
def test_what_is_missing_or_changed_in_a_bucket_is_found(
    node: Stores, target: str, folder: str
) -> None:
    place = open_place(target, None)
    grown(node, "kamu/towns")
    made(node, place)
    manifest = chosen(place, None)
    key = min(place.sizes(folder))
    kept = b"".join(place.chunks(key))
    place.store.put(key, [kept[:-1] + bytes([kept[-1] ^ 1])])
    assert not checking.check(place, manifest, reads=True).ok
    place.store.delete([key])
    assert not checking.check(place, manifest, reads=False).ok
    place.store.put(key, [kept])
    assert checking.check(place, manifest, reads=True).ok


def test_a_bucket_is_of_one_node_and_one_writer_and_of_no_other_files(
    node: Stores, target: str, tmp_path: Path
) -> None:
    place = open_place(target, None)
    photo = f"{OBJECTS}/cat.jpg"
    place.store.put(photo, [b"cat"])
    with refusing("BackupPlaceTaken", match="other files"):
        made(node, place, keep=1)
    assert list(place.sizes(OBJECTS)) == [photo]
    place.store.delete([photo])
    made(node, place)
    with place.claimed(), refusing("BackupRunning"):
        made(node, open_place(target, None))
    with refusing("BackupKeyWrong"):
        made(node, open_place(target, SEALS["sealed"]))
    other = open_stores(StoreSettings(data=tmp_path / "another", durable=False))
    with refusing("BackupOfAnotherNode"):
        made(other, open_place(target, None))
    other.close()
    assert [one.number for one in listed(place)] == [1]


def test_a_backup_that_breaks_off_is_not_in_the_bucket_and_the_next_one_goes_on(
    node: Stores, target: str
) -> None:
    grown(node, "kamu/towns", slices=4)
    place = open_place(target, None)

    def breaks_off(step: str, done: int, total: int) -> None:
        if step == "datasets":
            raise ConnectionResetError(f"{done} of {total}")

    with pytest.raises(ConnectionResetError):
        made(node, place, progress=breaks_off)
    assert listed(place) == []
    assert made(node, open_place(target, None)).number == 1
    assert checking.check(place, chosen(place, None), reads=True).ok


def test_a_bucket_that_is_not_there_is_told(node: Stores, target: str) -> None:
    endpoint, _, _ = target.rpartition("/")
    missing = endpoint.replace(endpoint.split("/")[3], f"none-{secrets.token_hex(4)}")
    with refusing("StoreMisconfigured", match="NoSuchBucket"):
        made(node, open_place(missing, None))
