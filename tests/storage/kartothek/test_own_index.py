"""The node's own index of a dataset tells which slices hold a value, and keeps up with the head."""

from __future__ import annotations

from kartothek_published import A2, A, Watched

from odf_protocol.kartothek.predicates import Op, Term
from odf_storage.datasets.kartothek.own_index import (
    block_of,
    made_of,
    own_index,
    refresh_own_index,
    remove_own_index,
)
from odf_storage.datasets.kartothek.select import selected
from odf_storage.stores.objects.layout import dataset_folder

from .test_publish_changes import extend


def blocks_with(made, column, value) -> list[int]:
    index = own_index(made.stores.projections, made.entry.id)
    found = selected(index.table, [[Term(column, Op.EQUAL, value)]])
    return sorted(block_of(partition.label) for partition in found)


def refresh(made, store=None, columns=("city",)):
    return refresh_own_index(made.dataset, store or made.stores.projections, columns)


def test_an_index_names_the_blocks_that_hold_a_value(made):
    for block in A2:
        made.add(block)
    refresh(made)
    index = own_index(made.stores.projections, made.entry.id)
    assert (str(index.head), index.sequence_number, index.columns) == (made.head, 4, {"city"})
    assert blocks_with(made, "city", "a") == [2, 4]
    assert blocks_with(made, "city", "zzz") == []


def test_a_dataset_without_an_index_has_none(made):
    assert own_index(made.stores.projections, made.entry.id) is None


def test_a_dataset_without_rows_has_an_index_of_no_blocks(made):
    refresh(made)
    assert blocks_with(made, "city", "a") == []
    [part] = own_index(made.stores.projections, made.entry.id).table.partitions
    assert block_of(part.label) is None


def test_a_refresh_reads_the_new_slice_only_and_stores_no_data(made, monkeypatch):
    for block in A2[:2]:
        made.add(block)
    refresh(made)
    part = made.add(A2[2])
    store = Watched(made.stores.projections)
    refresh(made, store)
    kept = [key for key in store.names("put") if "/slices/" in key]
    folder = dataset_folder(made.entry.id)
    assert kept == [f"{folder}/slices/{part.physical_hash}/city.parquet"]
    assert store.names("link") == []
    assert not any("/table/b" in info.key for info in made.stores.projections.list(folder))
    assert blocks_with(made, "city", "b") == [2, 3]


def test_an_index_that_is_built_again_reads_no_slice_again(made, monkeypatch):
    for block in A2:
        made.add(block)
    refresh(made)
    mine = made_of(made.stores.projections, made.entry.id)
    mine.delete([info.key for info in mine.list("index")])
    opened = []
    monkeypatch.setattr(type(made.dataset), "open_whole", lambda *some: opened.append(some))
    refresh(made)
    assert opened == []
    assert blocks_with(made, "city", "a") == [2, 4]


def test_kept_values_that_are_damaged_are_read_again(made):
    made.add(A2[0])
    refresh(made)
    mine = made_of(made.stores.projections, made.entry.id)
    for info in list(mine.list("slices")):
        mine.put(info.key, [b"damaged"])
    mine.delete([info.key for info in mine.list("index")])
    refresh(made)
    assert blocks_with(made, "city", "b") == [2]


def test_slices_from_before_a_column_are_not_copied_and_hold_none_of_its_values(made):
    made.add([(A, "a", 1)])
    extend(made)
    refresh(made, columns=("city", "mayor"))
    assert blocks_with(made, "mayor", "Ada") == [4]
    assert blocks_with(made, "city", "a") == [2]
    assert not any(
        "/table/b" in info.key
        for info in made.stores.projections.list(dataset_folder(made.entry.id))
    )


def test_a_damaged_state_is_no_index_and_a_refresh_writes_it_again(made, caplog):
    made.add(A2[0])
    refresh(made)
    mine = made_of(made.stores.projections, made.entry.id)
    key = f"index/{dataset_folder(made.entry.id)}.by-dataset-metadata.json"
    mine.put(key, [b"{"])
    assert own_index(made.stores.projections, made.entry.id) is None
    assert "index not used" in caplog.text
    refresh(made)
    assert blocks_with(made, "city", "a") == [2]


def test_what_was_made_of_a_dataset_goes_with_it(made):
    made.add(A2[0])
    refresh(made)
    folder = dataset_folder(made.entry.id)
    remove_own_index(made.stores.projections, made.entry.id)
    assert list(made.stores.projections.list(folder)) == []
    refresh(made)
    made.stores.forget_dataset(made.entry.id)
    assert list(made.stores.projections.list(folder)) == []
