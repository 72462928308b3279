"""Publication with partition columns: rows lie in folders of their values, for every reader."""

from __future__ import annotations

import pytest
from kartothek_published import A2, A, C, D, Growing, Publisher, R, Watched, by_city
from plateau_peer import Plateau
from refusals import refusing

from odf_protocol.kartothek.predicates import Op, Term
from odf_storage.datasets.kartothek.definition import Mode
from odf_storage.datasets.kartothek.rows import whole_table
from odf_storage.datasets.kartothek.select import open_table, selected

from .test_publish import HOSTILE, LIVE, ROWS, labels_in, rows_in


def publisher(made: Growing, store, tmp_path, **config) -> Publisher:
    given = {"partition_on": ("city",), **config}
    return Publisher(made, store, tmp_path, **given)


def test_a_changelog_lies_in_folders_and_a_refresh_adds_to_them(made, store, tmp_path):
    refresh = publisher(made, store, tmp_path, secondary_indices=("pop",))
    made.add(A2[0])
    refresh()
    made.add(A2[1])
    watched = Watched(store)
    refresh(store=watched)
    assert labels_in(store) == [
        "city=a/b00000002", "city=b/b00000002", "city=b/b00000003", "city=c/b00000002",
        "city=d/b00000003",
    ]  # fmt: skip
    assert sorted(key.split("/")[2] for key in watched.names("put") if "/table/city" in key) == [
        "city=b", "city=d"
    ]  # fmt: skip
    assert rows_in(store) == by_city(Plateau(store.root).read("u")) == ROWS[:6]
    only = [[("city", "==", "b"), ("pop", "==", 2500)]]
    assert by_city(Plateau(store.root).read("u", only)) == [(4, D, "b", 2500)]


@pytest.mark.parametrize("key", [None, ("city",)])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_state_lies_in_folders_without_dead_rows(made, store, tmp_path, key, at_once):
    refresh = publisher(made, store, tmp_path, mode=Mode.STATE, primary_key=key)
    for block in A2:
        made.add(block)
        if not at_once:
            refresh()
    refresh()
    assert rows_in(store) == by_city(Plateau(store.root).read("u")) == LIVE
    assert not any(label.startswith("city=a/") for label in labels_in(store))


def test_hostile_texts_survive_and_are_found_by_every_reader(made, store, tmp_path):
    made.add([(A, text, at) for at, text in enumerate(HOSTILE)])
    publisher(made, store, tmp_path, mode=Mode.STATE)()
    table, peer = open_table(store, "u"), Plateau(store.root)
    assert len(table.partitions) == len(HOSTILE)
    for at, text in enumerate(HOSTILE):
        wanted = [(at, A, text, at)]
        equal = [[Term("city", Op.EQUAL, text)]]
        assert by_city(whole_table(table, predicate=equal).to_pylist()) == wanted
        assert len(selected(table, equal)) == 1
        assert by_city(peer.read("u", [[("city", "==", text)]])) == wanted


def test_two_columns_make_folders_in_folders(made, store, tmp_path):
    made.add([(A, "a", 1), (A, "a", -2), (A, "b", 1)])
    refresh = publisher(made, store, tmp_path, partition_on=("pop", "city"))
    refresh()
    assert labels_in(store) == [
        "pop=-2/city=a/b00000002", "pop=1/city=a/b00000002", "pop=1/city=b/b00000002"
    ]  # fmt: skip
    found = Plateau(store.root).read("u", [[("pop", "==", 1), ("city", "==", "a")]])
    assert by_city(found) == [(0, A, "a", 1)]


def test_a_row_without_a_value_is_refused_and_readers_see_what_they_saw(made, store, tmp_path):
    refresh = publisher(made, store, tmp_path)
    made.add([(A, "a", 1)])
    refresh()
    made.add([(A, None, 2)])
    with refusing("UnusablePartitionValue", match=r"'city'.*null"):
        refresh()
    assert rows_in(store) == [(0, A, "a", 1)]


def test_a_damaged_index_is_built_anew_by_partition(made, store, tmp_path):
    refresh = publisher(made, store, tmp_path, secondary_indices=("pop",))
    made.add(A2[0])
    refresh()
    [index] = (store.root / "u/indices/pop").iterdir()
    index.write_bytes(b"no index")
    made.add([(C, "b", 2000), (R, "a", 1000)])
    refresh()
    assert Plateau(store.root).index("u", "pop") == {
        1000: ["city=a/b00000002", "city=a/b00000003"],
        2000: ["city=b/b00000002", "city=b/b00000003"],
    }


@pytest.mark.parametrize(
    "config",
    [
        {"partition_on": ("town",)},
        {"partition_on": ("event_time",)},
        {"secondary_indices": ("city",)},
    ],
)
def test_what_cannot_make_partitions_is_refused(made, store, tmp_path, config):
    with refusing("UnusablePublication"):
        publisher(made, store, tmp_path, **config)()


def test_a_dataset_without_rows_has_no_partitions_and_can_be_read(made, store, tmp_path):
    publisher(made, store, tmp_path)()
    assert labels_in(store) == rows_in(store) == []
    assert Plateau(store.root).read("u") == []
