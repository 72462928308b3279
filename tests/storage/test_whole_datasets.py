"""Creating, removing, describing datasets: index and objects stay in step, whoever interferes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from chain_maker import entry, long_chain
from upkeep_parts import TOMORROW, Ahead, grown

from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.info import read_info
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.fsck import check_stores
from odf_storage.datasets.upkeep.gc import collect_garbage, remove_abandoned, republish_recent
from odf_storage.runtime.locks import locks_of
from odf_storage.stores.objects.layout import HEAD, PENDING_PREFIX, DatabaseUnavailable
from odf_storage.stores.ports.errors import DatasetIdTaken, DatasetNotFound, RefConflict
from odf_storage.stores.ports.values import DatasetEntry, Visibility


class Slow:
    """An object store that lets others run before it removes anything."""

    def __init__(self, objects: Any, meanwhile: Any) -> None:
        self._objects, self._meanwhile = objects, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def remove(self, dataset: Any) -> None:
        self._meanwhile()
        self._objects.remove(dataset)


def test_a_dataset_that_is_created_while_it_is_removed_keeps_its_objects(stores: Stores) -> None:
    made = entry()
    blocks = long_chain(made.id, 3)
    stores.create_dataset(made, blocks)
    started, done = threading.Event(), threading.Event()

    def create() -> None:
        started.set()
        while not done.is_set():
            try:
                stores.create_dataset(made, blocks)
            except DatasetIdTaken:
                continue
            done.set()

    other = threading.Thread(target=create)

    def meanwhile() -> None:
        other.start()
        started.wait()
        done.wait(0.2)  # time enough to create it, if that were possible now

    removing = replace(stores, objects=Slow(stores.objects, meanwhile))
    removing.forget_dataset(made.id)
    other.join(60)
    assert stores.dataset(DatasetRef(id=made.id)).blocks() == blocks
    assert check_stores(stores).ok


def test_a_removal_that_comes_too_late_leaves_everything_as_it_was(stores: Stores) -> None:
    made, blocks = grown(stores)
    with pytest.raises(RefConflict):
        stores.forget_dataset(made.id, expected=Multihash.of(b"older"))
    assert stores.objects.read_ref(made.id, HEAD) == blocks[-1].hash
    assert check_stores(stores).ok


def test_a_removal_that_the_database_refuses_leaves_the_dataset_published(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, blocks = grown(stores)

    def refused(*_: object, **__: object) -> None:
        raise DatabaseUnavailable

    monkeypatch.setattr(stores.registry, "forget", refused)
    with pytest.raises(DatabaseUnavailable):
        stores.forget_dataset(made.id)
    assert stores.objects.read_ref(made.id, HEAD) == blocks[-1].hash
    assert check_stores(stores).ok


def test_a_head_that_cannot_be_published_again_is_logged_beside_the_error(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made, _ = grown(stores)

    def refused(*_: object, **__: object) -> None:
        raise DatabaseUnavailable

    monkeypatch.setattr(stores.registry, "forget", refused)
    monkeypatch.setattr(stores.refs, "heads", refused)
    with pytest.raises(DatabaseUnavailable):
        stores.forget_dataset(made.id)
    assert f"dataset {made.id} has no published head" in caplog.text


def removed_meanwhile(stores: Stores, made: DatasetEntry) -> Stores:
    """The stores of a writer for whom a removal comes before it writes the head."""
    removals = iter([lambda: stores.forget_dataset(made.id)])

    class Late(Slow):
        def write_refs(self, ref: str, heads: Mapping[DatasetId, Multihash]) -> None:
            next(removals, lambda: None)()
            stores.objects.write_refs(ref, heads)

    return replace(stores, objects=Late(stores.objects, lambda: None))


def test_a_head_published_too_late_goes_after_its_dataset(stores: Stores) -> None:
    made, _ = grown(stores)
    removed_meanwhile(stores, made).publish_head(made.id)
    assert stores.objects.read_ref(made.id, HEAD) is None
    assert collect_garbage(stores, clock=TOMORROW).left_alone == []


def test_a_dataset_that_the_index_has_lost_keeps_its_published_head(stores: Stores) -> None:
    made, blocks = grown(stores)
    stores.registry.forget(made.id)
    stores.publish_head(made.id)
    assert stores.objects.read_ref(made.id, HEAD) == blocks[-1].hash


def test_visibility_and_name_are_kept_beside_the_objects(stores: Stores) -> None:
    made, _ = grown(stores)
    before = read_info(stores.objects, made.id)
    assert before is not None
    stores.set_visibility(made.id, Visibility.PUBLIC)
    stores.rename_dataset(made.id, DatasetAlias.parse("kamu/other"))
    assert read_info(stores.objects, made.id) == replace(before, visibility=Visibility.PUBLIC)
    assert str(stores.objects.read_alias(made.id)) == "kamu/other"
    assert check_stores(stores).ok
    with pytest.raises(DatasetNotFound):
        stores.set_visibility(entry("kamu/absent").id, Visibility.PUBLIC)


def test_every_note_a_crash_left_behind_is_made_up_for(stores: Stores) -> None:
    made, blocks = grown(stores)
    stores.registry.rename(made.id, DatasetAlias.parse("kamu/renamed"))
    stores.registry.set_visibility(made.id, Visibility.PUBLIC)
    stores.objects.write_ref(made.id, HEAD, blocks[0].hash)
    assert not check_stores(stores).ok
    assert stores.republish_all() == 1
    assert check_stores(stores).ok
    assert stores.republish_all() == 0


def test_a_sweep_makes_up_for_an_outage_after_a_commit(tmp_path: Path) -> None:
    stores = open_stores(StoreSettings(data=tmp_path, durable=False))
    made, blocks = grown(stores)
    stores.objects.write_ref(made.id, HEAD, blocks[0].hash)
    assert republish_recent(stores, clock=Ahead(timedelta(days=2))) == 0
    assert republish_recent(stores) == 1
    assert stores.objects.read_ref(made.id, HEAD) == blocks[-1].hash
    left = stores.objects.folder(made.id).root / "data" / f"{PENDING_PREFIX}left"  # type: ignore[attr-defined]
    left.write_bytes(b"half")
    assert remove_abandoned(stores) == 0
    assert remove_abandoned(stores, clock=Ahead(timedelta(days=2))) == 1
    assert not left.exists()
    stores.close()


def test_a_lock_is_held_by_one_at_a_time_and_by_dataset(stores: Stores) -> None:
    locks = stores.locks if stores.engine is None else locks_of(stores.engine)
    order: list[str] = []
    first, second = entry("kamu/a").id, entry("kamu/b").id

    def wait() -> None:
        with stores.locks.hold(first):
            order.append("second")

    with locks.hold(first):
        with stores.locks.hold(second):  # another dataset is free
            order.append("other")
        if stores.engine is None:
            waiting = threading.Thread(target=wait)
        else:
            waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        waiting.join(0.1)
        order.append("first")
    waiting.join(60)
    assert order == ["other", "first", "second"]
