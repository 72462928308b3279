"""Publication: what readers see is the dataset at a published head, however a run ends."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from kartothek_published import A2, A, C, D, Growing, Killed, Publisher, R, Watched, by_city
from plateau_peer import Plateau
from refusals import refusing

from odf_protocol.kartothek.predicates import Op, Term
from odf_storage.datasets.kartothek.definition import Mode, PublicationConflict, StateFormat
from odf_storage.datasets.kartothek.publish import withdraw
from odf_storage.datasets.kartothek.rows import whole_table
from odf_storage.datasets.kartothek.select import open_table, selected
from odf_storage.datasets.verify.run import verify_chain
from odf_storage.datasets.verify.source import DatasetSource
from odf_storage.stores.keyed.folder import FolderKeyedStore
from odf_storage.stores.ports.errors import SwapLost

ROWS = [(0, A, "a", 1000), (1, A, "b", 2000), (2, A, "c", None), (3, C, "b", 2000),
        (4, D, "b", 2500), (5, A, "d", 7), (6, R, "a", 1000)]  # fmt: skip
LIVE = [(2, A, "c", None), (4, D, "b", 2500), (5, A, "d", 7)]


def publisher(made: Growing, store: FolderKeyedStore, tmp_path: Path, **config) -> Publisher:
    return Publisher(made, store, tmp_path, secondary_indices=("city",), **config)


def rows_in(store, **more) -> list[tuple]:
    return by_city(whole_table(open_table(store, "u"), **more).to_pylist())


def labels_in(store) -> list[str]:
    return sorted(partition.label for partition in open_table(store, "u").partitions)


def test_a_changelog_is_published_as_its_slices(made, store, tmp_path):
    for block in A2:
        made.add(block)
    said = publisher(made, store, tmp_path)()
    assert labels_in(store) == ["b00000002", "b00000003", "b00000004"]
    for label, part in zip(labels_in(store), made.parts, strict=True):
        file = store.root / f"u/table/{label}.parquet"
        assert file.stat().st_ino == made.slice_path(part).stat().st_ino
    peer = Plateau(store.root)
    assert by_city(peer.read("u")) == ROWS
    assert peer.index("u", "city") == {
        "a": ["b00000002", "b00000004"],
        "b": ["b00000002", "b00000003"],
        "c": ["b00000002"],
        "d": ["b00000003"],
    }
    b = [[("city", "==", "b")]]
    assert [row[0] for row in by_city(peer.read("u", b))] == [1, 3, 4]
    assert peer.opened("u", b) == 2
    assert (said.partitions, said.rows, said.indices["city"]["values"]) == (3, 7, 4)


def test_annotations_compare_what_is_read_with_the_chain(made, store, tmp_path):
    for block in A2:
        made.add(block)
    publisher(made, store, tmp_path)()
    metadata = json.loads((store.root / "u.by-dataset-metadata.json").read_text())["metadata"]
    assert metadata["odf.head"] == made.head
    assert metadata["odf.dataset-id"] == str(made.entry.id)
    assert (metadata["odf.sequence-number"], metadata["odf.last-offset"]) == ("4", "6")
    assert metadata["creation_time"] == "2026-01-01T12:00:01"
    assert all(isinstance(value, str) for value in metadata.values())


@pytest.mark.parametrize("key", [None, ("city",)])
def test_a_state_is_published_without_dead_rows(made, store, tmp_path, key):
    for block in A2:
        made.add(block)
    said = publisher(made, store, tmp_path, mode=Mode.STATE, primary_key=key)()
    assert labels_in(store) == ["b00000002-r00000004", "b00000003-r00000004"]
    assert rows_in(store) == by_city(Plateau(store.root).read("u")) == LIVE
    assert said.unmatched_retractions == 0
    peer = Plateau(store.root)
    assert peer.index("u", "city") == {
        "b": ["b00000003-r00000004"],
        "c": ["b00000002-r00000004"],
        "d": ["b00000003-r00000004"],
    }


@pytest.mark.parametrize("key", [None, ("city",)])
def test_block_by_block_the_state_is_the_same(made, store, tmp_path, key):
    refresh = publisher(made, store, tmp_path, mode=Mode.STATE, primary_key=key)
    for block in A2:
        made.add(block)
        refresh()
    assert rows_in(store) == LIVE
    assert labels_in(store) == ["b00000002-r00000004", "b00000003-r00000003"]
    cities = {label[:9]: None for label in labels_in(store)}
    index = Plateau(store.root).index("u", "city")
    assert {city: [label[:9] for label in some] for city, some in index.items()} == {
        "b": ["b00000003"], "c": ["b00000002"], "d": ["b00000003"]
    }  # fmt: skip
    assert list(cities) == ["b00000002", "b00000003"]


def test_a_retraction_without_a_row_is_counted_and_takes_back_nothing(made, store, tmp_path):
    made.add([(A, "a", 1), (R, "a", 2), (A, "a", 2), (A, "a", 1)])
    made.add([(R, "a", 1)])
    said = publisher(made, store, tmp_path, mode=Mode.STATE)()
    assert [row[0] for row in rows_in(store)] == [0, 2]
    assert said.unmatched_retractions == 1


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_to_a_state_agree_on_chains_that_keep_the_rules(made, store, tmp_path, seed):
    chance, live = random.Random(seed), {}
    whole = publisher(made, store, tmp_path, mode=Mode.STATE)
    shop = FolderKeyedStore(tmp_path / "keyed", durable=False)
    (tmp_path / "second").mkdir()
    keyed = publisher(made, shop, tmp_path / "second", mode=Mode.STATE, primary_key=("city",))
    for _ in range(8):
        rows = []
        for _ in range(chance.randint(1, 4)):
            city = chance.choice(["a", "b", None, "d/e", "ü"])
            number = chance.choice([None, *range(3)])
            if city not in live:
                rows.append((A, city, number))
                live[city] = number
            elif chance.random() < 0.5:
                rows.append((R, city, live.pop(city)))
            else:
                rows += [(C, city, live[city]), (D, city, number)]
                live[city] = number
        made.add(rows)
        assert (whole().unmatched_retractions, keyed().head) == (0, made.head)
        assert rows_in(store) == rows_in(shop)
        assert {row[2]: row[3] for row in rows_in(store)} == live
    assert len(rows_in(store)) == len(live)
    once = FolderKeyedStore(tmp_path / "once", durable=False)
    (tmp_path / "third").mkdir()
    publisher(made, once, tmp_path / "third", mode=Mode.STATE)()
    assert rows_in(once) == rows_in(store)


def test_one_more_block_costs_one_link_one_index_and_one_state(made, store, tmp_path):
    refresh = publisher(made, store, tmp_path)
    for number in range(50):
        made.add([(A, f"city {number}", number)])
    refresh()
    made.add([(A, "new", 51)])
    watched = Watched(store)
    refresh(store=watched)
    assert watched.names("link") == ["u/table/b00000052.parquet"]
    [index] = watched.names("put")
    assert index.startswith("u/indices/city/")
    assert watched.names("swap") == ["u.by-dataset-metadata.json"]
    assert watched.names("list", "delete") == []
    assert not any("/table/b" in key for key in watched.names("open", "read"))
    assert len(rows_in(store)) == 51


def test_a_head_that_is_published_already_costs_nothing(made, store, tmp_path):
    made.add(A2[0])
    refresh = publisher(made, store, tmp_path)
    assert refresh().changed
    watched = Watched(store)
    assert not refresh(store=watched).changed
    assert watched.names("put", "link", "swap", "delete", "list") == []


@pytest.mark.parametrize("mode", list(Mode))
def test_whenever_a_run_is_killed_readers_see_a_published_head(made, store, tmp_path, mode):
    refresh = publisher(made, store, tmp_path, mode=mode)
    seen = []
    for block in A2:
        made.add(block)
        before = rows_in(store) if seen else None
        for step in range(20):
            try:
                refresh(store=Watched(store, dies_at=step))
            except Killed:
                if before is None:
                    assert not list(store.root.glob("u.by*"))
                else:
                    assert rows_in(store) == before
                    assert by_city(Plateau(store.root).read("u")) == before
                continue
            break
        assert step > 1
        seen.append(rows_in(store))
    assert seen[-1] == (ROWS if mode is Mode.CHANGELOG else LIVE)
    refresh.later(25)
    refresh()
    state = open_table(store, "u").found.state
    needed = {key for files in state.partitions.values() for key in files.values()}
    needed |= {*state.indices.values(), "u/table/_common_metadata"}
    assert {info.key for info in store.list("u")} == needed


def test_files_of_an_older_state_stay_for_the_grace_time(made, store, tmp_path):
    refresh = publisher(made, store, tmp_path, mode=Mode.STATE)
    made.add(A2[0])
    refresh()
    reader = open_table(store, "u")
    for block in A2[1:]:
        made.add(block)
        refresh()
    assert len(by_city(whole_table(reader).to_pylist())) == 3
    refresh.later(25)
    refresh()
    assert not (store.root / "u/table/b00000002.parquet").exists()
    assert rows_in(store) == LIVE


def test_an_empty_dataset_has_a_partition_without_rows(made, store, tmp_path):
    refresh = publisher(made, store, tmp_path)
    refresh()
    assert labels_in(store) == ["empty"]
    assert Plateau(store.root).read("u") == []
    made.add(A2[0])
    refresh()
    assert labels_in(store) == ["b00000002"]


def test_what_another_library_wrote_is_not_replaced_unless_forced(made, store, tmp_path):
    refresh = publisher(made, store, tmp_path)
    made.add(A2[0])
    refresh()
    state = store.root / "u.by-dataset-metadata.json"
    state.write_text(state.read_text().replace('"metadata": {', '"metadata": {"x": "y", '))
    written = state.read_bytes()
    made.add(A2[1])
    watched = Watched(store)
    with pytest.raises(PublicationConflict):
        refresh(store=watched)
    assert watched.names("put", "link", "swap", "delete") == []
    assert state.read_bytes() == written
    refresh(force=True)
    assert [row[0] for row in rows_in(store)] == list(range(6))


def test_a_dataset_of_others_is_never_written_over(made, store, tmp_path):
    made.add(A2[0])
    publisher(made, store, tmp_path)()
    (tmp_path / "record.json").unlink()
    with pytest.raises(PublicationConflict):
        publisher(made, store, tmp_path)()


def test_the_library_deletes_the_published_dataset_and_harms_nothing(made, store, tmp_path):
    refresh = publisher(made, store, tmp_path)
    for block in A2:
        made.add(block)
    refresh()
    Plateau(store.root).delete("u")
    assert not (store.root / "u.by-dataset-metadata.json").exists()
    source = DatasetSource(made.dataset)
    assert not list(verify_chain(source).problems)
    refresh()
    assert rows_in(store) == ROWS


def test_one_state_file_ever(made, store, tmp_path):
    made.add(A2[0])
    refresh = publisher(made, store, tmp_path, state_format=StateFormat.MSGPACK)
    refresh()
    assert [path.name for path in store.root.glob("u.*")] == ["u.by-dataset-metadata.msgpack.zstd"]
    assert len(Plateau(store.root).read("u")) == 3
    as_json = publisher(made, store, tmp_path)
    as_json.now = refresh.now
    as_json()
    assert [path.name for path in store.root.glob("u.*")] == ["u.by-dataset-metadata.json"]


def test_the_index_prunes_for_our_reader_too(made, store, tmp_path):
    for block in A2:
        made.add(block)
    publisher(made, store, tmp_path)()
    table = open_table(store, "u")
    assert len(selected(table, [[Term("city", Op.EQUAL, "d")]])) == 1


def test_a_damaged_index_is_built_anew_from_the_slices(made, store, tmp_path):
    refresh = publisher(made, store, tmp_path)
    made.add(A2[0])
    refresh()
    [index] = (store.root / "u/indices/city").iterdir()
    index.write_bytes(b"no index")
    made.add(A2[1])
    refresh()
    assert Plateau(store.root).index("u", "city")["a"] == ["b00000002"]


def test_an_index_that_is_too_large_is_left_out_and_said(made, store, tmp_path):
    made.add(A2[0])
    said = publisher(made, store, tmp_path, max_index_bytes=10)()
    assert said.skipped == ("city",)
    assert open_table(store, "u").found.state.indices == {}


def test_columns_that_are_not_there_are_refused(made, store, tmp_path):
    with refusing("UnusablePublication", match="'town'"):
        Publisher(made, store, tmp_path, primary_key=("town",))()


def test_of_two_runs_at_once_one_wins_and_the_other_publishes_next(made, store, tmp_path):
    made.add(A2[0])
    refresh = publisher(made, store, tmp_path)
    refresh()
    made.add(A2[1])

    class Overtaken(Watched):
        """While this run is about to swap, another one does."""

        def swap(self, key, content, *, expected):
            refresh()
            return self._store.swap(key, content, expected=expected)

    with pytest.raises(SwapLost):
        refresh(store=Overtaken(store))
    assert not refresh().changed
    assert rows_in(store) == ROWS[:6]


def test_a_run_that_was_thought_dead_may_still_win(made, store, tmp_path):
    made.add(A2[0])
    refresh = publisher(made, store, tmp_path)
    refresh()
    made.add(A2[1])

    class Late(Watched):
        """Before this run swaps, the run that it took for dead does."""

        def swap(self, key, content, *, expected):
            slow.swap(slow_write[0], slow_write[1], expected=expected)
            return self._store.swap(key, content, expected=expected)

    class Slow(Watched):
        def swap(self, key, content, *, expected):
            slow_write.extend([key, content])
            raise Killed

    slow, slow_write = store, []
    with pytest.raises(Killed):
        refresh(store=Slow(store))
    with pytest.raises(SwapLost):
        refresh(store=Late(store))
    assert rows_in(store) == ROWS[:6]
    made.add(A2[2])
    refresh()
    assert rows_in(store) == ROWS


def test_a_withdrawn_dataset_leaves_nothing_but_others_files(made, store, tmp_path):
    refresh = publisher(made, store, tmp_path)
    made.add(A2[0])
    refresh()
    store.put("uv/table/a.parquet", [b"of others"])
    withdraw(store, refresh.config, refresh.records)
    assert not (store.root / "u").exists()
    assert [path.name for path in store.root.iterdir()] == ["uv"]
    assert refresh().changed


HOSTILE = ["a/b", "50%", "%2F", "x=y", " ", "'\"`", "Ελλάς", "東京", "", "..", "a\nb"]


def test_hostile_texts_are_found_by_every_reader(made, store, tmp_path):
    for at, text in enumerate(HOSTILE):
        made.add([(A, text, at), (A, "plain", at)])
    publisher(made, store, tmp_path)()
    table, peer = open_table(store, "u"), Plateau(store.root)
    for at, text in enumerate(HOSTILE):
        wanted = [(2 * at, A, text, at)]
        equal = [[Term("city", Op.EQUAL, text)]]
        assert by_city(whole_table(table, predicate=equal).to_pylist()) == wanted
        assert len(selected(table, equal)) == 1
        assert by_city(peer.read("u", [[("city", "==", text)]])) == wanted
